"""States: kept where a context says, found by the same computation again, forgotten when they are past."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array

import distembed as de
from distembed.execution import compute
from distembed.states import block_memory, keep, keeping, newest, scope
from distembed.storage.workspace import Workspace
from tests.kept_states import KeptStates


class Sums(NamedTuple):
    """The state of a computation of rounds."""

    total: Any
    history: Any


class InterruptedFitError(Exception):
    """What ends a computation in the middle."""


def rounds(n: int, add: float, made: list[int], *, fails_at: int = 0) -> Sums:
    """Add a number so many times to ones, each time by a state inside the state."""
    with scope("rounds", add):
        done, state = newest("round", Sums)
        for number in range(done + 1, n + 1):

            def step(number: int = number, state: Any = state) -> Sums:
                made.append(number)
                part = keep("part", lambda: da.full((6, 2), add, chunks=(2, 2)))
                if number == fails_at:
                    raise InterruptedFitError
                before = 0 if state is None else state.total
                history = np.zeros(0) if state is None else np.asarray(compute(state.history))
                return Sums(before + part, np.append(history, number))

            state = keep("round", step, Sums, number=number)
        return Sums(*compute(tuple(state)))


@pytest.fixture
def place(tmp_path):
    """Return where states lie, a stage of a workspace."""
    return Workspace.create(tmp_path / "w", owner="a test").stage("s", parameters={}, inputs={})


def test_an_interrupted_computation_goes_on_from_its_newest_state(tmp_path):
    made: list[int] = []
    with pytest.raises(InterruptedFitError), de.checkpoints(tmp_path / "states"):
        rounds(5, 0.5, made, fails_at=4)
    with de.checkpoints(tmp_path / "states"):
        found = rounds(5, 0.5, made)
    assert made == [1, 2, 3, 4, 4, 5]
    undisturbed = rounds(5, 0.5, [])
    assert np.array_equal(found.total, undisturbed.total)
    assert found.history.tolist() == [1, 2, 3, 4, 5]


def test_past_states_and_the_states_inside_are_forgotten(place):
    with keeping(place):
        rounds(4, 1.0, [])
        left = [name.removeprefix(place.states).partition("/")[2] for name in place.announced()]
        assert sorted(left) == ["round-00004/history", "round-00004/total"]


@pytest.mark.parametrize("has_room", [True, False])
def test_states_inside_are_kept_while_a_state_is_made_and_in_memory_where_there_is_room(place, has_room):
    with keeping(place, has_room=has_room), pytest.raises(InterruptedFitError):
        rounds(2, 1.0, [], fails_at=2)
    assert any(".within/part" in name for name in place.announced()) != has_room
    assert any("round-00001" in name for name in place.announced())

    made: list[int] = []

    def ones() -> da.Array:
        made.append(1)
        return da.ones((4, 2), chunks=(2, 2))

    before = len(place.announced())
    for _ in range(2):
        with keeping(place, has_room=has_room):
            np.testing.assert_array_equal(compute(keep("pairs", ones, made_again=True)), np.ones((4, 2)))
    assert (len(made), len(place.announced()) > before) == ((2, False) if has_room else (1, True))


def test_two_fits_at_once_never_see_each_other_s_states(place):
    """The same names, other data, one stage, in threads."""
    numbers = (0.25, 0.5, 2.0)
    with keeping(place), ThreadPoolExecutor(3) as pool:
        fits = [pool.submit(copy_context().run, rounds, 4, add, []) for add in numbers]
    assert [float(fit.result().total[0, 0]) for fit in fits] == [4 * add for add in numbers]


MATRIX = csr_array(np.eye(3))
SAME = csr_array((MATRIX.data, MATRIX.indices, MATRIX.indptr), shape=MATRIX.shape)
assert SAME.has_canonical_format  # which it remembers from now on


@pytest.mark.parametrize(
    ("data", "same", "other"), [(np.eye(3), np.eye(3), np.eye(3) + 1), (MATRIX, SAME, MATRIX * 2)]
)
def test_other_data_and_other_options_have_other_states(data, same, other):
    kept = KeptStates()
    with keeping(kept):
        for rows, n in ((data, 1), (data, 1), (same, 1), (other, 1), (data, 2)):
            with scope("fit", {"n": n}, rows):
                assert compute(keep("sum", lambda rows=rows: da.ones(1) * rows.sum()))[0] == rows.sum()
    assert len(kept.stored) == 3


def test_without_a_context_a_state_stays_in_memory():
    with scope("anything", object()):  # which nobody asks to tell apart
        lazy = keep("one", lambda: da.ones(4, chunks=2))
    assert isinstance(next(iter(lazy.dask.values())), np.ndarray)
    assert newest("one") == (0, None)


def test_the_memory_of_a_block_is_a_key_of_the_configuration():
    assert block_memory() == 64 << 20
    with dask.config.set({"distembed.block_memory": "2MiB"}):
        assert block_memory() == 2 << 20
