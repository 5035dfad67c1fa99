"""Teachers on frozen sentence embeddings when labels are few; see PROTOCOL.md, second part.

    python embeddings.py run --data FOLDER --out embeddings.jsonl
    python embeddings.py table embeddings.jsonl

Each line of a file is one result. Results that are there are not computed again. Rows are drawn
from train.tsv alone, as in ``few_labels.py``.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from time import perf_counter
from types import SimpleNamespace

import numpy as np
from few_labels import commands_of, draw, embeddings, finished, load, record, table
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from sklearn.metrics import accuracy_score, f1_score, log_loss

from sklearn_spt import SentenceEmbedder

# The data sets' own labels as words, in the order of their codes.
NAMES = {
    "stackoverflow": """wordpress|bash|spring|hibernate|scala|sharepoint|ajax|qt|drupal|linq|haskell
        |oracle|magento|svn|apache|excel|matlab|visual studio|cocoa|osx""",
    "searchsnippets": """business|computers|culture, arts and entertainment|education and science
        |engineering|health|politics and society|sports""",
    "banking77": """refund not showing up|activate my card|age limit|apple pay or google pay
        |atm support|automatic top up|balance not updated after bank transfer
        |balance not updated after cheque or cash deposit|beneficiary not allowed|cancel transfer
        |card about to expire|card acceptance|card arrival|card delivery estimate|card linking
        |card not working|card payment fee charged|card payment not recognised
        |card payment wrong exchange rate|card swallowed|cash withdrawal charge
        |cash withdrawal not recognised|change pin|compromised card|contactless not working
        |country support|declined card payment|declined cash withdrawal|declined transfer
        |direct debit payment not recognised|disposable card limits|edit personal details
        |exchange charge|exchange rate|exchange via app|extra charge on statement|failed transfer
        |fiat currency support|get disposable virtual card|get physical card|getting spare card
        |getting virtual card|lost or stolen card|lost or stolen phone|order physical card
        |passcode forgotten|pending card payment|pending cash withdrawal|pending top up
        |pending transfer|pin blocked|receiving money|request refund|reverted card payment
        |supported cards and currencies|terminate account|top up by bank transfer charge
        |top up by card charge|top up by cash or cheque|top up failed|top up limits
        |top up reverted|topping up by card|transaction charged twice|transfer fee charged
        |transfer into account|transfer not received by recipient|transfer timing
        |unable to verify identity|verify my identity|verify source of funds|verify top up
        |virtual card not working|visa or mastercard|why verify identity
        |wrong amount of cash received|wrong exchange rate for cash withdrawal""",
    "trec": "abbreviation|description|entity|human|location|number",
    "subj": "subjective|objective",
    "mr": "negative|positive",
    "te_emotion": "anger|joy|optimism|sadness",
    "te_hate": "no hate speech|hate speech",
}


# -- regression on soft labels ---------------------------------------------------------------------
def softmax(z):
    P = np.exp(z - z.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def probabilities(F, theta):
    return softmax(F @ theta[:-1] + theta[-1])


def regression(F, targets, weights, C, theta=None):
    """Fit weights of shape (d + 1, K), the last row the intercepts; `theta` is where to begin."""
    # In the variables R @ theta, where R'R is close to the Hessian (Boehning 1992), L-BFGS needs a
    # fifth of the steps; single precision and BLAS do the rest.
    X, K = np.column_stack([F, np.ones(len(F))]), targets.shape[1]
    penalty = np.append(np.ones(F.shape[1]), 0)
    R = cholesky(0.3 * C / K * (X.T * weights) @ X + np.diag(np.maximum(penalty, 1e-3)))
    inverse = solve_triangular(R, np.eye(len(R)))
    Z, M = np.float32(X @ inverse), np.float32((inverse.T * penalty) @ inverse)
    w, wanted = np.float32(weights)[:, None], np.float32(weights[:, None] * targets)

    def loss(flat):
        V = np.float32(flat.reshape(len(R), K))
        z = Z @ V
        z -= z.max(axis=1, keepdims=True)
        P, MV = np.exp(z), M @ V
        total = P.sum(axis=1, keepdims=True)
        value = C * (weights @ np.log(np.float64(total[:, 0])) - np.vdot(wanted, z))
        gradient = C * (Z.T @ (P * (w / total) - wanted)) + MV
        return float(value + np.vdot(V, MV) / 2), np.float64(gradient.ravel())

    first = np.zeros((len(R), K)) if theta is None else R @ theta
    options = {"maxiter": 200, "ftol": 1e-7, "gtol": 1e-4}
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=options)
    return inverse @ found.x.reshape(len(R), K)


# -- teachers: rows -> probabilities of the unlabelled and of the validation rows ------------------
def logistic(rows, C=10.0):
    theta = regression(rows.L, rows.Y, np.ones(len(rows.L)), C)
    return probabilities(rows.U, theta), probabilities(rows.V, theta)


def read_out(rows, P, C=10.0, labeled=3.0, unlabeled=0.5, theta=None):
    """Fit the regression on labelled rows and on soft labels P of the others."""
    w = np.append(np.full(len(rows.L), labeled), np.zeros(len(rows.U)) + unlabeled)
    return regression(np.vstack([rows.L, rows.U]), np.vstack([rows.Y, P]), w, C, theta)


def soft(rows, C=10.0, s=2.0, a=0.0, rounds=6, weights=(3.0, 0.5), weigh=None):
    """Soft self-training, with what the protocol varies."""
    theta = regression(rows.L, rows.Y, np.ones(len(rows.L)), 10.0)
    P, wanted = probabilities(rows.U, theta), rows.Y.mean(axis=0)
    for _ in range(rounds):
        w = weights[1] * (P.max(axis=1) if weigh == "confidence" else 1)
        P = (P * (wanted / P.mean(axis=0)) ** a) ** s
        theta = read_out(rows, P / P.sum(axis=1, keepdims=True), C, weights[0], w, theta)
        P = probabilities(rows.U, theta)
    return P, probabilities(rows.V, theta)


def named(rows, then=soft):
    """Add the name of each class as one more labelled text."""
    more = {"L": np.vstack([rows.L, rows.N]), "Y": np.vstack([rows.Y, np.eye(rows.K)])}
    return then(SimpleNamespace(**vars(rows) | more))


def gaussians(rows, shrinkage=0.5):
    """Classes as Gaussians with one covariance, by expectation-maximisation."""
    B, w = np.vstack([rows.L, rows.U]), np.append(np.full(len(rows.L), 3.0), [0.5] * len(rows.U))
    R = np.vstack([rows.Y, logistic(rows)[0]])
    for _ in range(6):
        mass = (w[:, None] * R).sum(axis=0)
        means = (w[:, None] * R).T @ B / mass[:, None]
        within = ((B.T * w) @ B - (means.T * mass) @ means) / mass.sum()
        sphere = np.eye(len(within)) * np.trace(within) / len(within)
        precision = np.linalg.inv((1 - shrinkage) * within + shrinkage * sphere)
        W = precision @ means.T
        theta = np.vstack([W, np.log(mass / mass.sum()) - (means * W.T).sum(axis=1) / 2])
        R = np.vstack([rows.Y, probabilities(rows.U, theta)])
    return R[len(rows.L) :], probabilities(rows.V, theta)


careful = partial(soft, C=3, weigh="confidence")
METHODS = {f"logistic C={C}": partial(logistic, C=C) for C in (1, 10, 100)}
METHODS |= {f"C={C}": partial(soft, C=C) for C in (1, 3, 10, 30)}
METHODS |= {f"s={s}": partial(soft, s=s) for s in (1.5, 3)}
METHODS |= {"a=0.5": partial(soft, a=0.5), "C=3, confidence": careful}
METHODS |= {f"rounds={n}": partial(soft, rounds=n) for n in (3, 12)}
METHODS |= {f"weight={w}": partial(soft, weights=(3.0, w)) for w in (0.25, 1)}
METHODS |= {"weigh confidence": partial(soft, weigh="confidence")}
METHODS |= {"names, logistic": partial(named, then=logistic), "names": named}
METHODS |= {"names, C=3, confidence": partial(named, then=careful)}
METHODS |= {"shared covariance": gaussians}


# -- runs ------------------------------------------------------------------------------------------
def prepare(X, N, codes, k, seed, arm):
    """Return the vectors, labels and shares of one draw."""
    labeled, unlabeled, valid = draw(codes, k, seed, arm)
    K = int(codes.max()) + 1
    rows = {"L": X[labeled], "U": X[unlabeled], "V": X[valid], "N": N, "K": K}
    return SimpleNamespace(**rows, Y=np.eye(K)[codes[labeled]]), codes[unlabeled], codes[valid]


def score(method, rows, y_u, y_v):
    """Fit on one draw and score."""
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        P_u, P_v = method(rows)
    P_v = np.clip(P_v, 1e-7, None)
    guess, classes = P_v.argmax(axis=1), np.arange(rows.K)
    P_v /= P_v.sum(axis=1, keepdims=True)
    result = {"accuracy": accuracy_score(y_v, guess), "unlabeled": np.mean(P_u.argmax(1) == y_u)}
    result["macro_f1"] = f1_score(y_v, guess, labels=classes, average="macro", zero_division=0.0)
    result["log_loss"] = log_loss(y_v, P_v, labels=classes)
    return {key: round(float(v), 4) for key, v in result.items()} | {
        "seconds": round(perf_counter() - start, 2)
    }


def run(options):
    """Compute the results that are missing."""
    done, cache = finished(options.out), options.out.with_suffix(".cache")
    wanted = options.methods.split("|") if options.methods else list(METHODS)
    for task in options.tasks.split(","):
        texts, codes = load(options.data, task)
        X = embeddings(options.data, task, texts, cache).astype(float)
        names = " ".join(NAMES[task].split()).replace(" |", "|").split("|")
        N = SentenceEmbedder().transform(names).astype(float)
        for seed in options.seeds:
            rows, y_u, y_v = prepare(X, N, codes, options.k, seed, options.arm)
            for method in wanted:
                key = (task, method, options.k, seed, options.arm)
                if key not in done:
                    record(options.out, key, score(METHODS[method], rows, y_u, y_v))


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands_of(parser, ["run"], [3, 4, 5])
    options = parser.parse_args()
    table(options) if options.command == "table" else run(options)


if __name__ == "__main__":
    main()
