"""A full disk, a folder that vanishes or is read-only, equal fits at once, Ctrl-C and SIGTERM."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import psutil
import pytest
from helpers import bert_net, build_encoder, mlp_net, points
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback

import sklearn_spt
from sklearn_spt import SelfPretrainingClassifier, compare_with_supervised
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals and locks")
X, Y, _ = points(3)


def fitted(net=None, **params):
    params = {"step_size": 0.5, "random_state": 0, **params}
    return SelfPretrainingClassifier(net or mlp_net(), **params).fit(X, Y)


def apart(function, *args, **how):
    """Start a function of this file in a process of its own."""
    code = "import sys, test_faults; getattr(test_faults, sys.argv[1])(*sys.argv[2:])"
    here = Path(__file__).parent
    paths = os.pathsep.join(map(str, (here, here.parent, *filter(None, sys.path))))
    command = [sys.executable, "-W", "ignore", "-c", code, function.__name__, *map(str, args)]
    environment = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **how)


def files(folder):
    return {path.name for path in Path(folder).rglob("*") if path.is_file()}


# -- a full disk -----------------------------------------------------------------------------------
@contextmanager
def full_disk(n_bytes):
    """No file can grow over so many bytes; other than on a full disk, anyone can set that."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def named(folder):
    """The error is one sentence with the folder and the remedy."""
    message = rf"^{folder} cannot be used \([^\n]*File too large[^\n]*\); free space [^.]*\.$"
    return pytest.raises(OSError, match=message)


def save_on_a_full_disk(folder):
    texts, place = ["i got the flu shot", "they never want it"], Path(folder) / "model"
    clf = bert_net(build_encoder(f"{folder}/encoder"), max_epochs=1).fit(texts * 2, [1, 0] * 2)
    sklearn_spt.save(clf, place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    # in the tokenizer, by transformers and by Rust; in the weights
    for n_bytes in (10, 700, 10_000):
        for write in (sklearn_spt.save, sklearn_spt.export):
            with named(place), full_disk(n_bytes):
                write(clf, place, overwrite=True)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    assert {path.name for path in Path(folder).iterdir()} == {"encoder", "model"}
    P = sklearn_spt.load(place).predict_proba(texts)
    np.testing.assert_array_equal(P, clf.predict_proba(texts))


def checkpoint_on_a_full_disk(folder):
    expected, seen = fitted().predict_proba(X), []
    whole = {"0-0.safetensors", "1-0.safetensors", "state.json"}
    for n_bytes, more in ((100, set()), (1000, {"2-0.safetensors"})):  # in a net; in the state
        with named(folder), ExitStack() as disk:

            def fill(iteration, disk=disk, n_bytes=n_bytes):
                if iteration.number == 1:
                    disk.enter_context(full_disk(n_bytes))

            fitted(checkpoint_dir=folder, on_iteration=fill)
        assert files(folder) == whole | more
        again = fitted(checkpoint_dir=folder, on_iteration=lambda it: seen.append(it.number))
        np.testing.assert_array_equal(again.predict_proba(X), expected)
    assert seen == [2, 2]


def memory_on_a_full_disk(folder):
    expected = fitted().predict_proba(X)
    said = pytest.warns(Warning, match="Unable to cache to disk")  # by joblib; the fit goes on
    with said, full_disk(3000):
        found = fitted(memory=folder)
    np.testing.assert_array_equal(found.predict_proba(X), expected)
    assert "output.pkl" not in files(folder), "what is half written has another name"
    for _ in range(2):
        np.testing.assert_array_equal(fitted(memory=folder).predict_proba(X), expected)
    assert "output.pkl" in files(folder)


def full_disks(folder):
    for function in (save_on_a_full_disk, checkpoint_on_a_full_disk, memory_on_a_full_disk):
        (Path(folder) / function.__name__).mkdir()
        function(f"{folder}/{function.__name__}")


@posix
def test_a_full_disk_costs_no_model_and_no_state(tmp_path):
    with apart(full_disks, tmp_path) as process:
        process.communicate()
    assert process.returncode == 0


# -- folders ---------------------------------------------------------------------------------------
class Stop(Exception):
    pass


def test_a_folder_that_vanishes_is_written_anew(tmp_path):
    def at(iteration):
        if iteration.number == 1:
            shutil.rmtree(tmp_path / "fits")
            shutil.rmtree(tmp_path / "memory")
        if iteration.number == 2:
            raise Stop

    params = {"step_size": 0.25, "checkpoint_dir": tmp_path / "fits"}
    with pytest.raises(Stop):
        fitted(on_iteration=at, memory=str(tmp_path / "memory"), **params)
    seen = []
    again = fitted(on_iteration=lambda it: seen.append(it.number), **params)
    assert seen == [3, 4]
    np.testing.assert_array_equal(again.predict_proba(X), fitted(step_size=0.25).predict_proba(X))


def test_an_equal_fit_may_end_in_the_middle_of_another(tmp_path):
    expected, found = fitted().predict_proba(X), []

    def at(iteration):
        if iteration.number == 1:
            found.append(fitted(checkpoint_dir=tmp_path).predict_proba(X))
            assert list(tmp_path.iterdir()) == [], "the other one removed the state"

    found.append(fitted(checkpoint_dir=tmp_path, on_iteration=at).predict_proba(X))
    np.testing.assert_array_equal(found, [expected] * 2)
    assert list(tmp_path.iterdir()) == []


@posix
def test_equal_fits_at_once_share_a_folder(tmp_path):
    with ThreadPoolExecutor(3) as pool:
        fits = [pool.submit(fitted, checkpoint_dir=tmp_path, n_students=2) for _ in range(9)]
    expected = fitted(n_students=2).predict_proba(X)
    for fit in fits:
        np.testing.assert_array_equal(fit.result().predict_proba(X), expected)
    assert list(tmp_path.iterdir()) == []


@posix
def test_folders_that_are_read_only_are_read(tmp_path, tiny_encoder):
    texts, place, state = ["i got it", "they never want it"], tmp_path / "model", tmp_path / "fits"
    clf = bert_net(tiny_encoder, max_epochs=1).fit(texts * 2, [1, 0] * 2)
    sklearn_spt.save(clf, place)
    with pytest.raises(Stop):
        fitted(checkpoint_dir=state, on_iteration=Mock(side_effect=Stop))
    writable = {path: path.stat().st_mode for path in (tmp_path, *tmp_path.rglob("*"))}
    for path, mode in writable.items():
        path.chmod(mode & ~0o222)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("root may write everywhere")
        P = sklearn_spt.load(place).predict_proba(texts)
        np.testing.assert_array_equal(P, clf.predict_proba(texts))
        for folder in (place, tmp_path / "other"):
            with pytest.raises(OSError, match=rf"^{folder} cannot be used .*permission"):
                sklearn_spt.save(clf, folder, overwrite=True)
        for folder in (state, tmp_path / "other"):
            with pytest.raises(OSError, match=rf"^{folder} cannot be used .*permission"):
                fitted(checkpoint_dir=folder)
    finally:
        for path, mode in writable.items():
            path.chmod(mode)
    P = fitted(checkpoint_dir=state).predict_proba(X)
    np.testing.assert_array_equal(P, fitted().predict_proba(X))


def test_a_file_in_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "fits"):
        with pytest.raises(OSError, match=rf"^{re.escape(str(folder))} cannot be used .* another"):
            fitted(checkpoint_dir=folder)


# -- signals ---------------------------------------------------------------------------------------
class Endless(Callback):
    """Leaves a file with the number of the process, and lets the training wait."""

    def __init__(self, folder):
        self.folder = folder

    def on_train_begin(self, net, **_):
        (Path(self.folder) / f"{os.getpid()}").touch()
        time.sleep(3600)


def interrupted(folder):
    """Compare, and search, with two processes each, until an interrupt comes."""
    for kind in (signal.SIGINT, signal.SIGTERM):  # docs/reliability.md says so of SIGTERM
        signal.signal(kind, signal.default_int_handler)
    signal.alarm(900)  # else a fault could hold the suite for ever
    clf = SelfPretrainingClassifier(mlp_net(callbacks=[Endless(folder)]), random_state=0)
    search = GridSearchCV(clf, {"lam": [0.1]}, cv=SemiSupervisedStratifiedKFold(2), n_jobs=2)
    for run in (partial(compare_with_supervised, clf, n_jobs=2, random_state=0), search.fit):
        try:
            run(X, Y)
        except KeyboardInterrupt:
            print("prompt", flush=True)


@posix
def test_interrupts_leave_no_process(tmp_path):
    seen, children = set(), []
    with apart(interrupted, tmp_path, start_new_session=True) as process:
        for kind in (signal.SIGINT, signal.SIGTERM):
            while len(files(tmp_path) - seen) < 2:
                assert process.poll() is None
                time.sleep(0.1)
            workers = [psutil.Process(int(name)) for name in files(tmp_path) - seen]
            seen = files(tmp_path)
            children += psutil.Process(process.pid).children(recursive=True)
            assert {worker.pid for worker in workers} <= {child.pid for child in children}
            if kind == signal.SIGINT:  # Ctrl-C reaches all processes of the terminal
                os.killpg(process.pid, kind)
            else:
                process.send_signal(kind)
            assert process.stdout.readline() == "prompt\n"
            assert psutil.wait_procs(workers, timeout=100)[1] == []
    assert process.returncode == 0
    assert psutil.wait_procs(children, timeout=100)[1] == []
