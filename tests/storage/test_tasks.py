"""Independent tasks on a cluster that loses a worker, or a connection."""

import time

import pytest
from distributed import Client
from distributed.comm import CommClosedError

from distembed.storage import tasks


def slow(item):
    time.sleep(0.02)
    return item


def test_a_recorded_block_is_not_computed_again_when_its_worker_is_lost():
    """Its future is released at once: for a result that is still wanted, the scheduler would run the task again."""
    wanted: list[int] = []
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        tasks.run_each(slow, range(20), lambda _: wanted.append(len(client.futures)))
    assert len(wanted) == 20
    assert wanted[-1] < wanted[0]


@pytest.mark.timeout(60)
def test_a_connection_that_is_lost_while_results_are_under_way_is_an_error(monkeypatch):
    """Dask's `as_completed` never tells of a future whose result it could not get, and the run waited for ever."""

    async def lost(*_):
        raise CommClosedError("in: <TLS>: TimeoutError: [Errno 110] Connection timed out")

    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        monkeypatch.setattr(Client, "_gather_remote", lost)
        with pytest.raises(CommClosedError):
            tasks.run_each(str, range(3), [].append)
