"""Produce the paper's tables and figures again, on its data sets or on a file of your own.

    python run.py run --data earthquake=FOLDER --out results.jsonl
    python run.py run --data posts.csv --methods Baseline,Self-Pretraining --out results.jsonl
    python run.py table results.jsonl
    python run.py figure results.jsonl --out figures

Each line of a file is one result; what is there is not computed again. ``--jobs`` runs several
results at once. Inside ``joblib.parallel_config("dask")`` they run on a cluster of dask.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from pathlib import Path
from time import perf_counter

import ablations
import joblib
import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import train_test_split

from sklearn_spt import (
    PAPER_SETTINGS,
    BertClassifier,
    CoDecompositionClassifier,
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
)
from sklearn_spt.datasets import load_flu_vaccine, load_nepal_earthquake, load_smm4h_adr

LOADERS = {"adr": load_smm4h_adr, "earthquake": load_nepal_earthquake, "product": load_flu_vaccine}
PAPER = pd.read_csv(Path(__file__).with_name("paper_numbers.csv"))
KEY = ["data", "table", "method", "value", "n_labeled", "seed"]

#: The systems of the main table.
SYSTEMS = {
    "Baseline": None,
    "Self-training": ThrottledSelfTrainingClassifier,
    "Tri-training+": TriTrainingClassifier,
    "Mutual-learning": MutualLearningClassifier,
    "Spaced-rep": SpacedRepetitionClassifier,
    "Co-Decomp": CoDecompositionClassifier,
    "Self-Pretraining": SelfPretrainingClassifier,
}
#: Parameters that the small tables vary.
VALUES = {
    "step_size": ("step_size", [1000, 2000, 3000, 4000]),
    "temperature": ("temperature", [2, 3, 4, 5, 6]),
    "lambda": ("lam", [0.1, 0.2, 0.3, 0.4, 0.5]),
    "alpha": ("alpha", [0.1, 0.2, 0.3, 0.4, 0.5]),
}
ABLATIONS = {
    "two-stage learning": ablations.WithoutTwoStages,
    "trapezoidal lr": ablations.WithoutTrapezoidalLR,
    "iterative distillation": ablations.WithoutDistillation,
    "inertial transform": SelfPretrainingClassifier,
}


# -- data ------------------------------------------------------------------------------------------
def normalized(text):
    """Write a tweet as the paper's code does: lower case, "www" for URLs, no user names."""
    text = re.sub(r"(https?://|www\.)\S+", "www", text.lower())
    return re.sub(r"@\w+", "", text).strip()


def load(name):
    """Return texts, labels (-1 where unlabelled), folds and keywords of a data set or a file."""
    kind, _, place = name.partition("=")
    if kind in LOADERS:
        bunch = LOADERS[kind](place)
        frame = pd.DataFrame({"text": bunch.data, "label": bunch.target, "fold": bunch.fold})
        frame["keyword"] = bunch.get("keyword", "")
    else:
        frame = pd.read_csv(name, dtype={"text": str})
        frame["label"] = frame["label"].fillna(-1).astype(int)
        if "fold" not in frame:
            frame["fold"] = "train"
        frame["keyword"] = frame.get("keyword", "")
    frame["text"] = frame["text"].map(normalized)
    return frame


def split(frame, n_labeled, n_unlabeled, n_test, seed):
    """Draw labelled, unlabelled and test rows by class, as the paper does with each seed."""
    test = frame[frame["fold"] == "test"]
    train = frame[~frame["fold"].isin(["test", "unlabelled"]) & (frame["label"] >= 0)]
    if not len(test):
        train, test = train_test_split(
            train, test_size=n_test, stratify=train["label"], random_state=seed
        )
    labeled, rest = train_test_split(
        train, train_size=n_labeled, stratify=train["label"], random_state=seed
    )
    pool = pd.concat([frame[frame["label"] < 0], rest])
    unlabeled = pool.sample(min(n_unlabeled, len(pool)), random_state=seed)
    return labeled, unlabeled.assign(label=-1), test


# -- methods ---------------------------------------------------------------------------------------
def classifier(table, method, value, encoder, seed):
    """Return the classifier of one result, with the paper's settings."""
    net = BertClassifier(encoder, head_init="random", random_state=seed)
    if method == "Baseline":
        return net
    if method != "Self-Pretraining":
        return SYSTEMS[method](net, random_state=seed)
    kind, params = SelfPretrainingClassifier, dict(PAPER_SETTINGS, step_size=2000)
    if table in VALUES:
        params[VALUES[table][0]] = type(VALUES[table][1][0])(float(value))
    if table == "ablation":
        kind = ABLATIONS[value]
        if value == "inertial transform":
            params["alpha"] = 0.0
    return kind(net, random_state=seed, **params)


def wanted(options):
    """Yield the keys of the results that the options ask for."""
    for data in options.data:
        for seed in range(options.seeds):
            for n_labeled in options.n_labeled:
                for method in options.methods.split(","):
                    yield data, "main", method, "", n_labeled, seed
            small = max(options.n_labeled)
            for table in options.tables.split(",") if options.tables else []:
                values = ABLATIONS if table == "ablation" else VALUES[table][1]
                for value in values:
                    yield data, table, "Self-Pretraining", str(value), small, seed


def compute(key, options, frame):
    """Fit and score one classifier."""
    _, table, method, value, n_labeled, seed = key
    sizes = options.n_unlabeled, options.n_test
    labeled, unlabeled, test = split(frame, n_labeled, *sizes, seed)
    clf = classifier(table, method, value, options.encoder, seed)
    both = pd.concat([labeled, unlabeled])
    columns = ["text", "keyword"] if method == "Co-Decomp" else ["text"]
    X, X_test = both[columns], test[columns]
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the baseline leaves unlabelled rows out
        predicted = clf.fit(X, both["label"].to_numpy()).predict(X_test)
    average = "binary" if test["label"].nunique() == 2 else "macro"
    scores = precision_recall_fscore_support(
        test["label"], predicted, average=average, zero_division=0.0
    )
    found = dict(zip(("precision", "recall", "f1"), map(float, scores[:3]), strict=True))
    found["seconds"] = perf_counter() - start
    if method == "Self-Pretraining":
        found["samples"] = clf.sample_sizes_
    return dict(zip(KEY, (key[0].partition("=")[0], *key[1:]), strict=True)) | found


def read(file):
    """Read the complete lines of a file of results."""
    lines = Path(file).read_text("utf-8").splitlines() if Path(file).exists() else []
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:  # a line that was cut by a kill
            continue
    return pd.DataFrame(rows, columns=None if rows else KEY)


def run(options):
    """Compute the results that are missing."""
    known = set(map(tuple, read(options.out)[KEY].astype(str).to_numpy()))
    frames = {data: load(data) for data in options.data}
    missing = [
        key
        for key in wanted(options)
        if tuple(map(str, (key[0].partition("=")[0], *key[1:]))) not in known
    ]
    if options.out.exists() and not options.out.read_text("utf-8").endswith("\n"):
        options.out.write_text(options.out.read_text("utf-8") + "\n", "utf-8")
    tasks = (joblib.delayed(compute)(key, options, frames[key[0]]) for key in missing)
    results = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered")(tasks)
    for number, result in enumerate(results, start=1):
        with open(options.out, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(result) + "\n")
        print(f"{number}/{len(missing)} {result}", flush=True)


# -- tables and figures ----------------------------------------------------------------------------
def summary(options):
    """Return mean scores over the seeds, beside the paper's."""
    results = pd.concat([read(file) for file in options.files])
    scores = ["f1", "precision", "recall"]
    keys = ["table", "data", "n_labeled", "method", "value"]
    mean = results.groupby(keys, sort=False)[scores].mean()
    paper = PAPER.fillna({"value": ""}).astype({"value": str}).set_index(keys)[scores]
    return mean.join(paper.add_prefix("paper "))


def table(options):
    """Print the tables in Markdown."""
    for (name, data), part in summary(options).groupby(level=["table", "data"], sort=False):
        part = part.reset_index(["table", "data"], drop=True).reset_index()
        part = part.loc[:, part.notna().any() & (part != "").any()]
        print(f"\n{data}, {name}\n")
        print("| " + " | ".join(part.columns) + " |")
        print("| " + " | ".join("---" for _ in part.columns) + " |")
        for row in part.itertuples(index=False):
            cells = [f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row]
            print("| " + " | ".join(cells) + " |")


def figure(options):
    """Draw F1 over the values of each parameter, and the learning rate of a student."""
    import matplotlib.pyplot as plt

    from sklearn_spt import RightTrapezoidalLR

    options.out.mkdir(parents=True, exist_ok=True)
    small = summary(options).reset_index()
    for name, part in small[small["table"].isin(VALUES)].groupby("table"):
        fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
        for data, one in part.groupby("data"):
            ax.plot(one["value"].astype(float), one["f1"], marker="o", label=data)
        ax.set(xlabel=name, ylabel="F1")
        ax.legend()
        fig.savefig(options.out / f"{name}.png", dpi=150)
        plt.close(fig)
    schedule = RightTrapezoidalLR(60, 40)
    fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
    steps = np.arange(100)
    fallen = np.maximum(steps - schedule.n_constant, 0) / schedule.n_decay
    ax.plot(steps, 1 - fallen)
    ax.axvline(schedule.n_constant, color="0.6", linestyle="--")
    ax.set(xlabel="step", ylabel="share of the learning rate", ylim=(0, 1.05))
    ax.text(2, 0.05, "pseudo-labels")
    ax.text(schedule.n_constant + 2, 0.05, "labels")
    fig.savefig(options.out / "learning_rate.png", dpi=150)
    plt.close(fig)


def main(arguments=None):
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("run").add_argument
    add("--data", action="append", required=True, help="adr=FOLDER, ..., or a CSV (text, label)")
    add("--methods", default=",".join(SYSTEMS), help="systems of the main table")
    add("--tables", default="", help="of step_size, temperature, lambda, alpha, ablation")
    add("--n-labeled", type=int, nargs="+", default=[300, 500])
    add("--n-unlabeled", type=int, default=10_000)
    add("--n-test", type=int, default=2000, help="test rows of data without a fold named test")
    add("--seeds", type=int, default=3)
    add("--encoder", default="sentence-transformers/all-MiniLM-L6-v2", help="bert-base-uncased")
    add("--jobs", type=int, default=1)
    add("--out", type=Path, required=True)
    commands.add_parser("table").add_argument("files", nargs="+")
    drawing = commands.add_parser("figure")
    drawing.add_argument("files", nargs="+")
    drawing.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    {"run": run, "table": table, "figure": figure}[options.command](options)


if __name__ == "__main__":
    main()
