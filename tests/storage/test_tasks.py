"""Independent tasks: what all of them need stands once in their graph."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest

from distembed.storage import tasks


def add_all(item: int, *, held: np.ndarray) -> int:
    return item + int(held.sum())


def test_a_function_and_what_it_holds_is_not_sent_with_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, done = [], []
    run_blocks = tasks.run_blocks

    def measured(results, *rest, **options):
        sizes.extend(sorted(len(pickle.dumps(task)) for task in results.__dask_graph__().to_dict().values()))
        run_blocks(results, *rest, **options)

    monkeypatch.setattr(tasks, "run_blocks", measured)
    tasks.run_each(partial(add_all, held=np.ones(10_000)), range(20), done.append)
    assert sorted(done) == list(range(10_000, 10_020))
    assert sizes[-2] < 10_000 < sizes[-1]
