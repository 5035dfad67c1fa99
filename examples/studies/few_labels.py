"""Few labels: teachers on frozen embeddings, and nets that learn from them; see PROTOCOL.md.

    python few_labels.py teachers --data FOLDER --out teachers.jsonl
    python few_labels.py nets --data FOLDER --out nets.jsonl
    python few_labels.py table teachers.jsonl

Each line of a file is one result. Results that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, log_loss
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SoftSelfTrainingClassifier,
)
from sklearn_spt._class_distributions import tempered
from sklearn_spt._pretrained import DEFAULT_ENCODER, load_encoder

TASKS = ["stackoverflow", "searchsnippets", "banking77", "trec"]
TASKS += ["subj", "mr", "te_emotion", "te_hate"]
# tasks of nuance, of which one class is rare: file, columns of text and label, positive labels
RARE = {
    "phm_tuning": ("phm_tuning/tuning.dataset", 3, 1, ["3"]),
    "illness": ("illness/data.txt", 2, 1, ["2", "3"]),
    "psytar_adr": ("psytar/train.csv", 0, 1, ["1"]),
    "psytar_wd": ("psytar/train.csv", 0, 2, ["1"]),
}
KINDS = {"stackoverflow": "20 topics", "searchsnippets": "8 topics", "banking77": "77 intents",
         "trec": "6 kinds of questions", "subj": "subjectivity", "mr": "sentiment",
         "te_emotion": "4 emotions", "te_hate": "hate speech"}  # fmt: skip
IN_FIGURE = {  # method: marker, colour, size, name
    "logistic regression": ("s", "tab:gray", 6, "logistic regression on frozen embeddings"),
    "soft self-training": ("D", "tab:green", 6, "SoftSelfTrainingClassifier on the same"),
    "five nets, same epochs": ("v", "tab:orange", 8, "five nets, labels only"),
    "defaults": ("o", "tab:blue", 10, "SelfPretrainingClassifier()"),
}
N_UNLABELED, N_VALID = 2000, 1000
KEYS = ["task", "method", "k", "seed", "arm"]


# -- data ------------------------------------------------------------------------------------------
def load(folder, task, part="train"):
    """Return the texts and class codes of a part of a task; the rare ones have no test part."""
    if task in RARE:
        file, text, label, positive = RARE[task]
        how = {"sep": "\t", "dtype": str, "quoting": 3, "on_bad_lines": "skip"}
        rows = pd.read_csv(Path(folder) / file, **how).dropna()
        return rows.iloc[:, text].to_numpy(), rows.iloc[:, label].isin(positive).to_numpy(int)
    lines = (Path(folder) / "short_texts" / task / f"{part}.tsv").read_text("utf-8").splitlines()
    codes, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    return np.array(texts, dtype=object), np.array(codes, dtype=int)


def embeddings(cache, name, texts, encoder=DEFAULT_ENCODER):
    """Return frozen embeddings of texts, made once."""
    file = Path(cache) / f"{name}.npy"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, SentenceEmbedder(encoder, verbose=1).transform(texts))
    return np.load(file)


def draw(codes, k, seed, arm="balanced"):
    """Return the rows that are labelled, unlabelled, and kept for validation."""
    rng = np.random.default_rng([seed, k])
    order = rng.permutation(len(codes))
    valid, rest = order[:N_VALID], order[N_VALID:]
    n_classes = codes.max() + 1
    if arm == "random":
        labeled = rest[: k * n_classes]
        if len(np.unique(codes[labeled])) < n_classes:  # a class without a label is not learned
            first = [rest[codes[rest] == c][0] for c in range(n_classes)]
            labeled = np.unique([*first, *labeled])
    else:
        labeled = np.concatenate([rest[codes[rest] == c][:k] for c in range(n_classes)])
    return labeled, np.setdiff1d(rest, labeled, assume_unique=True)[:N_UNLABELED], valid


# -- teachers on embeddings ------------------------------------------------------------------------
def teachers():
    """Return classifiers of frozen embeddings by name."""
    linear = LogisticRegression(C=10, max_iter=1000)
    return {
        "logistic regression": linear,
        "self-training": SelfTrainingClassifier(linear),
        "label spreading": LabelSpreading(kernel="knn", n_neighbors=10),
        "soft self-training": SoftSelfTrainingClassifier(),
    }


# -- nets ------------------------------------------------------------------------------------------
class SetFit(ClassifierMixin, BaseEstimator):
    """SetFit with its defaults but for 20 pairs a text (pip install setfit)."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def fit(self, X, y):
        from datasets import Dataset
        from setfit import SetFitModel, Trainer, TrainingArguments

        encoder = load_encoder(DEFAULT_ENCODER).model.config.name_or_path
        self.model_, self.classes_ = SetFitModel.from_pretrained(encoder), np.unique(y)
        with tempfile.TemporaryDirectory() as folder:
            how = {"num_iterations": 20, "seed": self.random_state, "output_dir": folder}
            how |= {"report_to": "none", "save_strategy": "no", "show_progress_bar": False}
            data = Dataset.from_dict({"text": list(X), "label": [int(label) for label in y]})
            Trainer(self.model_, TrainingArguments(**how), train_dataset=data).train()
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(list(X), as_numpy=True, show_progress_bar=False)


class AllLabels(BertClassifier):
    """One net on the true labels of all texts, also of the unlabelled ones: the ceiling."""


def nets():
    """Return the classifiers of texts by name."""
    S = SelfPretrainingClassifier
    return {
        "one net": BertClassifier(),
        "SetFit": SetFit(),
        "five nets": S(n_teachers=5, max_iter=0),
        "one net, same epochs": S(max_iter=0, finetune_epochs=None),
        "five nets, same epochs": S(n_teachers=5, max_iter=0, finetune_epochs=None),
        "all labels": AllLabels(),
        "defaults": S(),
        "without refit": S(refit_head=False),
    }


# -- runs ------------------------------------------------------------------------------------------
def run(options):
    """Compute the results that are missing: a line for validation and one for test rows."""
    done = finished(options.out)
    candidates = teachers() if options.command == "teachers" else nets()
    wanted = options.methods.split("|") if options.methods else list(candidates)
    for seed in options.seeds:
        for task in options.tasks.split(","):
            X, codes = load(options.data, task)
            X_test, y_test = (X, codes) if task in RARE else load(options.data, task, "test")
            tests = np.random.default_rng(0).permutation(len(X_test))[:N_VALID]
            X_test, y_test = X_test[tests], y_test[tests]
            if options.command == "teachers":
                cache = options.out.with_suffix(".cache")
                X = embeddings(cache, task, X)
                X_test = embeddings(cache, f"{task}.test", X_test)
            for method in wanted:
                key = (task, method, options.k, seed, options.arm)
                if key not in done:
                    labeled, unlabeled, valid = draw(codes, options.k, seed, options.arm)
                    start = perf_counter()
                    model = fit(candidates[method], X, codes, labeled, unlabeled, seed)
                    seconds = {"seconds": round(perf_counter() - start, 2)}
                    both = ("valid", X[valid], codes[valid]), ("test", X_test, y_test)
                    for part, D, y in both[: 1 if task in RARE else 2]:
                        scores = score(model, D, y, codes.max() + 1)
                        record(options.out, key, {"part": part} | scores | seconds)


def finished(file):
    """Return the keys of the results that are there."""
    known = pd.read_json(file, lines=True) if file.exists() else pd.DataFrame()
    return set(map(tuple, known[KEYS].to_numpy())) if len(known) else set()


def record(file, key, result):
    """Add a result to a file."""
    with open(file, "a", encoding="utf-8") as stream:
        one = dict(zip(KEYS, key, strict=True)) | result
        stream.write(json.dumps(one, separators=(",", ":")) + "\n")


def fit(model, X, codes, labeled, unlabeled, seed):
    """Fit a classifier on labelled and unlabelled rows."""
    rows = np.concatenate([labeled, unlabeled])
    y = np.append(codes[labeled], np.full(len(unlabeled), -1))
    if type(model) in (LogisticRegression, BertClassifier, SetFit):
        rows, y = labeled, codes[labeled]
    if type(model) is AllLabels:
        y = codes[rows]
    if getattr(model, "finetune_epochs", 0) is None:  # as many as the defaults have
        sizes = len(labeled), codes.max() + 1, len(unlabeled)
        epochs = SelfPretrainingClassifier()._plan(BertClassifier(), *sizes).finetune_epochs
        model = clone(model).set_params(finetune_epochs=epochs)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X[rows], y)


def score(model, X, y, n_classes):
    """Return the scores of a fitted classifier."""
    classes = np.arange(n_classes)
    P = np.nan_to_num(model.predict_proba(X), nan=1 / n_classes)
    predicted = model.classes_[P.argmax(axis=1)]
    f1 = f1_score(y, predicted, labels=classes, average="macro", zero_division=0.0)
    found = {"accuracy": accuracy_score(y, predicted), "macro_f1": f1}
    found["log_loss"] = log_loss(y, P, labels=classes)
    if (T := getattr(model, "calibration_temperature_", 1.0)) != 1:
        sure = tempered(P, 1 / T)
        found |= {"temperature": T, "log_loss_as_it_is": log_loss(y, sure, labels=classes)}
    if n_classes == 2:
        found["average_precision"] = average_precision_score(y, P[:, 1])
        found["f1"] = f1_score(y, predicted)
    if getattr(model, "n_iter_", 0) and hasattr(model, "students_"):
        alone = np.mean([net.predict_proba(X) for net in model.students_], axis=0)
        found["students"] = accuracy_score(y, classes[alone.argmax(axis=1)])
    return {name: round(float(value), 4) for name, value in found.items()}


def read(options):
    """Return the records of the wanted part and draws."""
    results = pd.concat([pd.read_json(file, lines=True) for file in options.files])
    if "part" in results:
        results = results[results["part"] == options.part]
    return results[results["seed"].isin(options.seeds or results["seed"])]


def table(options):
    """Print means by task and method; the mean of all tasks only where all are there."""
    for (arm, k), part in read(options).groupby(["arm", "k"]):
        by_task = part.pivot_table(options.score, "method", "task", sort=False)
        by_task = by_task[[task for task in [*TASKS, *RARE] if task in by_task]]
        whole = {"mean": by_task.mean(axis=1, skipna=False), "median": by_task.median(axis=1)}
        by_task = by_task.assign(**whole, n=part.groupby("method").size())
        print(f"\n{options.score}, k={k}, {arm} labels\n\n{by_task.round(3).to_string()}")


def figure(options):
    """Draw the accuracy by task, once for light pages and once for dark ones."""
    import matplotlib.pyplot as plt

    names = [*IN_FIGURE]
    results = read(options).query("arm == 'balanced' and k == 10 and method in @names")
    draws = results.groupby(["task", "seed"])  # those that all methods have
    results = draws.filter(lambda part: part["method"].nunique() == len(names))
    by_task = results.pivot_table("accuracy", "method", "task")[TASKS]
    by_task["mean"] = by_task.mean(axis=1)
    for style, file in (("default", "few_labels.svg"), ("dark_background", "few_labels_dark.svg")):
        same = {"svg.hashsalt": "few labels"}  # the same bytes at each call
        with plt.style.context([style, {"font.size": 12} | same]):
            fig, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
            rows = np.arange(len(by_task.columns))[::-1]
            ax.hlines(rows, by_task.min(), by_task.max(), color="0.5", lw=1)
            for method, (marker, color, size, name) in IN_FIGURE.items():
                ax.plot(by_task.loc[method], rows, marker, color=color, ms=size, label=name)
            ax.set_yticks(rows, [f"{KINDS[task]} ({task})" for task in TASKS] + ["mean"])
            ax.axhline(0.5, color="0.5", lw=1)
            ax.set_xlabel("accuracy on test texts")
            fig.legend(loc="outside lower center", ncols=2, frameon=False)
            where = Path(options.out) / file
            fig.savefig(where, transparent=True, metadata={"Date": None})


def add_options(add):
    """Add the options of runs."""
    add("--data", required=True, help="folder with short_texts/")
    add("--out", type=Path, required=True, help="file of results")
    add("--k", type=int, default=10, help="labels per class")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--tasks", default=",".join(TASKS))


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("teachers", "nets"):
        add = commands.add_parser(name).add_argument
        add_options(add)
        add("--arm", choices=("balanced", "random"), default="balanced")
        add("--methods", help="names between bars; all by default")
    for name, part in (("table", "valid"), ("figure", "test")):
        add = commands.add_parser(name).add_argument
        add("files", nargs="+")
        add("--part", default=part, help="test: only at the end")
        add("--seeds", type=int, nargs="+", help="draws; all by default")
        if name == "table":
            add("--score", default="accuracy")
        else:
            add("--out", default=".", help="folder")
    options = parser.parse_args()
    {"table": table, "figure": figure}.get(options.command, run)(options)


if __name__ == "__main__":
    main()
