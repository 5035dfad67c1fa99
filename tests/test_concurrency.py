"""Forks and threads beside predictions."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from helpers.nets import bert_net, mlp_net
from helpers.processes import run_python

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt._runtime import ProcessLock

FORKS = """
import os, signal, threading, warnings
import numpy as np
from helpers.nets import mlp_net
from sklearn_spt import SelfPretrainingClassifier

warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads
X = np.random.default_rng(0).normal(size=(400, 2)).astype("f")
y = np.where(np.arange(400) < 20, np.arange(400) % 2, -1)
net = mlp_net(verbose=0)
clf = SelfPretrainingClassifier(net, step_size=1.0, alpha=0, random_state=0).fit(X, y)
wanted = clf.predict_proba(X)
ended = threading.Event()

def predict():
    while not ended.is_set():
        clf.predict_proba(X)

thread = threading.Thread(target=predict)
thread.start()
failed = 0
for _ in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that hangs dies
        os._exit(0 if np.array_equal(clf.predict_proba(X), wanted) else 1)
    failed += os.waitpid(child, 0)[1] != 0
ended.set()
thread.join()
print(failed, "of 5 children failed")
"""


POOLS = """
import os, signal, sys, warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import joblib, numpy as np
from helpers.nets import bert_net
from sklearn_spt import SelfPretrainingClassifier

TEXTS = ["she got the flu shot", "he never want that needle", "my arm is sore", "no !"] * 4
Y = [0, 1] * 3 + [-1] * 10

def work(seed):
    warnings.simplefilter("ignore")
    net = bert_net(sys.argv[1], max_epochs=1)
    clf = SelfPretrainingClassifier(net, max_iter=1, alpha=0.0, random_state=seed).fit(TEXTS, Y)
    return clf.predict_proba(TEXTS).tobytes()

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads
    processes, seeds = int(sys.argv[2]), [0, 1] * 2
    wanted = [work(seed) for seed in seeds]
    for method in sys.argv[3:]:
        if method == "loky":
            found = joblib.Parallel(processes)(joblib.delayed(work)(seed) for seed in seeds)
        elif method == "dask":
            from distributed import Client, LocalCluster
            with LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None
            ) as cluster, Client(cluster) as client:
                futures = client.map(work, seeds)
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
                found = client.gather(futures)
        else:
            with ProcessPoolExecutor(processes, mp_context=get_context(method)) as pool:
                found = list(pool.map(work, seeds))
        print(method, found == wanted, flush=True)
"""


@pytest.mark.reliability
def test_processes_of_every_kind_find_the_same_bits(tiny_encoder, tmp_path):
    methods, processes, timeout = ["spawn"], 2, 900
    if os.environ.get("SKLEARN_SPT_RELIABILITY") == "full":
        pytest.importorskip("distributed")
        methods, processes = ["fork", "spawn", "forkserver", "loky", "dask"], 4
        timeout = 3600
    program = tmp_path / "pools.py"
    program.write_text(POOLS)
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    done = subprocess.run(
        [sys.executable, str(program), tiny_encoder, str(processes), *methods],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=True,
    )
    assert done.stdout.splitlines() == [f"{method} True" for method in methods]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forked_child_predicts_while_a_thread_of_its_parent_does():
    assert run_python(FORKS) == "0 of 5 children failed\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_lock_of_the_thread_that_forks_stays_locked():
    lock = ProcessLock()
    with lock:
        lock._after_fork()
        assert not free_for_another_thread(lock)
    assert free_for_another_thread(lock)


def free_for_another_thread(lock):
    found = []
    thread = threading.Thread(target=lambda: found.append(lock._lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture
def numbers():
    X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    return X, np.where(np.arange(40) < 20, np.arange(40) % 2, -1)


def refuse(*args, **kwargs):
    raise AssertionError("a prediction seeds no generator")


@pytest.mark.parametrize("kind", ["plain", "bert", "semi-supervised"])
def test_prediction_neither_seeds_nor_draws(kind, numbers, tiny_encoder, tiny_texts, monkeypatch):
    X, y = numbers
    if kind == "bert":
        X = tiny_texts
        fitted = bert_net(tiny_encoder, max_epochs=1).fit(X, [0, 1] * 12)
    else:
        net = mlp_net(verbose=0) if kind == "plain" else bert_net(tiny_encoder)
        if kind == "semi-supervised":
            X, y = tiny_texts, np.r_[[0, 1] * 6, [-1] * 12]
        fitted = SelfPretrainingClassifier(net, step_size=1.0, alpha=0.0, random_state=0).fit(X, y)
    states = random.getstate(), str(np.random.get_state()), torch.get_rng_state()  # noqa: NPY002
    for module, name in ((random, "seed"), (random, "setstate"), (torch, "set_rng_state")):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr(np.random, "seed", refuse)
    monkeypatch.setattr(np.random, "set_state", refuse)
    monkeypatch.setattr(torch, "manual_seed", refuse)
    first = fitted.predict_proba(X)
    assert random.getstate() == states[0]
    assert str(np.random.get_state()) == states[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])
    np.testing.assert_array_equal(first, fitted.predict_proba(X))


def test_threads_that_predict_at_once_agree(numbers):
    X, y = numbers
    clf = SelfPretrainingClassifier(mlp_net(verbose=0), step_size=1.0, alpha=0.0, random_state=0)
    wanted = clf.fit(X, y).predict_proba(X)
    found = []
    threads = [
        threading.Thread(target=lambda: found.extend(clf.predict_proba(X) for _ in range(5)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40
    for P in found:
        np.testing.assert_array_equal(P, wanted)
