"""Tests of rows without a copy: an array indexed by numpy is the oracle."""

from contextlib import nullcontext

import numpy as np
import pytest
from helpers.nets import bert_net, of_many_lengths
from numpy.testing import assert_array_equal
from skorch.callbacks import Callback
from skorch.dataset import Dataset, get_len
from skorch.utils import multi_indexing
from torch.utils.data import DataLoader

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt._base import _set_apart
from sklearn_spt.nets import _batching
from sklearn_spt.nets._kernels import plain
from sklearn_spt.text import _rows
from sklearn_spt.text._rows import Rows, in_chunks, moved_up

X = np.arange(60, dtype=np.int32).reshape(12, 5)
ROWS = np.array([7, 3, 3, 11, 0])


@pytest.mark.parametrize(
    "which",
    [
        2,
        -1,
        slice(1, 4),
        np.array([4, 0, 0]),
        [1, 2],
        np.array([True, False, True, False, True]),
        (np.array([4, 1]), slice(3)),
        (2, 1),
        (np.array([0, 3]), ...),
    ],
    ids=str,
)
def test_rows_are_those_of_a_copy(which):
    found = Rows(X, ROWS)[which]
    assert_array_equal(found, X[ROWS][which])
    assert found.dtype == np.int32


def test_rows_describe_themselves_as_an_array_does():
    rows = Rows(X, ROWS)
    assert (len(rows), rows.shape, rows.ndim, rows.dtype) == (5, (5, 5), 2, np.int32)
    assert get_len(rows) == 5
    assert_array_equal(np.asarray(rows), X[ROWS])
    assert np.asarray(rows, dtype=float).dtype == float
    assert_array_equal(np.concatenate([rows, X]), np.concatenate([X[ROWS], X]))


def test_an_array_without_a_copy_is_refused():
    with pytest.raises(ValueError, match="become an array of their own by a copy only"):
        Rows(X, ROWS).__array__(copy=False)


def test_rows_cannot_be_compared():
    with pytest.raises(TypeError, match="rows of a matrix cannot be compared"):
        assert Rows(X, ROWS) == X


def test_rows_of_rows_lead_to_the_matrix():
    rows = Rows(Rows(X, ROWS), np.array([3, 1, 1]))
    assert rows.X is X
    assert_array_equal(rows, X[[11, 3, 3]])


def test_only_what_is_asked_for_is_copied():
    rows = Rows(X, ROWS)
    assert rows.X is X
    assert np.shares_memory(rows[0], X)


@pytest.mark.parametrize("which", [3, slice(2), np.array([4, 2])], ids=str)
def test_skorch_indexes_them(which):
    rows = Rows(X, ROWS)
    assert_array_equal(multi_indexing(rows, which), X[ROWS][which])
    found, y = Dataset(rows, np.arange(5))[which]
    assert_array_equal(found, X[ROWS][which])
    assert_array_equal(y, np.arange(5)[which])


@pytest.mark.parametrize("n", [0, 1, 3, 4, 9])
def test_chunks_cover_every_row_once(monkeypatch, n):
    monkeypatch.setattr(_rows, "CHUNK", 4)
    parts = [X[:n][part] for part in in_chunks(X[:n])]
    assert_array_equal(np.concatenate([X[:0], *parts]), X[:n])
    assert all(0 < len(part) <= 4 for part in parts)


@pytest.mark.parametrize("rows", [[0, 5, 6, 11], [11], [0, 1, 2], list(range(12)), [1, 3, 5, 7, 9]])
def test_rows_move_up_in_the_memory_of_the_array(monkeypatch, rows):
    monkeypatch.setattr(_rows, "CHUNK", 2)
    mine = X.copy()
    found = moved_up(mine, np.array(rows))
    assert_array_equal(found, X[rows])
    assert np.shares_memory(found, mine)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    "rows", [[4, 5, 6, 7, 8, 9], [0, 2, 3, 5, 8, 11], [4, 5], [0, 11], list(range(12))], ids=str
)
def test_unlabelled_rows_are_set_apart(rows, fresh):
    mine = X.copy()
    found = _set_apart(mine, np.array(rows), fresh)
    assert_array_equal(found, X[rows])
    if not fresh:
        assert_array_equal(mine, X)  # a matrix of the user's stays as it is
    # few rows must not keep many in memory
    assert np.shares_memory(found, mine) == (fresh and len(rows) >= 6)


def test_no_unlabelled_rows():
    assert _set_apart(X, np.array([], dtype=int), True) is None


def test_a_mapping_is_indexed_part_by_part():
    found = _set_apart({"a": X, "b": X[:, 0]}, np.array([0, 3]), True)
    assert_array_equal(found["b"], X[[0, 3], 0])


# -- in a fit --------------------------------------------------------------------------------------
class Looks(Callback):
    """A callback of the user's, who finds arrays in the documents."""

    kinds = None

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        """Note what the documents are."""
        Looks.kinds.append(type(X))


@pytest.fixture
def texts(tiny_texts):
    return of_many_lengths(tiny_texts, tiny_texts, 40)[0]


def scattered(texts):
    """Labels with a marker on every other row: the unlabelled rows do not follow each other."""
    y = np.array(["got", "skipped"] * len(texts), dtype=object)[: len(texts)]
    y[1::3] = -1
    return y


def fitted(checkpoint, texts, **params):
    net = bert_net(checkpoint, max_epochs=2, device="cpu", batch_size=4, **params)
    clf = SelfPretrainingClassifier(net, step_size=0.4, random_state=0)
    return clf.fit(texts, scattered(texts))


@pytest.mark.parametrize("two_stage", [True, False])
def test_a_fit_without_copies_is_the_same_to_the_digit(tiny_checkpoint, texts, two_stage):
    clf = fitted(tiny_checkpoint, texts).set_params(two_stage=two_stage)
    found = clf.fit(texts, scattered(texts)).predict_proba(texts)
    with plain("rows"):
        assert_array_equal(clf.fit(texts, scattered(texts)).predict_proba(texts), found)


def test_a_fit_copies_no_sample(tiny_checkpoint, texts, monkeypatch):
    sizes = []
    get = Rows.__getitem__

    def watched(self, which):
        found = get(self, which)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(Rows, "__getitem__", watched)
    monkeypatch.setattr(Rows, "__array__", lambda self, *args: pytest.fail("a copy of all rows"))
    monkeypatch.setattr(_rows, "CHUNK", 4)
    monkeypatch.setattr(_batching, "INFERENCE_TOKENS_CPU", 64)
    clf = fitted(tiny_checkpoint, texts)
    assert clf.sample_sizes_[-1] == (scattered(texts) == -1).sum() == 13
    assert 4 <= max(sizes) < 8


@pytest.mark.parametrize("as_ids", [False, True])
def test_what_the_user_gave_stays_as_it_was(tiny_checkpoint, texts, as_ids):
    X = bert_net(tiny_checkpoint).encode(texts) if as_ids else np.array(texts, dtype=object)
    before = X.copy()
    net = bert_net(tiny_checkpoint, max_epochs=1, device="cpu")
    SelfPretrainingClassifier(net, step_size=0.5).fit(X, scattered(texts))
    assert_array_equal(X, before)


@pytest.mark.parametrize("method", [SelfPretrainingClassifier, BertClassifier])
def test_callbacks_of_the_user_get_arrays(tiny_checkpoint, texts, method, monkeypatch):
    monkeypatch.setattr(Looks, "kinds", [])
    net = bert_net(tiny_checkpoint, max_epochs=1, device="cpu", callbacks=[("looks", Looks())])
    with pytest.warns(UserWarning, match="dropped") if method is BertClassifier else nullcontext():
        fit = net if method is BertClassifier else method(net, step_size=0.5)
        fit.fit(texts, scattered(texts))
    assert set(Looks.kinds) == {np.ndarray}
    assert type(net.select_rows(net.encode(texts), np.arange(3))) is np.ndarray
    own = bert_net(tiny_checkpoint, iterator_train=DataLoader)
    assert type(own.select_rows(own.encode(texts), np.arange(3))) is np.ndarray
