"""Seconds of a GridSearchCV over λ and α, with what candidates share and without.

Run ``python examples/benchmarks/search.py`` on a machine that does nothing else, ``--device cuda``
on a GPU. The first teacher of a fold, its first labels and the first stage 1 depend on neither λ
nor α; with ``memory=`` they are computed once. The program checks that both searches find the same
scores. A table in Markdown goes to the standard output. The defaults are 25 candidates in 3 folds
on 500 labelled and 10,000 unlabelled texts: minutes on a GPU, a day on two cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings

import numpy as np
import torch
from _checkpoints import HELP, checkpoint
from _texts import texts_of
from sklearn.model_selection import GridSearchCV
from tqdm import tqdm

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold
from sklearn_spt.text._locations import DEFAULT_ENCODER


def main() -> None:
    """Search, check and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--n-labeled", type=int, default=500, help="labelled texts (default: 500)")
    add("--n-unlabeled", type=int, default=10_000, help="unlabelled texts (default: 10000)")
    add("--step-size", type=float, default=0.2, help="k, a share of these (default: 0.2)")
    add("--values", type=int, default=5, help="values of λ, and of α (default: 5)")
    add("--folds", type=int, default=3, help="of the cross-validation (default: 3)")
    add("--n-jobs", type=int, default=1, help="candidates at once (default: 1)")
    add("--pretrained", default=DEFAULT_ENCODER, type=checkpoint, help=HELP)
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where (default: cpu)")
    add("--cuda-graphs", action="store_true", help="launch steps as graphs")
    add("--memory-only", action="store_true", help="leave out the search that shares nothing")
    options = parser.parse_args()
    n = options.n_labeled + options.n_unlabeled
    data, texts, y = texts_of(n, normalize=True)
    if len(y) < n:
        raise SystemExit(f"there are {len(y)} {data} only; take fewer than {n}.")
    y = np.where(np.arange(n) < options.n_labeled, y, -1)
    grid = {
        "lam": np.linspace(0.1, 0.9, options.values).round(3).tolist(),
        "alpha": np.linspace(0.0, 0.4, options.values).round(3).tolist(),
    }
    net = BertClassifier(options.pretrained, device=options.device, cuda_graphs=options.cuda_graphs)
    seconds: dict[str, float] = {}
    scores = {}
    modes = ["shared"] if options.memory_only else ["shared", "nothing shared"]
    for mode in tqdm(modes, desc="searches"):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # alpha without effect, at few steps
            clf = SelfPretrainingClassifier(
                net,
                step_size=options.step_size,
                memory=folder if mode == "shared" else None,
                random_state=0,
            )
            search = GridSearchCV(
                clf,
                grid,
                scoring="f1",
                cv=SemiSupervisedStratifiedKFold(options.folds, shuffle=True, random_state=0),
                n_jobs=options.n_jobs,
                refit=False,
                error_score="raise",
            )
            start = time.perf_counter()
            search.fit(texts, y)
            seconds[mode] = time.perf_counter() - start
            scores[mode] = search.cv_results_["mean_test_score"]
    if len(scores) == 2:
        np.testing.assert_allclose(*scores.values(), atol=0 if options.device == "cpu" else 0.05)
    fits = options.values**2 * options.folds
    print(f"| {fits} fits, {options.n_jobs} at once | seconds | a fit |\n| --- | ---: | ---: |")
    for mode, took in seconds.items():
        print(f"| {mode} | {took:.0f} | {took / fits:.1f} |")
    if len(seconds) == 2:
        print(f"\nSharing is faster by {seconds['nothing shared'] / seconds['shared']:.2f}.")
    print(
        f"\n{options.n_labeled} labelled and {options.n_unlabeled} unlabelled {data}, "
        f"{options.pretrained}, {options.device}, threads: {torch.get_num_threads()}."
    )


if __name__ == "__main__":
    main()
