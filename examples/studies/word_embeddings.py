"""Cells and report of docs/results/word_embeddings.md: can the word embeddings stay untrained?

    python examples/studies/word_embeddings.py run --seed 0 --out cells_0.jsonl illness psytar:EF
    python examples/studies/word_embeddings.py report

`run` appends one line for each fit, and leaves out those that are there. Data come from
SKLEARN_SPT_DATA. A fit takes 40 s (a net) to 250 s (the classifier) on one core.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _gain_report import scores
from _gain_tasks import bunch_of
from _lines import parsers, read
from scipy.stats import t as student_t

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.experiments._split_protocol import cut, draw

RECORDS = Path(__file__).parents[2] / "docs" / "records" / "word_embeddings.jsonl"
TASKS = (
    "illness",
    "illness@5%",
    "phm_tuning",
    "phm_tuning@9%",
    "psytar:ADR",
    "psytar:EF",
    "psytar:INF",
    "psytar:WD",
    "crisislex_t6:sandy",
    "crisislex_t6:alberta",
)
N_SEEDS = 3
MEASURES = {
    "ap": "average precision",
    "f1_matched": "F1 at the labels' share of positives",
    "f1": "F1 by the classifier's own rule",
    "brier": "Brier score",
}


def score(kind: str, task: str, seed: int, frozen: bool) -> dict[str, Any]:
    """Fit on 300 labelled texts, with 1,000 unlabelled ones or none; score validation rows."""
    split = draw(cut(bunch_of(task), 1000, 1000), 300, 1000, seed)
    clf = BertClassifier(n_threads=1, random_state=seed, module__train_word_embeddings=not frozen)
    rows = split.y >= 0
    if kind == "self_pretraining":
        clf = SelfPretrainingClassifier(clf, random_state=seed)
        rows = np.full(len(split.y), True)
    start = time.process_time()
    clf.fit(list(split.texts[rows]), split.y[rows])
    seconds = time.process_time() - start
    texts, y = list(split.texts_test), split.y_test
    share = float(np.mean(split.y[split.y >= 0]))
    ap, matched, f1, _, brier, _ = scores(y, clf.predict_proba(texts)[:, 1], share)
    return {"ap": ap, "f1": f1, "f1_matched": matched, "brier": brier, "seconds": seconds}


def run(path: Path, kind: str, tasks: list[str], seed: int) -> None:
    torch.set_num_threads(1)
    keys = ("kind", "task", "seed", "frozen")
    done = {tuple(row[key] for key in keys) for row in read(path)}
    for cell in product([kind], tasks, [seed], [False, True]):
        if cell not in done:
            found = score(*cell)
            with path.open("a") as file:
                file.write(json.dumps(dict(zip(keys, cell, strict=True)) | found) + "\n")
            print(*cell, f"{found['seconds']:.0f} s", flush=True)


def report(path: Path) -> None:
    """Print the differences (frozen - trained) by kind of classifier; the unit is the task."""
    cells = {(r["kind"], r["task"], r["seed"], r["frozen"]): r for r in read(path)}
    for kind in ("net", "self_pretraining"):
        due = list(product([kind], TASKS, range(N_SEEDS), [False, True]))
        missing = [cell for cell in due if cell not in cells]
        if missing:
            raise SystemExit(f"{kind}: looked at with {len(due)} fits; {len(missing)} are missing.")
        print(f"\n| {kind} | difference | one-sided 95% bound |\n| --- | ---: | ---: |")
        for measure, name in MEASURES.items():
            frozen, trained = (
                np.array(
                    [
                        [cells[kind, task, seed, arm][measure] for seed in range(N_SEEDS)]
                        for task in TASKS
                    ]
                )
                for arm in (True, False)
            )
            d = (frozen - trained).mean(axis=1)
            half = student_t.ppf(0.95, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d))
            bound = d.mean() + half if measure == "brier" else d.mean() - half
            print(f"| {name} | {d.mean():+.4f} | {bound:+.4f} |")
        seconds = [
            np.sum([r["seconds"] for r in cells.values() if r["kind"] == kind and r["frozen"] is f])
            for f in (False, True)
        ]
        print(f"\nCPU seconds, frozen to trained: {seconds[1] / seconds[0]:.2f}")


def main() -> None:
    parser, of_run = parsers(__doc__, RECORDS)
    of_run.add_argument("--kind", choices=["net", "self_pretraining"], default="self_pretraining")
    args = parser.parse_args()
    if args.command == "run":
        run(args.out, args.kind, args.tasks or list(TASKS), args.seed)
    else:
        report(RECORDS)


if __name__ == "__main__":
    sys.exit(main())
