"""An Ethernet switch in a process: it delays frames, loses some, counts their bytes, and pulls a cable when told to.

    unshare --user --map-root-user --net --mount python switch.py HOST=ADDRESS ... [--delay 0.001] [--loss 0.001]

Each host is a network namespace whose only way out is a TAP device that this process holds, so that neither root nor
a kernel module is needed (many kernels lack `netem`, by which `tc` delays and loses frames). It runs in namespaces of
its own: nothing outside is touched, and all is gone when it ends. It obeys lines on standard input, `cut HOST`,
`join HOST`, `drop FROM TO` (a firewall of one direction), `pass FROM TO` and `count`, and answers each with a line of
JSON: the bytes that each host has sent.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAMES_AT_ONCE = 64
FRAME_BYTES = 1 << 16
BROADCAST_BIT = 1


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def plug_in(host: str, address: str) -> int:
    """Make the namespace of a host with its network device, and return the descriptor of the cable's other end."""
    ip("netns", "add", host)
    cable = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(cable, TUNSETIFF, struct.pack("16sH14x", host.encode(), IFF_TAP | IFF_NO_PI))
    ip("link", "set", host, "netns", host, "name", "eth0")
    ip("-n", host, "address", "add", f"{address}/24", "dev", "eth0")
    ip("-n", host, "link", "set", "eth0", "up")
    ip("-n", host, "link", "set", "lo", "up")
    return cable


class Switch:
    """Cables by host, and the frames that are under way."""

    def __init__(self, addresses: dict[str, str], *, delay: float, loss: float) -> None:
        self.cables = {host: plug_in(host, address) for host, address in addresses.items()}
        self.sent = dict.fromkeys(addresses, 0)
        self.cut: set[str] = set()
        self.dropped: set[tuple[str, str]] = set()
        self._delay, self._loss, self._random = delay, loss, random.Random(0)
        self._host_of: dict[bytes, str] = {}
        self._under_way: deque[tuple[float, str, bytes]] = deque()

    def obey(self, line: str) -> object:
        word, *hosts = line.split()
        if word == "cut":
            self.cut.update(hosts)
        elif word == "join":
            self.cut.difference_update(hosts)
        elif word == "drop":
            self.dropped.add((hosts[0], hosts[1]))
        elif word == "pass":
            self.dropped.discard((hosts[0], hosts[1]))
        return self.sent

    def take(self, host: str) -> None:
        """Take the frames that a host has sent; each is under way from now on, unless it is lost."""
        due = time.monotonic() + self._delay
        with suppress(BlockingIOError):
            for _ in range(FRAMES_AT_ONCE):
                frame = os.read(self.cables[host], FRAME_BYTES)
                self.sent[host] += len(frame)
                self._host_of[frame[6:12]] = host
                if host not in self.cut and self._random.random() >= self._loss:
                    self._under_way.extend((due, to, frame) for to in self._receivers(host, frame[:6]))

    def _receivers(self, host: str, address: bytes) -> list[str]:
        if address in self._host_of and not address[0] & BROADCAST_BIT:
            others = [self._host_of[address]]
        else:
            others = [other for other in self.cables if other != host]
        return [other for other in others if (host, other) not in self.dropped]

    def deliver(self) -> float | None:
        """Deliver the frames that are due; return the seconds until the next one is."""
        while self._under_way:
            wait = self._under_way[0][0] - time.monotonic()
            if wait > 0:
                return wait
            _, host, frame = self._under_way.popleft()
            if host not in self.cut:
                with suppress(OSError):  # a device that takes no more loses the frame, as a real one does
                    os.write(self.cables[host], frame)
        return None


def serve(switch: Switch) -> None:
    """Pass frames on until standard input ends."""
    hosts = {cable: host for host, cable in switch.cables.items()}
    orders = sys.stdin.fileno()
    wait: float | None = None
    while True:
        ready, _, _ = select.select([orders, *hosts], [], [], wait)
        for source in ready:
            if source != orders:
                switch.take(hosts[source])
            elif line := sys.stdin.readline():
                print(json.dumps(switch.obey(line)), flush=True)
            else:
                return
        wait = switch.deliver()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hosts", nargs="+", metavar="HOST=ADDRESS")
    parser.add_argument("--delay", type=float, default=0.001, help="seconds from one host to another")
    parser.add_argument("--loss", type=float, default=0.001, help="share of the frames that are lost")
    given = parser.parse_args()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    Path("/run/netns").mkdir()
    switch = Switch(dict(pair.split("=") for pair in given.hosts), delay=given.delay, loss=given.loss)
    print(json.dumps(sorted(switch.cables)), flush=True)
    serve(switch)


if __name__ == "__main__":
    main()
