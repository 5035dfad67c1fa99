"""The report of a fit."""

from __future__ import annotations

import copy
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from helpers.nets import bert_net, mlp_net
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_spt import (
    BertClassifier,
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    ThrottledSelfTrainingClassifier,
    TokenIdVectorizer,
)
from sklearn_spt.inspection import FitReport


class Page(HTMLParser):
    """Collects the tags, attributes and texts of a page; `open` is empty if all tags are closed."""

    void = ("meta", "br")

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip() and self.open[-1] != "style":
            self.texts.append(data.strip())


@pytest.fixture(scope="module")
def doubtful(tiny_encoder):
    """A fit on half-labelled texts, with labels and texts that look like HTML."""
    got, skipped = "i got the flu shot <b>today</b>", "we never want a needle & a shot"
    texts = [f"{(got, skipped)[i % 2]} {'again ' * (i // 2 % 5)}" for i in range(40)]
    y = np.array(["<yes>", "no & no"], dtype=object)[np.arange(40) % 2]
    y[16:] = -1
    net = bert_net(tiny_encoder, lr=2e-3)
    clf = SelfPretrainingClassifier(net, step_size=0.5, finetune_epochs=1, random_state=0)
    return clf.fit(texts, y), texts


def test_the_page_is_complete_and_needs_nothing_else(fitted, tmp_path):
    FitReport.from_estimator(fitted).save(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert page.open == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not {"src", "href", "onclick"} & {name for name, _ in page.attributes}
    assert "url(" not in html
    assert "http" not in html
    for entry in fitted.history_[1:]:
        assert f"{entry['sample_size']:,}" in page.texts
    for title in ("Pseudo-labels", "Losses", "Seconds", "Did it help?"):
        assert title in page.texts


def test_bars_are_the_shares_of_the_pseudo_labels(fitted):
    html = FitReport.from_estimator(fitted)._repr_html_()
    bars = re.findall(r"<svg.*?</svg>", html, re.S)
    assert len(bars) == fitted.n_iter_
    for bar, entry in zip(bars, fitted.history_[1:], strict=True):
        widths = [float(width) for width in re.findall(r'width="([\d.]+)"', bar)]
        counts = np.array(list(entry["pseudo_label_counts"].values()))
        np.testing.assert_allclose(widths, 100 * counts / counts.sum(), atol=1e-3)


def test_the_notebook_gets_styles_for_the_report_alone(fitted):
    html = FitReport.from_estimator(fitted)._repr_html_()
    style = re.search(r"<style>(.*?)</style>", html, re.S)[1]
    selectors = [s for rule in re.findall(r"([^{}]+)\{", style) for s in rule.split(",")]
    assert selectors
    assert all(s.strip().startswith((".spt-report", "@media")) for s in selectors)
    assert "<html" not in html


def test_the_text_form(fitted):
    text = str(FitReport.from_estimator(fitted))
    labels = fitted.transduction_[:40].tolist()
    for part in (
        f"labelled rows      40 (0: {labels.count(0)}, 1: {labels.count(1)})",
        "unlabelled rows    100, of which 100 got a pseudo-label",
        "iterations         2 (ended by all_labeled)",
        "iteration 2: 100 pseudo-labels",
        "compare_with_supervised(clf, X, y)",
    ):
        assert part in text
    assert "<" not in text.split("\n", 1)[1]
    assert repr(FitReport.from_estimator(fitted)).startswith("<FitReport of SelfPretraining")


@pytest.mark.filterwarnings("ignore:the unlabelled documents did not help")
def test_held_out_scores_are_told_with_their_limits(numbers):
    X, y = numbers
    partial = np.where(np.arange(200) < 60, y, -1)
    clf = SelfPretrainingClassifier(
        mlp_net(module__n_in=8), step_size=0.5, validation_fraction=0.3, random_state=0
    )
    clf.fit(X.astype(np.float32), partial)
    scores = [entry["validation_score"] for entry in clf.history_]
    helped = FitReport.from_estimator(clf).helped
    outcome = "more than" if max(scores[1:]) > scores[0] else "no more than"
    assert f"scores {max(scores[1:]):.3f}, {outcome} the supervised start" in helped
    assert "too high" in helped
    assert "compare_with_supervised" in helped


# -- texts ---------------------------------------------------------------------------------------
def test_no_text_is_shown_unless_asked_for(doubtful):
    clf, texts = doubtful
    report = FitReport.from_estimator(clf)
    assert report.disputed == report.least_sure == []
    shown = report._repr_html_() + str(report)
    assert "needle" in " ".join(texts)
    assert "needle" not in shown
    assert "flu shot" not in shown


def test_texts_in_doubt(doubtful):
    clf, texts = doubtful
    report = FitReport.from_estimator(clf, texts=texts, n_texts=50)
    P = clf.predict_proba(texts)
    by_net = [net.predict(texts) for net in clf.estimators_]
    found = report.disputed + report.least_sure
    assert sorted(d.row for d in found) == list(range(16, 40))
    for rows, agree in ((report.disputed, False), (report.least_sure, True)):
        assert [d.probability for d in rows] == sorted(d.probability for d in rows)
        for d in rows:
            assert d.by_net == [labels[d.row] for labels in by_net]
            assert (len(set(d.by_net)) == 1) == agree
            assert d.predicted == clf.classes_[P[d.row].argmax()]
            assert d.probability == pytest.approx(P[d.row].max(), abs=1e-6)
            assert d.pseudo_label == clf.transduction_[d.row]
            assert d.text == " ".join(texts[d.row].split())
    few = FitReport.from_estimator(clf, texts=texts, n_texts=2)
    assert few.least_sure == report.least_sure[:2]


def test_labels_and_texts_are_escaped(doubtful):
    clf, texts = doubtful
    html = FitReport.from_estimator(clf, texts=texts)._repr_html_()
    page = Page(html)
    assert "b" not in page.tags
    assert "yes" not in page.tags
    assert "&lt;yes&gt;" in html
    assert any("<b>today</b>" in text for text in page.texts)


# -- other classifiers ---------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [ThrottledSelfTrainingClassifier, MutualLearningClassifier])
def test_other_methods(tiny_encoder, tiny_texts, kind):
    params = {"threshold": 0.5, "n_iterations": 1} if "Throttled" in kind.__name__ else {}
    clf = kind(bert_net(tiny_encoder), random_state=0, **params)
    clf.fit(tiny_texts, [1, 0] * 6 + [-1] * 12)
    report = FitReport.from_estimator(clf, texts=tiny_texts)
    assert Page(report._repr_html_()).open == []
    assert f"iterations         {clf.n_iter_} (ended by {clf.termination_condition_})" in str(
        report
    )


def test_the_run_that_chose_the_number_of_iterations_counts(fitted):
    clf = copy.copy(fitted)
    clf.selection_history_ = [
        {"iteration": t, "validation_score": score, "seconds": {"training": 1000.0}}
        for t, score in enumerate((0.25, 0.5))
    ]
    report = FitReport.from_estimator(clf)
    assert "iteration scores 0.500, more than the supervised start with 0.250" in report.helped
    assert float(report.facts["time"].replace(",", "").split()[0]) >= 2000


def test_a_pipeline(tiny_encoder, tiny_texts):
    net = bert_net(tiny_encoder)
    steps = (
        TokenIdVectorizer(tiny_encoder, max_length=24),
        SelfPretrainingClassifier(net, step_size=1.0, alpha=0.0, random_state=0),
    )
    pipeline = make_pipeline(*steps).fit(tiny_texts, [1, 0] * 4 + [-1] * 16)
    report = FitReport.from_estimator(pipeline, texts=tiny_texts)
    assert {d.row for d in report.disputed + report.least_sure} <= set(range(8, 24))
    assert "16, of which 16 got a pseudo-label" in str(report)


# -- wrong input ---------------------------------------------------------------------------------
def test_a_pipeline_of_one_step(doubtful):
    clf, texts = doubtful
    report = FitReport.from_estimator(make_pipeline(clf), texts=texts)
    assert str(report) == str(FitReport.from_estimator(clf, texts=texts))


def test_wrong_input_is_named(fitted, doubtful, tmp_path):
    clf, texts = doubtful
    for other in (BertClassifier(), make_pipeline(StandardScaler())):
        with pytest.raises(TypeError, match=r"clf must be .* got (Bert|StandardScaler)"):
            FitReport.from_estimator(other)
    with pytest.raises(NotFittedError, match="not fitted"):
        FitReport.from_estimator(SelfPretrainingClassifier())
    with pytest.raises(ValueError, match=r"texts must hold the 40 rows .* got 39"):
        FitReport.from_estimator(clf, texts=texts[1:])
    with pytest.raises(TypeError, match="texts must hold the texts of the fit, got ndarray"):
        FitReport.from_estimator(clf, texts=np.zeros((40, 2)))
    with pytest.raises(ValueError, match="n_texts must be at least 1"):
        FitReport.from_estimator(clf, texts=texts, n_texts=0)
    with pytest.raises(FileNotFoundError):
        FitReport.from_estimator(fitted).save(tmp_path / "nowhere" / "report.html")
