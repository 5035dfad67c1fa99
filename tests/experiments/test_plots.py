from __future__ import annotations

import sys

import pytest
from helpers.figures import overlaps, texts_of
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


def legend_of(figure, panel=0):
    return [text.get_text() for text in figure.axes[panel].get_legend().get_texts()]


RIVALS = [
    record(method, seed, 0.5 + 0.01 * seed * i)
    for i, method in enumerate(("embeddings_lr", "baseline", "setfit", "self_pretraining"))
    for seed in range(3)
]
RECORDS = {
    "iterations": grid(step_size=[0.5, None, 100]),
    "schedule": [record()],
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


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_writes_a_file_and_the_same_one_again(suffix, tmp_path):
    records = RECORDS["iterations"]
    first = make_plot("iterations", records, tmp_path / "new" / f"one{suffix}")
    second = make_plot("iterations", records, str(tmp_path / f"two{suffix}"))
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("kind", PLOTS)
def test_texts_do_not_overlap(kind):
    figure = draw(kind, RECORDS[kind])
    assert overlaps(figure) == []
    assert "illness" in figure.axes[0].get_title(loc="left")


def test_no_figure_stays_open():
    import matplotlib.pyplot as plt

    draw("schedule", [record()])
    assert plt.get_fignums() == []


def test_suffix_and_kind_are_checked(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in .png, .svg, .pdf; got 'figure.gif'"):
        make_plot("iterations", RECORDS["iterations"], tmp_path / "figure.gif")
    with pytest.raises(ValueError, match="kind must be one of 'iterations', 'schedule'"):
        draw("violin", [record()])
    assert list(tmp_path.iterdir()) == []


def test_default_values_are_in_the_legend():
    figure = draw("iterations", RECORDS["iterations"])
    assert legend_of(figure) == ["0.05", "0.2", "0.5"]
    assert figure.axes[0].get_title(loc="left").startswith("illness, Self-Pretraining, 300")


def test_iterations_of_several_methods():
    figure = draw("iterations", [record(), record("no_inertia")])
    assert sorted(legend_of(figure)) == ["Self-Pretraining", "without inertial transform"]


def test_iterations_of_methods_and_values_need_a_choice():
    records = [*grid(lam=[0.1, None]), record("no_inertia")]
    with pytest.raises(ValueError, match=r"differ in .*method.*--select"):
        draw("iterations", records)
    figure = draw("iterations", records, where={"method": "self_pretraining"})
    assert legend_of(figure) == ["0.1", "0.3"]


def test_learning_curve_takes_the_default_parameters():
    records = [*RECORDS["learning_curve"], record(f1=0.9, params={"lam": 0.9})]
    figure = draw("learning_curve", records)
    names = ["frozen embeddings + logistic regression", "Baseline", "Self-Pretraining"]
    assert legend_of(figure) == names
    assert max(figure.axes[0].lines[-1].get_ydata()) == pytest.approx(0.6)


def test_gains_are_over_the_given_method():
    figure = draw("gains", RECORDS["gains"], against="setfit")
    assert "over SetFit" in figure.axes[0].get_xlabel()
    assert legend_of(figure) == [
        "frozen embeddings + logistic regression",
        "Baseline",
        "Self-Pretraining",
    ]


def test_the_title_names_validation_texts():
    figure = draw("gains", [record(m, n_validation=800) for m in ("baseline", "setfit")])
    assert "validation texts" in figure.axes[0].get_title(loc="left")


def test_metric():
    figure = draw("learning_curve", RECORDS["learning_curve"], metric="macro_f1")
    assert figure.axes[0].get_ylabel().startswith("macro-F1")
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx([0.65] * 3)


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("ranks", {"metric": "brier"}),
        ("choices", {"metric": "f1"}),
        ("choices", {"against": "setfit"}),
        ("schedule", {"against": "setfit"}),
    ],
)
def test_options_of_other_figures_are_refused(kind, option):
    ((name, value),) = option.items()
    with pytest.raises(ValueError, match=f"^{name}={value!r} is for .* alone, not {kind!r}"):
        draw(kind, [], **option)


def test_gains_on_test_and_validation_rows_are_not_mixed():
    records = [record(m) for m in ("baseline", "setfit")]
    records += [record(m, dataset="psytar", n_validation=800) for m in ("baseline", "setfit")]
    with pytest.raises(ValueError, match="the cells differ in n_validation"):
        draw("gains", records)


def test_schedule_without_records_is_that_of_the_paper():
    figure = draw("schedule", [])
    # 10,000 texts in batches of 32, and 500 three times
    assert [len(line.get_xdata()) for line in figure.axes[0].lines[:2]] == [313 + 48] * 2
    assert overlaps(figure) == []


def test_pseudo_labels_of_a_method_without_inertia():
    one = record("self_training")
    for entry in one["history"]:
        entry.pop("groups_before", None)
    figure = draw("pseudo_labels", [one])
    assert len(figure.axes) == 1
    assert legend_of(figure) == ["0", "1"]


def test_panels_share_their_axis():
    figure = draw("pseudo_labels", RECORDS["pseudo_labels"])
    assert [ax.get_xlabel() for ax in figure.axes] == ["", "iteration"]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


@pytest.mark.parametrize("kind", [kind for kind in PLOTS if kind != "schedule"])
def test_nothing_finished(kind):
    with pytest.raises(ValueError, match=f"no finished record for the figure '{kind}'"):
        draw(kind, [])
    with pytest.raises(ValueError, match="all 1 have failed"):
        draw(kind, [record(status="failed")])


def test_long_titles_are_wrapped():
    records = [record("sklearn_self_training", dataset="a_file_with_a_very_long_name_" * 2)]
    figure = draw("pseudo_labels", records)
    assert overlaps(figure) == []
    assert len(texts_of(figure)) > 5


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"sklearn-spt\[plot\]"):
        draw("schedule", [])
