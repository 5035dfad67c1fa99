"""The encoder, and how the first net is trained; see PROTOCOL.md, parts ten to fourteen.

    python start.py vectors --data FOLDER --store STORE [--encoder FOLDER/all-mpnet-base-v2]
    python start.py frozen --data FOLDER --store STORE --out start.jsonl
    python start.py nets --data FOLDER --store STORE --methods "contrastive|student of contrastive"
    python start.py score --data FOLDER --store STORE --out start.jsonl
    python start.py table start.jsonl --arm pool

Vectors go to STORE, numbers to a file of records. What is there is not computed again.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
import torch
from few_labels import TASKS, draw, finished, load, record
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score, f1_score, log_loss

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SoftSelfTrainingClassifier,
)
from sklearn_spt._data import sequence_lengths
from sklearn_spt._pretrained import DEFAULT_ENCODER

POOL_VALID = 300  # validation rows of a pool


# -- rows ------------------------------------------------------------------------------------------
def pool(codes):
    """Return the rows of a task that are embedded once by each encoder; validation rows first."""
    rest = max(1000, 20 * (codes.max() + 1))
    return np.random.default_rng(0).permutation(len(codes))[: POOL_VALID + rest]


def rows_of(arm, codes, k, seed):
    """Return the labelled, unlabelled and validation rows of a draw."""
    if arm == "pool":
        rows = pool(codes)
        rest = np.random.default_rng([seed, 1]).permutation(rows[POOL_VALID:])
        labeled = np.concatenate([rest[codes[rest] == c][:k] for c in range(codes.max() + 1)])
        return labeled, np.setdiff1d(rest, labeled), rows[:POOL_VALID]
    labeled, unlabeled, valid = draw(codes, k, seed)
    return (
        (labeled, unlabeled[:1000], valid[:500]) if arm == "pilot" else (labeled, unlabeled, valid)
    )


def pool_vectors(options, task, encoder):
    """Return the vectors of a pool, in rows of the whole task (others are empty)."""
    codes = load(options.data, task)[1]
    stored = np.load(Path(options.store) / f"{task}.{encoder}.npy")
    whole = np.full((len(codes), stored.shape[1]), np.nan, dtype=np.float32)
    whole[pool(codes)] = stored
    return whole


def vectors(options):
    """Embed the pools of all tasks."""
    embedder = SentenceEmbedder(options.encoder)
    name = "default" if options.encoder == DEFAULT_ENCODER else "mpnet"
    for task in options.tasks.split(","):
        file = Path(options.store) / f"{task}.{name}.npy"
        if not file.exists():
            X, codes = load(options.data, task)
            np.save(file, embedder.transform(X[pool(codes)]))
            print(file.name, flush=True)


# -- heads on stored vectors -----------------------------------------------------------------------
def soft(L, y, U, C=10.0, **how):
    """Soft self-training on unit vectors, or plain logistic regression with max_iter=0."""
    X, y = np.vstack([L, U]), np.append(y, np.full(len(U), -1))
    return SoftSelfTrainingClassifier(C=C, **how).fit(X, y).predict_proba


def refit(L, y, U, C=3.0, **how):
    """Fit the layer of a net anew, as `BertClassifier.refit_head` does for balanced labels."""
    size = np.sqrt((np.vstack([L, U]).astype(float) ** 2).sum(axis=1).mean())
    predict = soft(L / size, y, U / size, C, normalize=False, **how)
    return lambda X: predict(X / size)


def scores(P, y, **more):
    """Return accuracy, macro-F1 and log loss of probabilities."""
    classes = np.arange(P.shape[1])
    guess = P.argmax(axis=1)
    f1 = f1_score(y, guess, labels=classes, average="macro", zero_division=0.0)
    P = np.clip(P, 1e-7, None)
    loss = log_loss(y, P / P.sum(axis=1, keepdims=True), labels=classes)
    found = {"accuracy": accuracy_score(y, guess), "macro_f1": f1, "log_loss": loss, **more}
    return {name: round(float(value), 4) for name, value in found.items()}


def frozen(options):
    """Score classifiers of frozen vectors."""
    done = finished(options.out)
    methods = {"logistic regression": {"max_iter": 0}, "soft self-training": {}}
    if options.k == 10:
        methods |= {f"soft self-training, C={C:g}": {"C": C} for C in (3.0, 30.0)}
    for task in options.tasks.split(","):
        codes = load(options.data, task)[1]
        for encoder in options.methods.split("|"):
            F = pool_vectors(options, task, encoder)
            for seed, (name, how) in ((s, m) for s in options.seeds for m in methods.items()):
                key = (task, f"{name}, {encoder}", options.k, seed, "pool")
                if key not in done and (options.k < 30 or task != "banking77"):
                    labeled, unlabeled, valid = rows_of("pool", codes, options.k, seed)
                    predict = soft(F[labeled], codes[labeled], F[unlabeled], **how)
                    on_U = np.mean(predict(F[unlabeled]).argmax(axis=1) == codes[unlabeled])
                    found = scores(predict(F[valid]), codes[valid], unlabeled=on_U)
                    record(options.out, key, {"part": "valid"} | found)


# -- nets: their vectors are stored ----------------------------------------------------------------
def pairs(V, y):
    """Mean squared distance of each pair's cosine to 1 or 0."""
    i, j = torch.triu_indices(len(y), len(y), 1)
    return (((V[i] * V[j]).sum(dim=1) - (y[i] == y[j]).float()) ** 2).mean()


def supervised_contrastive(V, y, temperature=0.1):
    """Cross-entropy of finding the texts of the same class among all others."""
    itself = torch.eye(len(y), dtype=torch.bool)
    log_p = (V @ V.T / temperature).masked_fill(itself, -torch.inf).log_softmax(dim=1)
    same = (y[:, None] == y) & ~itself
    return -(log_p.masked_fill(~same, 0.0).sum(dim=1) / same.sum(dim=1)).mean()


LOSSES = {"pairs": pairs, "supcon": supervised_contrastive}


def contrastive(net, ids, codes, loss="pairs", steps=30, rate=1e-4, seed=0):
    """Train the encoder of an initialised net so that texts of a class have equal vectors."""
    module, rng = net.module_.train(), np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(module.encoder.parameters(), lr=rate, weight_decay=0, fused=True)
    lengths, classes = sequence_lengths(ids, module.pad_id), np.unique(codes)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        drawn = rng.permutation(classes)[:8]
        own = [np.flatnonzero(codes == c) for c in drawn]
        rows = np.concatenate([rng.choice(r, 4, replace=len(r) < 4) for r in own])
        V = module.embed(torch.from_numpy(ids[rows, : lengths[rows].max()]))
        y = torch.from_numpy(codes[rows])
        optimizer.zero_grad()
        LOSSES[loss](torch.nn.functional.normalize(V, dim=1), y).backward()
        torch.nn.utils.clip_grad_norm_(module.encoder.parameters(), 1.0)
        optimizer.step()


class Given(ClassifierMixin, BaseEstimator):
    """A teacher whose probabilities of the rows that it is fitted on are known."""

    def __init__(self, P=None):
        self.P = P

    def fit(self, X, y):
        self.classes_ = np.arange(self.P.shape[1])
        return self

    def predict_proba(self, X):
        return self.P


def stored(options, task, name, k, seed, arm):
    """Return the file of a net's vectors."""
    return Path(options.store) / f"{task}.{k}.{seed}.{arm}.{name}.npz"


def teach(options, task, name, k, seed, arm):
    """Return a teacher's probabilities of a draw's labelled and unlabelled rows."""
    codes = load(options.data, task)[1]
    labeled, unlabeled, _ = rows_of(arm, codes, k, seed)
    if name in ("default", "mpnet"):
        F = pool_vectors(options, task, name)
        predict = soft(F[labeled], codes[labeled], F[unlabeled])
        return predict(F[np.append(labeled, unlabeled)])
    if name == "both":
        return np.mean([teach(options, task, n, k, seed, arm) for n in ("first", "contrastive")], 0)
    F = np.load(stored(options, task, name, k, seed, arm))
    return refit(F["L"], codes[labeled], F["U"])(np.vstack([F["L"], F["U"]]))


def train(options, task, name, k, seed, arm):
    """Train a net, and return its vectors, its layer and the seconds that it took."""
    X, codes = load(options.data, task)
    labeled, unlabeled, valid = rows_of(arm, codes, k, seed)
    y, start = codes[labeled], perf_counter()
    epochs = 10 if len(labeled) <= 100 and k <= 10 else 3  # as in the defaults
    if name.startswith("student of "):
        teacher, _, more = name.removeprefix("student of ").partition(", ")
        P = teach(options, task, teacher, k, seed, arm)
        how = {
            "pretrain_epochs": 3 if more else 1,
            "step_size": 1.0,
            "refit_head": False,
            "finetune_epochs": epochs,
        }
        model = SelfPretrainingClassifier(teacher=Given(P), random_state=seed, **how)
        known = np.append(y, np.full(len(unlabeled), -1))
        net = model.fit(X[np.append(labeled, unlabeled)], known).students_[0]
    elif name == "first":
        net = BertClassifier(max_epochs=epochs, random_state=seed).fit(X[labeled], y)
    else:  # contrastive, or contrastive:loss:steps:rate
        torch.manual_seed(seed)
        net = BertClassifier(classes=np.unique(codes)).initialize()
        loss, steps, rate = [*name.split(":")[1:], "pairs", 30, 1e-4][:3]
        contrastive(net, net.encode(X[labeled]), y, loss, int(steps), float(rate), seed)
    trained = perf_counter()
    parts = {
        part: net.embed(net.encode(X[rows])).astype(np.float32)
        for part, rows in (("L", labeled), ("U", unlabeled), ("V", valid))
    }
    layer = {n: p.detach().numpy() for n, p in net.module_.head.named_parameters()}
    seconds = [trained - start, perf_counter() - trained]
    return parts | layer | {"seconds": np.round(seconds, 1)}, net.module_.state_dict()


def nets(options):
    """Train the nets that are missing."""
    for seed in options.seeds:
        for name in options.methods.split("|"):
            for task in options.tasks.split(","):
                file = stored(options, task, name, options.k, seed, options.arm)
                if not file.exists():
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        parts, state = train(options, task, name, options.k, seed, options.arm)
                    np.savez(file, **parts)
                    if options.arm != "pilot":  # for test rows
                        half = {n: w.half() for n, w in state.items()}
                        torch.save(half, file.with_suffix(".pt"))
                    print(file.name, *np.load(file)["seconds"], flush=True)


def score(options):
    """Score what the stored nets give."""
    done = finished(options.out)
    for file in sorted(Path(options.store).glob("*.npz")):
        task, k, seed, arm, name = file.stem.split(".", 4)
        codes = load(options.data, task)[1]
        labeled, unlabeled, valid = rows_of(arm, codes, int(k), int(seed))
        F, y = np.load(file), codes[labeled]
        heads = {"": refit, ", labels alone": partial(soft, max_iter=0)}
        heads |= {", unit vectors": soft} if name.startswith("contrastive") else {}
        for suffix, head in heads.items():
            key = (task, name + suffix, int(k), int(seed), arm)
            if key not in done:
                predict = head(F["L"], y, F["U"])
                more = {"seconds": F["seconds"].sum()}
                more["unlabeled"] = np.mean(predict(F["U"]).argmax(axis=1) == codes[unlabeled])
                found = scores(predict(F["V"]), codes[valid], **more)
                record(options.out, key, {"part": "valid"} | found)


# -- tables ----------------------------------------------------------------------------------------
def table(options):
    """Print means over draws by task, of the draws that all methods have."""
    R = pd.concat([pd.read_json(file, lines=True) for file in options.files])
    R = R[(R["part"] == options.part) & (R["arm"] == options.arm) & (R["k"] == options.k)]
    if options.methods:
        R = R[R["method"].isin(wanted := options.methods.split("|"))]
        R = R.groupby(["task", "seed"]).filter(lambda g: g["method"].nunique() == len(wanted))
    for name in options.scores.split(","):
        by_task = R.pivot_table(name, "method", "task", sort=False)
        by_task = by_task[[task for task in TASKS if task in by_task]]
        by_task["mean"] = by_task.mean(axis=1, skipna=False)
        by_task["n"] = R.groupby("method").size()
        print(f"\n{name}, k={options.k}, {options.arm}\n\n{by_task.round(3).to_string()}")


def main():
    """Read the command line."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("vectors", "frozen", "nets", "score"):
        command = commands.add_parser(name)
        command.add_argument("--data", required=True, help="folder with short_texts/")
        command.add_argument("--store", required=True, help="folder of vectors")
        command.add_argument("--out", type=Path, help="file of records")
        command.add_argument("--encoder", default=DEFAULT_ENCODER)
        command.add_argument("--tasks", default=",".join(TASKS))
        command.add_argument("--methods", help="names between bars")
        command.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
        command.add_argument("--k", type=int, default=10, help="labels per class")
        command.add_argument("--arm", choices=("balanced", "pilot", "pool"), default="balanced")
    command = commands.add_parser("table")
    command.add_argument("files", nargs="+")
    command.add_argument("--arm", default="balanced")
    command.add_argument("--k", type=int, default=10)
    command.add_argument("--part", default="valid")
    command.add_argument("--methods", help="names between bars; all by default")
    command.add_argument("--scores", default="accuracy,log_loss")
    options = parser.parse_args()
    globals()[options.command](options)


if __name__ == "__main__":
    main()
