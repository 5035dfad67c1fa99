"""`BertClassifier` over a tiny encoder."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
import sklearn
import torch
from helpers.nets import Fails, Rates
from sklearn.base import clone
from skorch.callbacks import Callback, LRScheduler
from skorch.dataset import ValidSplit
from skorch.exceptions import DeviceWarning, NotInitializedError
from torch import nn

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, TokenIdVectorizer
from sklearn_spt._random import epoch_rows
from sklearn_spt.nets import _device, _training
from sklearn_spt.nets._bert_module import BertModule


@pytest.fixture
def texts(tiny_texts):
    return (list(tiny_texts) * 8)[:24]


@pytest.fixture
def y():
    return np.arange(24) % 2


@pytest.fixture
def make(tiny_encoder):
    def build(**params):
        settings = {"max_length": 16, "batch_size": 8, "random_state": 0, **params}
        return BertClassifier(tiny_encoder, **settings)

    return build


# -- input -------------------------------------------------------------------------------------
def test_token_ids_give_the_same_result_as_texts(make, texts, y, tiny_encoder):
    ids = TokenIdVectorizer(tiny_encoder, max_length=16).transform(texts)
    expected = make().fit(texts, y).predict_proba(texts)
    clf = make().fit(ids, y)
    np.testing.assert_array_equal(clf.predict_proba(ids), expected)
    np.testing.assert_array_equal(clf.predict_proba(texts), expected)
    np.testing.assert_array_equal(make().fit(ids.astype(float), y).predict_proba(ids), expected)
    assert clf.n_features_in_ == 16
    with pytest.raises(ValueError, match="X has 9 features, but BertClassifier is expecting 16"):
        clf.predict(ids[:, :9])
    assert not hasattr(clf.fit(texts, y), "n_features_in_")


@pytest.mark.parametrize(
    ("bad", "error", "match"),
    [
        ([], ValueError, "0 sample"),
        ("one text", TypeError, "wrap it in a list"),
        (["a", 3] * 12, TypeError, "row 1"),
        (np.full((24, 16), 10**6), ValueError, "10000"),
        (np.full((24, 16), 0.5), ValueError, "0.5"),
    ],
)
def test_bad_documents(make, y, bad, error, match):
    clf = make()
    with pytest.raises(error, match=match):
        clf.fit(bad, y)
    assert not clf.initialized_


# -- labels ------------------------------------------------------------------------------------
@pytest.mark.parametrize("names", [["ham", "spam"], [3, 7], [-1.0, 1.0], [False, True]])
def test_any_labels(make, texts, y, names):
    labels = np.array(names)[y]
    clf = make(max_epochs=1, unlabeled_marker=99).fit(texts, labels)
    assert clf.classes_.tolist() == names
    predicted = clf.predict(texts)
    assert predicted.dtype.kind == labels.dtype.kind
    assert set(predicted.tolist()) <= set(names)


def test_whole_floats_are_integers_if_nan_is_the_marker(make, texts, y):
    """A column of 0, 1 and NaN has a float dtype only because integers have no NaN."""
    marked = y.astype(float)
    marked[20:] = np.nan
    with pytest.warns(UserWarning, match="4 unlabelled rows are dropped"):
        clf = make(max_epochs=1, unlabeled_marker=None).fit(texts, marked)
    assert clf.predict(texts).dtype.kind == "i"


def test_unlabelled_rows_are_dropped_with_a_warning(make, texts, y):
    expected = make().fit(texts[:16], y[:16]).predict_proba(texts)
    marked = np.where(np.arange(24) < 16, y, -1)
    for arguments in ((texts, marked), (texts[:16], y[:16], texts[16:])):
        with pytest.warns(UserWarning, match="8 unlabelled rows are dropped"):
            clf = make().fit(*arguments)
        np.testing.assert_array_equal(clf.predict_proba(texts), expected)


# -- learning ----------------------------------------------------------------------------------
def test_it_learns_its_training_texts(make, texts, y):
    word = np.where(y == 1, "sick", "sale")
    marked = [f"{t} {w}" for t, w in zip(texts, word, strict=True)]
    clf = make(max_epochs=40, lr=5e-3).fit(marked, y)
    assert clf.score(marked, y) == 1.0


def test_the_seed_decides(make, texts, y, global_random_state_unchanged):
    one = make(random_state=1).fit(texts, y).predict_proba(texts)
    again = make(random_state=1).fit(texts, y).predict_proba(texts)
    other = make(random_state=2).fit(texts, y).predict_proba(texts)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-6


def test_gradients_are_clipped(make, texts, y):
    norms = []

    class Norms(Callback):
        def on_batch_end(self, net, **kwargs):
            grads = [p.grad for p in net.module_.parameters() if p.grad is not None]
            norms.append(float(torch.nn.utils.get_total_norm(grads)))

    clf = make(callbacks=[Norms()], callbacks__gradient_clip__gradient_clip_value=1e-3)
    clone(clf).fit(texts, y)
    assert max(norms) <= 1e-3 * 1.001
    norms.clear()
    make(callbacks=[Norms()], callbacks__gradient_clip=None).fit(texts, y)
    assert max(norms) > 1e-2


def test_head_is_initialised_as_in_bert(tiny_encoder):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = BertModule(tiny_encoder, n_classes=500)
    assert float(module.head.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert not module.head.bias.detach().any()


def test_only_proportions_of_weights_count(make, texts, y):
    none = make().fit(texts, y).predict_proba(texts)
    even = make().fit(texts, y, sample_weight=np.full(24, 5.0)).predict_proba(texts)
    skewed = make().fit(texts, y, sample_weight=np.where(y == 1, 9.0, 1.0)).predict_proba(texts)
    np.testing.assert_array_equal(none, even)
    assert skewed[:, 1].mean() > none[:, 1].mean()


def test_a_custom_criterion(make, texts, y):
    clf = make(criterion=nn.CrossEntropyLoss, criterion__label_smoothing=0.1).fit(texts, y)
    assert clf.criterion_.label_smoothing == 0.1
    np.testing.assert_allclose(clf.predict_proba(texts).sum(axis=1), 1)
    with pytest.raises(ValueError, match="sample_weight needs the criterion DistillationLoss"):
        clf.fit(texts, y, sample_weight=np.ones(24))


def test_a_custom_optimizer(make, texts, y):
    clf = make(optimizer=torch.optim.Rprop).fit(texts, y)
    assert isinstance(clf.optimizer_, torch.optim.Rprop)
    assert make(optimizer=torch.optim.SGD).fit(texts, y).optimizer_.defaults["weight_decay"] == 0.0


# -- classes and history ---------------------------------------------------------------------
def test_classes_may_have_any_order(make, texts, y):
    labels = np.array(["neg", "pos"])[y]
    plain = make().fit(texts, labels)
    for order in (["neg", "pos"], ["pos", "neg"]):
        clf = make(classes=order).fit(texts, labels)
        assert clf.classes_.tolist() == ["neg", "pos"]
        np.testing.assert_array_equal(clf.predict_proba(texts), plain.predict_proba(texts))
    more = make(classes=["pos", "other", "neg"]).fit(texts, labels)
    assert more.classes_.tolist() == ["neg", "other", "pos"]
    assert (more.predict_proba(texts).argmax(axis=1) == 1).mean() < 0.5
    with pytest.raises(
        ValueError, match=r"y holds 'pos' in row 1, which is none of \['neg', 'other'\]"
    ):
        make(classes=["neg", "other"]).fit(texts, labels)


def test_a_failed_fit_keeps_model_and_history(make, texts, y):
    clf = make().fit(texts, y)
    before, rows = clf.predict_proba(texts), len(clf.history)
    clf.set_params(callbacks=[Fails()])
    with pytest.raises(RuntimeError, match="stop"):
        clf.fit(texts, y)
    assert len(clf.history) == rows
    np.testing.assert_array_equal(clf.predict_proba(texts), before)


def test_an_error_counts_rows_before_any_are_dropped(make, texts):
    ids = make().encode(texts[:5])
    ids[2, 1] = 10**6
    with pytest.raises(ValueError, match="row 2"):
        make().fit(ids, [-1, -1, 0, 1, 0])


@pytest.mark.parametrize(
    "iterator",
    [torch.utils.data.DataLoader, lambda *args, **kw: torch.utils.data.DataLoader(*args, **kw)],
)
def test_a_custom_iterator_pads_to_the_longest_text(make, texts, y, iterator):
    widths = []

    class Widths(Callback):
        def on_batch_begin(self, net, batch=None, **kwargs):
            widths.append(batch[0].shape[1])

    clf = make(iterator_train=iterator, callbacks=[Widths()]).fit(texts, y)
    assert set(widths) == {clf.encode(texts).shape[1]}
    assert np.isfinite(clf.predict_proba(texts)).all()


def test_unlabelled_texts_may_be_longer_or_shorter_than_labelled_ones(make, texts, y):
    """All texts get the width of the longest, and the result is the same as for one list."""
    long = [f"{text} {text}" for text in texts[:6]]
    for labeled, unlabeled in ((list(texts), long), ([*texts, *long], ["a shot"] * 5)):
        clf = SelfPretrainingClassifier(make(), step_size=1.0, alpha=0.0, random_state=0)
        codes = (list(y) * 2)[: len(labeled)]
        parted = clf.fit(labeled, codes, X_unlabeled=unlabeled).predict_proba(labeled)
        joined = clf.fit([*labeled, *unlabeled], [*codes, *[-1] * len(unlabeled)])
        np.testing.assert_array_equal(parted, joined.predict_proba(labeled))


def test_texts_and_token_ids_are_not_mixed(make, texts, y, tiny_encoder):
    ids = TokenIdVectorizer(tiny_encoder, max_length=16).fit_transform(texts)
    clf = SelfPretrainingClassifier(make(), step_size=1.0, alpha=0.0, random_state=0)
    with pytest.raises(TypeError, match="X is a column of texts and X_unlabeled is not"):
        clf.fit(texts, y, X_unlabeled=ids[:9])
    with pytest.raises(TypeError, match="X_unlabeled is a column of texts and X is not"):
        clf.fit(ids, y, X_unlabeled=list(texts[:9]))
    clf.fit(texts, y, X_unlabeled=list(texts[:9]))
    for fitted in (clf, make().fit(texts, y)):
        with pytest.raises(TypeError, match="X holds no texts, but the classifier was fitted on"):
            fitted.predict(ids)


# -- partial_fit -------------------------------------------------------------------------------
def test_partial_fit_continues(make, texts, y):
    clf = make(max_epochs=1).partial_fit(texts, y)
    first = clf.predict_proba(texts)
    np.testing.assert_array_equal(first, make(max_epochs=1).fit(texts, y).predict_proba(texts))
    clf.partial_fit(texts[:1], y[:1])
    assert np.abs(clf.predict_proba(texts) - first).max() > 0
    with pytest.raises(ValueError, match=r"y holds 5 in row 0, which is none of \[0, 1\]"):
        clf.partial_fit(texts[:1], [5])
    with pytest.raises(ValueError, match=r"classes=\[5, 6\] differ from the classes of the net"):
        clf.partial_fit(texts, y + 5, classes=[5, 6])


@pytest.mark.parametrize(
    ("classes", "marker"), [([-1, 0, 1], -1), (["a", None, "b"], None), (["?", "a", "b"], "?")]
)
def test_the_marker_is_no_class(make, texts, classes, marker):
    given = ["a", "b", marker] if "a" in classes else [0, 1, marker]
    message = rf"without the marker of unlabelled rows, {re.escape(repr(marker))}; got \["
    with pytest.raises(ValueError, match=message):
        make(unlabeled_marker=marker).partial_fit(texts[:3], given, classes=classes)
    with pytest.raises(ValueError, match=message):
        make(unlabeled_marker=marker, classes=classes).fit(texts[:3], given)


@pytest.mark.parametrize("classes", [["a", "b"], ["a", "b", "c", "d"]])
def test_classes_of_the_net_and_of_partial_fit_must_agree(make, texts, classes):
    clf = make(classes=["c", "b", "a"])
    with pytest.raises(ValueError, match=r"differ from the classes of the net, \['a', 'b', 'c'\]"):
        clf.partial_fit(texts[:2], ["a", "b"], classes=classes)
    clf.partial_fit(texts[:2], ["a", "b"], classes=["b", "a", "c"])
    assert clf.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "classes", [["a", None, "b"], ["a", "b", "-1"], {"a", "b"}, "ab", [], ["a", "a"]]
)
def test_unusable_classes_are_named(make, texts, classes):
    with pytest.raises(
        ValueError, match=r"classes must be a list of all labels, two or more, without .*-1; got"
    ):
        make().partial_fit(texts[:2], ["a", "b"], classes=classes)
    with pytest.raises(ValueError, match="classes must be a list of all labels, two or more"):
        make(classes=classes).fit(texts[:2], ["a", "b"])


def test_each_partial_fit_draws_other_rows(make, texts, y, monkeypatch):
    drawn = []

    def noted(*args):
        drawn.append(epoch_rows(*args))
        return drawn[-1]

    monkeypatch.setattr(_training, "epoch_rows", noted)
    clf = make(max_epochs=1).fit(texts, y)
    for _ in range(3):
        clf.partial_fit(texts, y)
    assert len({rows.tobytes() for rows in drawn}) == 4


def test_partial_fit_starts_at_the_initial_rate(make, texts, y):
    clf = make(max_epochs=1, lr=0.003, callbacks=[("rates", Rates())]).fit(texts, y)
    clf.partial_fit(texts, y)
    clf.set_params(lr=0.006).partial_fit(texts, y)
    assert clf.lr_ == 0.006
    clf.set_params(lr="auto").partial_fit(texts, y)
    assert (clf.lr, clf.lr_) == ("auto", 1e-4)
    falling = np.array([1, 2 / 3, 1 / 3])
    expected = np.concatenate([0.003 * falling, 0.003 * falling, 0.006 * falling, 1e-4 * falling])
    np.testing.assert_allclose(np.ravel(dict(clf.callbacks_)["rates"].seen_), expected)


def test_the_first_partial_fit_may_name_all_classes(make, texts, y):
    clf = make(max_epochs=1).partial_fit(texts[:1], y[:1], classes=[0, 1, 2])
    proba = clf.predict_proba(texts)
    assert proba.shape == (24, 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)


# -- inference ---------------------------------------------------------------------------------
def test_probabilities_do_not_depend_on_the_other_texts(make, texts, y):
    varied = [" ".join(texts[: 1 + i % 5]) for i in range(24)]
    clf = make().fit(varied, y)
    together = clf.predict_proba(varied)
    alone = np.concatenate([clf.predict_proba([text]) for text in varied])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_empty_and_unknown_texts(make, texts, y):
    proba = make().fit(texts, y).predict_proba(["", "☃ ☃", "[PAD]", "[PAD] [PAD] word"])
    assert np.isfinite(proba).all()


# -- "auto" ------------------------------------------------------------------------------------
def test_auto_stays_in_params_and_is_resolved_in_attributes(make, texts, y):
    clf = make(max_epochs=1).fit(texts, y)
    params = clf.get_params()
    assert (params["device"], params["lr"], params["precision"]) == ("auto", "auto", "auto")
    assert clf.device_ in ("cpu", "cuda", "mps")
    assert clf.lr_ == 1e-4
    assert clf.precision_ in ("fp32", "bf16")
    before = torch.get_num_threads()
    assert clf.n_threads_ == before
    clf.set_params(n_threads=before + 1).fit(texts, y).predict(texts)
    assert clf.n_threads_ == before + 1
    assert torch.get_num_threads() == before  # restored


@pytest.mark.parametrize("copied", [lambda clf: pickle.loads(pickle.dumps(clf)), copy.deepcopy])
def test_copies_predict_the_same(make, texts, y, copied):
    unfitted = copied(make())
    assert unfitted.get_params()["lr"] == "auto"
    assert not hasattr(unfitted, "device_")
    clf = unfitted.fit(texts, y)
    twin = copied(clf)
    assert (twin.device, twin.device_) == ("auto", clf.device_)
    np.testing.assert_array_equal(twin.predict_proba(texts), clf.predict_proba(texts))


def test_a_net_from_cuda_loads_on_the_cpu(make, texts, y):
    """Without a CUDA device, a net pickled on CUDA moves to the CPU with a warning."""
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    clf = make().fit(texts, y)
    expected = clf.predict_proba(texts)
    state = clf.__getstate__()
    state["device"] = state["device_"] = "cuda"
    other = BertClassifier.__new__(BertClassifier)
    with pytest.warns(DeviceWarning, match="CUDA|cuda"):
        other.__setstate__(state)
    assert other.device_ == "cpu"
    np.testing.assert_array_equal(other.predict_proba(texts), expected)


def test_auto_precision_is_resolved_again_when_a_net_is_loaded(make, texts, y, monkeypatch):
    monkeypatch.setattr(_device, "_cpu_has_bf16", lambda: True)
    clf = make(device="cpu").fit(texts, y)
    assert clf.precision_ == clf.module_.encoder.precision == "bf16"
    stored = pickle.dumps(clf)
    asked = pickle.dumps(make(device="cpu", precision="bf16").fit(texts, y))
    monkeypatch.setattr(_device, "_cpu_has_bf16", lambda: False)
    loaded = pickle.loads(stored)
    assert loaded.precision_ == loaded.module_.encoder.precision == "fp32"
    assert pickle.loads(asked).module_.encoder.precision == "bf16"


# -- parameters --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"pooling": "max"}, ValueError, "pooling must be one of"),
        ({"max_length": 10**6}, ValueError, "max_length must be at most 64"),
        ({"dropout": 1.0}, ValueError, r"dropout must lie in \[0, 1\)"),
        ({"lr": 0}, ValueError, "lr must lie"),
        ({"lr": "fast"}, TypeError, "lr must be a number"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"max_epochs": -1}, ValueError, "max_epochs must be at least 0"),
        ({"device": "gpu"}, ValueError, "device must be 'auto' or a torch device"),
        ({"precision": "fp8"}, ValueError, "precision must be one of"),
        ({"n_threads": 0}, ValueError, "n_threads must be at least 1"),
        ({"balanced_batches": 1}, TypeError, "balanced_batches must be True or False"),
        ({"random_state": -3}, ValueError, "random_state must not be negative"),
        ({"optimiser": None}, ValueError, "unexpected argument"),
        ({"head_init": "zero"}, ValueError, "head_init must be one of 'linear_probe', 'random'"),
        ({"cuda_graphs": "yes"}, TypeError, "cuda_graphs must be True or False"),
        ({"train_split": ValidSplit(3)}, ValueError, "train_split must be None"),
        ({"iterator_train__window": 0}, ValueError, "iterator_train__window must be at least 1"),
        (
            {"iterator_train__width_multiple": 1.5},
            TypeError,
            "train__width_multiple must be an int",
        ),
        ({"warm_start": True}, ValueError, "warm_start is not supported; use partial_fit"),
        ({"callbacks": [LRScheduler()]}, ValueError, "has a learning-rate schedule of its own"),
    ],
)
def test_bad_parameters(make, texts, y, params, error, match):
    clf = make(**params)
    with pytest.raises(error, match=match):
        clf.fit(texts, y)
    assert not clf.initialized_
    assert not hasattr(clf, "module_")


def test_an_unknown_name_offline(texts, y):
    clf = BertClassifier("no-such-organisation/no-such-encoder")
    with pytest.raises(ValueError, match=r"no-such-encoder.*offline"):
        clf.fit(texts, y)
    assert not clf.initialized_


def test_predict_needs_a_fit_and_initialize_needs_classes(make):
    with pytest.raises(NotInitializedError, match="not initialized"):
        make().predict(["a"])
    assert make().__sklearn_tags__().input_tags.string
    with pytest.raises(ValueError, match="must know its classes"):
        make().initialize()
    assert make(classes=["a", "b", "c"]).initialize().module_.head.out_features == 3


def test_quiet_by_default(make, texts, y, capfd):
    make().fit(texts, y).predict(texts)
    assert capfd.readouterr() == ("", "")
    make(verbose=1).fit(texts, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "fine-tuning" in err


@pytest.mark.minilm
def test_default_encoder_end_to_end(minilm, global_random_state_unchanged):
    sick = [f"my {who} was diagnosed with flu" for who in ("mother", "boss", "son", "aunt")]
    news = [f"new flu vaccine on sale in {where}" for where in ("Ohio", "Kent", "Peru", "Oslo")]
    clf = BertClassifier(random_state=0, max_epochs=8, max_length=32, batch_size=8)
    clf.fit(sick + news, [1] * 4 + [0] * 4)
    assert clf.lr_ == 1e-4
    assert clf.predict(["my sister was diagnosed with flu"]).tolist() == [1]


# -- representation --------------------------------------------------------------------------------
def test_the_representation_shows_what_was_changed():
    assert repr(BertClassifier()) == "BertClassifier()"
    net = BertClassifier("roberta-base", lr=1e-3, module__n_hidden=8, classes=["a", "b"])
    shown = repr(net)
    assert re.fullmatch(r"BertClassifier\([^<>]*\)", shown)
    given = {"pretrained": "roberta-base", "lr": 1e-3, "module__n_hidden": 8, "classes": ["a", "b"]}
    assert eval(f"dict{shown.removeprefix('BertClassifier')}") == given
    assert eval(shown).get_params(deep=False) == net.get_params(deep=False)
    with sklearn.config_context(print_changed_only=False):
        assert "balanced_batches=True" in repr(net)
    assert "BertClassifier" in net._repr_html_()


def test_the_representation_of_a_method_holds_that_of_its_net():
    assert repr(SelfPretrainingClassifier()) == "SelfPretrainingClassifier()"
    clf = SelfPretrainingClassifier(BertClassifier(lr=1e-3), lam=0.2)
    assert repr(clf) == "SelfPretrainingClassifier(estimator=BertClassifier(lr=0.001), lam=0.2)"
    assert repr(clone(clf)) == repr(clf)
