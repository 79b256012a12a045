"""Independent tasks: what all of them need stands once in their graph."""

import pickle
import time
from functools import partial

import numpy as np
import pytest
from distributed import Client
from distributed.comm import CommClosedError

from distembed.storage import tasks


def add_all(item, *, held):
    return item + int(held.sum())


def test_what_a_function_holds_is_sent_once_and_very_many_items_are_several_graphs(monkeypatch):
    """Dask's local schedulers begin in time that grows with the square of the items."""
    graphs, done, run_blocks = [], [], tasks.run_blocks

    def measured(results, *rest, **options):
        graphs.append(sorted(len(pickle.dumps(task)) for task in results.__dask_graph__().to_dict().values()))
        assert results.npartitions <= 8
        run_blocks(results, *rest, **options)

    monkeypatch.setattr(tasks, "run_blocks", measured)
    monkeypatch.setattr(tasks, "LOCAL_GRAPH_ITEMS", 8)
    tasks.run_each(partial(add_all, held=np.ones(10_000)), range(20), done.append)
    assert sorted(done) == list(range(10_000, 10_020))
    assert len(graphs) == 3
    assert all(sizes[-2] < 10_000 < sizes[-1] for sizes in graphs)


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
def test_a_connection_that_is_lost_while_results_are_under_way_is_an_error(
    monkeypatch,
):
    """Dask's `as_completed` never tells of a future whose result it could not get, and the run waited for ever."""

    async def lost(*_):
        raise CommClosedError("in: <TLS>: TimeoutError: [Errno 110] Connection timed out")

    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        monkeypatch.setattr(Client, "_gather_remote", lost)
        with pytest.raises(CommClosedError):
            tasks.run_each(str, range(3), [].append)
