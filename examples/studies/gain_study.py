"""Cells and report of the study in docs/results/gain_study.md: does an ensemble teach well?

    python examples/studies/gain_study.py run --seed 0 psytar:EF phm_tuning@9%
    python examples/studies/gain_study.py run --seed 0 --arm defaults
    python examples/studies/gain_study.py report

`run` writes one file a cell, with the probabilities of each net on the validation rows. Cells that
are there are left out. `pack` joins the cells of each arm in one file. `report` prints the scores
of the methods, as Markdown. Data come from SKLEARN_SPT_DATA. A cell takes 4 to 24 minutes on one
core.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import _gain_fits
import _gain_report
import numpy as np
import torch
from _alignment import aligned, drawn_classes
from _deletion import Deletion
from _gain_report import N_STARTS, N_STUDENTS
from _gain_tasks import CHOOSING, CONFIRMING, Cell
from sklearn.base import clone
from sklearn.utils.validation import check_memory
from skorch.utils import multi_indexing

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt._functional import tempered_softmax
from sklearn_spt.nets._training import predict_logits
from sklearn_spt.self_pretraining import _trainer
from sklearn_spt.self_pretraining._trainer import SelfPretrainingTrainer

#: As many unlabelled texts as the tasks of the study have; the arm with 10,000 compares them.
N_FIRST = 3000


class Study(SelfPretrainingClassifier):
    """Five supervised starts, and students that are taught by the mean of their probabilities."""

    def prepare(self, cell: Cell) -> Study:
        """Encode the texts."""
        self._check_params()
        self.seed, self.scratch, self.net = cell.seed, cell.scratch, self._template_net()
        split, _ = cell.draw()
        texts = list(split.texts)
        self.labels = self._validate(self.net, texts, split.y, None, None)
        self.V = self._encode(self.net, list(split.texts_test), reset=False)
        return self

    def trainer(self, root: int) -> SelfPretrainingTrainer:
        return SelfPretrainingTrainer(
            clone(self).set_params(random_state=root),
            self.net,
            self.labels,
            lam=self.lam,
            alpha=self.alpha,
            temperature=self.temperature,
            pretrain_epochs=self.pretrain_epochs,
            token_deletion=self.token_deletion,
            n_starts=1,
            n_students=1,
            memory=check_memory(None),
        )

    def start(self, i: int) -> Any:
        """Train a supervised start."""
        (M,), _ = self.trainer(1000 * self.seed + i).supervised_start()
        return M

    def soft(self, M: Any, X: Any) -> Any:
        return tempered_softmax(predict_logits(M, X, self.labels.n_classes))

    def starts(self) -> dict[str, Any]:
        """Probabilities of the five starts: each of V, and the mean of U and of L."""
        scratch = self.scratch
        if scratch is not None and scratch.exists():
            with np.load(scratch) as kept:
                return dict(kept)
        found, of_U, of_L = {}, [], []
        for i in range(N_STARTS):
            M = self.start(i)
            found[f"start{i}"] = self.soft(M, self.V)
            of_U.append(self.soft(M, self.labels.X_unlabeled))
            of_L.append(self.soft(M, self.labels.X_labeled))
        found |= {"U": np.mean(of_U, axis=0), "L": np.mean(of_L, axis=0)}
        if scratch is not None:
            _gain_report.write(scratch, found)
        return found

    def students(self, t: int, rows: Any, P: Any, q: Any, n: int = N_STUDENTS) -> list[Any]:
        """Train students on the pseudo-labels P of some rows of U, and on L."""
        C = multi_indexing(self.labels.X_unlabeled, rows)
        return [
            self.trainer(1000 * self.seed + 100 + i).train_student(t, 0, C, P, q)[0]
            for i in range(n)
        ]


def study(cell: Cell) -> Study:
    return Study(BertClassifier(n_threads=1), alpha=0.0, random_state=0).prepare(cell)


def nets(cell: Cell) -> dict[str, Any]:
    """The starts alone, without unlabelled texts."""
    of = study(cell)
    return {f"start{i}": of.soft(of.start(i), of.V) for i in range(N_STARTS)}


def ensemble_first(cell: Cell) -> dict[str, Any]:
    """The starts teach students on all of U at once."""
    of = study(cell)
    found = of.starts()
    rows = np.arange(of.labels.n_unlabeled)
    for i, M in enumerate(of.students(2, rows, found.pop("U"), found.pop("L"))):
        found[f"student{i}"] = of.soft(M, of.V)
    return found


def long_students(
    cell: Cell, epochs: list[int], n: int, *, deletion: bool = True
) -> dict[str, Any]:
    """The starts teach students on all of U at once, `n` of each number of epochs in stage 1."""
    of = study(cell)
    found = of.starts()
    U, L = found.pop("U"), found.pop("L")
    if deletion:
        of.net = Deletion(n_threads=1)
    for n_epochs in epochs:
        of.set_params(pretrain_epochs=n_epochs)
        for i, M in enumerate(of.students(2, np.arange(len(U)), U, L, n)):
            found[f"{n_epochs} epochs, student {i}"] = of.soft(M, of.V)
    return found


def longer(cell: Cell) -> dict[str, Any]:
    return long_students(cell, [1, 2, 4], 1)


def whole_texts(cell: Cell) -> dict[str, Any]:
    """One student with four epochs that learns from whole texts."""
    found = long_students(cell, [4], 1, deletion=False)
    return found | {"whole texts": found.pop("4 epochs, student 0")}


def four_students(cell: Cell) -> dict[str, Any]:
    """Four students with four epochs in stage 1, and their mean with the starts as one member."""
    found = long_students(cell, [4], 4)
    students = [P for name, P in found.items() if "student" in name]
    starts = np.mean([P for name, P in found.items() if "student" not in name], axis=0)
    return found | {"four students, and the starts as one": np.mean([starts, *students], axis=0)}


def more_texts(cell: Cell) -> dict[str, Any]:
    """One student of all texts, and two of the first: as many epochs, and about as many steps."""
    of = study(cell)
    if of.labels.n_unlabeled <= N_FIRST:
        raise ValueError(f"{cell.task} has {of.labels.n_unlabeled} texts, not over {N_FIRST}.")
    found = of.starts()
    U, L = found.pop("U"), found.pop("L")
    starts = np.mean(list(found.values()), axis=0)
    of.net = Deletion(n_threads=1)
    for n, epochs in ((N_FIRST, 1), (N_FIRST, 4), (len(U), 1)):
        of.set_params(pretrain_epochs=epochs)
        (M,) = of.students(2, np.arange(n), U[:n], L, 1)
        name = f"{n} texts, epochs: {epochs}"
        found[name] = of.soft(M, of.V)
        found[f"{name}, and the starts as one"] = (starts + found[name]) / 2
    return found


def alignment(cell: Cell) -> dict[str, Any]:
    """The first of the four students, with labels or draws that fit the shares of the classes."""
    of = study(cell)
    found = of.starts()
    U, L = found.pop("U"), found.pop("L")
    of.net, rows = Deletion(n_threads=1), np.arange(len(U))
    of.set_params(pretrain_epochs=4)
    shares = np.bincount(of.labels.y) / len(of.labels.y)
    for name, strength in (("half aligned", 0.5), ("aligned", 1.0)):
        (M,) = of.students(2, rows, aligned(U, shares, strength), L, 1)
        found[name] = of.soft(M, of.V)
    codes = drawn_classes(U, np.random.default_rng(cell.seed))
    with mock.patch.object(_trainer, "predicted_classes", return_value=codes):
        (M,) = of.students(2, rows, U, L, 1)
    return found | {"drawn by soft labels": of.soft(M, of.V)}


def halves(cell: Cell) -> dict[str, Any]:
    """The starts teach students on half of U, and these teach students on all of U."""
    of = study(cell)
    found = of.starts()
    n = of.labels.n_unlabeled
    half = np.sort(np.random.default_rng(cell.seed).permutation(n)[: n // 2])
    teachers = of.students(3, half, found["U"][half], found["L"])
    P, q = (
        np.mean([of.soft(M, X) for M in teachers], axis=0)
        for X in (of.labels.X_unlabeled, of.labels.X_labeled)
    )
    nets = of.students(4, np.arange(n), P, q)
    return {"by halves": np.mean([of.soft(M, of.V) for M in nets], axis=0)}


def cross_fitting(cell: Cell) -> dict[str, Any]:
    """Each of two students learns from half of U and labels the other half for a third one.

    A fourth learns from the labels of the starts.
    """
    of = study(cell)
    found = of.starts()
    P, q = found.pop("U"), found.pop("L")
    n = len(P)
    parts = np.array_split(np.random.default_rng(cell.seed).permutation(n), 2)
    crossed, Q = np.empty_like(P), []
    for i, (own, other) in enumerate((parts, parts[::-1])):
        (M,) = of.students(3 + i, own := np.sort(own), P[own], q, 1)
        crossed[other] = of.soft(M, multi_indexing(of.labels.X_unlabeled, other))
        Q.append(of.soft(M, of.labels.X_labeled))
        found[f"student of half {i}"] = of.soft(M, of.V)
    for name, labels in (("plain", (P, q)), ("cross-fitted", (crossed, np.mean(Q, axis=0)))):
        (M,) = of.students(2, np.arange(n), *labels, 1)
        found[f"{name} student"] = of.soft(M, of.V)
    starts = np.mean([found[f"start{i}"] for i in range(N_STARTS)], axis=0)
    halves = [found[f"student of half {i}"] for i in range(2)]
    return found | {
        "plain student, and the starts as one": (starts + found["plain student"]) / 2,
        "students of halves, and the starts as one": np.mean([starts, *halves], axis=0),
    }


def nets_and_defaults(cell: Cell) -> dict[str, Any]:
    """Five nets, and today's defaults."""
    return nets(cell) | _gain_fits.defaults(cell)


ARMS = {
    "nets": nets,
    "ensemble": ensemble_first,
    "halves": halves,
    "cross_fitting": cross_fitting,
    "alignment": alignment,
    "longer": longer,
    "four_students": four_students,
    "whole_texts": whole_texts,
    "defaults": _gain_fits.defaults,
    "five_starts": _gain_fits.five_starts,
    "confirm": _gain_fits.confirm,
    "self_training": _gain_fits.self_training,
    "ten_rounds": _gain_fits.ten_rounds,
    "setfit": _gain_fits.setfit,
    "paper": _gain_fits.paper,
    "ceiling": _gain_fits.ceiling,
    "at_100": nets_and_defaults,
    "random_draw": nets_and_defaults,
    "u_300": _gain_fits.defaults_with_fewer,
    "u_1000": _gain_fits.defaults_with_fewer,
    "u_10000": more_texts,
}
#: How the draws of some arms differ.
DRAWS = {
    "at_100": {"n_labeled": 100},
    "random_draw": {"by_class": False},
    "u_300": {"n_unlabeled": 300},
    "u_1000": {"n_unlabeled": 1000},
    "u_10000": {"n_unlabeled": 10_000},
}
#: Tasks of arms that have others than those for choosing.
TASKS = dict.fromkeys(("confirm", "self_training", "ten_rounds", "setfit"), CONFIRMING)
TASKS["u_10000"] = ("illness", "illness@5%")


def run(arm: str, tasks: list[str], seed: int, scratch: str | None) -> None:
    torch.set_num_threads(1)
    done = _gain_report.recorded(arm)
    for task in tasks:
        path = _gain_report.RECORDS / arm / f"{task.replace(':', '_')}_{seed}.npz"
        if path.stem in done:
            continue
        kept = None if scratch is None else Path(scratch) / f"{path.stem}.npz"
        cell = Cell(task, seed, kept, **DRAWS.get(arm, {}))
        start = time.process_time()
        P = ARMS[arm](cell)
        seconds = time.process_time() - start
        positive = {name: p[:, 1].astype(np.float32) for name, p in P.items()}
        split, _ = cell.draw()
        share = np.mean(split.y[split.y >= 0])
        facts = {"y": split.y_test.astype(np.int8), "share": share, "seconds": seconds}
        _gain_report.write(path, facts | positive)
        print(f"{arm}, {task}, seed {seed}, {seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_run = commands.add_parser("run", help="make cells")
    of_run.add_argument("tasks", nargs="*", metavar="TASK", help="default: all of the half")
    of_run.add_argument("--seed", type=int, required=True)
    of_run.add_argument("--arm", choices=ARMS, default="ensemble")
    of_run.add_argument("--scratch", help="folder for labels of the starts, which arms share")
    commands.add_parser("pack", help="join the cells of each arm in one file")
    of_plot = commands.add_parser("plot", help="draw the gains over one net by task")
    of_plot.add_argument("out", type=Path, metavar="FILE")
    of_report = commands.add_parser("report", help="print the tables")
    of_report.add_argument("arms", nargs="*", default=["nets", "defaults"], metavar="ARM")
    of_report.add_argument("--against", default="five nets", metavar="METHOD")
    of_report.add_argument("--by-task", metavar="METHOD", help="a method to print for each task")
    args = parser.parse_args()
    if args.command == "run":
        run(args.arm, args.tasks or list(TASKS.get(args.arm, CHOOSING)), args.seed, args.scratch)
    elif args.command == "pack":
        _gain_report.pack()
    elif args.command == "plot":
        _gain_report.plot(args.out)
    else:
        _gain_report.report(list(args.arms), args.against, args.by_task)


if __name__ == "__main__":
    sys.exit(main())
