"""Kill fits at random moments, resume each of them, and count those that end with the same bits.

    python examples/studies/kills.py small 500
    python examples/studies/kills.py bert 40

A fit runs in a process of its own and gets SIGKILL at a moment drawn from its whole time. Another
process calls the same fit again, and what it found is compared with an uninterrupted fit. A moment
after the end is drawn again. It needs fork, which Windows lacks.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import make_blobs
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

PROCESSES = multiprocessing.get_context("fork")  # the libraries are imported once


def small():
    """Return a fit of ten iterations that takes a second, with all nets kept in the folder."""
    X, y = make_blobs(300, random_state=0, cluster_std=4)
    module = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))
    net = NeuralNetClassifier(module, verbose=0, lr=0.1, batch_size=16)
    several = {"n_teachers": 2, "n_students": 2, "ensemble": "all", "step_size": 0.1}
    y[100:] = -1
    return SelfPretrainingClassifier(net, **several), X.astype(np.float32), y


def bert():
    """Return a fit of four iterations of the default encoder."""
    bunch = make_short_texts(44, n_labeled=12, random_state=0)
    clf = SelfPretrainingClassifier(step_size=0.25, refit_head=True, finetune_epochs=1)
    return clf, bunch.data, bunch.target_partial


def fit(made, folder):
    """Fit, and return the first iteration that ran here, and a checksum of what was found."""
    clf, X, y = made()
    first = []
    clf.set_params(random_state=0, checkpoint_dir=folder)
    clf.set_params(on_iteration=lambda at: first.append(at.number)).fit(X, y)
    losses = "".join(str(entry["loss"]) for entry in clf.history_).encode()
    found = clf.predict_proba(X).tobytes() + clf.labeled_iter_.tobytes() + losses
    return min(first, default=None), hashlib.sha256(found).hexdigest()


def run(made, folder, seconds=None):
    """Return the answer of a fit, or None if it was killed after so many seconds."""
    answer, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=lambda: there.send(fit(made, folder)))
    process.start()
    there.close()
    if seconds is not None:
        process.join(seconds)
        process.kill()
    try:
        return answer.recv()
    except EOFError:
        return None
    finally:
        process.join()


def main():
    """Kill, resume, compare, and print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fit", choices=["small", "bert"])
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=0, help="of the moments; default: 0")
    options = parser.parse_args()
    made, rng = {"small": small, "bert": bert}[options.fit], np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as place:
        torch.set_num_threads(1)  # as in a forked process
        fit(made, place)  # what it imports, its children need not
        start = time.perf_counter()
        _, expected = run(made, place)
        seconds = time.perf_counter() - start
        killed = equal = resumed = written = left = 0
        while killed < options.kills:
            if run(made, place, rng.uniform(0, seconds)) is not None:
                continue
            killed += 1
            written += any(Path(place).rglob("*.part"))
            first, found = run(made, place) or (0, None)
            resumed += first != 0
            equal += found == expected
            left += any(Path(place).iterdir())
            print(f"{killed} kills: {equal} equal, {resumed} from a state", flush=True)
    print(
        f"{killed} kills of {options.fit} fits of {seconds:.1f} s: {equal} ended with the same "
        f"bits, {resumed} of them from a state, {written} after a kill inside a write; {left} left "
        "a file."
    )


if __name__ == "__main__":
    main()
