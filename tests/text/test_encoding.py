"""Texts and token ids are checked, encoded and vectorised."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import check_array, estimator_checks, get_tags
from sklearn.utils.estimator_checks import check_estimator
from transformers import AutoTokenizer

from sklearn_spt.text import _encoding, _tokenizer_threads
from sklearn_spt.text._encoding import (
    TokenIdVectorizer,
    check_texts,
    check_token_ids,
    encode_texts,
    is_text,
    sequence_lengths,
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


def test_a_missing_text_of_a_typed_series_is_named_too():
    for X in (
        pd.Series(["a", None]),
        pd.Series(["a", None], dtype="string"),
        pl.Series(["a", None]),
    ):
        with pytest.raises(ValueError, match="X holds a missing text in row 1"):
            check_texts(X)


@pytest.mark.parametrize("entry", [3, 2.5, b"bytes", ["a"], {"a": 1}])
def test_an_entry_that_is_no_text_is_named_by_row_and_type(entry):
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
def test_two_columns_are_one_too_many(X):
    with pytest.raises(ValueError, match="X has 2 columns; give the one that holds the texts"):
        check_texts(X)
    assert is_text(X)


@pytest.mark.parametrize("X", [None, 3, {"a": 1}, {"a"}, iter("ab"), np.array("a"), pd.DataFrame()])
def test_what_is_no_sequence_is_refused(X):
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


def test_the_decision_reads_no_more_than_it_needs():
    class Watched(list):
        def __iter__(self):
            yield self[0]
            raise AssertionError("read on")

    assert is_text(Watched(["a", "b"]))


# -- matrices of token ids -----------------------------------------------------------------------


def test_token_ids_pass_uncopied(tiny_checkpoint):
    ids = encode_texts(TEXTS, tiny_checkpoint, 10)
    assert check_token_ids(ids, tiny_checkpoint) is ids


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
def test_token_ids_come_in_many_types(container, tiny_checkpoint):
    ids = encode_texts(TEXTS, tiny_checkpoint, 10)
    checked = check_token_ids(container(ids), tiny_checkpoint)
    np.testing.assert_array_equal(checked, ids)
    assert checked.dtype == np.int32
    assert checked.flags.c_contiguous


@pytest.mark.parametrize("value", [-1, 10_000, 2**40, 5.5, np.nan, np.inf, -0.5])
def test_a_value_that_is_no_id_is_named_by_its_place(value, tiny_checkpoint):
    ids = encode_texts(TEXTS, tiny_checkpoint, 10).astype(type(value))
    ids[1, 2] = value
    with pytest.raises(ValueError, match=rf"row 1, column 2 is {value}") as error:
        check_token_ids(ids, tiny_checkpoint)
    assert "whole numbers from 0 to" in str(error.value)


def test_the_first_and_the_last_id_are_ids(tiny_checkpoint):
    last = _encoding.vocabulary_size(tiny_checkpoint) - 1
    assert check_token_ids([[last, 0]], tiny_checkpoint).tolist() == [[last, 0]]
    with pytest.raises(ValueError, match=f"column 0 is {last + 1}"):
        check_token_ids([[last + 1, 0]], tiny_checkpoint)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(4, dtype=int), "Reshape your data"),
        (np.ones((2, 2, 2), dtype=int), "dim 3"),
        (np.empty((0, 4), dtype=int), r"0 sample\(s\)"),
        (np.empty((3, 0), dtype=int), r"0 feature\(s\)"),
        (np.ones((2, 2), dtype=bool), "got the dtype bool"),
        (np.ones((2, 2), dtype=complex), "Complex data not supported"),
        (np.array([["a", "b"]], dtype=object), "could not convert string"),
    ],
    ids=["1-D", "3-D", "no rows", "no columns", "bool", "complex", "texts"],
)
def test_what_is_no_matrix_of_numbers_is_refused(X, message, tiny_checkpoint):
    with pytest.raises(ValueError, match=message):
        check_token_ids(X, tiny_checkpoint)


def test_a_sparse_matrix_is_refused(tiny_checkpoint):
    with pytest.raises(TypeError, match="Sparse data was passed"):
        check_token_ids(sparse.csr_array(np.ones((2, 2), dtype=int)), tiny_checkpoint)


def test_a_matrix_wider_than_the_positions_is_refused(tiny_checkpoint):
    assert check_token_ids(np.ones((1, 64), dtype=int), tiny_checkpoint).shape == (1, 64)
    with pytest.raises(
        ValueError, match=r"X is 65 tokens wide.* reads at most 64; lower max_length"
    ):
        check_token_ids(np.ones((1, 65), dtype=int), tiny_checkpoint)


def test_a_row_of_padding_is_refused(tiny_checkpoint):
    ids = encode_texts(TEXTS, tiny_checkpoint, 10)
    ids[2] = 0
    with pytest.raises(ValueError, match="X holds nothing but padding in row 2"):
        check_token_ids(ids, tiny_checkpoint)


# -- lengths -------------------------------------------------------------------------------------


def test_lengths_count_padding_between_tokens():
    ids = np.array([[2, 5, 3, 0, 0], [2, 0, 0, 3, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    assert sequence_lengths(ids, 0).tolist() == [3, 4, 0, 5]
    assert sequence_lengths(ids, 1).tolist() == [5, 5, 5, 0]


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1), st.integers(0, 2))
def test_lengths_are_those_of_the_stripped_rows(rows, pad_id):
    expected = [len("".join(map(str, row)).rstrip(str(pad_id))) for row in rows]
    assert sequence_lengths(np.array(rows), pad_id).tolist() == expected


# -- encoding ------------------------------------------------------------------------------------


def words(ids, checkpoint):
    tokenizer = load_tokenizer(checkpoint)
    return [" ".join(tokenizer.id_to_token(i) for i in row) for row in ids]


def test_encoded_texts_are_padded_at_the_right(tiny_checkpoint):
    ids = encode_texts(["no", "", "no fever today", "Xyzzy 😷"], tiny_checkpoint, 5)
    assert ids.dtype == np.int32
    assert words(ids, tiny_checkpoint) == [
        "[CLS] no [SEP] [PAD] [PAD]",
        "[CLS] [SEP] [PAD] [PAD] [PAD]",
        "[CLS] no fever today [SEP]",
        "[CLS] [UNK] [UNK] [SEP] [PAD]",
    ]


def test_long_texts_keep_their_final_separator(tiny_checkpoint):
    texts = ["no " * n for n in range(1, 8)]
    ids = encode_texts(texts, tiny_checkpoint, 5)
    assert words(ids[2:], tiny_checkpoint) == ["[CLS] no no no [SEP]"] * 5
    assert sequence_lengths(ids, 0).tolist() == [3, 4, 5, 5, 5, 5, 5]


def test_a_text_cannot_inject_special_tokens(tiny_checkpoint):
    ids = encode_texts(["no [SEP] yes [PAD] [CLS] [MASK]"], tiny_checkpoint, 32)
    assert words(ids, tiny_checkpoint)[0].startswith("[CLS] no [ sep ] yes [ pad ] [ [UNK] ]")
    assert (ids == 3).sum() == 1
    assert (ids == 0).sum() == 32 - sequence_lengths(ids, 0)[0]


@given(st.lists(st.text(max_size=40), min_size=1, max_size=12), st.integers(3, 20))
def test_any_text_can_be_encoded(tiny_checkpoint, texts, max_length):
    ids = encode_texts(texts, tiny_checkpoint, max_length)
    lengths = sequence_lengths(ids, 0)
    assert ids.shape == (len(texts), max_length)
    assert (ids[:, 0] == 2).all()
    assert (ids[np.arange(len(texts)), lengths - 1] == 3).all()
    np.testing.assert_array_equal(check_token_ids(ids, tiny_checkpoint), ids)


def test_rows_do_not_depend_on_their_neighbours(tiny_checkpoint, tiny_texts):
    texts = tiny_texts + tiny_texts[::-1]
    together = encode_texts(texts, tiny_checkpoint, 9)
    alone = np.vstack([encode_texts([text], tiny_checkpoint, 9) for text in texts])
    np.testing.assert_array_equal(together, alone)


def test_ids_are_those_of_transformers(minilm):
    texts = ["Flu shot: DONE!!", "naïve café 中文", "x" * 300, "word " * 300, "@user #tag", ""]
    reference = AutoTokenizer.from_pretrained(resolve_encoder(minilm))
    expected = reference(
        texts, truncation=True, padding="max_length", max_length=40, return_tensors="np"
    )
    np.testing.assert_array_equal(encode_texts(texts, minilm, 40), expected["input_ids"])


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("n_threads", ["1", "4"])
def test_chunks_and_threads_leave_no_trace(
    tiny_checkpoint, tiny_texts, monkeypatch, chunk, n_threads
):
    texts = [*tiny_texts, "", *tiny_texts, "no", ""]
    expected = encode_texts(texts, tiny_checkpoint, 9)
    monkeypatch.setattr(_encoding, "_CHUNK", chunk)
    monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
    np.testing.assert_array_equal(encode_texts(texts, tiny_checkpoint, 9), expected)


@pytest.fixture
def watched(monkeypatch):
    """List of what the tokenizer was given, and of the switch for its threads at that time."""
    calls = []
    load = _encoding.load_tokenizer

    class Watching:
        def __init__(self, tokenizer):
            self.tokenizer = tokenizer

        def num_special_tokens_to_add(self, pair):
            return self.tokenizer.num_special_tokens_to_add(pair)

        def encode_batch_fast(self, texts):
            calls.append((texts, os.environ.get("TOKENIZERS_PARALLELISM")))
            return self.tokenizer.encode_batch_fast(texts)

    monkeypatch.setattr(_encoding, "load_tokenizer", lambda *a: Watching(load(*a)))
    return calls


def test_each_distinct_text_is_tokenised_once(tiny_checkpoint, watched):
    ids = encode_texts(["b", "a", "b", "b", "a"], tiny_checkpoint, 4)
    assert [texts for texts, _ in watched] == [["b", "a"]]
    np.testing.assert_array_equal(ids, ids[[0, 1, 0, 0, 1]])


def test_a_tokenizer_of_another_encoder_is_noticed(tiny_checkpoint, monkeypatch):
    monkeypatch.setattr(_encoding, "vocabulary_size", lambda pretrained: 10)
    with pytest.raises(ValueError, match=r"gives the id \d+, but the encoder knows 10 ids only"):
        encode_texts(["she got the flu shot"], tiny_checkpoint, 10)


@pytest.mark.parametrize(
    ("max_length", "error", "message"),
    [
        (2, ValueError, "max_length must be at least 3, got 2"),
        (65, ValueError, "max_length must be at most 64, the number of positions"),
        (10.0, TypeError, "max_length must be an integer"),
        (None, TypeError, "max_length must be an integer"),
        (True, TypeError, "max_length must be an integer"),
    ],
)
def test_the_width_must_suit_the_encoder(tiny_checkpoint, max_length, error, message):
    with pytest.raises(error, match=message):
        encode_texts(["a"], tiny_checkpoint, max_length)


def test_numpy_integers_are_widths(tiny_checkpoint):
    assert encode_texts(["a"], tiny_checkpoint, np.int64(7)).shape == (1, 7)


# -- the tokenizers library's threads ------------------------------------------------------------


def test_the_environment_is_as_before(tiny_checkpoint, monkeypatch):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: encode_texts(["no"] * n, tiny_checkpoint, 5), range(1, 40)))
    assert "TOKENIZERS_PARALLELISM" not in os.environ
    with pytest.raises(TypeError):
        encode_texts([3], tiny_checkpoint, 5)
    assert "TOKENIZERS_PARALLELISM" not in os.environ


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_value_of_the_users_is_left_alone(tiny_checkpoint, monkeypatch, value):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", value)
    with _tokenizer_threads.own_threads_off():
        inside = os.environ["TOKENIZERS_PARALLELISM"]
    assert (inside, os.environ["TOKENIZERS_PARALLELISM"]) == (value, value)


def test_the_tokenizers_library_starts_no_threads(tiny_checkpoint, watched, monkeypatch):
    # Threads of its own are what older releases warn about at each later fork of the process.
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    encode_texts(["no"], tiny_checkpoint, 5)
    assert watched == [(["no"], "false")]


# -- the vectorizer ------------------------------------------------------------------------------


@pytest.fixture
def vectorizer(tiny_checkpoint):
    return TokenIdVectorizer(tiny_checkpoint, max_length=12)


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_the_width_does_not_depend_on_the_data(vectorizer, container):
    ids = vectorizer.fit_transform(container(TEXTS))
    assert ids.shape == (3, 12)
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(vectorizer.transform(["no"])[0], ids[2])
    assert check_array(ids) is ids


def test_nothing_is_learned(vectorizer):
    expected = vectorizer.transform(TEXTS)  # before any fit
    state = dict(vars(vectorizer))
    assert vectorizer.fit(["other"], y=[1]) is vectorizer
    assert vars(vectorizer) == state
    np.testing.assert_array_equal(vectorizer.transform(TEXTS), expected)


def test_defaults_are_the_papers_length_and_the_default_encoder(minilm):
    vectorizer = TokenIdVectorizer()
    assert vectorizer.get_params() == {"pretrained": minilm, "max_length": "auto"}
    assert vectorizer.fit_transform(["no"]).shape == (1, 160)


def test_auto_is_what_a_short_encoder_has(tiny_checkpoint, tiny_long_checkpoint):
    for checkpoint, width in ((tiny_checkpoint, 64), (tiny_long_checkpoint, 160)):
        vectorizer = TokenIdVectorizer(checkpoint)
        assert vectorizer.fit_transform(["no"]).shape == (1, width)
        assert len(vectorizer.get_feature_names_out()) == width
        assert resolve_max_length("auto", checkpoint) == width
    with pytest.raises(ValueError, match="max_length must be at most 64"):
        resolve_max_length(65, tiny_checkpoint)
    with pytest.raises(ValueError, match=r'max_length must be "auto" or an integer, got \'long\''):
        resolve_max_length("long", tiny_checkpoint)


def test_copies_and_pickles_do_the_same(vectorizer):
    expected = vectorizer.fit_transform(TEXTS)
    for copied in (clone(vectorizer), pickle.loads(pickle.dumps(vectorizer))):
        assert copied.get_params() == vectorizer.get_params()
        np.testing.assert_array_equal(copied.transform(TEXTS), expected)
    assert len(pickle.dumps(vectorizer)) < 1000


def test_a_path_may_name_the_checkpoint(tiny_checkpoint, vectorizer):
    by_path = clone(vectorizer).set_params(pretrained=Path(tiny_checkpoint))
    np.testing.assert_array_equal(by_path.fit_transform(TEXTS), vectorizer.transform(TEXTS))


@pytest.mark.parametrize("method", ["fit", "transform", "fit_transform"])
@pytest.mark.parametrize(
    ("parameters", "X", "error", "message"),
    [
        ({"max_length": 65}, TEXTS, ValueError, "max_length must be at most 64"),
        ({"max_length": 2}, TEXTS, ValueError, "max_length must be at least 3"),
        ({"pretrained": 3}, TEXTS, TypeError, "pretrained must be the name"),
        ({}, "one text", TypeError, "wrap it in a list"),
        ({}, ["a", None], ValueError, "missing text in row 1"),
        ({}, [], ValueError, r"0 sample\(s\)"),
        ({}, np.zeros((2, 3)), ValueError, "X has 3 columns"),
    ],
)
def test_bad_parameters_and_texts_are_refused(vectorizer, method, parameters, X, error, message):
    vectorizer.set_params(**parameters)
    with pytest.raises(error, match=message):
        getattr(vectorizer, method)(X)


@pytest.mark.parametrize("container", [list, lambda t: pd.Series(t, index=[5, 6, 7]), np.array])
def test_frames_come_out_on_request(vectorizer, container):
    expected = vectorizer.transform(TEXTS)
    X = container(TEXTS)
    names = [f"token_{i}" for i in range(12)]
    assert vectorizer.get_feature_names_out().tolist() == names
    frame = vectorizer.set_output(transform="pandas").fit_transform(X)
    assert frame.columns.tolist() == names
    assert set(frame.dtypes) == {np.dtype(np.int32)}
    assert frame.index.tolist() == (X.index.tolist() if isinstance(X, pd.Series) else [0, 1, 2])
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    frame = vectorizer.set_output(transform="polars").fit_transform(X)
    assert frame.schema == dict.fromkeys(names, pl.Int32)
    np.testing.assert_array_equal(check_token_ids(frame, vectorizer.pretrained), expected)


def test_it_is_a_step_of_a_cached_pipeline(vectorizer, tmp_path, tiny_texts, monkeypatch):
    y = [0, 1] * 12
    pipeline = make_pipeline(vectorizer, KNeighborsClassifier(1), memory=str(tmp_path / "cache"))
    first = pipeline.fit(tiny_texts, y).predict(tiny_texts)
    assert first.tolist() == y
    assert pipeline[:-1].get_feature_names_out().tolist()[:2] == ["token_0", "token_1"]

    def refuse(self, X, y=None):
        raise AssertionError("not from the cache")

    monkeypatch.setattr(TokenIdVectorizer, "fit", refuse)
    assert pipeline.fit(tiny_texts, y) is pipeline


def test_its_length_can_be_searched(vectorizer, tiny_texts):
    pipeline = make_pipeline(vectorizer, KNeighborsClassifier(1))
    search = GridSearchCV(pipeline, {"tokenidvectorizer__max_length": [4, 12]}, cv=2)
    search.fit(tiny_texts, [0, 1] * 12)
    assert search.best_score_ > 0.9


def test_scikit_learn_is_told_what_goes_in(vectorizer):
    tags = get_tags(vectorizer)
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array
    assert not tags.requires_fit


@pytest.mark.filterwarnings("ignore:Can't test estimator:sklearn.exceptions.SkipTestWarning")
def test_the_estimator_checks_for_texts_pass(vectorizer):
    # scikit-learn derives hardly a check for an estimator that takes no matrix of numbers ...
    results = check_estimator(vectorizer, on_fail=None)
    assert [result["status"] for result in results] == ["passed"] * len(results)
    assert len(results) >= 1


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_mixin_order,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_set_params,
        estimator_checks.check_valid_tag_types,
    ],
)
def test_the_estimator_checks_without_data_pass(vectorizer, check):
    # ... so that those which need no data are called by name.
    assert check("TokenIdVectorizer", vectorizer) is None


def test_the_narrow_matrix_is_the_wide_one_without_its_padding(tiny_checkpoint, tiny_texts):
    texts = [*tiny_texts, "", tiny_texts[3], "the shot " * 40]
    wide = encode_texts(texts, tiny_checkpoint, 24)
    narrow = encode_texts(texts[:-1], tiny_checkpoint, 24, full_width=False)
    width = narrow.shape[1]
    assert 2 < width < 24
    assert (narrow[:, -1] != 0).any()
    np.testing.assert_array_equal(narrow, wide[:-1, :width])
    assert (wide[:-1, width:] == 0).all()
    np.testing.assert_array_equal(encode_texts(texts, tiny_checkpoint, 24, full_width=False), wide)
    assert encode_texts([""], tiny_checkpoint, 24, full_width=False).shape == (1, 2)
