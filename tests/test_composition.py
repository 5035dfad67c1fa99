"""The classifiers inside scikit-learn: pipelines, searches, routing, copies, processes."""

from __future__ import annotations

import copy
import io
import json
import pickle
import warnings
from email.message import Message
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn
import torch
from helpers.nets import TwoInputs, mlp_net
from helpers.optional import pd
from helpers.processes import run_python
from helpers.sgd import partial_moons
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from skorch import NeuralNetClassifier
from skorch.helper import SliceDict
from torch import nn

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    TokenIdVectorizer,
    _runtime,
)
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold, make_labeled_scorer

API = Path(__file__).parents[1] / "docs" / "api.md"


# -- data and small models --------------------------------------------------------------------
@pytest.fixture(scope="module")
def moons():
    """200 rows, of which 20 are labelled, and the true classes."""
    return partial_moons(200, 20, 0.1)


@pytest.fixture
def corpus(tiny_texts):
    """24 texts, of which 12 are labelled."""
    y = np.array([1, 0] * 12)
    y[12:] = -1
    return tiny_texts, y


def over_mlp(cls=SelfPretrainingClassifier, **params):
    settings = {"step_size": 0.5, "pretrain_epochs": 1, "finetune_epochs": 4, "random_state": 0}
    return cls(mlp_net(batch_size=20, verbose=0), **{**settings, **params})


def bert(encoder, **params):
    settings = {"max_length": 16, "lr": 3e-3, "batch_size": 8, "n_threads": 1, "random_state": 0}
    return BertClassifier(encoder, **{**settings, **params})


def over_bert(encoder, **params):
    settings = {"step_size": 0.5, "finetune_epochs": 2, "random_state": 0}
    return SelfPretrainingClassifier(bert(encoder), **{**settings, **params})


class Noting(SelfPretrainingClassifier):
    """Records the input of every fit, also of its clones."""

    fits: list[dict] = []  # noqa: RUF012

    def fit(self, X, y, X_unlabeled=None, sample_weight=None):
        self.fits.append({"X": X, "y": y, "X_unlabeled": X_unlabeled, "weights": sample_weight})
        return super().fit(X, y, X_unlabeled=X_unlabeled, sample_weight=sample_weight)


@pytest.fixture
def fits():
    Noting.fits.clear()
    yield Noting.fits
    Noting.fits.clear()


# -- pipelines --------------------------------------------------------------------------------
def shout(texts):
    return [text.upper() for text in texts]


def unshout(texts):
    return [text.lower() for text in texts]


def test_a_pipeline_gives_the_same_as_the_classifier_alone(tiny_encoder, corpus):
    texts, y = corpus
    pipeline = make_pipeline(
        FunctionTransformer(unshout),
        TokenIdVectorizer(tiny_encoder, max_length=16),
        over_bert(tiny_encoder),
    )
    pipeline.fit(shout(texts), y)
    alone = over_bert(tiny_encoder).fit(texts, y)
    expected = alone.predict_proba(texts)
    np.testing.assert_array_equal(pipeline.predict_proba(shout(texts)), expected)
    np.testing.assert_array_equal(pipeline.classes_, [0, 1])
    assert pipeline[-1].n_features_in_ == 16
    assert not hasattr(alone, "n_features_in_")


def test_a_cached_pipeline_encodes_each_fold_once(tiny_encoder, corpus, tmp_path, monkeypatch):
    texts, y = corpus
    encoded = []
    fit_transform = TokenIdVectorizer.fit_transform

    def counted(self, X, y=None, **params):
        encoded.append(len(X))
        return fit_transform(self, X, y, **params)

    monkeypatch.setattr(TokenIdVectorizer, "fit_transform", counted)
    steps = [
        ("encode", TokenIdVectorizer(tiny_encoder, max_length=16)),
        ("clf", over_bert(tiny_encoder, max_iter=0, finetune_epochs=1)),
    ]
    folds = SemiSupervisedStratifiedKFold(2)
    grid = {"clf__lam": [0.0, 0.5, 1.0]}
    for memory, expected in (
        (None, [18] * 6 + [24]),
        (str(tmp_path), [18, 18, 24]),  # each fold's rows once, and all rows once
        (str(tmp_path), []),
    ):
        encoded.clear()
        GridSearchCV(Pipeline(steps, memory=memory), grid, cv=folds, scoring="f1").fit(texts, y)
        assert encoded == expected


def test_scikit_learns_self_training_takes_our_ids(tiny_encoder, corpus):
    texts, y = corpus
    pipeline = make_pipeline(
        TokenIdVectorizer(tiny_encoder, max_length=40),
        SelfTrainingClassifier(bert(tiny_encoder), criterion="k_best", k_best=4, max_iter=2),
    ).fit(texts, y)
    shorter, longer = "flu", " ".join(texts[:3])
    proba = pipeline.predict_proba([shorter, longer, "", longer * 5])
    assert np.bincount(pipeline[-1].labeled_iter_ + 1).tolist() == [4, 12, 4, 4]
    assert proba.shape == (4, 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert set(pipeline.predict([shorter, longer])) <= {0, 1}


# -- searches ---------------------------------------------------------------------------------
def test_a_search_scores_labelled_rows_and_trains_on_all_unlabelled_ones(moons, fits):
    X, y, _ = moons
    cv = SemiSupervisedStratifiedKFold(2, shuffle=True, random_state=0)
    grid = {"lam": [0.1, 0.9], "alpha": [0.1, 0.5], "estimator__lr": [0.001, 0.1]}
    search = GridSearchCV(over_mlp(Noting), grid, cv=cv, scoring="f1", refit=True).fit(X, y)
    assert [int((fit["y"] == -1).sum()) for fit in fits] == [180] * (8 * 2 + 1)
    assert [int((fit["y"] != -1).sum()) for fit in fits] == [10] * (8 * 2) + [20]

    by_hand = []
    for params in search.cv_results_["params"]:
        scores = []
        for train, test in cv.split(X, y):
            assert (y[test] >= 0).all()
            clf = clone(over_mlp()).set_params(**params).fit(X[train], y[train])
            scores.append(f1_score(y[test], clf.predict(X[test])))
        by_hand.append(np.mean(scores))
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], by_hand)
    assert len(set(by_hand)) > 1
    assert search.best_estimator_.n_iter_ == 2
    np.testing.assert_array_equal(
        search.predict_proba(X),
        over_mlp().set_params(**search.best_params_).fit(X, y).predict_proba(X),
    )


# -- parameters and copies --------------------------------------------------------------------
def plain(estimator):
    """Parameters without skorch's callbacks, which are new objects in each call."""
    params = estimator.get_params()
    return {name: value for name, value in params.items() if "callbacks__" not in name}


def test_parameters_can_be_read_and_set(tiny_encoder):
    clf = over_bert(tiny_encoder, lam=0.7, unlabeled_marker="?")
    params = clf.get_params(deep=False)
    assert SelfPretrainingClassifier(**params).get_params(deep=False) == params
    deep = clf.get_params()
    assert deep["estimator__lr"] == 3e-3
    assert not [name for name in deep if name.startswith(("_", "estimator___"))]
    other = SelfPretrainingClassifier(bert(tiny_encoder, lr=1.0)).set_params(
        **{name: value for name, value in plain(clf).items() if name != "estimator"}
    )
    assert plain(other) == {**plain(clf), "estimator": other.estimator}
    assert repr(clone(clf)) == repr(clf)
    net = clf.estimator
    assert plain(BertClassifier(**net.get_params(deep=False))) == plain(net)


def test_a_clone_shares_nothing_and_does_the_same(tiny_encoder, corpus):
    texts, y = corpus
    clf = over_bert(tiny_encoder).fit(texts, y)
    twin = clone(clf)
    assert twin.estimator is not clf.estimator
    assert not [name for name in vars(twin) if name.endswith("_")]
    expected = clf.predict_proba(texts)
    np.testing.assert_array_equal(twin.fit(texts, y).predict_proba(texts), expected)
    # a fitted net is used like an unfitted one
    fitted = bert(tiny_encoder).fit(texts[:12], y[:12])
    over_fitted = over_bert(tiny_encoder).set_params(estimator=fitted).fit(texts, y)
    np.testing.assert_array_equal(over_fitted.predict_proba(texts), expected)


def through_joblib(estimator):
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    return joblib.load(file)


def through_pickle(estimator):
    return pickle.loads(pickle.dumps(estimator))


@pytest.mark.parametrize("copied", [through_joblib, through_pickle, copy.deepcopy])
@pytest.mark.parametrize("kind", ["mlp", "bert", "pipeline"])
def test_copies_predict_the_same(moons, tiny_encoder, corpus, kind, copied):
    X, y = moons[:2] if kind == "mlp" else corpus
    model = {
        "mlp": over_mlp,
        "bert": lambda: over_bert(tiny_encoder),
        "pipeline": lambda: make_pipeline(
            TokenIdVectorizer(tiny_encoder, max_length=16), over_bert(tiny_encoder)
        ),
    }[kind]()
    unfitted = copied(model)
    model.fit(X, y)
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(copied(model).predict_proba(X), expected)
    np.testing.assert_array_equal(unfitted.fit(X, y).predict_proba(X), expected)


# -- reproducible numbers --------------------------------------------------------------
def exact(encoder, texts, y):
    """Probabilities of a fit, to the last bit."""
    clf = over_bert(encoder, random_state=7)
    return [value.hex() for value in clf.fit(texts, y).predict_proba(texts)[:, 1].tolist()]


def test_the_same_seed_gives_the_same_bits_in_another_process(tiny_encoder, corpus):
    texts, y = corpus
    here = exact(tiny_encoder, texts, y)
    assert exact(tiny_encoder, texts, y) == here
    code = (
        "import json, sys, numpy, random, test_composition as t\n"
        "random.seed(99), numpy.random.seed(99), t.torch.manual_seed(99)\n"
        "encoder, texts, y = json.loads(sys.argv[1])\n"
        "print(json.dumps(t.exact(encoder, texts, numpy.array(y))))"
    )
    given = json.dumps([tiny_encoder, texts, y.tolist()])
    assert json.loads(run_python(code, given, PYTHONHASHSEED="99")) == here
    other = over_bert(tiny_encoder, random_state=8).fit(texts, y).predict_proba(texts)
    assert [value.hex() for value in other[:, 1].tolist()] != here


def test_two_processes_give_the_same_as_one(tiny_encoder, corpus):
    texts, y = corpus
    grid = {"lam": [0.1, 0.9]}
    searches = [
        GridSearchCV(
            over_bert(tiny_encoder),
            grid,
            cv=SemiSupervisedStratifiedKFold(2),
            scoring="neg_log_loss",  # depends on every bit of the probabilities
            n_jobs=n_jobs,
        )
        for n_jobs in (1, 2)
    ]
    with joblib.parallel_config("loky"):
        one, two = (search.fit(texts, y) for search in searches)
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(one.cv_results_[name], two.cv_results_[name])
    np.testing.assert_array_equal(one.predict_proba(texts), two.predict_proba(texts))


@pytest.mark.usefixtures("global_random_state_unchanged")
def test_no_global_random_state_changes(moons, tiny_encoder, corpus):
    X, y, _ = moons
    texts, labels = corpus
    clf = over_mlp(random_state=None).fit(X, y)
    assert clf.predict(X).shape == (200,)
    net = bert(tiny_encoder, max_epochs=1, random_state=None).fit(texts[:12], labels[:12])
    assert net.predict(texts).shape == (24,)
    model = over_bert(tiny_encoder).fit(texts, labels)
    assert model.predict(texts).shape == (24,)
    assert SentenceEmbedder(tiny_encoder, max_length=16).fit_transform(texts).shape == (24, 16)


# -- metadata routing -------------------------------------------------------------------------
@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def routed(moons):
    """Labelled rows, their labels, and the routed metadata."""
    X, _, truth = moons
    more = {"X_unlabeled": X[40:], "sample_weight": np.linspace(1, 2, 40)}
    return X[:40], truth[:40], more


def requesting(**params):
    clf = over_mlp(Noting, **params).set_fit_request(X_unlabeled=True, sample_weight=True)
    return clf.set_score_request(sample_weight=True)


def weighted_f1():
    return make_scorer(f1_score).set_score_request(sample_weight=True)


def assert_routed(fits, n_fits, more, sizes):
    assert len(fits) == n_fits
    for fit in fits:
        assert fit["X_unlabeled"] is more["X_unlabeled"] or np.array_equal(
            fit["X_unlabeled"], more["X_unlabeled"]
        )
        assert len(fit["weights"]) == len(fit["X"]) == len(fit["y"])
        assert set(np.asarray(fit["weights"]).tolist()) <= set(more["sample_weight"].tolist())
        assert not (np.asarray(fit["y"]) == -1).any()
    assert {len(fit["X"]) for fit in fits} == sizes


@pytest.mark.usefixtures("routing")
def test_calibration(routed, fits):
    X, y, more = routed
    calibrated = CalibratedClassifierCV(requesting(), cv=2).fit(X, y, **more)
    assert_routed(fits, 2, more, {20})
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    assert [c.estimator.n_iter_ for c in calibrated.calibrated_classifiers_] == [2, 2]


@pytest.mark.usefixtures("routing")
def test_tuned_threshold(routed, fits):
    X, y, more = routed
    tuned = TunedThresholdClassifierCV(requesting(), cv=2, scoring=weighted_f1()).fit(X, y, **more)
    assert_routed(fits, 3, more, {20, 40})
    assert 0 <= tuned.best_threshold_ <= 1
    assert tuned.estimator_.n_iter_ == 2
    assert set(tuned.predict(X)) <= {0, 1}


@pytest.mark.usefixtures("routing")
def test_cross_val_predict(routed, fits):
    X, y, more = routed
    cv = StratifiedKFold(2)
    proba = cross_val_predict(requesting(), X, y, cv=cv, method="predict_proba", params=more)
    assert_routed(fits, 2, more, {20})
    for train, test in cv.split(X, y):
        clf = over_mlp().fit(
            X[train],
            y[train],
            X_unlabeled=more["X_unlabeled"],
            sample_weight=more["sample_weight"][train],
        )
        np.testing.assert_array_equal(proba[test], clf.predict_proba(X[test]))


@pytest.mark.usefixtures("routing")
def test_search_with_routed_metadata(routed, fits):
    X, y, more = routed
    search = GridSearchCV(requesting(), {"lam": [0.1, 0.9]}, cv=2, scoring=weighted_f1())
    search.fit(X, y, **more)
    assert_routed(fits, 5, more, {20, 40})
    direct = over_mlp(**search.best_params_).fit(X, y, **more)
    np.testing.assert_array_equal(search.predict_proba(X), direct.predict_proba(X))


@pytest.mark.usefixtures("routing")
def test_weights_reach_the_net_alone_too(tiny_encoder, corpus):
    texts, y = corpus
    net = bert(tiny_encoder, max_epochs=1).set_fit_request(sample_weight=True)
    weights = np.linspace(1, 3, 12)
    X = TokenIdVectorizer(tiny_encoder, max_length=16).transform(texts[:12])
    proba = cross_val_predict(
        net, X, y[:12], cv=2, method="predict_proba", params={"sample_weight": weights}
    )
    train, test = next(StratifiedKFold(2).split(X, y[:12]))
    direct = bert(tiny_encoder, max_epochs=1)
    direct.fit(X[train], y[train], sample_weight=weights[train])
    np.testing.assert_array_equal(proba[test], direct.predict_proba(X[test]))


@pytest.mark.usefixtures("routing")
def test_a_pipeline_encodes_the_routed_texts(tiny_encoder, corpus):
    texts, y = corpus
    clf = over_bert(tiny_encoder).set_fit_request(X_unlabeled=True)
    pipeline = Pipeline(
        [("encode", TokenIdVectorizer(tiny_encoder, max_length=16)), ("clf", clf)],
        transform_input=["X_unlabeled"],
    )
    pipeline.fit(texts[:10], y[:10], X_unlabeled=texts[10:])
    direct = over_bert(tiny_encoder).fit(texts[:10], y[:10], X_unlabeled=texts[10:])
    assert pipeline[-1].n_iter_ == 2
    np.testing.assert_array_equal(pipeline.predict_proba(texts), direct.predict_proba(texts))


# -- HTML -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "kind",
    [SelfPretrainingClassifier, BertClassifier, SentenceEmbedder, TokenIdVectorizer],
)
def test_html_links_to_the_page_of_the_class(kind, monkeypatch):
    address = "https://docs.example.org/stable"
    found = Message()
    for url in ("Paper, https://x.org", f"Documentation,{address}/"):
        found["Project-URL"] = url
    monkeypatch.setattr(_runtime, "metadata", lambda name: found)
    _runtime.documentation.cache_clear()
    try:
        page = f"{address}/generated/sklearn_spt.{kind.__name__}.html"
        assert f'href="{page}"' in kind()._repr_html_()
        assert f"   {kind.__name__}\n" in API.read_text(encoding="utf-8")
        # a class without a page, and the hooks of scikit-learn in a user's own one
        private = type("Mine", (kind,), {"__module__": "sklearn_spt.nets"})
        assert "docs.example.org" not in private()._repr_html_()
        hooks = {"_doc_link_module": "mine", "_doc_link_template": "https://y.org/{estimator_name}"}
        mine = type("Mine", (kind,), {"__module__": "mine", **hooks})()
        assert 'href="https://y.org/Mine"' in mine._repr_html_()
        one = kind()
        one._doc_link_template = "https://z.org/{estimator_name}"
        assert f'href="https://z.org/{kind.__name__}"' in one._repr_html_()
        del found["Project-URL"]
        _runtime.documentation.cache_clear()
        assert "href" not in kind()._repr_html_()
    finally:
        _runtime.documentation.cache_clear()


# -- other kinds of input -------------------------------------------------------------------------
def test_named_columns(moons):
    X, y, _ = moons
    frame = pd.DataFrame(X, columns=["left", "right"])
    clf = over_mlp().fit(frame[:150], y[:150], X_unlabeled=frame[150:])
    assert clf.feature_names_in_.tolist() == ["left", "right"]
    expected = over_mlp().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(clf.predict_proba(frame), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(frame[["right", "left"]])
    with pytest.raises(ValueError, match="feature names should match"):
        over_mlp().fit(frame[:150], y[:150], X_unlabeled=frame[["right", "left"]][150:])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        clf.predict(X)
    assert not hasattr(clf.fit(X, y), "feature_names_in_")


@pytest.mark.parametrize("framed", [0, 1])
def test_x_and_x_unlabeled_may_be_a_frame_and_an_array(moons, framed, recwarn):
    X, y, _ = moons
    expected = over_mlp().fit(X, y)
    parts = [X[:150], X[150:]]
    parts[framed] = pd.DataFrame(parts[framed], columns=["left", "right"])
    clf = over_mlp().fit(parts[0], y[:150], X_unlabeled=parts[1])
    assert [str(warning.message) for warning in recwarn] == []
    np.testing.assert_array_equal(clf.predict_proba(parts[0]), expected.predict_proba(X[:150]))
    assert hasattr(clf, "feature_names_in_") == (framed == 0)
    recwarn.clear()
    with pytest.warns(UserWarning, match="feature names"):  # predict still warns
        clf.predict(parts[1])


def test_a_numeric_matrix_learns_from_unlabelled_rows():
    X, truth = make_moons(200, noise=0.1, random_state=1)
    y = truth.copy()
    y[20:] = -1
    net = mlp_net(optimizer=torch.optim.Adam, lr=0.05, batch_size=16, module__n_hidden=32)
    clf = SelfPretrainingClassifier(
        net, temperature=1.0, pretrain_epochs=10, finetune_epochs=10, random_state=0
    )
    model = make_pipeline(StandardScaler(), clf)
    supervised = clone(model).set_params(selfpretrainingclassifier__max_iter=0)
    gained = model.fit(X, y).score(X, truth)
    assert gained > 0.88
    assert gained > supervised.fit(X, y).score(X, truth)


class CNN(nn.Module):
    """One convolution and one linear layer, for images of 8 x 8 with or without channels."""

    def __init__(self, n_classes=3):
        super().__init__()
        self.convolution = nn.Conv2d(1, 8, 3, padding=1)
        self.last = nn.Linear(8 * 4 * 4, n_classes)

    def forward(self, x):
        x = torch.relu(self.convolution(x.reshape(-1, 1, 8, 8)))
        return self.last(nn.functional.max_pool2d(x, 2).flatten(1))


@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8)])
def test_images(shape):
    digits, truth = load_digits(n_class=3, return_X_y=True)
    images = (digits / 16).reshape(-1, *shape)[:200]
    truth = truth[:200]
    y = truth.copy()
    y[15:] = -1
    net = NeuralNetClassifier(CNN, lr=0.02, optimizer=torch.optim.Adam, batch_size=16)
    clf = SelfPretrainingClassifier(
        net, step_size=0.5, pretrain_epochs=2, finetune_epochs=10, random_state=0
    )
    supervised = clone(clf).set_params(max_iter=0).fit(images, y).score(images, truth)
    clf.fit(images, y)
    assert clf.predict_proba(images).shape == (200, 3)
    assert clf.score(images, truth) > supervised + 0.05
    assert clf.score(images, truth) > 0.85
    np.testing.assert_array_equal(clf.transduction_[:15], y[:15])


def test_several_arrays_in_a_mapping(moons):
    X, y, _ = moons

    def split(rows):
        return {"left": rows[:, :1], "right": rows[:, 1:]}

    expected = over_mlp().fit(X, y).predict_proba(X)
    clf = over_mlp().set_params(estimator=mlp_net(TwoInputs, batch_size=20))
    np.testing.assert_array_equal(clf.fit(split(X), y).predict_proba(split(X)), expected)
    clf.fit(split(X[:150]), y[:150], X_unlabeled=split(X[150:]))
    np.testing.assert_array_equal(clf.predict_proba(split(X)), expected)
    assert not hasattr(clf, "n_features_in_")


def test_parts_of_a_mapping_are_rows_by_position(moons):
    """A Series keeps its order, whatever its index; float64 is turned into float32."""
    X, y, _ = moons
    parts = {"left": X[:, :1], "right": X[:, 1:]}
    clf = over_mlp().set_params(estimator=mlp_net(TwoInputs, batch_size=20))
    expected = clf.fit(parts, y).predict_proba(parts)
    index = np.random.default_rng(0).permutation(len(X))
    frames = {k: pd.DataFrame(v.astype(float), index=index) for k, v in parts.items()}
    np.testing.assert_array_equal(clf.predict_proba(frames), expected)
    np.testing.assert_array_equal(clf.fit(frames, y).predict_proba(parts), expected)
    lists = {k: v.tolist() for k, v in parts.items()}
    np.testing.assert_array_equal(clf.fit(lists, y).predict_proba(lists), expected)
    for score in (clf.score, partial(make_labeled_scorer("accuracy"), clf)):
        with warnings.catch_warnings(action="ignore"):  # of rows that do not count
            assert score(frames, y) == score(lists, y) == score(parts, y)
    more = {k: np.zeros((5, 1), dtype=int) for k in parts}
    clf.fit(parts, y, X_unlabeled=more)


def test_parts_in_a_slice_dict_are_cross_validated(moons):
    X, y, _ = moons
    cv = SemiSupervisedStratifiedKFold(2)
    expected = cross_val_score(over_mlp(), X, y, cv=cv, error_score="raise")
    clf = over_mlp().set_params(estimator=mlp_net(TwoInputs, batch_size=20))
    parts = SliceDict(left=X[:, :1], right=X[:, 1:])
    found = cross_val_score(clf, parts, y, cv=cv, error_score="raise")
    np.testing.assert_array_equal(found, expected)
