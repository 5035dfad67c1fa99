r"""
The quickstart
==============

One net, scikit-learn's self-training over the same net, and Self-Pretraining, on the same texts.

Run ``python examples/01_quickstart.py``. It takes four to seven minutes on two cores. For each of
three seeds it draws 100 labelled, 300 unlabelled and 400 test texts, fits the three classifiers,
and prints F1 and precision and recall. Then it says whether the unlabelled texts helped. Sizes and
seeds were fixed before the program was first run. They are small, so that it ends soon;
`docs/results.md` has 300 labelled and 3,000 unlabelled texts.

The texts are the illness tweets. The program looks for them in the data home
(``~/sklearn_spt_data``, or the folder in ``SKLEARN_SPT_DATA``), else downloads them (4 MB). If
neither works, or with ``--made-up``, it makes up short posts: about as hard, and with as few
positive ones. Texts with the same words are dropped first, so that no test text was seen in
training.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import urllib.error
import urllib.request

import numpy as np
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, TokenIdVectorizer
from sklearn_spt.datasets import fetch_illness, make_short_texts

PATIENCE = 5  # seconds to wait for the network
# sphinx_gallery_thumbnail_path = "images/unlabeled.png"


# %%
# The texts
# ---------
# Tweets where there are some, else made-up posts. The class is 1 where somebody reports an illness.
# :class:`~sklearn_spt.TweetNormalizer` would prepare them as the paper's authors did.
def texts_and_labels(made_up: bool, n_made_up: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct texts and their classes."""
    try:
        if made_up:
            raise OSError("made-up posts are asked for")
        try:
            bunch = fetch_illness(download_if_missing=False)
        except OSError:
            try:
                urllib.request.urlopen("https://raw.githubusercontent.com", timeout=PATIENCE)
            except urllib.error.HTTPError as answer:
                answer.close()  # any answer shows that the network works
            bunch = fetch_illness()
        print("Data: illness tweets; the positive ones mention a person with a diagnosis.")
    except OSError:
        bunch = make_short_texts(
            n_made_up, weights=[0.83], ambiguity=0.1, flip_y=0.04, random_state=0
        )
        print("Data: made-up short posts; the positive ones report that somebody fell ill.")
    words = [
        " ".join(re.findall(r"[^\W\d_]+", re.sub(r"https?://\S+|@\w+", " ", text.lower())))
        for text in bunch.data
    ]
    rows = np.sort(np.unique(words, return_index=True)[1])
    return np.array(bunch.data, dtype=object)[rows], bunch.target[rows]


# %%
# The three classifiers
# ---------------------
# All start from the same pretrained encoder. scikit-learn's takes arrays and no texts, so
# :class:`~sklearn_spt.TokenIdVectorizer` turns the texts into token ids.
def classifiers(seed: int) -> dict[str, object]:
    """Name and unfitted classifier."""
    net = BertClassifier(random_state=seed)
    return {
        "one net": net,
        "self-training": make_pipeline(
            TokenIdVectorizer(), SelfTrainingClassifier(net, max_iter=2)
        ),
        "Self-Pretraining": SelfPretrainingClassifier(net, step_size=0.5, random_state=seed),
    }


def verdict(f1: dict[str, list[float]], rival: str) -> str:
    """Say in words how Self-Pretraining and `rival` compare over the seeds."""
    gains = np.subtract(f1["Self-Pretraining"], f1[rival])
    ahead = int((gains > 0).sum())
    if ahead == len(gains):
        word = "ahead in every seed"
    elif gains.mean() <= 0:
        word = f"not ahead in the mean (ahead in {ahead} of {len(gains)} seeds)"
    else:
        word = f"ahead in {ahead} of {len(gains)} seeds, which may be chance"
    return f"Self-Pretraining against {rival}: {gains.mean():+.3f} F1, {word}."


# %%
# Fit and score
# -------------
# Each seed draws its own rows. The three classifiers of a seed get the same ones. Three seeds and a
# few hundred texts are a first look. On your own labels,
# :func:`~sklearn_spt.compare_with_supervised` gives a :class:`~sklearn_spt.SupervisedComparison`
# with an interval.
def main() -> None:
    """Fit everything, and print the table and the verdict."""
    parser = argparse.ArgumentParser(description="Compare three classifiers on the same texts.")
    parser.add_argument("--n-labeled", type=int, default=100, help="labelled texts (100)")
    parser.add_argument("--n-unlabeled", type=int, default=300, help="unlabelled texts (300)")
    parser.add_argument("--n-test", type=int, default=400, help="test texts (400)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="(0 1 2)")
    parser.add_argument("--made-up", action="store_true", help="look for no tweets")
    # in a notebook, the arguments are those of its kernel
    options = parser.parse_args([] if "ipykernel" in sys.modules else None)

    n_learned = options.n_labeled + options.n_unlabeled
    texts, target = texts_and_labels(options.made_up, 3 * (n_learned + options.n_test))
    print(
        f"{options.n_labeled} labelled, {options.n_unlabeled} unlabelled and {options.n_test} test "
        f"texts for each seed; {target.mean():.0%} of all texts are positive.\n"
    )
    print(f"{'seed':6}{'':18}{'F1':>7}{'precision':>12}{'recall':>9}{'seconds':>10}")
    f1: dict[str, list[float]] = {}
    for seed in options.seeds:
        X, X_test, y_true, y_test = train_test_split(
            texts,
            target,
            train_size=n_learned,
            test_size=options.n_test,
            stratify=target,
            random_state=seed,
        )
        _, hidden = train_test_split(
            np.arange(n_learned),
            test_size=options.n_unlabeled,
            stratify=y_true,
            random_state=seed,
        )
        y = y_true.copy()
        y[hidden] = -1  # -1 marks the rows without a label
        for name, model in classifiers(seed).items():
            start = time.perf_counter()
            rows = y != -1 if name == "one net" else slice(None)
            model.fit(X[rows], y[rows])
            seconds = time.perf_counter() - start
            precision, recall, score, _ = precision_recall_fscore_support(
                y_test, model.predict(X_test), average="binary", zero_division=0
            )
            f1.setdefault(name, []).append(score)
            print(
                f"{seed:<6}{name:18}{score:7.3f}{precision:12.3f}{recall:9.3f}{seconds:10.0f}",
                flush=True,
            )
    for name, scores in f1.items():
        print(f"{'mean':6}{name:18}{np.mean(scores):7.3f}")
    print()
    for rival in ("one net", "self-training"):
        print(verdict(f1, rival))


if __name__ == "__main__":
    main()
