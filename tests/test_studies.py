"""The programs in examples/studies run, and train the nets that they say."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.methods import half_labeled
from helpers.nets import bert_net
from scipy.stats import sem
from scipy.stats import t as student_t
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import f1_score
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils import Bunch

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.experiments._split_protocol import cut

FOLDER = Path(__file__).parents[1] / "examples" / "studies"


@pytest.fixture
def program(monkeypatch, tiny_encoder):
    """The study, with two starts of a tiny encoder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    modules = ("gain_study", "_gain_fits", "_alignment", "_gain_report", "_gain_tasks")
    program, fits, *_ = map(importlib.import_module, modules)
    for module in (program, fits):
        monkeypatch.setattr(module, "BertClassifier", lambda n_threads: bert_net(tiny_encoder))
        monkeypatch.setattr(module, "N_STARTS", 2)
    yield program
    for name in modules:
        sys.modules.pop(name)


@pytest.fixture
def fits(program):
    """The arms that fit a classifier."""
    return importlib.import_module("_gain_fits")


@pytest.fixture
def reports(program):
    """The records and reports of the study."""
    return importlib.import_module("_gain_report")


@pytest.fixture
def tasks(program):
    """The tasks of the study."""
    return importlib.import_module("_gain_tasks")


def test_arms_of_starts_and_students(program, tiny_encoder, tiny_texts):
    y, seed = half_labeled(24), 3
    split = SimpleNamespace(texts=tiny_texts, y=y, texts_test=tiny_texts[:5])
    cell = SimpleNamespace(seed=seed, scratch=None, draw=lambda: (split, y))
    found = program.ensemble_first(cell) | program.halves(cell)
    assert list(found) == ["start0", "start1", "student0", "student1", "by halves"]
    assert len({P.tobytes() for P in found.values()}) == 5
    for number, P in program.nets(cell).items():
        np.testing.assert_array_equal(P, found[number])
    one = SelfPretrainingClassifier(
        bert_net(tiny_encoder), max_iter=0, logit_adjustment=0.0, random_state=1000 * seed + 1
    )
    expected = one.fit(tiny_texts, y).predict_proba(tiny_texts[:5])
    np.testing.assert_allclose(found["start1"], expected, atol=1e-7)


def test_halves_label_each_other(program, tiny_encoder, tiny_texts, monkeypatch):
    y, taught = half_labeled(24), []
    split = SimpleNamespace(texts=tiny_texts, y=y, texts_test=tiny_texts[:5])
    students = program.Study.students

    def noted(study, t, rows, P, q, n):
        nets = students(study, t, rows, P, q, n)
        taught.append((rows, P, q, study.soft(nets[0], study.labels.X_unlabeled)))
        return nets

    monkeypatch.setattr(program.Study, "students", noted)
    found = program.cross_fitting(SimpleNamespace(seed=3, scratch=None, draw=lambda: (split, y)))
    (one, P1, q, of_one), (two, P2, _, of_two), (_, P, plain_q, _), (_, crossed, Q, _) = taught
    np.testing.assert_array_equal(np.sort([*one, *two]), np.arange(y.count(-1)))
    assert abs(len(one) - len(two)) <= 1
    np.testing.assert_array_equal((P[one], P[two]), (P1, P2))
    np.testing.assert_allclose(crossed[one], of_two[one], atol=1e-7)
    np.testing.assert_allclose(crossed[two], of_one[two], atol=1e-7)
    assert plain_q is q is not Q
    starts = found["start0"] + found["start1"]
    np.testing.assert_allclose(
        found["students of halves, and the starts as one"],
        (starts / 2 + found["student of half 0"] + found["student of half 1"]) / 3,
    )
    np.testing.assert_allclose(
        found["plain student, and the starts as one"], (starts / 2 + found["plain student"]) / 2
    )


def test_labels_at_random_stay_within_the_same_texts(tasks, monkeypatch):
    target = np.repeat([0, 1], [700, 300])
    bunch = Bunch(
        data=np.array([f"text {i}" for i in range(1000)], dtype=object),
        target=target,
        target_names=["0", "1"],
    )
    monkeypatch.setattr(tasks, "bunch_of", lambda task: bunch)
    monkeypatch.setattr(tasks, "cut", lambda bunch, *sizes: cut(bunch, 400))
    cells = [tasks.Cell("psytar:INF", seed, None, 100, 300) for seed in range(20)]
    shares = []
    for cell in cells:
        by_class, truth = cell.draw()
        at_random, same = replace(cell, by_class=False).draw()
        np.testing.assert_array_equal(at_random.texts, by_class.texts)
        np.testing.assert_array_equal(truth, same)
        for split in (by_class, at_random):
            labeled = split.y >= 0
            assert labeled.sum() == 100
            np.testing.assert_array_equal(split.y[labeled], truth[labeled])
        assert by_class.y[by_class.y >= 0].mean() == 0.3
        shares.append(at_random.y[at_random.y >= 0].mean())
    assert 0.2 < min(shares) < 0.3 < max(shares) < 0.4


def test_students_that_learn_longer_from_deletions(program, tiny_encoder, tiny_texts, monkeypatch):
    y, trained = half_labeled(24), []
    split = SimpleNamespace(texts=tiny_texts, y=y, texts_test=tiny_texts[:5])
    settings = bert_net(tiny_encoder).get_params(deep=False)
    given = {k: v for k, v in settings.items() if k in program.Deletion().get_params(deep=False)}

    class Noted(program.Deletion):
        def infer(self, x, **fit_params):
            if self.on_pseudo_labels():
                trained.append(self.max_epochs)
            return super().infer(x, **fit_params)

    monkeypatch.setattr(program, "Deletion", lambda n_threads: Noted(**given))
    found = program.longer(SimpleNamespace(seed=3, scratch=None, draw=lambda: (split, y)))
    assert list(found) == ["start0", "start1", *(f"{n} epochs, student 0" for n in (1, 2, 4))]
    assert len({P.tobytes() for P in found.values()}) == 5
    assert [trained.count(n) / trained.count(1) for n in (1, 2, 4)] == [1, 2, 4]
    trained.clear()
    four = program.four_students(SimpleNamespace(seed=3, scratch=None, draw=lambda: (split, y)))
    *nets, together = four.values()
    assert list(four)[2:-1] == [f"4 epochs, student {i}" for i in range(4)]
    assert set(trained) == {4}
    np.testing.assert_array_equal(four["4 epochs, student 0"], found["4 epochs, student 0"])
    np.testing.assert_allclose(together, (np.mean(nets[:2], axis=0) + sum(nets[2:])) / 5)
    trained.clear()
    whole = program.whole_texts(SimpleNamespace(seed=3, scratch=None, draw=lambda: (split, y)))
    assert list(whole) == ["start0", "start1", "whole texts"]
    assert trained == []
    np.testing.assert_array_equal(whole["start1"], found["start1"])
    assert not np.array_equal(whole["whole texts"], found["4 epochs, student 0"])


@pytest.mark.parametrize("K", [2, 3])
def test_aligned_labels_have_the_shares(program, K):
    rng = np.random.default_rng(0)
    P, shares = (
        rng.dirichlet(np.linspace(2, 0.5, K), size=200),
        np.arange(1, K + 1) / sum(range(K + 1)),
    )
    whole, half = (program.aligned(P, shares, strength) for strength in (1, 0.5))
    np.testing.assert_allclose(whole.mean(axis=0), shares, atol=1e-5)
    np.testing.assert_allclose(program.aligned(P, shares, 0), P)
    # half of the way, in logits
    np.testing.assert_allclose(
        half**2 / (half**2).sum(axis=1, keepdims=True),
        np.divide(P * whole, (P * whole).sum(axis=1, keepdims=True)),
    )
    drawn = np.array([program.drawn_classes(P, rng) for _ in range(1000)])
    np.testing.assert_allclose((drawn[..., None] == np.arange(K)).mean(axis=0), P, atol=0.08)


def test_students_of_aligned_labels(program, tiny_encoder, tiny_texts, monkeypatch):
    y, taught = half_labeled(24), []
    split = SimpleNamespace(texts=tiny_texts, y=y, texts_test=tiny_texts[:5])
    students = program.Study.students

    def noted(study, t, rows, P, q, n):
        codes = program._trainer.predicted_classes(P)
        taught.append((study.pretrain_epochs, len(rows), P, codes))
        return students(study, t, rows, P, q, n)

    monkeypatch.setattr(program.Study, "students", noted)
    monkeypatch.setattr(program, "Deletion", lambda n_threads: bert_net(tiny_encoder))
    cell = SimpleNamespace(seed=3, scratch=None, draw=lambda: (split, y))
    found = program.alignment(cell)
    assert list(found) == ["start0", "start1", "half aligned", "aligned", "drawn by soft labels"]
    assert len({P.tobytes() for P in found.values()}) == 5
    assert {facts[:2] for facts in taught} == {(4, y.count(-1))}
    shares = np.bincount([c for c in y if c >= 0]) / len([c for c in y if c >= 0])
    (_, _, half, _), (_, _, whole, _), (_, _, U, codes) = taught
    np.testing.assert_allclose(whole, program.aligned(U, shares, 1))
    np.testing.assert_allclose(half, program.aligned(U, shares, 0.5))
    expected = program.drawn_classes(U, np.random.default_rng(3))
    np.testing.assert_array_equal(codes, expected)
    assert program._trainer.predicted_classes(U).tolist() == U.argmax(axis=1).tolist()


def test_students_of_more_texts(program, tiny_encoder, tiny_texts, monkeypatch):
    y, taught = half_labeled(24), []
    split = SimpleNamespace(texts=tiny_texts, y=y, texts_test=tiny_texts[:5])
    students = program.Study.students

    def noted(study, t, rows, P, q, n):
        taught.append((len(rows), study.pretrain_epochs, P))
        return students(study, t, rows, P, q, n)

    monkeypatch.setattr(program.Study, "students", noted)
    monkeypatch.setattr(program, "N_FIRST", 4)
    monkeypatch.setattr(program, "Deletion", lambda n_threads: bert_net(tiny_encoder))
    cell = SimpleNamespace(task="few", seed=3, scratch=None, draw=lambda: (split, y))
    found = program.more_texts(cell)
    n = y.count(-1)
    assert [facts[:2] for facts in taught] == [(4, 1), (4, 4), (n, 1)]
    for _, _, P in taught[:2]:
        np.testing.assert_array_equal(P, taught[2][2][:4])
    names = ["4 texts, epochs: 1", "4 texts, epochs: 4", f"{n} texts, epochs: 1"]
    both = [f"{name}{end}" for name in names for end in ("", ", and the starts as one")]
    assert list(found) == ["start0", "start1", *both]
    starts = (found["start0"] + found["start1"]) / 2
    for name in names:
        expected = (starts + found[name]) / 2
        np.testing.assert_allclose(found[f"{name}, and the starts as one"], expected)
    monkeypatch.setattr(program, "N_FIRST", n)
    with pytest.raises(ValueError, match=f"few has {n} texts, not over {n}"):
        program.more_texts(cell)


def test_the_confirming_arm_has_the_starts_and_what_a_user_gets(fits, tiny_encoder, tiny_texts):
    y = half_labeled(24)
    split = SimpleNamespace(texts=tiny_texts, y=y, texts_test=tiny_texts[:5])
    found = fits.confirm(SimpleNamespace(seed=3, draw=lambda: (split, y)))
    assert list(found) == ["start0", "start1", "five starts"]
    clf = SelfPretrainingClassifier(
        bert_net(tiny_encoder), n_starts=2, step_size=1 / 3, random_state=3
    )
    clf.fit(tiny_texts, y)
    np.testing.assert_array_equal(found["five starts"], clf.predict_proba(tiny_texts[:5]))
    one = clf.estimators_[0].predict_proba(tiny_texts[:5])
    np.testing.assert_allclose(found["start0"], one, atol=1e-7)


@pytest.mark.parametrize(("task", "n_validation"), [("psytar:INF", None), ("psytar:EF", 1000)])
def test_only_confirming_tasks_are_scored_on_test_rows(tasks, monkeypatch, task, n_validation):
    cuts = []

    def cut(bunch, *parts):
        cuts.append((bunch, *parts))
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "bunch_of", lambda task: task)
    monkeypatch.setattr(tasks, "cut", cut)
    with pytest.raises(KeyboardInterrupt):
        tasks.Cell(task, 0, None).draw()
    assert cuts == [(task, 1000, n_validation)]


def test_the_numbers_of_texts_are_those_of_the_arm(program, fits, reports, tmp_path, monkeypatch):
    cells = []

    def arm(cell):
        cells.append(cell)
        raise KeyboardInterrupt

    monkeypatch.setattr(reports, "RECORDS", tmp_path)
    for name in ("nets", "at_100", "u_300", "random_draw", "u_10000"):
        monkeypatch.setitem(program.ARMS, name, arm)
        with pytest.raises(KeyboardInterrupt):
            program.run(name, ["psytar:EF"], 2, None)
    sizes = [(300, 3000), (100, 3000), (300, 300), (300, 3000), (300, 10_000)]
    assert [(cell.n_labeled, cell.n_unlabeled) for cell in cells] == sizes
    assert [cell.by_class for cell in cells] == [True] * 3 + [False, True]
    assert {cell.seed for cell in cells} == {2}
    monkeypatch.setattr(fits, "defaults", lambda cell: {"defaults": cell.seed})
    assert fits.defaults_with_fewer(cells[2]) == {"defaults, 300 texts": 2}


def test_the_picture_of_the_records(reports, tmp_path, capsys):
    reports.plot(tmp_path / "gains.png")
    assert (tmp_path / "gains.png").stat().st_size > 10_000
    lines = capsys.readouterr().out.splitlines()
    defaults, students, of_f1, students_of_f1 = lines[::3]
    counts = "better than one net on 16 of 17 tasks, and on 7 of the 8 with a star"
    assert defaults == f"the defaults, average precision: {counts}"
    counts = "better than one net on 16 of 16 tasks, and on 8 of the 8 with a star"
    assert students == f"four students of five nets, average precision: {counts}"
    assert of_f1.startswith(
        "the defaults, F1 at the labels' share: better than one net on 15 of 17"
    )
    assert students_of_f1.startswith("four students of five nets, F1 at the labels' share: better")


def test_a_report_without_cells_says_so(reports, tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "RECORDS", tmp_path)
    with pytest.raises(SystemExit, match="No cell is there that all of nets, defaults have"):
        reports.report(["nets", "defaults"], "five nets")


def test_differences_by_task_and_with_related_tasks_as_one(reports, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reports, "RECORDS", tmp_path)
    y = np.arange(40) % 2
    rng = np.random.default_rng(0)
    for task in ("illness_cancer", "illness_cancer@5%", "psytar_EF", "psytar_WD", "phm_tuning"):
        nets = {name: rng.random(40) for name in "ab"}
        facts = {"y": y, "share": np.float64(0.5), "seconds": np.float64(7)}
        reports.write(tmp_path / "nets" / f"{task}_0.npz", nets | facts)
    reports.report(["nets"], "a", "b")
    printed = capsys.readouterr().out
    assert "CPU time of a cell of nets, mean: 7 s" in printed
    lines = printed.partition("Difference of b to a")[2].splitlines()
    d = {line.split(",")[0][2:]: float(line.split("|")[2]) for line in lines[4:9]}
    cells = {
        task: of["0"] for task, of in reports.cells_of({"nets": reports.recorded("nets")}).items()
    }
    for task, cell in cells.items():
        assert d[task] == pytest.approx(cell["b"][0] - cell["a"][0], abs=0.0005)
    cancer = (d["illness_cancer"] + d["illness_cancer@5%"]) / 2
    psytar = [d["psytar_EF"], d["psytar_WD"]]
    for line, of in zip(lines[9:], ([*psytar], [np.mean(psytar)]), strict=True):
        groups = [cancer, d["phm_tuning"], *of]
        assert float(line.split("|")[2].split()[0]) == pytest.approx(np.mean(groups), abs=0.001)
        ends = student_t.interval(0.95, len(groups) - 1, np.mean(groups), sem(groups))
        found = line.split("|")[2].partition("[")[2].strip(" ]").split(", ")
        assert list(map(float, found)) == pytest.approx(ends, abs=0.003)
    with pytest.raises(SystemExit, match="--by-task must be one of a, b; got c"):
        reports.report(["nets"], "a", "c")


def test_the_halves_have_no_task_in_common(tasks):
    assert set(tasks.CONFIRMING).isdisjoint(tasks.CHOOSING)


@pytest.mark.parametrize(("arm", "max_iter"), [("self_training", 3), ("ten_rounds", 10)])
def test_self_training_is_that_of_scikit_learn(
    fits, monkeypatch, tiny_encoder, tiny_texts, arm, max_iter
):
    y, rounds, fit = np.array(half_labeled(24)), [], SelfTrainingClassifier.fit

    def noted(clf, X, y):  # the tiny net labels all texts in one round
        rounds.append(clf.max_iter)
        return fit(clf, X, y)

    monkeypatch.setattr(SelfTrainingClassifier, "fit", noted)
    split = SimpleNamespace(texts=tiny_texts, y=y, texts_test=tiny_texts[:5])
    (P,) = getattr(fits, arm)(SimpleNamespace(seed=3, draw=lambda: (split, y))).values()
    assert rounds == [max_iter]
    net = bert_net(tiny_encoder).set_params(random_state=3)
    ids = net.encode(tiny_texts)
    expected = fit(SelfTrainingClassifier(net), ids, y).predict_proba(ids[:5])
    np.testing.assert_allclose(P, expected, atol=1e-7)


def test_setfit_sees_the_labelled_texts_only(fits, monkeypatch, tiny_texts):
    y, seen = half_labeled(24), []

    class Noted(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            seen.append((X, y))

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    of = SimpleNamespace(build=lambda net, seed: Noted(), semi_supervised=False)
    monkeypatch.setattr(fits, "methods", lambda: {"setfit": of})
    split = SimpleNamespace(texts=tiny_texts, y=np.array(y), texts_test=tiny_texts[:5])
    assert list(fits.setfit(SimpleNamespace(seed=3, draw=lambda: (split, y)))) == ["SetFit"]
    ((X, codes),) = seen
    rows = [i for i, c in enumerate(y) if c >= 0]
    assert [tiny_texts[i] for i in rows] == X
    assert codes.tolist() == [y[i] for i in rows]


def test_cells_are_made_once_and_packed(program, reports, tmp_path, monkeypatch, capsys):
    tasks, made = ["psytar:EF", "illness:cancer@5%"], []
    y = np.arange(8) % 2
    split = SimpleNamespace(y=y, y_test=y)
    monkeypatch.setattr(reports, "RECORDS", tmp_path)
    monkeypatch.setattr(program.Cell, "draw", lambda cell: (split, y))

    def arm(cell):
        made.append(cell.task)
        p = np.random.default_rng(cell.seed + len(made)).random(8)
        return {name: np.stack([1 - p, p**k], axis=1) for k, name in enumerate("abc", start=1)}

    monkeypatch.setattr(program, "ARMS", {"nets": arm, "paper": arm})
    printed = []
    for _ in range(2):
        for seed in (0, 1):
            program.run("nets", tasks, seed, None)
        reports.report(["nets"], "a")
        printed.append(capsys.readouterr().out.partition("4 cells")[2])
        reports.pack()
    assert made == 2 * tasks
    assert printed[0] == printed[1] != ""
    assert [path.name for path in tmp_path.iterdir()] == ["nets.npz"]
    program.run("nets", ["psytar:DI"], 0, None)
    reports.pack()
    assert len(reports.recorded("nets")) == 5
    with pytest.raises(SystemExit, match="the same seeds of all 8 tasks; 1 cells are there"):
        reports.report(["nets"], "a")


def test_students_of_four_are_scored_alone_and_in_pairs(reports):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    nets = {f"start{i}": rng.random(40) for i in range(5)}
    students = {f"4 epochs, student {i}": rng.random(40) for i in range(4)}
    cell = {"y": y, "share": np.float64(0.5), **nets, **students}
    found = reports.alone_and_together(cell)
    assert list(found) == [
        "one net",
        "five nets",
        "one student with four epochs",
        "two of them, and the starts as one",
        "five nets, adjusted",
        "one, adjusted",
        "four, adjusted",
    ]
    of_each = [reports.scores(y, p, 0.5) for p in students.values()]
    np.testing.assert_allclose(found["one student with four epochs"], np.mean(of_each, axis=0))
    starts = sum(nets.values()) / 5
    s = list(students.values())
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    of_pairs = [reports.scores(y, (starts + s[i] + s[j]) / 3, 0.5) for i, j in pairs]
    expected = np.mean(of_pairs, axis=0)
    np.testing.assert_allclose(found["two of them, and the starts as one"], expected)
    four = reports.adjusted(np.mean([starts, *s], axis=0), 0.5)
    np.testing.assert_allclose(found["four, adjusted"], reports.scores(y, four, 0.5))
    del cell["4 epochs, student 3"]
    assert list(reports.alone_and_together(cell)) == ["one net", "five nets"]


def test_adjustment_of_recorded_probabilities(reports):
    p = np.random.default_rng(0).random(400) ** 2  # 0.35 of the rows are predicted positive
    found = reports.adjusted(p, 0.3)
    np.testing.assert_array_equal(found.argsort(), p.argsort())
    # odds are multiplied by those of the share to the power of tau, which is the same for all
    tau = np.log(found / (1 - found) / (p / (1 - p))) / np.log(0.3 / 0.7)
    np.testing.assert_allclose(tau, tau[0])
    assert 0 < tau[0] <= 0.5
    assert np.mean(found > 0.5) == 0.3  # the share that was asked for
    np.testing.assert_allclose(reports.adjusted(p, 0.5), p)  # equal shares


def test_supervised_nets_of_two_arms_predict_together(reports, tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "RECORDS", tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    nets = [rng.random(40) for _ in range(9)]
    facts = {"y": y, "share": np.float64(0.5)}
    for arm, those in (("confirm", nets[:5]), ("four_students", [nets[0], *nets[5:]])):
        starts = {f"start{i}": p for i, p in enumerate(those)}
        reports.write(tmp_path / arm / "psytar_INF_0.npz", facts | starts)
    records = {arm: reports.recorded(arm) for arm in ("confirm", "four_students")}
    cell = reports.cells_of(records)["psytar_INF"]["0"]
    expected = reports.scores(y, sum(nets) / 9, 0.5)  # the net that both have counts once
    np.testing.assert_allclose(cell["nine or ten nets"], expected)
    del records["four_students"]
    assert "nine or ten nets" not in reports.cells_of(records)["psytar_INF"]["0"]


def test_setfit_is_a_sixth_member_of_the_five_nets(reports, tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "RECORDS", tmp_path)
    y, p = np.arange(40) % 2, np.random.default_rng(0).random((7, 40))
    facts = {"y": y, "share": np.float64(0.5)}
    nets = {f"start{i}": p[i] for i in range(5)}
    reports.write(tmp_path / "confirm" / "psytar_INF_0.npz", facts | nets | {"five starts": p[5]})
    reports.write(tmp_path / "setfit" / "psytar_INF_0.npz", facts | {"SetFit": p[6]})
    cell = reports.cells_of({arm: reports.recorded(arm) for arm in ("confirm", "setfit")})
    expected = reports.scores(y, (p[:5].sum(axis=0) + p[6]) / 6, 0.5)
    np.testing.assert_allclose(cell["psytar_INF"]["0"]["SetFit and five nets"], expected)


def test_the_confirmation_needs_the_same_seeds_of_all_tasks(reports, tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "RECORDS", tmp_path)
    rng = np.random.default_rng(0)
    for i, task in enumerate(reports.CONFIRMING):
        cell = {f"start{j}": rng.random(40) for j in range(5)}
        cell |= {"y": np.arange(40) % 2, "share": np.float64(0.5)}
        reports.write(tmp_path / "confirm" / f"{task.replace(':', '_')}_{i % 3}.npz", cell)
    with pytest.raises(SystemExit, match="the same seeds of all 8 tasks; 8 cells are there"):
        reports.report(["confirm"], "five nets")


@pytest.fixture
def words(monkeypatch):
    """The study of word embeddings."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("word_embeddings")
    for name in ("word_embeddings", "_gain_report", "_gain_tasks"):
        sys.modules.pop(name)


def test_a_fit_of_the_study_of_word_embeddings(words, tiny_encoder, tiny_texts, monkeypatch):
    y = half_labeled(24)
    split = SimpleNamespace(
        texts=np.array(tiny_texts, dtype=object),
        y=np.array(y),
        texts_test=tiny_texts[:6],
        y_test=np.array([1, 0] * 3),
    )
    monkeypatch.setattr(words, "bunch_of", lambda task: task)
    monkeypatch.setattr(words, "cut", lambda bunch, *sizes: bunch)
    monkeypatch.setattr(words, "draw", lambda corpus, *sizes: split)
    made = []

    def net(**params):
        made.append(bert_net(tiny_encoder, **params))
        return made[-1]

    monkeypatch.setattr(words, "BertClassifier", net)
    for kind, frozen in product(("net", "self_pretraining"), (False, True)):
        found = words.score(kind, "illness", 0, frozen)
        assert set(found) == {*words.MEASURES, "seconds"}
        assert made[-1].get_params()["module__train_word_embeddings"] is not frozen


def test_the_study_of_word_embeddings_goes_on_and_reports(words, tmp_path, monkeypatch, capsys):
    def score(kind, task, seed, frozen):
        scores = dict.fromkeys(words.MEASURES, words.TASKS.index(task) * 0.01 + seed)
        return scores | {"ap": scores["ap"] + 0.5 * frozen, "seconds": 3.0 - frozen}

    monkeypatch.setattr(words, "score", score)
    path = tmp_path / "cells.jsonl"
    for seed in range(3):
        with pytest.raises(SystemExit, match=r"net: looked at with 60 fits; [1-9]0 are missing"):
            words.report(path)
        for kind in ("net", "self_pretraining"):
            words.run(path, kind, list(words.TASKS), seed)
    words.run(path, "net", list(words.TASKS), 2)
    words.report(path)
    assert len(path.read_text().splitlines()) == 120
    printed = capsys.readouterr().out
    assert "| average precision | +0.5000 | +0.5000 |" in printed
    assert "| Brier score | +0.0000 | +0.0000 |" in printed
    assert "CPU seconds, frozen to trained: 0.67" in printed


@pytest.fixture
def noise(program, monkeypatch):
    """The study of noise; `program` gives it two starts of a tiny encoder."""
    module = importlib.import_module("noise")
    yield module
    sys.modules.pop("noise")


def test_deletions_keep_both_ends_and_the_order(program):
    with_deletions = importlib.import_module("_deletion").with_deletions
    torch.manual_seed(0)
    ids = torch.tensor([[2, *range(10, 40), 3], [2, 10, 3, *29 * [0]], [2, 3, *30 * [0]]])
    texts = [row[row != 0].tolist() for row in with_deletions(ids, 0, 0.5)]
    whole = [row[row != 0].tolist() for row in ids]
    assert texts[2] == [2, 3]
    assert 5 < len(texts[0]) < 28
    for left, all_ids in zip(texts, whole, strict=True):
        assert (left[0], left[-1]) == (2, 3)
        assert left == [token for token in all_ids if token in left]
    assert torch.equal(with_deletions(ids, 0, 0.0), ids)


def test_students_of_each_kind_of_noise(noise, tiny_encoder, tiny_texts, monkeypatch):
    y = np.array(half_labeled(24))
    split = SimpleNamespace(
        texts=tiny_texts, y=y, texts_test=tiny_texts[:6], y_test=np.array([1, 0] * 3)
    )
    cell = SimpleNamespace(seed=1, scratch=None, draw=lambda: (split, y))
    settings = bert_net(tiny_encoder).get_params(deep=False)

    def small(kind):
        given = {k: v for k, v in settings.items() if k in kind().get_params(deep=False)}
        return lambda n_threads: kind(**given)

    noisy = {name: small(kind) for name, kind in noise.STUDENTS.items()}
    monkeypatch.setattr(noise, "STUDENTS", noisy)
    monkeypatch.setattr(noise, "BertClassifier", lambda n_threads: bert_net(tiny_encoder))
    losses, noisy_at = {}, set()
    train_student = noise.Study.trainer
    on_pseudo_labels = noise.Noisy.on_pseudo_labels

    def noted(net):
        found = on_pseudo_labels(net)
        if net.module_.training or not found:
            noisy_at.add((net.criterion_.lam, found))
        return found

    monkeypatch.setattr(noise.Noisy, "on_pseudo_labels", noted)

    def trainer(study, root):
        found = train_student(study, root)
        whole = found.train_student

        def recorded(*args):
            M, loss = whole(*args)
            losses[type(M).__name__] = loss
            return M, loss

        found.train_student = recorded
        return found

    monkeypatch.setattr(noise.Study, "trainer", trainer)
    found = noise.students(cell)
    assert list(found) == ["five nets", *noise.STUDENTS]
    assert all(set(scores) == {*noise.SCORES, "seconds"} for scores in found.values())
    first = [loss["stage1"][0] for loss in losses.values()]
    assert len(first) == len(set(first)) == 4
    assert first[-1] > first[0]  # VAT adds to the same loss
    assert {at for at in noisy_at if at[1]} == {(1.0, True)}
    assert (0.3, False) in noisy_at


def test_the_adversarial_step_is_the_worst_of_its_length(noise, tiny_encoder, tiny_texts):
    net = noise.Adversarial(**bert_net(tiny_encoder).get_params(deep=False))
    net.fit(tiny_texts, [1, 0] * 12)
    net.module_.eval()
    ids = torch.from_numpy(net.encode(tiny_texts[:6])).long()
    seen = []
    embeddings, first = (
        net.module_.encoder.model.embeddings,
        net.module_.encoder.model.encoder.layer[0],
    )
    hook = first.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    worst = net.smoothness(ids).item()
    hook.remove()
    step = (seen[2] - seen[0]).detach()
    length = noise.STEP * seen[0].flatten(1).norm(dim=1)
    torch.testing.assert_close(step.flatten(1).norm(dim=1), length)

    def divergence(change):
        hook = embeddings.register_forward_hook(lambda module, args, out: out + change)
        with torch.no_grad():
            z = net.module_(ids)
        hook.remove()
        return float(noise.kl(p, z))

    with torch.no_grad():
        p = torch.log_softmax(net.module_(ids), dim=1)
    assert divergence(step) == pytest.approx(worst, rel=1e-4)
    for seed in range(5):
        other = torch.randn(step.shape, generator=torch.Generator().manual_seed(seed))
        other *= (length / other.flatten(1).norm(dim=1))[:, None, None]
        assert divergence(other) < worst


def test_verdicts_of_drawn_rows(program, monkeypatch, capsys):
    module = importlib.import_module("verdicts")
    try:
        monkeypatch.setattr(module, "N_DRAWS", 20)
        y = np.arange(1000) % 5 == 0
        better = np.where(np.arange(1000) % 15 == 0, False, y).astype(np.int64)
        rng = np.random.default_rng(0)
        gain, shares = module.verdicts(y.astype(np.int64), 0 * better, better, 300, rng)
        holds, plain, use, wrong, half = shares
        assert gain == pytest.approx(f1_score(y, better))
        assert min(holds, plain) >= 0.8
        assert (use, wrong) == (1, 0)
        assert 0 < half < 0.5
        gain, (*_, use, wrong, _) = module.verdicts(y * 1, better, 0 * better, 300, rng)
        assert gain < 0
        assert use == wrong == 0
        monkeypatch.setattr(module, "N_DRAWS", 1)
        monkeypatch.setattr(module, "N_ROWS", (100,))
        monkeypatch.setattr(module, "N_STARTS", 5)
        module.main()
    finally:
        sys.modules.pop("verdicts")
    table = [row for row in capsys.readouterr().out.splitlines() if row.startswith("|")]
    assert [row.split(" |")[0] for row in table[2:]] == [f"| {name}" for name in module.METHODS]
