"""A proxy that stands before a real HTTP server and fails: it refuses, loses answers, resets and stalls, seeded."""

from __future__ import annotations

import http.client
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}
BUSY = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
)
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
BROKEN = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>We failed.</Message></Error>"

FAULTS = ("refused", "broken", "broken_after", "reset", "reset_after", "cut_short", "stalled")
"""What may happen to a request. Those named after have been carried out by the server: only the answer is lost."""
ANSWERS = {"refused": (503, BUSY), "broken": (500, BROKEN), "denied": (403, DENIED)}
"""The faults that answer without asking the server. "denied" is none of the random ones: no retry overcomes it."""


class FailingStore(ThreadingHTTPServer):
    """A server that passes requests on to a real one and fails at some of them.

    `share` is the part of the requests to which each fault happens, and `next` what happens to the next request of
    a method and the end of a path; `counted` is how often each fault happened, `asked` are all requests.
    """

    daemon_threads = True

    def __init__(self, port: int, share: Mapping[str, float], *, seed: int, stall_seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.port, self.share, self.stall_seconds = port, dict(share), stall_seconds
        self.counted: Counter[str] = Counter()
        self.next: list[tuple[str, str, str]] = []
        self.asked: list[str] = []
        self._random, self._turn = random.Random(seed), threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fault(self, method: str, path: str) -> str:
        """Return what happens to a request, "" for nothing."""
        with self._turn:
            self.counted["requests"] += 1
            self.asked.append(f"{method} {path}")
            drawn = self._random.random()
            for planned in self.next:
                if method == planned[0] and path.partition("?")[0].endswith(planned[1]):
                    self.next.remove(planned)
                    self.counted[planned[2]] += 1
                    return planned[2]
            for fault, share in self.share.items():
                if (drawn := drawn - share) < 0:
                    self.counted[fault] += 1
                    return fault
        return ""

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet: the clients of this server end connections as they like."""


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FailingStore

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.server.fault(self.command, self.path)
        if fault == "reset":
            self._reset()
        elif fault in ANSWERS:
            status, body = ANSWERS[fault]
            self._answer(status, {}, body)
        else:
            self._answer_of_server(body, fault)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815

    def _answer_of_server(self, body: bytes, fault: str) -> None:
        server = http.client.HTTPConnection("127.0.0.1", self.server.port)
        try:
            server.request(self.command, self.path, body, dict(self.headers))
            answer = server.getresponse()
            found = answer.read()
        finally:
            server.close()
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP}
        if fault == "stalled":
            time.sleep(self.server.stall_seconds)
        if fault == "reset_after":
            self._reset()
        elif fault == "broken_after":
            self._answer(500, {}, BROKEN)
        else:
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self._answer(answer.status, headers, found, length, fault == "cut_short")

    def _answer(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        length: str | None = None,
        cut: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self._reset()

    def _reset(self) -> None:
        """End the connection as a host does that has no such connection."""
        self.wfile.flush()
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RD)

    def log_message(self, *arguments: object) -> None:
        """Keep quiet."""


@contextmanager
def failing_store(
    port: int, share: Mapping[str, float] | None = None, *, seed: int = 0, stall_seconds: float = 2.0
) -> Iterator[FailingStore]:
    """Yield a proxy of the server at a port of loopback to whose requests faults happen."""
    store = FailingStore(port, share or {}, seed=seed, stall_seconds=stall_seconds)
    thread = threading.Thread(target=store.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        store.shutdown()
        store.server_close()
        thread.join()
