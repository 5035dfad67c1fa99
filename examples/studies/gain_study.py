"""Cells and report of the study in docs/results/gain_study.md: does an ensemble teach well?

    python examples/studies/gain_study.py run --seed 0 psytar:EF phm_tuning@9%
    python examples/studies/gain_study.py run --seed 0 --arm defaults
    python examples/studies/gain_study.py report

`run` writes one file a cell, with the probabilities of each net on the validation rows. Cells that
are there are left out. `pack` joins the cells of each arm in one file. `report` prints the scores
of the methods, as Markdown. Data come from SKLEARN_SPT_DATA. A cell takes 4 to 15 minutes on one
core.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _deletion import Deletion
from scipy.stats import spearmanr
from scipy.stats import t as student_t
from sklearn.base import clone
from sklearn.metrics import average_precision_score, f1_score
from sklearn.utils import Bunch
from sklearn.utils.validation import check_memory
from skorch.utils import multi_indexing

from sklearn_spt import PAPER_SETTINGS, BertClassifier, SelfPretrainingClassifier
from sklearn_spt._functional import tempered_softmax
from sklearn_spt.datasets import fetch_psytar
from sklearn_spt.experiments._corpora import read, thinned
from sklearn_spt.experiments._methods import methods
from sklearn_spt.experiments._split_protocol import Split, cut, draw
from sklearn_spt.nets._training import predict_logits
from sklearn_spt.self_pretraining._trainer import SelfPretrainingTrainer

RECORDS = Path(__file__).parents[2] / "docs" / "records" / "gain_study"
CHOOSING = (
    "illness:cancer",
    "illness:diabetes",
    "illness:cancer@5%",
    "illness:diabetes@9%",
    "phm_tuning",
    "phm_tuning@9%",
    "psytar:ADR",
    "psytar:EF",
    "psytar:WD",
)
CONFIRMING = (
    "illness:alzheimer",
    "illness:parkinson",
    "illness:alzheimer@9%",
    "illness:parkinson@5%",
    "psytar:INF",
    "psytar:SSI",
    "psytar:DI",
    "crisislex_t6:sandy@9%",
)
N_STARTS, N_STUDENTS, N_SEEDS = 5, 2, 3
#: Nets of a cell by their name, without the number; what one of them and all together are called.
ALONE_AND_TOGETHER = {
    "start": ("one net", "five nets"),
    "student": ("one student", "two students"),
    "adapted": ("one adapted net", "five adapted nets"),
}
SCORES = ("average precision", "F1 at the labels' share", "F1 at 0.5", "best F1", "Brier score")


# -- data ----------------------------------------------------------------------------------------
def bunch_of(task: str) -> Bunch:
    """Texts and labels of a task, for example ``illness:cancer@5%`` or ``psytar:WD``."""
    whole, at, share = task.partition("@")
    name, _, part = whole.partition(":")
    if name == "psytar":
        everything = fetch_psytar(download_if_missing=False)
        column = everything.annotation_names.index(part)
        bunch = Bunch(
            data=everything.data,
            target=everything.annotations[:, column],
            target_names=["0", "1"],
        )
    elif name == "illness" and part:
        everything = read(name, download=False)
        kept = everything.keyword == part
        bunch = Bunch(
            data=everything.data[kept],
            target=everything.target[kept],
            target_names=everything.target_names,
        )
    else:
        bunch = read(whole, download=False)
    return thinned(bunch, share, task) if at else bunch


@dataclass(frozen=True)
class Cell:
    """300 labelled and up to 3,000 unlabelled texts of a task, and 1,000 rows to score.

    Those are validation rows in the tasks for choosing, and test rows in those for confirming.
    Some arms have other numbers of texts.
    """

    task: str
    seed: int
    scratch: Path | None
    n_labeled: int = 300
    n_unlabeled: int = 3000

    def draw(self) -> tuple[Split, Any]:
        """Return the rows, and the true labels of labelled and unlabelled ones."""
        corpus = cut(bunch_of(self.task), 1000, None if self.task in CONFIRMING else 1000)
        sizes = self.n_labeled, min(self.n_unlabeled, len(corpus.rest) - self.n_labeled)
        numbered = replace(corpus, texts=np.arange(len(corpus.texts)))
        rows = draw(numbered, *sizes, self.seed).texts
        return draw(corpus, *sizes, self.seed), corpus.target[rows]


# -- cells ---------------------------------------------------------------------------------------
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
            scratch.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(scratch, **found)
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


def learners_from_deletions(cell: Cell, epochs: list[int], n: int) -> dict[str, Any]:
    """The starts teach students on all of U at once, which learn from texts with deletions.

    There are `n` students of each number of epochs in stage 1.
    """
    of = study(cell)
    found = of.starts()
    U, L = found.pop("U"), found.pop("L")
    of.net = Deletion(n_threads=1)
    for n_epochs in epochs:
        of.set_params(pretrain_epochs=n_epochs)
        for i, M in enumerate(of.students(2, np.arange(len(U)), U, L, n)):
            found[f"{n_epochs} epochs, student {i}"] = of.soft(M, of.V)
    return found


def longer(cell: Cell) -> dict[str, Any]:
    return learners_from_deletions(cell, [1, 2, 4], 1)


def four_students(cell: Cell) -> dict[str, Any]:
    """Four students with four epochs in stage 1, and their mean with the starts as one member."""
    found = learners_from_deletions(cell, [4], 4)
    students = [P for name, P in found.items() if "student" in name]
    starts = np.mean([P for name, P in found.items() if "student" not in name], axis=0)
    return found | {"four students, and the starts as one": np.mean([starts, *students], axis=0)}


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


def fitted(clf: Any, cell: Cell, *, all_labels: bool = False) -> tuple[Any, list[str]]:
    """Fit a classifier; return it and the texts to score."""
    split, truth = cell.draw()
    clf.set_params(random_state=cell.seed)
    clf.fit(list(split.texts), truth if all_labels else split.y)
    return clf, list(split.texts_test)


def predicted(name: str, clf: Any, cell: Cell, *, all_labels: bool = False) -> dict[str, Any]:
    clf, V = fitted(clf, cell, all_labels=all_labels)
    return {name: clf.predict_proba(V)}


def defaults(cell: Cell) -> dict[str, Any]:
    return predicted("defaults", SelfPretrainingClassifier(BertClassifier(n_threads=1)), cell)


def defaults_with_fewer(cell: Cell) -> dict[str, Any]:
    """The defaults under a name that says how many unlabelled texts there are."""
    return {f"{name}, {cell.n_unlabeled} texts": P for name, P in defaults(cell).items()}


def from_five_starts() -> SelfPretrainingClassifier:
    net = BertClassifier(n_threads=1)
    return SelfPretrainingClassifier(net, n_starts=N_STARTS, step_size=1 / 3)


def five_starts(cell: Cell) -> dict[str, Any]:
    """A chain of three iterations whose first teachers are five starts."""
    clf, V = fitted(from_five_starts(), cell)
    P = clf._probabilities_by_net(V)
    starts, students = np.mean(P[:N_STARTS], axis=0), P[N_STARTS:]
    return {
        "five starts, then two students": np.mean(P, axis=0),
        "the two students": np.mean(students, axis=0),
        "the two students, and the starts as one": np.mean([starts, *students], axis=0),
    }


def confirm(cell: Cell) -> dict[str, Any]:
    """The same as a user gets it, and its starts: the five nets that it is compared with."""
    clf, V = fitted(from_five_starts(), cell)
    starts = clf._probabilities_by_net(V)[:N_STARTS]
    return {f"start{i}": P for i, P in enumerate(starts)} | {"five starts": clf.predict_proba(V)}


def self_training(cell: Cell) -> dict[str, Any]:
    """scikit-learn's self-training over the same net, in three rounds."""
    clf = methods()["sklearn_self_training"].build(BertClassifier(n_threads=1), cell.seed)
    split, _ = cell.draw()
    clf.fit(list(split.texts), split.y)
    return {"self-training": clf.predict_proba(list(split.texts_test))}


def paper(cell: Cell) -> dict[str, Any]:
    """The paper's settings, in three iterations."""
    clf = SelfPretrainingClassifier(**PAPER_SETTINGS)
    clf.set_params(step_size=1 / 3, estimator__n_threads=1)
    return predicted("paper's settings, k = 1/3", clf, cell)


def nets_and_defaults(cell: Cell) -> dict[str, Any]:
    """Five nets, and today's defaults."""
    return nets(cell) | defaults(cell)


def ceiling(cell: Cell) -> dict[str, Any]:
    """One net on the true labels of all texts."""
    return predicted("ceiling", BertClassifier(n_threads=1), cell, all_labels=True)


ARMS = {
    "nets": nets,
    "ensemble": ensemble_first,
    "halves": halves,
    "longer": longer,
    "four_students": four_students,
    "defaults": defaults,
    "five_starts": five_starts,
    "confirm": confirm,
    "self_training": self_training,
    "paper": paper,
    "ceiling": ceiling,
    "at_100": nets_and_defaults,
    "at_1000": nets_and_defaults,
    "u_300": defaults_with_fewer,
    "u_1000": defaults_with_fewer,
}
#: Numbers of texts of the arms in which they are others.
SIZES = {
    "at_100": {"n_labeled": 100},
    "at_1000": {"n_labeled": 1000},
    "u_300": {"n_unlabeled": 300},
    "u_1000": {"n_unlabeled": 1000},
}


Record = dict[str, Any]


def recorded(arm: str) -> dict[str, Record]:
    """Arrays by task and seed: those that `pack` joined, and those of single files."""
    found: dict[str, Record] = {}
    if (packed := RECORDS / f"{arm}.npz").exists():
        with np.load(packed) as arrays:
            for key, array in arrays.items():
                name, _, part = key.partition("/")
                found.setdefault(name, {})[part] = array
    for path in sorted((RECORDS / arm).glob("*.npz")):
        with np.load(path) as arrays:
            found[path.stem] = dict(arrays)
    return found


def pack() -> None:
    """Join the cells of each arm in one file."""
    for arm in ARMS:
        paths = list((RECORDS / arm).glob("*.npz"))
        if paths:
            joined = {
                f"{name}/{part}": array
                for name, record in sorted(recorded(arm).items())
                for part, array in record.items()
            }
            new = RECORDS / f"{arm}.new.npz"
            np.savez_compressed(new, **joined)
            new.replace(RECORDS / f"{arm}.npz")
            for path in paths:
                path.unlink()
            with suppress(OSError):  # a run has just written another cell
                paths[0].parent.rmdir()


def run(arm: str, tasks: list[str], seed: int, scratch: str | None) -> None:
    torch.set_num_threads(1)
    done = recorded(arm)
    for task in tasks:
        path = RECORDS / arm / f"{task.replace(':', '_')}_{seed}.npz"
        if path.stem in done:
            continue
        kept = None if scratch is None else Path(scratch) / f"{path.stem}.npz"
        cell = Cell(task, seed, kept, **SIZES.get(arm, {}))
        start = time.process_time()
        P = ARMS[arm](cell)
        seconds = time.process_time() - start
        positive = {name: p[:, 1].astype(np.float32) for name, p in P.items()}
        split, _ = cell.draw()
        share = np.mean(split.y[split.y >= 0])
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            path, y=split.y_test.astype(np.int8), share=share, seconds=seconds, **positive
        )
        print(f"{arm}, {task}, seed {seed}, {seconds:.0f} s", flush=True)


# -- report --------------------------------------------------------------------------------------
def scores(y: Any, p: Any, share: float) -> list[float]:
    """Scores in the order of `SCORES`."""
    order = np.argsort(-p, kind="stable")
    matched = np.zeros(len(y), dtype=int)
    matched[order[: round(share * len(y))]] = 1
    hits = np.cumsum(y[order])
    best = np.max(2 * hits / (np.arange(1, len(y) + 1) + y.sum()))
    brier = np.mean((p - y) ** 2)
    return [
        average_precision_score(y, p),
        f1_score(y, matched),
        f1_score(y, p > 0.5),
        float(best),
        float(brier),
    ]


def combinations(cell: Record) -> dict[str, list[float]]:
    """Scores of the nets of a cell, alone and together."""
    y, share = cell["y"].astype(int), float(cell["share"])
    found = {}
    for kind, (one, together) in ALONE_AND_TOGETHER.items():
        if f"{kind}0" in cell:
            n = N_STUDENTS if kind == "student" else N_STARTS  # older cells have more students
            nets = [cell[f"{kind}{i}"] for i in range(n)]
            found[one] = np.mean([scores(y, p, share) for p in nets], axis=0).tolist()
            found[together] = scores(y, np.mean(nets, axis=0), share)
    return found


def cells_of(arms: list[str]) -> dict[str, list[dict[str, list[float]]]]:
    """Scores by task and method, of the cells that all `arms` have."""
    records = [recorded(arm) for arm in arms]
    by_task: dict[str, list[dict[str, list[float]]]] = {}
    for name in sorted(set.intersection(*map(set, records))):
        found: dict[str, list[float]] = {}
        for arm, cells in zip(arms, records, strict=True):
            cell, first = cells[name], records[0][name]
            y, share = cell["y"].astype(int), float(cell["share"])
            if not np.array_equal(y, first["y"]):
                raise ValueError(f"{name} of {arm} has other labels than that of {arms[0]}.")
            found.update(combinations(cell))
            for method in sorted(set(cell) - {"y", "share", "seconds"}):
                if method.rstrip("0123456789") not in ALONE_AND_TOGETHER:
                    found[method] = scores(y, cell[method], share)
        by_task.setdefault(name.rpartition("_")[0], []).append(found)
    return by_task


def sign_flip(d: Any) -> float:
    """Return the one-sided p-value of a mean above 0 over tasks, under all changes of sign."""
    signs = np.array(list(product([1, -1], repeat=len(d))))
    return float(np.mean((signs * d).mean(axis=1) >= d.mean() - 1e-12))


def report(arms: list[str], against: str) -> None:
    """Print scores, and differences to the method `against`; the unit is the task."""
    by_task = cells_of(arms)
    if not by_task:
        raise SystemExit(f"No cell is there that all of {', '.join(arms)} have.")
    n_cells = sum(map(len, by_task.values()))
    if "confirm" in arms and n_cells < (due := N_SEEDS * len(CONFIRMING)):
        raise SystemExit(
            f"The confirmation is looked at once, with {due} cells; {n_cells} are there."
        )
    print(f"{n_cells} cells, {len(by_task)} tasks: {', '.join(by_task)}\n")
    means = {
        task: {name: np.mean([cell[name] for cell in cells], axis=0) for name in cells[0]}
        for task, cells in by_task.items()
    }
    names = list(next(iter(means.values())))
    if against not in names:
        raise SystemExit(f"--against must be one of {', '.join(names)}; got {against}.")
    header = f"| | {' | '.join(SCORES)} |\n| --- | {' | '.join('---:' for _ in SCORES)} |"
    print(header)
    for name in names:
        level = np.mean([means[task][name] for task in means], axis=0)
        print(f"| {name} |", " | ".join(f"{value:.3f}" for value in level), "|")
    print(f"\nDifference to {against}, mean over tasks with its 95% interval:\n")
    print(header)
    for name in names:
        d = np.array([means[task][name] - means[task][against] for task in means])
        se = d.std(axis=0, ddof=1) / np.sqrt(len(d))
        half = student_t.ppf(0.975, len(d) - 1) * se
        cells = [
            f"{m:+.3f} [{m - h:.3f}, {m + h:.3f}]"
            for m, h in zip(d.mean(axis=0), half, strict=True)
        ]
        if name != against:
            print(f"| {name} |", " | ".join(cells), "|")
            least = d.mean(axis=0) - student_t.ppf(0.95, len(d) - 1) * se
            print(
                f"<!-- one-sided 95% bounds of the first two: {least[0]:+.4f}, {least[1]:+.4f}; "
                f"sign-flip test, average precision: p = {sign_flip(d[:, 0]):.3f} -->"
            )
    if "ceiling" in names:
        print("\nShare of the gap from one net to the ceiling, of the means over tasks:\n")
        level = {name: np.mean([means[task][name] for task in means], axis=0) for name in names}
        print(header)
        for name in names:
            closed = (level[name] - level["one net"]) / (level["ceiling"] - level["one net"])
            print(f"| {name} |", " | ".join(f"{share:.0%}" for share in closed), "|")


def plot(path: Path) -> None:
    """Draw what five nets and the defaults gain over one net, a row for each task."""
    from matplotlib.figure import Figure

    from sklearn_spt.inspection._style import PALETTE, ZERO_LINE

    tasks = {task.replace(":", "_"): task for task in CHOOSING + CONFIRMING}
    rows: list[tuple[float, str, Any]] = []  # share of positives, name, gains of both methods
    for arm, mark in (("nets", ""), ("confirm", "*")):
        records = recorded(arm)
        for name, cells in cells_of([arm, "defaults"]).items():
            one, *both = (
                np.mean([cell[method][:2] for cell in cells], axis=0)
                for method in ("one net", "five nets", "defaults")
            )
            share = np.mean([r["y"].mean() for key, r in records.items() if key[:-2] == name])
            once = ", one seed" if len(cells) == 1 else ""
            rows.append((float(share), f"{tasks[name]}{mark}, {share:.0%}{once}", both - one))
    rows.sort(reverse=True, key=lambda row: row[0])
    gains = np.array([gain for _, _, gain in rows])  # task, method, score
    places = np.arange(len(rows))
    figure = Figure(figsize=(9, 1.3 + 0.24 * len(rows)), layout="constrained")
    for score, ax in enumerate(figure.subplots(1, 2, sharey=True)):
        ax.axvline(0, **ZERO_LINE)
        ax.hlines(places, *gains[:, :, score].T, color="0.75", zorder=1)
        for method, label in enumerate(("five nets", "SelfPretrainingClassifier")):
            style = {"color": PALETTE[method], "marker": "os"[method], "label": label}
            ax.scatter(gains[:, method, score], places, zorder=2, **style)
        ax.set_title(SCORES[score], fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    ax.set_yticks(places, [label for _, label, _ in rows])
    figure.supxlabel("gain over one net, mean over seeds", fontsize="medium")
    figure.legend(
        *ax.get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False
    )
    figure.savefig(path, dpi=110)
    starred = np.array(["*" in label for _, label, _ in rows])
    for score, of_score in enumerate(SCORES[:2]):
        over = gains[:, 1, score], gains[:, 1, score] - gains[:, 0, score]
        for other, gain in zip(("one net", "five nets"), over, strict=True):
            better, n = (gain > 0).sum(), len(rows)
            print(
                f"{of_score}: better than {other} on {better} of {n} tasks, and on "
                f"{(gain[starred] > 0).sum()} of the {starred.sum()} with a star"
            )
        rank = spearmanr([share for share, _, _ in rows], over[1])[0]
        print(f"rank correlation of the gain over five nets with the share: {rank:+.2f}")


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
    args = parser.parse_args()
    if args.command == "run":
        tasks = CONFIRMING if args.arm == "confirm" else CHOOSING
        run(args.arm, args.tasks or list(tasks), args.seed, args.scratch)
    elif args.command == "pack":
        pack()
    elif args.command == "plot":
        plot(args.out)
    else:
        report(list(args.arms), args.against)


if __name__ == "__main__":
    sys.exit(main())
