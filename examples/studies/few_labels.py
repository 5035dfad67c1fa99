"""Few labels: teachers on frozen embeddings, and nets that learn from them; see PROTOCOL.md.

    python few_labels.py teachers --data FOLDER --out teachers.jsonl
    python few_labels.py nets --data FOLDER --out nets.jsonl
    python few_labels.py table teachers.jsonl

Each line of a file is one result. Results that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, log_loss
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SoftSelfTrainingClassifier,
)
from sklearn_spt._soft_self_training import _logistic_regression, _probabilities

TASKS = ["stackoverflow", "searchsnippets", "banking77", "trec"]
TASKS += ["subj", "mr", "te_emotion", "te_hate"]
N_UNLABELED, N_VALID = 2000, 1000


# -- data ------------------------------------------------------------------------------------------
def load(folder, task, part="train"):
    """Return the texts and class codes of a part of a task."""
    lines = (Path(folder) / "short_texts" / task / f"{part}.tsv").read_text("utf-8").splitlines()
    codes, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    return np.array(texts, dtype=object), np.array(codes, dtype=int)


def embeddings(folder, task, texts, cache):
    """Return frozen embeddings of all texts of a task, made once."""
    file = Path(cache) / f"{task}.npy"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, SentenceEmbedder(verbose=1).transform(texts))
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
            labeled = np.unique([*first, *labeled])[:]
    else:
        labeled = np.concatenate([rest[codes[rest] == c][:k] for c in range(n_classes)])
    return labeled, np.setdiff1d(rest, labeled, assume_unique=True)[:N_UNLABELED], valid


# -- teachers on embeddings ------------------------------------------------------------------------
class Variant(SoftSelfTrainingClassifier):
    """The recipe with everything that the protocol varies."""

    def __init__(self, C=1.0, C_first=10.0, s=2.0, a=0.0, shares="labels", rounds=6, weight=0.5):
        super().__init__(C)
        self.C_first, self.s, self.a, self.shares = C_first, s, a, shares
        self.rounds, self.weight = rounds, weight

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y[y >= 0]), X.shape[1]
        L, U, y_l = X[y >= 0], X[y < 0], np.eye(len(self.classes_))[y[y >= 0]]
        theta = _logistic_regression(L, y_l, np.ones(len(L)), self.C_first)
        P = _probabilities(U, theta)
        prior = shares = y_l.mean(axis=0)
        if self.shares == "equal":
            shares = np.full(len(shares), 1 / len(shares))
        for _ in range(50 if self.shares == "estimated" else 0):  # Saerens et al. (2002)
            Q = P * (shares / prior)
            shares = (Q / Q.sum(axis=1, keepdims=True)).mean(axis=0)
        w = np.append(np.full(len(L), 3.0), np.full(len(U), self.weight))
        for _ in range(self.rounds):
            P = (P * (shares / P.mean(axis=0)) ** self.a) ** self.s
            P /= P.sum(axis=1, keepdims=True)
            targets = np.vstack([y_l, P])
            theta = _logistic_regression(np.vstack([L, U]), targets, w, self.C, theta)
            P = _probabilities(U, theta)
        self.coef_, self.intercept_ = theta[:-1].T, theta[-1]
        return self


class GaussianClasses(SoftSelfTrainingClassifier):
    """Classes as Gaussians with one variance; expectation-maximisation with true labels fixed."""

    def fit(self, X, y):
        self.classes_, labeled = np.unique(y[y >= 0]), y >= 0
        R = np.eye(len(self.classes_))[np.maximum(y, 0)] * labeled[:, None]
        for _ in range(20):
            means = R.T @ X / R.sum(axis=0)[:, None]
            d2 = (X**2).sum(axis=1)[:, None] - 2 * X @ means.T + (means**2).sum(axis=1)
            variance = (R * d2).sum() / R.sum() / X.shape[1]
            z = -d2 / (2 * variance * X.shape[1] ** 0.5) + np.log(R.sum(axis=0) / R.sum())
            P = np.exp(z - z.max(axis=1, keepdims=True))
            R = np.where(labeled[:, None], R, P / P.sum(axis=1, keepdims=True))
        self.coef_ = means / (variance * X.shape[1] ** 0.5)
        self.intercept_ = np.log(R.sum(axis=0)) - (means * self.coef_).sum(axis=1) / 2
        self.n_features_in_, self.normalize = X.shape[1], False
        return self


def teachers():
    """Return the candidates by name, each with one change from the base form."""
    S, LR = Variant, LogisticRegression
    found = {f"logistic C={C}": LR(C=C, max_iter=1000) for C in (1, 10, 100)}
    found["base"] = S()
    found |= {f"s={s}": S(s=s) for s in (1, 1.5, 3)}
    found |= {f"a={a}": S(a=a) for a in (0.5, 1.0)}
    found |= {f"rounds={n}": S(rounds=n) for n in (1, 3, 12)}
    found |= {f"weight={w}": S(weight=w) for w in (0.25, 1.0)}
    found["C=10"] = SoftSelfTrainingClassifier()  # what was chosen
    found["equal shares"] = S(a=1.0, shares="equal")
    found["estimated shares"] = S(a=1.0, shares="estimated")
    found["Gaussian classes"] = GaussianClasses()
    found["SelfTraining .75"] = SelfTrainingClassifier(LR(C=10, max_iter=1000))
    found["SelfTraining k_best"] = SelfTrainingClassifier(
        LR(C=10, max_iter=1000), criterion="k_best", k_best=200
    )
    found["LabelSpreading knn"] = LabelSpreading(kernel="knn", n_neighbors=10)
    return found


# -- nets ------------------------------------------------------------------------------------------
def nets():
    """Return the classifiers of texts by name."""
    S = SelfPretrainingClassifier
    return {
        "one net": BertClassifier(),
        "five nets": S(n_teachers=5, max_iter=0),
        "refit once": S(step_size=1.0, alpha=0.0, refit_head=True),
        "refit": S(refit_head=True),
        "without refit": S(refit_head=False),
        "embeddings once": S(teacher="embeddings", step_size=1.0, alpha=0.0, refit_head=True),
    }


# -- runs ------------------------------------------------------------------------------------------
def run(options):
    """Compute the results that are missing: a line for validation and one for test rows."""
    known = pd.read_json(options.out, lines=True) if options.out.exists() else pd.DataFrame()
    keys = ["task", "method", "k", "seed", "arm"]
    done = set(map(tuple, known[keys].to_numpy())) if len(known) else set()
    candidates = teachers() if options.command == "teachers" else nets()
    wanted = options.methods.split(",") if options.methods else list(candidates)
    for seed in options.seeds:
        for task in options.tasks.split(","):
            parts = [load(options.data, task), load(options.data, task, "test")]
            X, codes = parts[0]
            tests = np.random.default_rng(0).permutation(len(parts[1][0]))[:N_VALID]
            X_test, y_test = parts[1][0][tests], parts[1][1][tests]
            if options.command == "teachers":
                cache = options.out.with_suffix(".cache")
                X = embeddings(options.data, task, X, cache)
                X_test = embeddings(options.data, f"{task}.test", X_test, cache)
            for method in wanted:
                key = (task, method, options.k, seed, options.arm)
                if key not in done:
                    labeled, unlabeled, valid = draw(codes, options.k, seed, options.arm)
                    start = perf_counter()
                    model = fit(candidates[method], X, codes, labeled, unlabeled, seed)
                    seconds = {"seconds": round(perf_counter() - start, 2)}
                    line = dict(zip(keys, key, strict=True))
                    for part, D, y in (
                        ("valid", X[valid], codes[valid]),
                        ("test", X_test, y_test),
                    ):
                        scores = score(model, D, y, codes.max() + 1)
                        with open(options.out, "a", encoding="utf-8") as stream:
                            stream.write(
                                json.dumps(line | {"part": part} | scores | seconds) + "\n"
                            )


def fit(model, X, codes, labeled, unlabeled, seed):
    """Fit a classifier on labelled and unlabelled rows."""
    rows = np.concatenate([labeled, unlabeled])
    y = np.append(codes[labeled], np.full(len(unlabeled), -1))
    if isinstance(model, LogisticRegression | BertClassifier):
        rows, y = labeled, codes[labeled]
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
    if getattr(model, "n_iter_", 0) and hasattr(model, "students_"):
        alone = np.mean([net.predict_proba(X) for net in model.students_], axis=0)
        found["students"] = accuracy_score(y, classes[alone.argmax(axis=1)])
    return {name: round(float(value), 4) for name, value in found.items()}


def table(options):
    """Print mean accuracies by task and method."""
    results = pd.concat([pd.read_json(file, lines=True) for file in options.files])
    results = results[results["part"] == options.part]
    for (arm, k, part), part_of in results.groupby(["arm", "k", "part"]):
        by_task = part_of.pivot_table(options.score, "method", "task", sort=False)
        by_task["mean"] = by_task.mean(axis=1)
        by_task["n"] = part_of.groupby("method").size()
        print(f"\n{options.score}, k={k}, {arm} labels, {part} rows\n")
        print(by_task.round(3).to_string())


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("teachers", "nets"):
        command = commands.add_parser(name)
        command.add_argument("--data", required=True, help="folder with short_texts/")
        command.add_argument("--out", type=Path, required=True, help="file of results")
        command.add_argument("--k", type=int, default=10, help="labels a class")
        command.add_argument("--arm", choices=("balanced", "random"), default="balanced")
        command.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
        command.add_argument("--tasks", default=",".join(TASKS))
        command.add_argument("--methods", help="names between commas; all by default")
    command = commands.add_parser("table")
    command.add_argument("files", nargs="+")
    command.add_argument("--score", default="accuracy")
    command.add_argument("--part", default="valid", help="test: only at the end")
    options = parser.parse_args()
    table(options) if options.command == "table" else run(options)


if __name__ == "__main__":
    main()
