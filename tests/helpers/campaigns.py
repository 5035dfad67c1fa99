"""Kills and interrupts fits at random points until they end, and compares them with plain fits.

A program of its own, because it forks and gets signals: ``python -m helpers.campaigns WHAT N SEED
FOLDER [ENCODER]`` prints what it counted as JSON. WHAT is "kills" or "interrupts". With an encoder
the fits are those of a small BERT, else those of a net over numbers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

from helpers.kills import numbers, timeless
from helpers.nets import bert_net, mlp_net
from sklearn_spt import SelfPretrainingClassifier

# Functions before which a fit that writes is killed.
_STEPS = ("fsync", "replace", "rename", "unlink", "mkdir")
PLACES = (("checkpoint_dir",), ("memory",), ("checkpoint_dir", "memory"))


def documents(encoder):
    if encoder is None:
        return numbers()
    texts = [f"{who} {what} {when}" for who, what, when in _phrases()]
    return texts, np.array([i % 2 if i < 8 else -1 for i in range(len(texts))])


def _phrases():
    for who in ("i", "she", "we"):
        for when in ("today", "yesterday", "at the clinic"):
            yield who, "got the flu shot", when
            yield who, "never want that needle", when


def fitted(encoder, seed, folder=None, places=()):
    """A fit with some of its places in the folder."""
    # large batches: as many steps of a fit, less time between them
    net = mlp_net(module__n_in=20, batch_size=30) if encoder is None else bert_net(encoder)
    clf = SelfPretrainingClassifier(net, step_size=0.4, random_state=seed)
    clf.set_params(**{name: str(folder / name) for name in places})
    return clf.fit(*documents(encoder))


def outcome(clf, encoder):
    """What has to be equal bit by bit."""
    P = clf.predict_proba(documents(encoder)[0])
    return json.dumps([P.tolist(), clf.transduction_.tolist(), timeless(clf.history_)])


def left_behind(folder):
    """Files that a finished fit should have removed."""
    kept = folder / "checkpoint_dir"
    return sorted(str(file) for file in kept.rglob("*")) if kept.exists() else []


class Campaign:
    """Repeats fits that are cut off until each ends."""

    def __init__(self, n, seed, folder, encoder):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.folder = Path(folder)
        self.encoder = encoder
        self.counts = {"cut": 0, "in a write": 0, "fits": 0, "different": 0, "left": 0, "failed": 0}
        self.expected = {}  # by seed: the outcome of a fit that nothing cuts off
        self.seconds = float("inf")

    def run(self, attempt):
        """Call ``attempt(seed, folder, places)`` until it returns an outcome, for many fits."""
        for seed in range(3):
            start = time.perf_counter()
            self.expected[seed] = outcome(fitted(self.encoder, seed), self.encoder)
            # the first fit of a process takes longer
            self.seconds = min(self.seconds, time.perf_counter() - start)
        while self.counts["cut"] < self.n:
            seed, places = int(self.rng.integers(3)), PLACES[self.rng.integers(len(PLACES))]
            folder = self.folder / str(self.counts["fits"])
            folder.mkdir()
            found = None
            while found is None:
                found = attempt(seed, folder, places)
            self.counts["fits"] += 1
            self.counts["different"] += found != self.expected[seed]
            self.counts["left"] += bool(left_behind(folder))
        return self.counts

    # -- kills ----------------------------------------------------------------------------------
    def killed(self, seed, folder, places):
        """Fork a fit and kill it: after a random time, or at one of its steps of writing."""
        result = folder / "result.json"
        at_step = int(self.rng.integers(1, 25)) if self.rng.random() < 0.5 else None
        child = os.fork()
        if child == 0:
            os._exit(self._child(seed, folder, places, result, at_step))
        if at_step is None:
            deadline = time.perf_counter() + self.rng.uniform(0, 1.5 * self.seconds)
            done = (0, 0)
            while done[0] == 0 and time.perf_counter() < deadline:
                time.sleep(0.001)
                done = os.waitpid(child, os.WNOHANG)
            if done[0] == 0:
                os.kill(child, signal.SIGKILL)
                done = os.waitpid(child, 0)
        else:
            done = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(done[1])
        if code == 0:
            return result.read_text()
        self.counts["cut"] += code == -signal.SIGKILL
        self.counts["in a write"] += code == -signal.SIGKILL and at_step is not None
        self.counts["failed"] += code != -signal.SIGKILL
        return None if code == -signal.SIGKILL else "failed"

    def _child(self, seed, folder, places, result, at_step):
        try:
            if at_step is not None:
                _kill_at(at_step)
            text = outcome(fitted(self.encoder, seed, folder, places), self.encoder)
            result.write_text(text)
            return 0
        except BaseException:
            traceback.print_exc()
            return 1

    # -- interrupts -----------------------------------------------------------------------------
    def interrupted(self, seed, folder, places):
        """Fit in this process, and raise KeyboardInterrupt after a random time."""

        def interrupt(*args):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, self.rng.uniform(1e-4, 1.5 * self.seconds))
            clf = fitted(self.encoder, seed, folder, places)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            self.counts["cut"] += 1
            return None
        return outcome(clf, self.encoder)


def _kill_at(step):
    """Kill this process before the given one of its calls that change files."""
    calls = iter(range(1, sys.maxsize))

    def deadly(function):
        def call(*args, **kwargs):
            if next(calls) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in _STEPS:
        setattr(os, name, deadly(getattr(os, name)))


if __name__ == "__main__":
    warnings.simplefilter("error")
    what, n, seed, *more = sys.argv[1:]
    campaign = Campaign(int(n), int(seed), more[0], more[1] if len(more) > 1 else None)
    print(json.dumps(campaign.run({"kills": campaign.killed}.get(what, campaign.interrupted))))
