"""Whether the fast ways change results: F1 with all of them and without.

Run ``python examples/benchmarks/same_scores.py``. For each seed `BertClassifier` learns from other
labelled texts, once with all fast ways and once inside `plain` and with batches in the order as
drawn, and is scored on the same test texts. Random numbers differ, so single scores do; their means
must not. A table in Markdown goes to the standard output.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import torch
from _options import parser_of
from _record import Record
from _texts import texts_of
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from tqdm import tqdm

from sklearn_spt import BertClassifier
from sklearn_spt.model_selection._intervals import mean_with_interval
from sklearn_spt.nets._batching import WINDOW
from sklearn_spt.nets._kernels import plain


def main() -> None:
    """Fit, score and print."""
    parser = parser_of(__doc__, "pretrained", "device", "threads", "normalize")
    add = parser.add_argument
    add("--n-labeled", type=int, default=300, help="labelled texts (default: 300)")
    add("--n-test", type=int, default=1000, help="test texts (default: 1000)")
    add("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    add(
        "--like-length", action="store_true", help="batches of like length with the plain twins too"
    )
    options = parser.parse_args()
    record = Record(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    # four times as many to draw from, so that seeds differ in what they learn from
    data, texts, y = texts_of(options.n_test + 4 * options.n_labeled, normalize=options.normalize)
    scored, rest = np.arange(options.n_test), np.arange(options.n_test, len(y))
    modes = {
        "all fast ways": (nullcontext, WINDOW),
        "plain twins": (plain, WINDOW if options.like_length else 1),
    }
    found: dict[str, list[float]] = {name: [] for name in modes}
    with tqdm(total=options.seeds * len(modes), desc="fits") as bar:
        for seed in range(options.seeds):
            if record.over():
                break
            rows, _ = train_test_split(
                rest, train_size=options.n_labeled, stratify=y[rest], random_state=seed
            )
            for name, (mode, window) in modes.items():
                net = BertClassifier(
                    options.pretrained,
                    device=options.device,
                    iterator_train__window=window,
                    random_state=seed,
                )
                with mode():
                    predicted = net.fit(texts[rows], y[rows]).predict(texts[scored])
                found[name].append(float(f1_score(y[scored], predicted)))
                record.add(seed=seed, mode=name, f1=found[name][-1])
                bar.update()
    done = len(found["plain twins"])
    if done == 0:
        return
    print("| seed | " + " | ".join(modes) + " |\n| ---: |" + " ---: |" * len(modes))
    for seed in range(done):
        print(f"| {seed} | " + " | ".join(f"{found[name][seed]:.3f}" for name in modes) + " |")
    spread = (f"{np.mean(v):.3f} ± {np.std(v, ddof=len(v) > 1):.3f}" for v in found.values())
    print("| mean ± sd | " + " | ".join(spread) + " |")
    fast, slow = (np.array(values) for values in found.values())
    mean, low, high = mean_with_interval(fast - slow, 0.95)
    interval = "" if low is None else f", 95% interval {low:+.3f} to {high:+.3f}"
    print(
        f"\nDifference of F1, fast less plain: {mean:+.3f}{interval}. "
        f"{options.n_labeled} labelled and {options.n_test} test {data}, {options.pretrained}, "
        f"{options.device}, threads: {torch.get_num_threads()}."
    )


if __name__ == "__main__":
    main()
