"""The displays draw the numbers that they should; the report says what a fit did."""

from __future__ import annotations

import html
import importlib.util
import re
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from helpers import bert_net, learner, points
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_spt import (
    BertClassifier,
    CoDecompositionClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SoftSelfTrainingClassifier,
    TokenIdVectorizer,
)
from sklearn_spt.inspection import FitReport, PseudoLabelDisplay, suggest


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


self_pretraining = partial(learner, step_size=0.4, finetune_epochs=2)


@pytest.fixture(scope="module")
def fitted():
    X, y, _ = points(3)
    labels = np.array(["a", "b", "c", "?"])[y]
    return self_pretraining(unlabeled_marker="?").fit(X, labels)


def legend_of(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


# -- pseudo-labels ---------------------------------------------------------------------------------
def test_pseudo_labels_are_those_of_the_history(fitted):
    display = PseudoLabelDisplay.from_estimator(make_pipeline(FunctionTransformer(), fitted))
    entries = fitted.history_[1:]
    assert len(entries) == 3
    for line, label in zip(display.lines_, fitted.classes_, strict=True):
        assert_array_equal(line.get_xdata(), [1, 2, 3])
        counts = [entry["pseudo_label_counts"][label] for entry in entries]
        assert_allclose(line.get_ydata(), np.divide(counts, fitted.sample_sizes_))
    dashed = [line for line in display.ax_.lines if line.get_linestyle() == "--"]
    assert_allclose([line.get_ydata()[0] for line in dashed[:3]], fitted.class_shares_)
    assert legend_of(display) == ["a", "b", "c", "among the labelled rows"]
    assert display.figure_ is display.ax_.figure
    assert PseudoLabelDisplay([1, 2], {"a": [0.5, 1]}).plot(display.ax_).ax_ is display.ax_


def test_the_legend_shows_every_class_as_it_is_spelled():
    # matplotlib hides names that begin with "_", and reads formulas between dollars
    classes = ["_other", "__", "$5 to $10", "under $5", " a"]
    display = PseudoLabelDisplay([1, 2], {label: [0.1, 0.2] for label in classes}).plot()
    assert legend_of(display) == classes
    display.figure_.draw_without_rendering()
    formula = PseudoLabelDisplay([1, 2], {r"$\b$": [0.5, 1]}, {r"$\b$": 0.5}).plot()
    formula.figure_.draw_without_rendering()
    assert legend_of(formula) == [r"$\b$", "among the labelled rows"]


def test_a_fit_without_pseudo_labels_cannot_be_drawn():
    X, y, _ = points()
    with pytest.raises(ValueError, match="SelfPretrainingClassifier gave no pseudo-labels"):
        PseudoLabelDisplay.from_estimator(self_pretraining(max_iter=0).fit(X, y))
    with pytest.raises(NotFittedError):
        PseudoLabelDisplay.from_estimator(self_pretraining())


def test_matplotlib_is_imported_by_plots_alone(monkeypatch):
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.find_spec("sklearn_spt.inspection")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    display = module.PseudoLabelDisplay([1, 2], {"a": [0.5, 0.6]})
    with pytest.raises(ImportError, match="matplotlib"):
        display.plot()


# -- rows to label next ----------------------------------------------------------------------------
def test_suggested_rows_are_in_doubt_and_spread():
    rng = np.random.default_rng(0)
    doubtful = np.repeat(np.eye(3) * 5, 10, axis=0) + rng.normal(size=(30, 3)) / 10
    X = np.vstack([rng.normal(size=(90, 3)) + 50, doubtful])

    class Margins:
        def predict_proba(self, X):
            p = np.where(X.mean(axis=1) > 20, 0.9, 0.5)
            return np.column_stack([p, 1 - p])

    found = suggest(Margins(), X, n=3)
    assert sorted((found - 90) // 10) == [0, 1, 2], "one row of each group in doubt"
    with pytest.warns(UserWarning, match=r"X holds fewer distinct rows \(1\) than n=12"):
        assert suggest(Margins(), np.ones((30, 2)), n=12).tolist() == [0]


@pytest.mark.parametrize("kind", ["net", "token ids", "embeddings", "words", "numbers"])
def test_copies_are_suggested_once(tiny_encoder, tiny_texts, kind):
    y = [0, 1] * 6 + [-1] * 12
    ids = TokenIdVectorizer(tiny_encoder, max_length=24).fit_transform(tiny_texts)
    X = np.array(tiny_texts, dtype=object)
    if kind == "net":
        model = SelfPretrainingClassifier(bert_net(tiny_encoder), step_size=1.0, random_state=0)
    elif kind == "token ids":
        model, X = SelfPretrainingClassifier(bert_net(tiny_encoder), random_state=0), ids
    elif kind == "numbers":
        model, X = SoftSelfTrainingClassifier(), csr_array(ids / 9)
    else:
        words = kind == "words"
        first = TfidfVectorizer() if words else SentenceEmbedder(tiny_encoder)
        model = make_pipeline(first, SoftSelfTrainingClassifier())
    model.fit(X, y)
    rows = np.repeat(np.arange(12, 24), 30)  # in doubt or not, each row has many copies
    copies = X[rows]
    if kind in ("net", "embeddings", "words"):  # the same to an uncased encoder
        copies[::2] = [text.upper() for text in copies[::2]]
    found = suggest(model, copies, n=5)
    assert len(set(rows[found].tolist())) == 5
    message = r"X holds fewer distinct rows \(12\) than n=40"
    with pytest.warns(UserWarning, match=message) as caught:
        found = suggest(model, copies, n=40)
    assert sorted(rows[found]) == list(range(12, 24))
    assert caught[0].filename == __file__
    assert sorted(suggest(model, X[12:], n=12)) == list(range(12))


def test_a_pipeline_of_one_step_is_its_classifier():
    X, y, _ = points()
    model = make_pipeline(SoftSelfTrainingClassifier()).fit(X, y)
    np.testing.assert_array_equal(suggest(model, X, n=3), suggest(model[-1], X, n=3))


def test_rows_are_suggested_by_any_classifier(tiny_encoder, tiny_texts):
    y = [0, 1] * 6 + [-1] * 12
    linear = make_pipeline(SentenceEmbedder(tiny_encoder), SoftSelfTrainingClassifier())
    with pytest.raises(ValueError, match="n == 13, must be <= 12"):
        suggest(linear.fit(tiny_texts, y), tiny_texts[12:], n=13)
    voting = VotingClassifier([("a", bert_net(tiny_encoder)), ("b", linear)], voting="soft")
    assert len(suggest(voting.fit(tiny_texts[:12], y[:12]), tiny_texts[12:], n=4)) == 4
    wide = bert_net(tiny_encoder, max_length=64)
    views = CoDecompositionClassifier(wide, max_iter=1, threshold=0.5)
    long = pd.DataFrame({"text": [" ".join([text] * 3) for text in tiny_texts], "words": "flu"})
    assert len(suggest(views.set_params(random_state=0).fit(long, y), long[12:], n=4)) == 4
    sparse = csr_array(np.vander(np.arange(24) / 24, 3))
    linear_model = LogisticRegression().fit(sparse[:12], y[:12])
    assert len(suggest(linear_model, sparse[12:], n=4)) == 4


# -- the report of a fit ---------------------------------------------------------------------------
@pytest.fixture(scope="module")
def texts():
    got, skipped = "i got the flu shot at the clinic <b>today", "we never want a needle & a shot"
    return [f"{(got, skipped)[i % 2]} {'again ' * (i // 2 % 20)}".strip() for i in range(40)]


@pytest.fixture(scope="module")
def of_texts(tiny_encoder, texts):
    """A fit on texts, with labels that look like HTML."""
    y = ["?" if i >= 16 else ("<yes>", "no & no")[i % 2] for i in range(40)]
    settings = {"step_size": 0.5, "finetune_epochs": 1, "unlabeled_marker": "?", "random_state": 0}
    net = bert_net(tiny_encoder, max_length=40, lr=2e-3)
    return SelfPretrainingClassifier(net, **settings).fit(texts, y)


def test_report_says_what_the_fit_did(fitted):
    report = FitReport.from_estimator(fitted)
    given = fitted.transduction_[fitted.labeled_iter_ == 0].tolist()
    counts = ", ".join(f"{label}: {given.count(label)}" for label in "abc")
    assert report.facts["labelled rows"] == f"{len(given)} ({counts})"
    assert report.facts["unlabelled rows"] == "62, of which 62 have a pseudo-label"
    assert report.facts["iterations"] == "3; every unlabelled row got a pseudo-label"
    assert report.facts["nets that predict"] == "3"
    for entry, (_, row) in zip(fitted.history_, report.history.iterrows(), strict=True):
        counts = entry.get("pseudo_label_counts", dict.fromkeys("abc", 0))
        assert row[list("abc")].to_dict() == counts
        assert row["seconds"] == entry["seconds"]
    assert all(line in str(report) for line in ("labelled rows", "3; every", "compare_with_super"))
    assert len(report.doubtful) == 0
    minutes = FitReport.from_estimator(with_seconds(fitted, 90.0))
    assert minutes.facts["time"] == "6.0 minutes"
    assert FitReport.from_estimator(with_seconds(fitted, 4.0)).facts["time"] == "16 seconds"


def with_seconds(fitted, seconds):
    other = self_pretraining()
    other.__dict__.update(vars(fitted))
    other.history_ = [{**entry, "seconds": seconds} for entry in fitted.history_]
    return other


def test_report_of_a_fit_without_iterations():
    X, y, _ = points()
    report = FitReport.from_estimator(self_pretraining(max_iter=0).fit(X, y), X)
    assert report.facts["iterations"] == "0; max_iter was reached"
    assert len(report.doubtful) == 20
    assert (report.doubtful["pseudo-label"] == "").all()


@pytest.mark.parametrize("container", [list, pd.Series, lambda texts: pd.DataFrame({"t": texts})])
def test_texts_in_doubt(of_texts, texts, container):
    found = FitReport.from_estimator(of_texts, container(texts), n_texts=10).doubtful
    P = of_texts.predict_proba(texts)
    predicted = of_texts.classes_[P.argmax(axis=1)]
    assert len(found) == len(set(found["row"])) == 10
    assert (found["row"] >= 16).all()
    for row in found.itertuples():
        assert row.text == texts[row.row]
        assert row.predicted == predicted[row.row]
        assert row.probability == pytest.approx(P[row.row].max(), abs=1e-6)
    assert (found["pseudo-label"] == of_texts.transduction_[found["row"]]).all()
    # the first are rows whose pseudo-label is no longer predicted; the others are closest to a tie
    changed = np.flatnonzero((of_texts.transduction_ != predicted) & (np.arange(40) >= 16))
    first = min(5, len(changed))
    assert set(found["row"][:first]) <= set(changed)
    others = np.setdiff1d(np.arange(16, 40), found["row"])
    assert P[others].max(axis=1).min() >= found["probability"][first:].max() - 1e-6


def test_page_is_complete_and_escapes_labels_and_texts(of_texts, texts, tmp_path):
    report = FitReport.from_estimator(of_texts, texts, n_texts=50)
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(html.escape(text) in page for text in texts[16:])
    assert "&lt;yes&gt;" in page
    assert not re.search(r"<b>|<yes>|no & no|<script|<link|<img|http|src=|href=", page)
    assert report._repr_html_() in page
    assert max(map(len, str(report).splitlines())) <= 100


def test_input_that_cannot_be_reported(of_texts, texts):
    with pytest.raises(ValueError, match=r"must hold the 40 rows of the fit, .*; got 39"):
        FitReport.from_estimator(of_texts, texts[1:])
    for other in (SelfPretrainingClassifier(), BertClassifier(), LogisticRegression()):
        with pytest.raises(NotFittedError):
            FitReport.from_estimator(other)
    soft = SoftSelfTrainingClassifier().fit([[0.0], [1.0], [1.0]] * 2, [0, 1, -1] * 2)
    with pytest.raises(TypeError, match="a SoftSelfTrainingClassifier has no iterations"):
        FitReport.from_estimator(soft)
