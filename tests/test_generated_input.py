"""Thousands of drawn inputs: a result that is a probability, or one short error.

``SKLEARN_SPT_RELIABILITY=full`` draws 100,000 inputs and damages 500 folders of encoders. A case
is a function of its number, so `python -c "..."` with that number repeats a failure.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import build_encoder
from helpers.nets import PaddedMLP, bert_net, mlp_net
from helpers.optional import pd

from sklearn_spt import SelfPretrainingClassifier

pytestmark = pytest.mark.reliability

FULL = os.environ.get("SKLEARN_SPT_RELIABILITY") == "full"

WORDS = [
    "flu", "shot", "she got", "never!", "", " ", "\t", "[SEP]", "a" * 3000, "\u00e9t\u00e9",
    "\U0001f912", "\x00", "\u2028", "\u202e", "e\u0301" * 40, "\u0130", "##s", "<s>",
]  # fmt: skip
NOT_TEXTS = [
    "flu \ud83d", None, float("nan"), pd.NA, 3, 2.5, b"flu", ["flu"], {"a": 1}, True, object(),
    ("a", "b"),
]  # fmt: skip
LABELS = [
    [0, 1], [0, 1, -1], ["yes", "no", -1], [0.0, 1.0, -1.0], [-1], ["yes", "no"], [True, False],
    [1, 2, 3, -1], ["a", None], [0, 1, float("nan")], [2**60, 2**60 + 1, -1], [0.5, 1.5, -1],
    [Decimal(1), Decimal("nan")], [Fraction(1, 2), 1], [(0, 1), 1], ["x" * 9000, "y", -1],
    [np.datetime64("2020"), np.datetime64("NaT")], ["\ud83d", "b", -1], [1e300, -1e300], [1j, -1],
]  # fmt: skip
PARAMS = {
    "lam": [0, 0.3, 1, -1, 2, "a", None, float("nan"), np.float32(0.5)],
    "alpha": [0, 0.1, 1, 1.5, "auto", None],
    "temperature": [1, 0.5, 3, 0, -1, 1e200, 1e-200, float("inf"), "1"],
    "step_size": [1.0, 0.2, 3, 0, -1, 1.5, 10**30, float("nan"), "all"],
    "max_iter": [None, 0, 1, -1, 2.0, "1"],
    "finetune_epochs": [0, 1, -1, 0.5, None],
    "pretrain_epochs": [0, 1, -1, True],
    "token_deletion": [0, 0.2, 1, -0.1, None],
    "balanced_batches": [True, False, "yes", 1],
    "ensemble": ["with_start", "last_two", "all", None],
    "logit_adjustment": ["auto", 0, 0.5, 1, 2, "none", float("nan")],
    "validation_fraction": [None, 0.2, 0.5, 0, 1, "half"],
    "n_starts": [1, 2, 0, 1.5],
    "n_students": [1, 2, 0, "x"],
    "unlabeled_marker": [-1, None, "unl", 0, float("nan"), "x" * 9000, [1], np.int64(-1)],
    "random_state": [0, 3, -1, "seed", np.random.RandomState(0), 2**40],
    "verbose": [0, -1, "yes"],
    "on_iteration": [None, len, 3],
}


def some_texts(rng, n, wild):
    """Texts as a list, tuple, array, Series or frame; wild ones may be of no use."""
    texts = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 5))) for _ in range(n)]
    while wild and n and rng.random() < 0.2:
        texts[rng.randrange(n)] = rng.choice(NOT_TEXTS)
    kinds = ["list"] * 4 + ["tuple", "array", "series", "frame"]
    kind = rng.choice(kinds + ["two", "dict", "set"] * wild)
    if kind in ("list", "tuple"):
        return texts if kind == "list" else tuple(texts)
    column = np.empty(n, dtype=object)
    column[:] = texts
    if kind == "dict":
        return {"text": texts}
    if kind == "set":
        return {text for text in texts if isinstance(text, str)}
    if kind == "series":
        return pd.Series(column, index=range(7, n + 7), dtype=object)
    if kind == "frame":
        return pd.DataFrame({"text": column}, dtype=object)
    return np.stack([column, column], axis=1) if kind == "two" else column


def some_numbers(rng, n, wild):
    """A matrix of any kind; a wild one is of any shape and range."""
    generator = np.random.default_rng(rng.randrange(2**32))
    shape = rng.choice([(n, 4)] * 6 + [(n, 0), (n, 1), (n, 2, 2), (n,), (), (n, 40)] * wild)
    X = np.asarray(generator.normal(size=shape) * rng.choice([1] * 6 + [0, 1e30, 1e300] * wild))
    if wild and X.size and rng.random() < 0.15:
        X.flat[rng.randrange(X.size)] = rng.choice([np.nan, np.inf, -np.inf])
    with np.errstate(all="ignore"):
        kinds = ["f4"] * 4 + [">f4", "f8", ">f8", "g", "f2", "i8", "u1", "?", "O"]
        X = X.astype(rng.choice(kinds + ["U8", "c8", "V8"] * wild))
    if rng.random() < 0.1:
        X.flags.writeable = False
    return rng.choice([lambda a: a] * 5 + [lambda a: a.tolist(), np.asfortranarray, torch_or(X)])(X)


def torch_or(X):
    return (
        (lambda a: torch.from_numpy(a.copy())) if X.dtype in ("f4", "f8", "i8") else (lambda a: a)
    )


def some_labels(rng, n, wild):
    """Labels as a list, array, Series or column; wild ones may be of no use."""
    pool = rng.choice(LABELS if wild else LABELS[:4])
    length = n + (rng.choice([-1, 1]) if rng.random() < 0.1 * wild else 0)
    y = [rng.choice(pool) for _ in range(length)]
    if not wild:
        y[:2] = pool[:2]
    kind = rng.random()
    if kind < 0.3:
        return y
    column = np.empty(len(y), dtype=object)
    column[:] = y
    if kind < 0.5:
        return pd.Series(column, dtype=object)
    return column if kind < 0.95 else column.reshape(-1, 1)


def some_weights(rng, n, wild):
    usable = [None, [1.0] * n, [rng.random() + 0.1 for _ in range(n)]]
    wrong = [[0] * n, ["a"] * n, [-1] * n, [float("nan")] * n, [1.0], 3, [1e300] * n]
    return rng.choice(usable + wrong * wild)


def state():
    """The states of the global generators."""
    _, key, *place = np.random.get_state()  # noqa: NPY002
    return (
        random.getstate(),
        (key.tobytes(), place),
        bytes(torch.get_rng_state().numpy()),
    )


def frozen(value):
    """A value that is equal as long as a drawn one has not changed."""
    if isinstance(value, torch.Tensor | pd.Series | pd.DataFrame):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return str(value.dtype), value.shape, value.tobytes()
    return repr(value.tolist() if isinstance(value, np.ndarray) else value)


def run(number, call, values):
    """Call with drawn values, check what that leaves behind; return the result, None for errors."""
    before, held = state(), [frozen(value) for value in values]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            P = call(*values)
    except Exception as error:
        message = str(error)
        short = isinstance(error, TypeError | ValueError) and 0 < len(message) < 500
        if not short:
            raised = f"case {number} raised {type(error).__name__}: {message[:600]}"
            raise AssertionError(raised) from error
        P = None
    else:
        assert np.isfinite(P).all(), number
        np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-6, err_msg=str(number))
    assert state() == before, number
    assert [frozen(value) for value in values] == held, number
    return P


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    """For numbers and texts: an unfitted method, and fitted estimators for predictions."""
    encoder = build_encoder(tmp_path_factory.mktemp("one_layer"), layers=1)
    cheap = {"max_iter": 1, "pretrain_epochs": 0, "finetune_epochs": 0, "alpha": 0.0}
    net = bert_net(encoder, max_epochs=0, device="cpu", head_init="random")
    templates = {
        "numbers": SelfPretrainingClassifier(
            mlp_net(PaddedMLP, verbose=0), random_state=0, **cheap
        ),
        "texts": SelfPretrainingClassifier(net, random_state=0, **cheap),
    }
    y = [0, 1, 0, 1, -1, -1, -1, -1]
    texts = ["she got a flu shot"] * 8
    numbers = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    fitted = {
        "numbers": [copy_of(templates["numbers"]).fit(numbers, y)],
        "texts": [copy_of(templates["texts"]).fit(texts, y), net.fit(texts[:4], y[:4])],
    }
    return templates, fitted


def copy_of(clf, **params):
    """A copy that shares the net, which a fit leaves as it is."""
    return type(clf)(**{**clf.get_params(deep=False), **params})


def one_case(number, kind, nets):
    """Draw one input for fit (even numbers) or predict (odd ones), and run it."""
    templates, fitted = nets
    rng = random.Random(number)
    draw = some_texts if kind == "texts" else some_numbers
    if number % 2:
        wild = rng.random() < 0.5
        X = draw(rng, rng.choice([8, 0, 1, 2, 3, 12]), wild)
        return run(number, rng.choice(fitted[kind]).predict_proba, [X])
    # What may be of no use: mostly one argument, since the first error hides all others.
    one = rng.choice(["nothing", "all", "X", "y", "X_unlabeled", "sample_weight", "params"])
    wild = {name: one in (name, "all") for name in ("X", "y", "X_unlabeled", "sample_weight")}
    n = rng.choice([8] * 6 + [0, 1, 2, 3, 12]) if wild["X"] else rng.choice([8, 12])
    n_names = rng.choice([0, 1, 1, 2]) if one in ("all", "params") else 0
    names = rng.sample(sorted(PARAMS), n_names)
    clf = copy_of(templates[kind], **{name: rng.choice(PARAMS[name]) for name in names})
    more = wild["X_unlabeled"] or rng.random() < 0.3
    values = [
        draw(rng, n, wild["X"]),
        some_labels(rng, n, wild["y"]),
        draw(rng, rng.choice([0, 3, 8]), wild["X_unlabeled"]) if more else None,
        some_weights(rng, n, wild["sample_weight"]),
    ]

    def call(X, y, X_unlabeled, weights):
        return clf.fit(X, y, X_unlabeled=X_unlabeled, sample_weight=weights).predict_proba(X)

    return run(number, call, values)


@pytest.mark.parametrize("kind", ["numbers", "texts"])
@pytest.mark.parametrize("part", range(10 if FULL else 1))
def test_drawn_inputs(part, kind, nets):
    n = 5000 if FULL else 150
    found = [one_case(number, kind, nets) is None for number in range(part * n, (part + 1) * n)]
    for half in (found[::2], found[1::2]):  # neither most refused nor most accepted
        assert 0.2 < np.mean(half) < 0.8
    print(f"\n{kind}, {n} cases from {part * n}: {sum(found)} refused")


# -- folders of encoders ---------------------------------------------------------------------------
FILES = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
FILES += ["modules.json", "1_Pooling/config.json"]


def damaged(rng, folder, name, how):
    """Return other bytes for a file of an encoder."""
    content = bytearray((folder / name).read_bytes())
    if how in ("flip", "flips"):
        # a weight may have any value: a changed one is seen in the header of the file alone
        end = (
            8 + int.from_bytes(content[:8], "little") if name.endswith("tensors") else len(content)
        )
        for _ in range(1 if how == "flip" else 8):
            content[rng.randrange(end)] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del content[rng.randrange(len(content)) :]
    elif how == "swap":
        return (folder / rng.choice(FILES)).read_bytes()
    elif how == "empty":
        return b""
    else:
        start = rng.randrange(len(content))
        content[start : start + 64] = bytes(len(content[start : start + 64]))
        if name.endswith("tensors"):
            content[:64] = bytes(64)
    return bytes(content)


def test_damaged_encoders(tiny_encoder, tmp_path):
    whole = Path(shutil.copytree(tiny_encoder, tmp_path / "whole"))
    (whole / "1_Pooling").mkdir()
    (whole / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    modules = [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (whole / "modules.json").write_text(json.dumps(modules))
    texts, y = ["she got the flu shot today", "he never want that needle"] * 3, [0, 1] * 3

    def probabilities(folder):
        net = bert_net(str(folder), max_epochs=0, device="cpu")
        return net.fit(texts, y).predict_proba(texts)

    expected = probabilities(whole)
    n_folders, n_errors = 500 if FULL else 25, 0
    for number in range(n_folders):
        rng = random.Random(number)
        folder = Path(shutil.copytree(whole, tmp_path / "damaged"))
        name, how = (
            rng.choice(FILES),
            rng.choice(["flip", "flips", "cut", "swap", "empty", "zeros"]),
        )
        (folder / name).write_bytes(damaged(rng, whole, name, how))

        P = run(number, probabilities, [folder])
        # no check can see a changed letter of a word or digit of a number
        if P is not None and not how.startswith("flip"):
            np.testing.assert_array_equal(P, expected, str(number))
        n_errors += P is None
        shutil.rmtree(folder)
    print(f"\n{n_folders} damaged encoders: {n_errors} errors")
    assert n_folders / 2 < n_errors < n_folders
