"""Figures of records."""

from __future__ import annotations

import sys

import pytest
from helpers.figures import names_of, overlaps
from records import record

from sklearn_spt.experiments._arguments import PLOTS
from sklearn_spt.experiments._plots import draw, make_plot


def grid(**params):
    """Records of three seeds for each of some values of a parameter."""
    ((name, values),) = params.items()
    return [
        record(seed=seed, f1=0.5 + 0.01 * seed, params={} if v is None else {name: v})
        for v in values
        for seed in range(3)
    ]


RIVALS = [
    record(method, seed, 0.5 + 0.01 * seed * i)
    for i, method in enumerate(("embeddings_lr", "baseline", "setfit", "self_pretraining"))
    for seed in range(3)
]
RECORDS = {
    "iterations": grid(step_size=[0.5, None, 100]),
    "schedule": [],
    "pseudo_labels": [record(seed=seed) for seed in range(3)],
    "learning_curve": [
        record(method, seed, n_labeled=n)
        for method in ("baseline", "embeddings_lr", "self_pretraining")
        for seed in range(2)
        for n in (100, 300, 500)
    ],
    "gains": RIVALS,
    "ranks": RIVALS,
    "choices": grid(lam=[None, 0.1, 0.5]),
}


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_writes_a_file_and_the_same_one_again(suffix, start, tmp_path):
    records = RECORDS["iterations"]
    first = make_plot("iterations", records, tmp_path / "new" / f"one{suffix}")
    second = make_plot("iterations", records, str(tmp_path / f"two{suffix}"))
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("kind", PLOTS)
def test_texts_do_not_overlap(kind):
    import matplotlib.pyplot as plt

    figure = draw(kind, RECORDS[kind])
    assert overlaps(figure) == []
    title = figure.axes[0].get_title(loc="left")
    assert ("the paper's last iteration" if kind == "schedule" else "illness") in title
    assert plt.get_fignums() == []  # none stays open


def test_long_titles_are_wrapped():
    name = "a_file_with_a_very_long_name_" * 2
    figure = draw("pseudo_labels", [record("sklearn_self_training", dataset=name)])
    assert overlaps(figure) == []
    assert "\n" in figure.axes[0].get_title(loc="left")


def test_suffix_kind_and_installation_are_checked(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"path must end in .png, .svg, .pdf; got 'figure.gif'"):
        make_plot("iterations", RECORDS["iterations"], tmp_path / "figure.gif")
    with pytest.raises(ValueError, match="kind must be one of 'iterations', 'schedule'"):
        draw("violin", [record()])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"sklearn-spt\[plot\]"):
        draw("schedule", [])


def test_default_values_are_in_the_legend():
    (ax,) = draw("iterations", RECORDS["iterations"]).axes
    assert names_of(ax) == ["0.05", "0.2", "0.5"]
    assert ax.get_title(loc="left").startswith("illness, Self-Pretraining, 300")


def test_iterations_of_several_methods():
    (ax,) = draw("iterations", [record(), record("no_inertia")]).axes
    assert names_of(ax) == ["Self-Pretraining", "without inertial transform"]
    records = [*grid(lam=[0.1, None]), record("no_inertia")]
    with pytest.raises(ValueError, match=r"differ in .*method.*--select"):
        draw("iterations", records)
    (ax,) = draw("iterations", records, where={"method": "self_pretraining"}).axes
    assert names_of(ax) == ["0.1", "0.3"]


def test_learning_curve_takes_the_default_parameters():
    records = [*RECORDS["learning_curve"], record(f1=0.9, params={"lam": 0.9})]
    (ax,) = draw("learning_curve", records).axes
    names = ["frozen embeddings + logistic regression", "Baseline", "Self-Pretraining"]
    assert names_of(ax) == names
    assert max(ax.lines[-1].get_ydata()) == pytest.approx(0.6)
    (ax,) = draw("learning_curve", records, metric="macro_f1").axes
    assert ax.get_ylabel().startswith("macro-F1")
    assert ax.lines[0].get_ydata() == pytest.approx([0.65] * 3)


def test_gains_are_over_the_given_method():
    (ax,) = draw("gains", RIVALS, against="setfit").axes
    assert "over SetFit" in ax.get_xlabel()
    names = ["frozen embeddings + logistic regression", "Baseline", "Self-Pretraining"]
    assert names_of(ax) == names


def test_validation_rows_are_named_and_not_mixed_with_test_rows():
    validated = [record(m, n_validation=800) for m in ("baseline", "setfit")]
    assert "validation texts" in draw("gains", validated).axes[0].get_title(loc="left")
    tested = [record(m, dataset="psytar") for m in ("baseline", "setfit")]
    with pytest.raises(ValueError, match="the cells differ in n_validation"):
        draw("gains", [*tested, *validated])


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("ranks", "metric", "brier"),
        ("choices", "against", "setfit"),
        ("schedule", "against", "setfit"),
    ],
)
def test_options_of_other_figures_are_refused(kind, name, value):
    with pytest.raises(ValueError, match=f"^{name}={value!r} is for .* alone, not {kind!r}"):
        draw(kind, [], **{name: value})


def test_the_schedule_is_that_of_the_paper():
    # 10,000 texts in batches of 32, and 500 three times
    (ax,) = draw("schedule", []).axes
    assert [len(line.get_xdata()) for line in ax.lines[:2]] == [313 + 48] * 2


def test_pseudo_labels_have_a_second_panel_with_inertia():
    figure = draw("pseudo_labels", RECORDS["pseudo_labels"])
    assert [ax.get_xlabel() for ax in figure.axes] == ["", "iteration"]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    without = record("self_training")
    for entry in without["history"]:
        entry.pop("groups_before", None)
    (ax,) = draw("pseudo_labels", [without]).axes
    assert names_of(ax) == ["0", "1"]


@pytest.mark.parametrize("kind", [kind for kind in PLOTS if kind != "schedule"])
def test_nothing_finished(kind):
    with pytest.raises(ValueError, match=f"no finished record for the figure '{kind}'"):
        draw(kind, [])
    with pytest.raises(ValueError, match="all 1 have failed"):
        draw(kind, [record(status="failed")])
