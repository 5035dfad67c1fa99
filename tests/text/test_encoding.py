"""Texts and token ids are checked, encoded and vectorised."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sklearn
from helpers.optional import pd, pl
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.fixes import parse_version
from transformers import AutoTokenizer

from sklearn_spt.text import _encoding, _tokenizer_threads
from sklearn_spt.text._encoding import (
    TokenIdVectorizer,
    check_texts,
    check_token_ids,
    encode_texts,
    is_text,
    sequence_lengths,
    with_deletions,
)
from sklearn_spt.text._locations import resolve_encoder
from sklearn_spt.text._pretrained import load_tokenizer, resolve_max_length

TEXTS = ["she got the flu shot", "", "no"]

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "object array": lambda t: np.array(t, dtype=object),
    "str array": np.array,
    "column": lambda t: np.array(t, dtype=object)[:, None],
    "numpy strings": lambda t: [np.str_(x) for x in t],
    "pandas Series": lambda t: pd.Series(t, index=[7, 7, 0]),
    "pandas objects": lambda t: pd.Series(t, dtype=object),
    "pandas category": lambda t: pd.Series(t, dtype="category"),
    "pandas frame": lambda t: pd.DataFrame({"text": t}),
    "polars Series": pl.Series,
    "polars frame": lambda t: pl.DataFrame({"text": t}),
}


# -- containers of texts -------------------------------------------------------------------------


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_texts_come_in_many_containers(container):
    X = container(TEXTS)
    checked = check_texts(X)
    assert checked == TEXTS
    assert {type(text) for text in checked} == {str}
    assert is_text(X)


@pytest.mark.parametrize(
    "X",
    [
        [],
        np.array([], dtype=object),
        np.empty((0, 1), dtype=object),
        pd.Series([], dtype=str),
        pl.DataFrame({"text": []}),
    ],
)
def test_no_text_is_an_error(X):
    with pytest.raises(ValueError, match=r"texts holds 0 sample\(s\) while a minimum of 1"):
        check_texts(X, name="texts")


@pytest.mark.parametrize("X", ["one text", b"one text"])
def test_a_single_text_must_be_wrapped(X):
    with pytest.raises(TypeError, match=r"X is a single (str|bytes).*wrap it in a list: \[X\]"):
        check_texts(X)
    assert is_text(X)


@pytest.mark.parametrize(
    ("missing", "shown"),
    [(None, "None"), (np.nan, "nan, float"), (np.float32("nan"), "nan"), (pd.NA, "<NA>, NAType")],
    ids=str,
)
@pytest.mark.parametrize("container", [list, lambda t: pd.Series(t, dtype=object)])
def test_a_missing_text_is_named_by_its_row(missing, shown, container):
    X = container(["a", missing, "b"])
    with pytest.raises(ValueError, match=rf"X holds a missing text in row 1 .*{shown}"):
        check_texts(X)
    assert is_text(X)


@pytest.mark.parametrize("entry", [3, 2.5, b"bytes", ["a"], {"a": 1}])
def test_an_entry_that_is_not_a_text_is_named_by_row_and_type(entry):
    message = f"row 2 is of type {type(entry).__name__}"
    with pytest.raises(TypeError, match=message):
        check_texts(["a", "b", entry])


@pytest.mark.parametrize(
    "X",
    [
        np.array([["a", "b"]]),
        pd.DataFrame({"title": ["a"], "text": ["b"]}),
        pl.DataFrame({"title": ["a"], "text": ["b"]}),
    ],
)
def test_two_columns_are_refused(X):
    with pytest.raises(ValueError, match="X has 2 columns; give the one that holds the texts"):
        check_texts(X)
    assert is_text(X)


@pytest.mark.parametrize("X", [None, 3, {"a": 1}, {"a"}, iter("ab"), np.array("a"), pd.DataFrame()])
def test_what_is_not_a_sequence_is_refused(X):
    with pytest.raises(TypeError, match=f"X must be a sequence of str.*got {type(X).__name__}"):
        check_texts(X)
    assert not is_text(X)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((3, 4), dtype=np.int32),
        np.zeros((3, 4)),
        np.zeros((3, 1)),
        np.array([[1, 2]], dtype=object),
        [[1, 2], [3, 4]],
        [1, 2],
        pd.DataFrame({"token_0": [1], "token_1": [2]}),
        pd.Series([1.0, np.nan]),
        pl.DataFrame({"token_0": [1]}),
        sparse.csr_array(np.eye(3)),
    ],
    ids=lambda X: type(X).__name__,
)
def test_numbers_are_not_texts(X):
    assert not is_text(X)


def test_missing_entries_do_not_hide_what_follows():
    assert is_text([None, None, "a"])
    assert is_text([None, None])
    assert not is_text([None, 3])


# -- matrices of token ids -----------------------------------------------------------------------


def test_token_ids_pass_uncopied(tiny_encoder):
    ids = encode_texts(TEXTS, tiny_encoder, 10)
    assert check_token_ids(ids, tiny_encoder) is ids


@pytest.mark.parametrize(
    "container",
    [
        lambda ids: ids.astype(np.int64),
        lambda ids: ids.astype(np.uint8),
        lambda ids: ids.astype(np.float32),
        lambda ids: ids.astype(object),
        lambda ids: ids.tolist(),
        lambda ids: np.asfortranarray(ids),
        pd.DataFrame,
        lambda ids: pl.DataFrame(ids, orient="row"),
    ],
)
def test_token_ids_come_in_many_types(container, tiny_encoder):
    ids = encode_texts(TEXTS, tiny_encoder, 10)
    checked = check_token_ids(container(ids), tiny_encoder)
    np.testing.assert_array_equal(checked, ids)
    assert checked.dtype == np.int32
    assert checked.flags.c_contiguous


@pytest.mark.parametrize("value", [-1, 10_000, 2**40, 5.5, np.nan, np.inf, -0.5])
def test_a_value_that_is_not_an_id_is_named_by_row_and_column(value, tiny_encoder):
    ids = encode_texts(TEXTS, tiny_encoder, 10).astype(type(value))
    ids[1, 2] = value
    with pytest.raises(ValueError, match=rf"row 1, column 2 is {value}") as error:
        check_token_ids(ids, tiny_encoder)
    assert "whole numbers from 0 to" in str(error.value)


def test_the_first_and_the_last_id_are_ids(tiny_encoder):
    last = _encoding.vocabulary_size(tiny_encoder) - 1
    assert check_token_ids([[last, 0]], tiny_encoder).tolist() == [[last, 0]]
    with pytest.raises(ValueError, match=f"column 0 is {last + 1}"):
        check_token_ids([[last + 1, 0]], tiny_encoder)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.ones(4, dtype=int), ValueError, "Reshape your data"),
        (np.ones((2, 2, 2), dtype=int), ValueError, "dim 3"),
        (np.empty((0, 4), dtype=int), ValueError, r"0 sample\(s\)"),
        (np.empty((3, 0), dtype=int), ValueError, r"0 feature\(s\)"),
        (np.ones((2, 2), dtype=bool), ValueError, "got the dtype bool"),
        (np.ones((2, 2), dtype=complex), ValueError, "Complex data not supported"),
        (np.array([["a", "b"]], dtype=object), ValueError, "could not convert string"),
        (sparse.csr_array(np.ones((2, 2), dtype=int)), TypeError, "Sparse data was passed"),
        (np.ones((1, 65), dtype=int), ValueError, "65 tokens wide.* at most 64; lower max_length"),
    ],
    ids=["1-D", "3-D", "no rows", "no columns", "bool", "complex", "texts", "sparse", "wide"],
)
def test_what_is_not_a_matrix_of_token_ids_is_refused(X, error, message, tiny_encoder):
    with pytest.raises(error, match=message):
        check_token_ids(X, tiny_encoder)


def test_a_row_of_padding_is_refused(tiny_encoder):
    ids = encode_texts(TEXTS, tiny_encoder, 10)
    ids[2] = 0
    with pytest.raises(ValueError, match="X holds nothing but padding in row 2"):
        check_token_ids(ids, tiny_encoder)


# -- lengths -------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1), st.integers(0, 2))
def test_lengths_are_those_of_the_rows_without_padding_at_the_end(rows, pad_id):
    expected = [len("".join(map(str, row)).rstrip(str(pad_id))) for row in rows]
    assert sequence_lengths(np.array(rows), pad_id).tolist() == expected


# -- encoding ------------------------------------------------------------------------------------


def words(ids, checkpoint):
    tokenizer = load_tokenizer(checkpoint)
    return [" ".join(tokenizer.id_to_token(i) for i in row) for row in ids]


def test_deletions_keep_both_ends_and_the_order():
    rng = np.random.default_rng(0)
    rows = [[1, *rng.integers(3, 900, size=n), 2] for n in rng.integers(0, 30, size=400)]
    ids = np.zeros((400, 40), dtype=np.int32)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    before = ids.copy()
    found = with_deletions(ids, 0, 0.2, np.random.default_rng(1))
    np.testing.assert_array_equal(ids, before)
    assert (found.shape, found.dtype) == (ids.shape, ids.dtype)
    inner = sum(map(len, rows)) - 800
    drawn = iter(np.random.default_rng(1).random(inner) < 0.2)
    for row, out in zip(rows, found.tolist(), strict=True):
        kept = [row[0], *(t for t in row[1:-1] if not next(drawn)), row[-1]]
        assert out == [*kept, *[0] * (40 - len(kept))]
    narrow = with_deletions(ids[:, :32], 0, 0.2, np.random.default_rng(1))
    np.testing.assert_array_equal(narrow, found[:, :32])
    assert 0.75 < (sequence_lengths(found, 0).sum() - 800) / inner < 0.85
    np.testing.assert_array_equal(with_deletions(ids, 0, 0.0, rng), ids)


def test_a_row_of_one_token_keeps_it():
    ids = np.array([[7, 5, 5], [7, 8, 5]])
    np.testing.assert_array_equal(with_deletions(ids, 5, 0.99, np.random.default_rng(0)), ids)


def test_encoded_texts_are_padded_at_the_right(tiny_encoder):
    ids = encode_texts(["no", "", "no fever today", "Xyzzy 😷"], tiny_encoder, 5)
    assert ids.dtype == np.int32
    assert words(ids, tiny_encoder) == [
        "[CLS] no [SEP] [PAD] [PAD]",
        "[CLS] [SEP] [PAD] [PAD] [PAD]",
        "[CLS] no fever today [SEP]",
        "[CLS] [UNK] [UNK] [SEP] [PAD]",
    ]


def test_special_tokens_in_a_text_are_plain_text(tiny_encoder):
    ids = encode_texts(["no [SEP] yes [PAD] [CLS] [MASK]"], tiny_encoder, 32)
    assert words(ids, tiny_encoder)[0].startswith("[CLS] no [ sep ] yes [ pad ] [ [UNK] ]")
    assert (ids == 3).sum() == 1
    assert (ids == 0).sum() == 32 - sequence_lengths(ids, 0)[0]


@given(st.lists(st.text(max_size=40), min_size=1, max_size=12), st.integers(3, 20))
def test_any_text_can_be_encoded(tiny_encoder, texts, max_length):
    ids = encode_texts(texts, tiny_encoder, max_length)
    lengths = sequence_lengths(ids, 0)
    assert ids.shape == (len(texts), max_length)
    assert (ids[:, 0] == 2).all()
    assert (ids[np.arange(len(texts)), lengths - 1] == 3).all()
    np.testing.assert_array_equal(check_token_ids(ids, tiny_encoder), ids)


def test_ids_are_those_of_transformers(minilm):
    texts = ["Flu shot: DONE!!", "naïve café 中文", "x" * 300, "word " * 300, "@user #tag", ""]
    reference = AutoTokenizer.from_pretrained(resolve_encoder(minilm))
    expected = reference(
        texts, truncation=True, padding="max_length", max_length=40, return_tensors="np"
    )
    np.testing.assert_array_equal(encode_texts(texts, minilm, 40), expected["input_ids"])


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("n_threads", ["1", "4"])
def test_chunks_and_threads_do_not_change_the_ids(
    tiny_encoder, tiny_texts, monkeypatch, chunk, n_threads
):
    texts = [*tiny_texts, "", *tiny_texts, "no", ""]
    expected = encode_texts(texts, tiny_encoder, 9)
    monkeypatch.setattr(_encoding, "_CHUNK", chunk)
    monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
    np.testing.assert_array_equal(encode_texts(texts, tiny_encoder, 9), expected)


@pytest.fixture
def watched(monkeypatch):
    """What the tokenizer was given, and the environment variable at that time."""
    calls = []
    load = _encoding.load_tokenizer

    class Watching:
        def __init__(self, tokenizer):
            self.tokenizer = tokenizer

        def encode_batch_fast(self, texts):
            calls.append((texts, os.environ.get("TOKENIZERS_PARALLELISM")))
            return self.tokenizer.encode_batch_fast(texts)

    monkeypatch.setattr(_encoding, "load_tokenizer", lambda *a: Watching(load(*a)))
    return calls


def test_each_distinct_text_is_tokenised_once(tiny_encoder, watched):
    ids = encode_texts(["b", "a", "b", "b", "a"], tiny_encoder, 4)
    assert [texts for texts, _ in watched] == [["b", "a"]]
    np.testing.assert_array_equal(ids, ids[[0, 1, 0, 0, 1]])


def test_a_tokenizer_of_another_encoder_is_an_error(tiny_encoder, monkeypatch):
    monkeypatch.setattr(_encoding, "vocabulary_size", lambda pretrained: 10)
    with pytest.raises(ValueError, match=r"gives the id \d+, but the encoder knows 10 ids only"):
        encode_texts(["she got the flu shot"], tiny_encoder, 10)


@pytest.mark.parametrize(
    ("max_length", "error", "message"),
    [
        (2, ValueError, "max_length must be at least 3, got 2"),
        ("long", ValueError, r'max_length must be "auto" or an integer, got \'long\''),
        (65, ValueError, "max_length must be at most 64, the number of positions"),
        (10.0, TypeError, "max_length must be an integer"),
        (None, TypeError, "max_length must be an integer"),
        (True, TypeError, "max_length must be an integer"),
    ],
)
def test_max_length_must_suit_the_encoder(tiny_encoder, max_length, error, message):
    with pytest.raises(error, match=message):
        encode_texts(["a"], tiny_encoder, max_length)


# -- threads of the tokenizers library ------------------------------------------------------------


def test_the_environment_variable_is_restored(tiny_encoder, monkeypatch):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: encode_texts(["no"] * n, tiny_encoder, 5), range(1, 40)))
    assert "TOKENIZERS_PARALLELISM" not in os.environ
    with pytest.raises(TypeError):
        encode_texts([3], tiny_encoder, 5)
    assert "TOKENIZERS_PARALLELISM" not in os.environ


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_value_set_by_the_user_stays(tiny_encoder, monkeypatch, value):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", value)
    with _tokenizer_threads.own_threads_off():
        inside = os.environ["TOKENIZERS_PARALLELISM"]
    assert (inside, os.environ["TOKENIZERS_PARALLELISM"]) == (value, value)


def test_the_tokenizers_library_starts_no_threads(tiny_encoder, watched, monkeypatch):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    encode_texts(["no"], tiny_encoder, 5)
    assert watched == [(["no"], "false")]


# -- the vectorizer ------------------------------------------------------------------------------


@pytest.fixture
def vectorizer(tiny_encoder):
    return TokenIdVectorizer(tiny_encoder, max_length=12)


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_the_width_does_not_depend_on_the_data(vectorizer, container):
    ids = vectorizer.fit_transform(container(TEXTS))
    assert ids.shape == (3, 12)
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(vectorizer.transform(["no"])[0], ids[2])
    assert check_array(ids) is ids


def test_defaults_are_the_papers_length_and_the_default_encoder(minilm):
    vectorizer = TokenIdVectorizer()
    assert vectorizer.get_params() == {"pretrained": minilm, "max_length": "auto"}
    assert vectorizer.fit_transform(["no"]).shape == (1, 160)


def test_auto_is_what_a_short_encoder_has(tiny_encoder, tiny_long_encoder):
    for encoder, width in ((tiny_encoder, 64), (tiny_long_encoder, 160)):
        vectorizer = TokenIdVectorizer(encoder)
        assert vectorizer.fit_transform(["no"]).shape == (1, width)
        assert len(vectorizer.get_feature_names_out()) == width
        assert resolve_max_length("auto", encoder) == width


def test_a_path_may_name_the_encoder(tiny_encoder, vectorizer):
    by_path = clone(vectorizer).set_params(pretrained=Path(tiny_encoder))
    np.testing.assert_array_equal(by_path.fit_transform(TEXTS), vectorizer.transform(TEXTS))


@pytest.mark.parametrize("container", [list, lambda t: pd.Series(t, index=[5, 6, 7]), np.array])
def test_set_output_gives_frames(vectorizer, container):
    expected = vectorizer.transform(TEXTS)
    X = container(TEXTS)
    names = [f"token_{i}" for i in range(12)]
    assert vectorizer.get_feature_names_out().tolist() == names
    frame = vectorizer.set_output(transform="pandas").fit_transform(X)
    assert frame.columns.tolist() == names
    assert set(frame.dtypes) == {np.dtype(np.int32)}
    # before 1.7, scikit-learn keeps the index of data frames alone
    keeps = isinstance(X, pd.Series) and parse_version(sklearn.__version__) >= parse_version("1.7")
    assert frame.index.tolist() == (X.index.tolist() if keeps else [0, 1, 2])
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    frame = vectorizer.set_output(transform="polars").fit_transform(X)
    assert frame.schema == dict.fromkeys(names, pl.Int32)
    np.testing.assert_array_equal(check_token_ids(frame, vectorizer.pretrained), expected)


def test_the_narrow_matrix_is_the_wide_one_without_its_padding(tiny_encoder, tiny_texts):
    texts = [*tiny_texts, "", tiny_texts[3], "the shot " * 40]
    wide = encode_texts(texts, tiny_encoder, 24)
    narrow = encode_texts(texts[:-1], tiny_encoder, 24, full_width=False)
    width = narrow.shape[1]
    assert 2 < width < 24
    assert (narrow[:, -1] != 0).any()
    np.testing.assert_array_equal(narrow, wide[:-1, :width])
    assert (wide[:-1, width:] == 0).all()
    np.testing.assert_array_equal(encode_texts(texts, tiny_encoder, 24, full_width=False), wide)
    assert encode_texts([""], tiny_encoder, 24, full_width=False).shape == (1, 2)
