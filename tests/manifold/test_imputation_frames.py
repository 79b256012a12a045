"""Data frames are matched by their index, whatever the order of their rows, and give a frame."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import RidgeCV

import distembed as de

pd = pytest.importorskip("pandas", reason="pip install pandas")


def frames():
    """Return a table of 40 names, and the vectors of 25 of them in another order, with one that is no name of it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rng.standard_normal((40, 3)), index=[f"name {i}" for i in range(40)], columns=list("abc")
    )
    known = pd.DataFrame((X.to_numpy() @ rng.standard_normal((3, 4))).astype(np.float32), index=X.index)
    Y = known.iloc[rng.permutation(40)[:25]]
    return X, pd.concat([Y, pd.DataFrame(1.0, index=["elsewhere"], columns=Y.columns, dtype=np.float32)])


@pytest.mark.parametrize("regressor", [None, RidgeCV()])
def test_rows_are_matched_by_the_index(regressor):
    """Frames were matched by the place of their rows: the wrong names, without a word."""
    X, Y = frames()
    model = de.LatentSemanticImputation(min_degree=4, regressor=regressor).fit(X, Y)
    plain = de.LatentSemanticImputation(min_degree=4, regressor=regressor)
    plain.fit(X.to_numpy(), Y.reindex(X.index).to_numpy())
    assert model.vectors_.index.equals(X.index)
    assert model.vectors_.columns.equals(Y.columns)
    np.testing.assert_array_equal(model.vectors_.to_numpy(), plain.vectors_)
    assert isinstance(clone(model).fit(X, Y.reindex(X.index).to_numpy()).vectors_, np.ndarray)  # by place
    named = Y.index.drop("elsewhere")
    pd.testing.assert_frame_equal(model.vectors_.loc[named], Y.loc[named])
    new = model.infer(X.iloc[:3][["c", "a", "b"]].rename("new {}".format), X, Y)
    assert list(new.index) == [f"new name {i}" for i in range(3)]
    np.testing.assert_array_equal(
        new, plain.infer(X.to_numpy()[:3], X.to_numpy(), Y.reindex(X.index).to_numpy())
    )


def test_word_vectors_are_matched_by_their_words():
    X, Y = frames()
    words, model = de.WordVectors(list(Y.index), Y.to_numpy()), de.LatentSemanticImputation(min_degree=4)
    pd.testing.assert_frame_equal(model.fit(X, words).vectors_, model.fit(X, Y).vectors_, check_names=False)
    np.testing.assert_array_equal(model.infer(X.iloc[:2], X, words), model.infer(X.iloc[:2], X, Y))


def test_names_that_stand_twice_and_frames_without_a_common_name_are_refused():
    (X, Y), model = frames(), de.LatentSemanticImputation(min_degree=4)
    for table, vectors, message in (
        (
            pd.concat([X, X.iloc[:1]]),
            Y,
            r"the index of X has 1 name more than once \('name 0'\): keep one row",
        ),
        (X, pd.concat([Y, Y]), "the index of Y has 26 names more than once"),
        (X, Y.reset_index(drop=True), "no row of Y is one of X: the index of X begins with 'name 0'"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(table, vectors)
    with pytest.raises(KeyError, match="'b'"):
        model.fit(X, Y).infer(X[["a", "c"]], X, Y)
