"""Records of the study of gains, their scores, and its tables and picture."""

from __future__ import annotations

import io
import re
from contextlib import suppress
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from _gain_tasks import CHOOSING, CONFIRMING
from scipy.stats import spearmanr
from scipy.stats import t as student_t
from sklearn.metrics import average_precision_score, f1_score

from sklearn_spt.datasets._remote import write_whole
from sklearn_spt.self_pretraining._logit_adjustment import logit_adjusted, matching_tau

RECORDS = Path(__file__).parents[2] / "docs" / "records" / "gain_study"
N_STARTS, N_STUDENTS = 5, 2
#: Nets of a cell by their name, without the number; what one of them and all together are called.
ALONE_AND_TOGETHER = {
    "start": ("one net", "five nets"),
    "student": ("one student", "two students"),
    "adapted": ("one adapted net", "five adapted nets"),
}
#: Students of the arm with four of them.
FOUR_STUDENTS = tuple(f"4 epochs, student {i}" for i in range(4))
SCORES = (
    "average precision",
    "F1 at the labels' share",
    "F1 at 0.5",
    "best F1",
    "Brier score",
    "positives expected / true",
)

Record = dict[str, Any]
#: Cells by arm, and by task and seed.
Records = dict[str, dict[str, Record]]


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


def write(path: Path, arrays: Record) -> None:
    """Write arrays as a whole: a killed run leaves no damaged cell."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_whole(path, content.getvalue())


def pack() -> None:
    """Join the cells of each arm in one file."""
    for folder in [path for path in RECORDS.iterdir() if path.is_dir()]:
        arm = folder.name
        if paths := list(folder.glob("*.npz")):
            joined = {
                f"{name}/{part}": array
                for name, record in sorted(recorded(arm).items())
                for part, array in record.items()
            }
            write(RECORDS / f"{arm}.npz", joined)
            for path in paths:
                path.unlink()
            with suppress(OSError):  # a run has just written another cell
                folder.rmdir()


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
        float(p.mean() / y.mean()),
    ]


def adjusted(p: Any, share: float) -> Any:
    """Apply the logit adjustment of the library; its τ is chosen by these rows, without labels."""
    P, shares = np.column_stack([1 - p, p]), np.array([1 - share, share])
    return logit_adjusted(P, shares, matching_tau(P, shares, shares))[:, 1]


def alone_and_together(cell: Record) -> dict[str, list[float]]:
    """Scores of the nets of a cell, alone and together."""
    y, share = cell["y"].astype(int), float(cell["share"])
    found: dict[str, list[float]] = {}

    def score(name: str, members: list[Any]) -> None:
        found[name] = np.mean([scores(y, p, share) for p in members], axis=0).tolist()

    for kind, (one, together) in ALONE_AND_TOGETHER.items():
        if f"{kind}0" in cell:
            n = N_STUDENTS if kind == "student" else N_STARTS  # older cells have more students
            nets = [cell[f"{kind}{i}"] for i in range(n)]
            score(one, nets)
            score(together, [np.mean(nets, axis=0)])
    if set(FOUR_STUDENTS) <= set(cell):
        students = [cell[name] for name in FOUR_STUDENTS]
        starts = np.mean([cell[f"start{i}"] for i in range(N_STARTS)], axis=0)
        pairs = [np.mean([starts, *pair], axis=0) for pair in combinations(students, 2)]
        score("one student with four epochs", students)
        score("two of them, and the starts as one", pairs)
        four = np.mean([starts, *students], axis=0)
        for name, members in (("five nets", [starts]), ("one", students), ("four", [four])):
            score(f"{name}, adjusted", [adjusted(p, share) for p in members])
    return found


def cells_of(records: Records) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Scores by task, seed and method, of the cells that all arms have.

    A method that an arm has in common with an earlier one is followed by the name of the arm.
    """
    first_arm = next(iter(records))
    by_task: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name in sorted(set.intersection(*map(set, records.values()))):
        found: dict[str, list[float]] = {}
        for arm, cells in records.items():
            cell, first = cells[name], records[first_arm][name]
            y, share = cell["y"].astype(int), float(cell["share"])
            if not np.array_equal(y, first["y"]):
                raise ValueError(f"{name} of {arm} has other labels than that of {first_arm}.")
            here = alone_and_together(cell)
            # of four students the first has the seed of single students
            for method in sorted(set(cell) - {"y", "share", "seconds", *FOUR_STUDENTS[1:]}):
                if method.rstrip("0123456789") not in ALONE_AND_TOGETHER:
                    here[method] = scores(y, cell[method], share)
            found |= {f"{name} ({arm})" if name in found else name: s for name, s in here.items()}
        if {"confirm", "four_students"} <= set(records):  # other nets, but for one with seed 0
            pair = [records[arm][name] for arm in ("confirm", "four_students")]
            nets = {p.tobytes(): p for c in pair for n, p in c.items() if n.startswith("start")}
            found["nine or ten nets"] = scores(y, np.mean(list(nets.values()), axis=0), share)
        if {"confirm", "setfit"} <= set(records):
            starts = [p for n, p in records["confirm"][name].items() if n.startswith("start")]
            six = np.mean([*starts, records["setfit"][name]["SetFit"]], axis=0)
            found["SetFit and five nets"] = scores(y, six, share)
        task, _, seed = name.rpartition("_")
        by_task.setdefault(task, {})[seed] = found
    return by_task


def sign_flip(d: Any) -> float:
    """Return the one-sided p-value of a mean above 0 over tasks, under all changes of sign."""
    signs = np.array(list(product([1, -1], repeat=len(d))))
    return float(np.mean((signs * d).mean(axis=1) >= d.mean() - 1e-12))


def lower_bounds(d: Any, p: float) -> Any:
    """Return what the means over rows of `d` exceed, but for a probability `p`."""
    se = d.std(axis=0, ddof=1) / np.sqrt(len(d))
    return d.mean(axis=0) - student_t.ppf(1 - p, len(d) - 1) * se


def mean_interval(d: Any) -> list[str]:
    """Return the means over rows of `d`, with their 95% intervals, in words."""
    ends = zip(lower_bounds(d, 0.025), d.mean(axis=0), -lower_bounds(-d, 0.025), strict=True)
    return [f"{mean:+.3f} [{low:.3f}, {high:.3f}]" for low, mean, high in ends]


def report(arms: list[str], against: str, method: str | None = None) -> None:
    """Print scores, and differences to the method `against`; the unit is the task.

    Those of `method` are printed for each task as well.
    """
    records = {arm: recorded(arm) for arm in arms}
    by_task = cells_of(records)
    if not by_task:
        raise SystemExit(f"No cell is there that all of {', '.join(arms)} have.")
    n_cells = sum(map(len, by_task.values()))
    other_half = {task.replace(":", "_") for task in CONFIRMING}
    n_confirming = sum(len(cells) for task, cells in by_task.items() if task in other_half)
    if n_confirming and len({frozenset(by_task.get(task, ())) for task in other_half}) > 1:
        raise SystemExit(
            "The confirmation is looked at once, with the same seeds of all "
            f"{len(other_half)} tasks; {n_confirming} cells are there."
        )
    print(f"{n_cells} cells, {len(by_task)} tasks: {', '.join(by_task)}")
    names_of_cells = [f"{task}_{seed}" for task, cells in by_task.items() for seed in cells]
    for arm, cells in records.items():
        seconds = np.mean([cells[name]["seconds"] for name in names_of_cells])
        print(f"CPU time of a cell of {arm}, mean: {seconds:.0f} s")
    means = {
        task: {name: np.mean([cell[name] for cell in cells], axis=0) for name in cells[0]}
        for task, cells in ((task, list(seeds.values())) for task, seeds in by_task.items())
    }
    names = list(next(iter(means.values())))
    for option, name in (("--against", against), ("--by-task", method or against)):
        if name not in names:
            raise SystemExit(f"{option} must be one of {', '.join(names)}; got {name}.")
    level = {name: np.mean([means[task][name] for task in means], axis=0) for name in names}
    d = {name: np.array([of[name] - of[against] for of in means.values()]) for name in names}
    header = f"| | {' | '.join(SCORES)} |\n| --- | {' | '.join('---:' for _ in SCORES)} |"
    print(f"\n{header}")
    for name in names:
        print(f"| {name} |", " | ".join(f"{value:.3f}" for value in level[name]), "|")
    print(f"\nDifference to {against}, mean over tasks with its 95% interval:\n")
    print(header)
    for name in names:
        if name != against:
            print(f"| {name} |", " | ".join(mean_interval(d[name])), "|")
            least = lower_bounds(d[name], 0.05)
            print(
                f"<!-- one-sided 95% bounds of the first two: {least[0]:+.4f}, {least[1]:+.4f}; "
                f"sign-flip test, average precision: p = {sign_flip(d[name][:, 0]):.3f} -->"
            )
    if "ceiling" in names:
        print("\nShare of the gap from one net to the ceiling, of the means over tasks:\n")
        print(header)
        for name in names:
            closed = (level[name] - level["one net"]) / (level["ceiling"] - level["one net"])
            print(f"| {name} |", " | ".join(f"{share:.0%}" for share in closed), "|")
    if method is not None:
        print(f"\nDifference of {method} to {against}, by the share of positives:\n\n{header}")
        first = records[arms[0]]
        shares = {
            task: float(np.mean([first[f"{task}_{seed}"]["y"].mean() for seed in seeds]))
            for task, seeds in by_task.items()
        }
        print_tasks(dict(zip(means, d[method], strict=True)), shares)


def print_tasks(differences: dict[str, Any], shares: dict[str, float]) -> None:
    """Print the differences of each task, and their means with related tasks as one."""
    for task in sorted(differences, key=shares.__getitem__):
        values = " | ".join(f"{value:+.3f}" for value in differences[task])
        print(f"| {task}, {shares[task]:.0%} | {values} |")
    # a thinned task shares texts with the whole one, and so do the columns of psytar
    for what, pattern in (("each disease", "@.*"), ("and psytar", "@.*|(?<=psytar)_.*")):
        groups: dict[str, list[Any]] = {}
        for task, values in differences.items():
            groups.setdefault(re.sub(pattern, "", task), []).append(values)
        grouped = np.array([np.mean(group, axis=0) for group in groups.values()])
        print(f"| {what} as one task |", " | ".join(mean_interval(grouped)), "|")


def plot(path: Path) -> None:
    """Draw what five nets, the defaults and four students gain over one net, a row for each task.

    A task without cells of four students has no mark for them.
    """
    from matplotlib.figure import Figure

    from sklearn_spt.inspection._style import PALETTE, ZERO_LINE

    tasks = {task.replace(":", "_"): task for task in CHOOSING + CONFIRMING}
    four = "four students, and the starts as one"
    methods = ("five nets", "defaults", four)
    labels = ("five nets", "the defaults", "four students of five nets")
    rows: list[tuple[float, str, Any]] = []  # share of positives, name, gains of all methods
    for arm, mark in (("nets", ""), ("confirm", "*")):
        records = {of: recorded(of) for of in (arm, "defaults", "four_students")}
        of_nets, of_defaults, of_students = records.items()
        students = cells_of(dict([of_nets, of_students]))
        for name, cells in cells_of(dict([of_nets, of_defaults])).items():
            one, *others = (
                np.mean([cell[method][:2] for cell in of], axis=0) if of else np.full(2, np.nan)
                for method in ("one net", *methods)
                for of in [(students.get(name, {}) if method == four else cells).values()]
            )
            share = np.mean([r["y"].mean() for key, r in of_nets[1].items() if key[:-2] == name])
            once = ", one seed" if len(cells) == 1 else ""
            label = f"{tasks[name]}{mark}, {share:.0%}{once}"
            rows.append((float(share), label, np.array(others) - one))
    rows.sort(reverse=True, key=lambda row: row[0])
    gains = np.array([gain for _, _, gain in rows])  # task, method, score
    places = np.arange(len(rows))
    figure = Figure(figsize=(9, 1.3 + 0.24 * len(rows)), layout="constrained")
    for score, ax in enumerate(figure.subplots(1, 2, sharey=True)):
        of_score = gains[:, :, score]
        ax.axvline(0, **ZERO_LINE)
        ends = np.nanmin(of_score, axis=1), np.nanmax(of_score, axis=1)
        ax.hlines(places, *ends, color="0.75", zorder=1)
        for method, label in enumerate(labels):
            style = {"color": PALETTE[method], "marker": "os^"[method], "label": label}
            ax.scatter(of_score[:, method], places, zorder=2, **style)
        ax.set_title(SCORES[score], fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    ax.set_yticks(places, [label for _, label, _ in rows])
    figure.supxlabel("gain over one net, mean over seeds", fontsize="medium")
    figure.legend(
        *ax.get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False
    )
    figure.savefig(path, dpi=110)
    starred = np.array(["*" in label for _, label, _ in rows])
    shares = np.array([share for share, _, _ in rows])
    for score, method in product(range(2), (1, 2)):
        there = ~np.isnan(gains[:, method, score])
        star, gain = starred[there], gains[there, method, score]
        over = {"one net": gain, "five nets": gain - gains[there, 0, score]}
        for other, d in over.items():
            print(
                f"{labels[method]}, {SCORES[score]}: better than {other} on {(d > 0).sum()} of "
                f"{len(d)} tasks, and on {(d[star] > 0).sum()} of the {star.sum()} with a star"
            )
        rank = spearmanr(shares[there], over["five nets"])[0]
        print(f"rank correlation of its gain over five nets with the share: {rank:+.2f}")
