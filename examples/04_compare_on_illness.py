"""Compare five ways to use 300 labelled tweets on the illness data, over three seeds.

Run ``python examples/04_compare_on_illness.py``. It needs the illness tweets (they are fetched, or
read from the folder named by ``SKLEARN_SPT_DATA``) and, on two cores without bf16, about two
hours. Each cell of the table (method and seed) is written to one JSON file as soon as it is
finished; a run that was stopped goes on where it was. ``--workers 2`` computes two cells at a
time. At the end the table is printed as markdown.

Every method sees the same rows: 300 labelled, 3,000 unlabelled and 2,000 test rows, stratified,
without rows that repeat another (in the sense of the function `fingerprint`). Nothing is tuned
here: the nets have the paper's settings and all else its defaults, apart from what METHODS
spells out.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

import sklearn_spt
from sklearn_spt import (
    PAPER_SETTINGS,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    TokenIdVectorizer,
)
from sklearn_spt.datasets import fetch_illness

N_LABELED, N_UNLABELED, N_TEST = 300, 3000, 2000
SEEDS = (0, 1, 2)
HERE = Path(__file__).resolve().parent
RECORDS = HERE.parent / "docs" / "records" / "illness_300"


def tfidf(seed: int) -> Any:
    """TF-IDF with logistic regression, classes weighted."""
    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        LogisticRegression(class_weight="balanced", max_iter=1000),
    )


def embeddings(seed: int) -> Any:
    """Frozen embeddings with logistic regression, classes weighted."""
    return make_pipeline(
        SentenceEmbedder(), LogisticRegression(class_weight="balanced", max_iter=1000)
    )


def fine_tuning(seed: int) -> Any:
    """Supervised fine-tuning with the paper's settings, as all nets here."""
    return PAPER_SETTINGS["estimator"].set_params(random_state=seed)


def self_training(seed: int) -> Any:
    """scikit-learn's self-training over the same net.

    Two iterations (scikit-learn's default is ten): they already train on more texts than
    Self-Pretraining does.
    """
    return make_pipeline(TokenIdVectorizer(), SelfTrainingClassifier(fine_tuning(seed), max_iter=2))


def self_pretraining(seed: int) -> Any:
    """Self-Pretraining with the paper's settings: five iterations of 600 more documents."""
    return SelfPretrainingClassifier(**PAPER_SETTINGS, random_state=seed)


# name -> (factory, whether it takes unlabelled rows)
METHODS: dict[str, tuple[Callable[[int], Any], bool]] = {
    "TF-IDF + logistic regression": (tfidf, False),
    "frozen embeddings + logistic regression": (embeddings, False),
    "BertClassifier": (fine_tuning, False),
    "SelfTrainingClassifier(BertClassifier)": (self_training, True),
    "SelfPretrainingClassifier": (self_pretraining, True),
}


def fingerprint(text: str) -> str:
    """What is left of a tweet without links, user names, digits, case and punctuation."""
    text = re.sub(r"https?://\S+|@\w+|^rt\b", " ", text.lower())
    return " ".join(re.findall(r"[^\W\d_]+", text))


def split(seed: int) -> dict[str, Any]:
    """Labelled, unlabelled and test rows of a seed."""
    bunch = fetch_illness()
    _, first = np.unique([fingerprint(text) for text in bunch.data], return_index=True)
    rows = np.sort(first)
    rest, test = train_test_split(
        rows, test_size=N_TEST, stratify=bunch.target[rows], random_state=seed
    )
    rest, labeled = train_test_split(
        rest, test_size=N_LABELED, stratify=bunch.target[rest], random_state=seed
    )
    _, unlabeled = train_test_split(
        rest, test_size=N_UNLABELED, stratify=bunch.target[rest], random_state=seed
    )
    return {
        "X": [bunch.data[i] for i in labeled],
        "y": bunch.target[labeled],
        "X_unlabeled": [bunch.data[i] for i in unlabeled],
        "X_test": [bunch.data[i] for i in test],
        "y_test": bunch.target[test],
        "n_dropped": len(bunch.data) - len(rows),
    }


def cell_file(folder: Path, method: str, seed: int) -> Path:
    """Where the record of a cell lies."""
    return folder / f"{re.sub(r'[^a-z]+', '_', method.lower()).strip('_')}-{seed}.json"


def run_cell(folder: Path, method: str, seed: int) -> None:
    """Fit and score one method on one seed, unless its record is there already."""
    file = cell_file(folder, method, seed)
    if file.exists():
        return
    data = split(seed)
    factory, semi_supervised = METHODS[method]
    X, y = data["X"], data["y"]
    if semi_supervised:
        X = X + data["X_unlabeled"]
        y = np.concatenate([y, np.full(len(data["X_unlabeled"]), -1)])
    model = factory(seed)
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    y_pred = model.predict(data["X_test"])
    done = time.perf_counter()
    precision, recall, f1, _ = precision_recall_fscore_support(
        data["y_test"], y_pred, average="binary", zero_division=0
    )
    record = {
        "method": method,
        "seed": seed,
        "f1": float(f1),
        "precision": float(precision),
        "recall": float(recall),
        "fit_seconds": fitted - start,
        "predict_seconds": done - fitted,
        "n_labeled": N_LABELED,
        "n_unlabeled": N_UNLABELED if semi_supervised else 0,
        "n_test": N_TEST,
        "n_repeated_rows_dropped": data["n_dropped"],
        "history": getattr(model, "history_", None) if method.startswith("SelfPre") else None,
        "n_threads": torch.get_num_threads(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("scikit-learn", "skorch", "torch", "transformers")},
            "sklearn-spt": sklearn_spt.__version__,
        },
    }
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    partial.replace(file)


def table(folder: Path) -> str:
    """Mean and standard deviation over the seeds, as a markdown table."""
    lines = [
        "| method | F1 | precision | recall | fit seconds | seeds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for method in METHODS:
        files = [cell_file(folder, method, seed) for seed in SEEDS]
        records = [json.loads(f.read_text(encoding="utf-8")) for f in files if f.exists()]
        if not records:
            continue
        cells = []
        for key in ("f1", "precision", "recall"):
            values = [record[key] for record in records]
            spread = np.std(values, ddof=1) if len(values) > 1 else float("nan")
            cells.append(f"{np.mean(values):.3f} ± {spread:.3f}")
        seconds = np.mean([record["fit_seconds"] for record in records])
        lines.append(f"| {method} | {' | '.join(cells)} | {seconds:.0f} | {len(records)} |")
    return "\n".join(lines)


def main() -> None:
    """Compute what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=Path, default=RECORDS, help="folder of the JSON records")
    parser.add_argument("--workers", type=int, default=1, help="cells computed at a time")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    options.records.mkdir(parents=True, exist_ok=True)
    if not options.table:
        cells = [(method, seed) for seed in SEEDS for method in METHODS]
        joblib.Parallel(n_jobs=options.workers, verbose=10)(
            joblib.delayed(run_cell)(options.records, method, seed) for method, seed in cells
        )
    print(table(options.records))


if __name__ == "__main__":
    main()
