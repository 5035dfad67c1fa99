"""Cells and report of docs/results/noise.md: do students learn more from noisy texts?

    python examples/studies/noise.py run --seed 0 phm_tuning psytar:EF
    python examples/studies/noise.py report

`run` appends one line for each student, and leaves out tasks that are there; `--out` names another
file, for a second process. Data come from SKLEARN_SPT_DATA. A task takes about 12 minutes on one
core.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _deletion import Deletion, Noisy
from _gain_report import scores
from _gain_tasks import CHOOSING, Cell
from _lines import parsers, read
from gain_study import Study
from skorch.utils import to_tensor
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from sklearn_spt import BertClassifier
from sklearn_spt.model_selection._intervals import mean_with_interval

RECORDS = Path(__file__).parents[2] / "docs" / "records" / "noise.jsonl"
TASKS = tuple(task for task in CHOOSING if task != "illness:diabetes")
SCORES = {"ap": "average precision", "f1_matched": "F1 at the labels' share"}
#: Length of the adversarial step, as a share of the length of all embeddings of a text. Those of
#: padding count, 2% of the length in the mean; the step itself is zero there.
STEP = 0.05


def kl(target: Tensor, z: Tensor) -> Tensor:
    """KL divergence of log probabilities `target` from those of logits, in the mean over rows."""
    return kl_div(log_softmax(z, dim=1), target, reduction="batchmean", log_target=True)


class TwoDropouts(Noisy):
    """Predicts each batch of stage 1 twice, and learns that both predictions agree (R-Drop)."""

    def get_loss(self, y_pred: Tensor, y_true: Any, X: Any = None, training: bool = False) -> Any:
        loss = super().get_loss(y_pred, y_true, X, training)
        if not (training and self.on_pseudo_labels()):
            return loss
        again = self.infer(X)
        p, q = log_softmax(y_pred, dim=1), log_softmax(again, dim=1)
        both = (loss + super().get_loss(again, y_true, X, training)) / 2
        return both + (kl(p, again) + kl(q, y_pred)) / 2


class Adversarial(Noisy):
    """Predicts the same for the worst small change of the embeddings in stage 1 (VAT)."""

    def get_loss(self, y_pred: Tensor, y_true: Any, X: Any = None, training: bool = False) -> Any:
        loss = super().get_loss(y_pred, y_true, X, training)
        if not (training and self.on_pseudo_labels()):
            return loss
        self.module_.eval()
        try:
            return loss + self.smoothness(to_tensor(X, device="cpu"))
        finally:
            self.module_.train()

    def smoothness(self, X: Tensor) -> Tensor:
        """KL divergence of the prediction after the step from the prediction before it."""
        seen: list[Tensor] = []
        step: Tensor | None = None

        def change(module: Any, args: Any, embedded: Tensor) -> Tensor:
            seen.append(embedded.detach())
            return embedded if step is None else embedded + step

        hook = self.module_.encoder.model.embeddings.register_forward_hook(change)
        try:
            with torch.no_grad():
                p = log_softmax(self.module_(X), dim=1)
            length = STEP * seen[0].flatten(1).norm(dim=1)[:, None, None]

            def scaled(d: Tensor) -> Tensor:
                return length * d / d.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None]

            # the gradient is zero without a change, so it is taken a little beside
            step = (0.1 * scaled(torch.randn_like(seen[0]))).requires_grad_()
            (g,) = torch.autograd.grad(kl(p, self.module_(X)), step)
            step = scaled(g)
            return kl(p, self.module_(X))
        finally:
            hook.remove()


STUDENTS = {
    "plain": BertClassifier,
    "deletion of tokens": Deletion,
    "R-Drop": TwoDropouts,
    "VAT": Adversarial,
}


def students(cell: Cell) -> dict[str, dict[str, float]]:
    """Scores of five nets, and of each student of them."""
    of = Study(BertClassifier(n_threads=1), alpha=0.0, random_state=0).prepare(cell)
    split, _ = cell.draw()
    share = float(np.mean(split.y[split.y >= 0]))
    starts = of.starts()
    U, L = starts.pop("U"), starts.pop("L")
    found = {"five nets": (np.mean(list(starts.values()), axis=0), 0.0)}
    for name, kind in STUDENTS.items():
        start = time.process_time()
        of.net = kind(n_threads=1)
        M, _ = of.trainer(1000 * cell.seed + 100).train_student(2, 0, of.labels.X_unlabeled, U, L)
        seconds = time.process_time() - start
        found[name] = of.soft(M, of.V), seconds
    return {
        name: dict(zip(("ap", "f1_matched"), scores(split.y_test, P[:, 1], share)[:2], strict=True))
        | {"seconds": seconds}
        for name, (P, seconds) in found.items()
    }


def run(path: Path, tasks: list[str], seed: int) -> None:
    torch.set_num_threads(1)
    for task in tasks:
        if any((row["task"], row["seed"]) == (task, seed) for row in read(path)):
            continue
        lines = [
            json.dumps({"task": task, "seed": seed, "student": name} | found) + "\n"
            for name, found in students(Cell(task, seed, None)).items()
        ]
        with path.open("a") as file:
            file.writelines(lines)
        print(task, seed, flush=True)


def report(path: Path) -> None:
    """Print the differences to the plain student; the unit is the task."""
    rows = read(path)
    n = len({(row["task"], row["seed"]) for row in rows})
    seeds = {tuple(sorted({r["seed"] for r in rows if r["task"] == task})) for task in TASKS}
    if len(seeds) > 1 or () in seeds:
        raise SystemExit(
            f"Looked at with the same seeds of {len(TASKS)} tasks; {n} cells are there."
        )
    print(f"{n} cells\n\n| | {' | '.join(SCORES.values())} | CPU time |")
    print("| --- | ---: | ---: | ---: |")

    def mean(student: str, score: str) -> Any:
        """Means over seeds, by task."""
        return np.array(
            [
                np.mean([r[score] for r in rows if (r["student"], r["task"]) == (student, task)])
                for task in TASKS
            ]
        )

    for student in ["five nets", *STUDENTS]:
        cells = []
        for score in SCORES:
            d = mean(student, score) - mean("plain", score)
            center, low, high = mean_with_interval(d, 0.95)
            cells.append(f"{center:+.3f} [{low:.3f}, {high:.3f}]")
        ratio = mean(student, "seconds").sum() / mean("plain", "seconds").sum()
        print(f"| {student} | {' | '.join(cells)} | {f'{ratio:.1f}' if ratio else ''} |")


def main() -> None:
    parser, _ = parsers(__doc__, RECORDS)
    args = parser.parse_args()
    if args.command == "run":
        run(args.out, args.tasks or list(TASKS), args.seed)
    else:
        report(RECORDS)


if __name__ == "__main__":
    sys.exit(main())
