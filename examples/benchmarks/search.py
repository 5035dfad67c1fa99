"""Seconds of a search over λ and α, with what candidates share and without.

Run ``python examples/benchmarks/search.py`` on a machine that does nothing else; ``gpu.py`` is for
a GPU. The first teacher of a fold, its first labels and the first stage 1 depend on neither λ nor
α; with ``memory=`` they are computed once. The program checks that both searches find the same
scores. A table in Markdown goes to the standard output. The defaults are 25 candidates in 3 folds
on 500 labelled and 10,000 unlabelled texts, a day on two cores.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from _options import parser_of
from _record import Record
from _texts import texts_of
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.model_selection import ParameterGrid
from tqdm import tqdm

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, TokenIdVectorizer
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold


def fits(
    clf: SelfPretrainingClassifier, X: Any, y: Any, *, values: int, folds: int
) -> Iterator[dict[str, Any]]:
    """Fit and score each candidate in each fold, as GridSearchCV does, and say what each took."""
    grid = {
        "lam": np.linspace(0.1, 0.9, values).round(3).tolist(),
        "alpha": np.linspace(0.0, 0.4, values).round(3).tolist(),
    }
    cv = SemiSupervisedStratifiedKFold(folds, shuffle=True, random_state=0)
    for fold, (train, test) in enumerate(cv.split(X, y)):
        for params in ParameterGrid(grid):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # alpha without effect, at few steps
                fitted = clone(clf).set_params(**params).fit(X[train], y[train])
            f1 = float(f1_score(y[test], fitted.predict(X[test])))
            yield {"fold": fold, **params, "f1": f1, "seconds": time.perf_counter() - start}


def main() -> None:
    """Search, check and print."""
    parser = parser_of(__doc__, "pretrained", "normalize")
    add = parser.add_argument
    add("--n-labeled", type=int, default=500, help="labelled texts (default: 500)")
    add("--n-unlabeled", type=int, default=10_000, help="unlabelled texts (default: 10000)")
    add("--step-size", type=float, default=0.2, help="k, a share of these (default: 0.2)")
    add("--values", type=int, default=5, help="values of λ, and of α (default: 5)")
    add("--folds", type=int, default=3, help="of the cross-validation (default: 3)")
    add("--memory-only", action="store_true", help="leave out the search that shares nothing")
    options = parser.parse_args()
    record = Record(options)
    n = options.n_labeled + options.n_unlabeled
    data, texts, y = texts_of(n, normalize=options.normalize)
    if len(y) < n:
        raise SystemExit(f"there are {len(y)} {data} only; take fewer than {n}.")
    y = np.where(np.arange(n) < options.n_labeled, y, -1)
    net = BertClassifier(options.pretrained, device="cpu")
    X = TokenIdVectorizer(options.pretrained).fit_transform(texts)  # once for all fits
    total = options.values**2 * options.folds
    found: dict[str, list[dict[str, Any]]] = {}
    for mode in ["shared"] if options.memory_only else ["shared", "nothing shared"]:
        found[mode] = []
        with tempfile.TemporaryDirectory() as folder:
            clf = SelfPretrainingClassifier(
                net,
                step_size=options.step_size,
                memory=folder if mode == "shared" else None,
                random_state=0,
            )
            search = fits(clf, X, y, values=options.values, folds=options.folds)
            for fit in tqdm(search, total=total, desc=mode):
                record.add(mode=mode, **fit)
                found[mode].append(fit)
                if record.over():
                    break
    print("| | fits | seconds | a fit |\n| --- | ---: | ---: | ---: |")
    seconds = {mode: sum(fit["seconds"] for fit in done) for mode, done in found.items()}
    for mode, took in seconds.items():
        print(f"| {mode} | {len(found[mode])} | {took:.0f} | {took / len(found[mode]):.1f} |")
    if len({len(done) for done in found.values()}) == 1 and len(found) == 2:
        np.testing.assert_array_equal(*[[fit["f1"] for fit in done] for done in found.values()])
        print(f"\nSharing is faster by {seconds['nothing shared'] / seconds['shared']:.2f}.")
    print(
        f"\n{options.n_labeled} labelled and {options.n_unlabeled} unlabelled {data}, "
        f"{options.pretrained}, threads: {torch.get_num_threads()}."
    )


if __name__ == "__main__":
    main()
