"""A dask cluster of two processes gives what one process gives, also when one of them dies."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from itertools import chain

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import torch
from distributed import Client, LocalCluster, WorkerPlugin, get_worker
from helpers import bert_net, mlp_net, points
from joblib import parallel_config
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_validate
from skorch.callbacks import Callback

import sklearn_spt
from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

pytestmark = pytest.mark.xdist_group("cluster")  # one cluster, also with pytest -n
X, Y, _ = points(3, n=300)
FOLDS = list(SemiSupervisedStratifiedKFold(2).split(X, Y))


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of two workers with one thread each, as `dask worker --nthreads 1` starts them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the workers, since it changes digits
    own = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    own["local_directory"] = tmp_path_factory.mktemp("dask")
    with LocalCluster(n_workers=2, threads_per_worker=1, **own) as cluster, Client(cluster) as one:
        yield one
    torch.set_num_threads(threads)


def search(grid, net=None, error_score=np.nan, **params):
    """Return the scores of a search by the backend that is set."""
    clf = SelfPretrainingClassifier(net or mlp_net(), random_state=0, **params)
    how = {"scoring": "neg_log_loss", "refit": False, "n_jobs": -1, "error_score": error_score}
    found = GridSearchCV(clf, grid, cv=FOLDS, **how).fit(X, Y)
    return {name: found.cv_results_[name] for name in found.cv_results_ if "test_score" in name}


def note(folder, what):
    """Leave a file, which no other process can overwrite."""
    tempfile.mkstemp(prefix=f"{what}-", dir=folder)


def noted(folder):
    return sorted(int(file.name.split("-")[0]) for file in folder.glob("*-*"))


class Note(Callback):
    """Notes the process each time that a net is trained."""

    def __init__(self, folder):
        self.folder = folder

    def on_train_begin(self, net, **_):
        note(self.folder, os.getpid())


class Kill:
    """Notes each iteration; the first process that ends iteration 1 of a fit dies."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, iteration):
        note(self.folder, iteration.number)
        if iteration.number == 1:
            with suppress(FileExistsError):
                (self.folder / "killed").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)


# -- searches --------------------------------------------------------------------------------------
def test_a_search_gives_the_same_digits(client):
    grid = {"lam": [0.1, 0.9], "alpha": [0.0, 0.4]}
    with parallel_config("sequential"):
        one_process = search(grid, step_size=0.5)
    with parallel_config("dask"):
        np.testing.assert_equal(search(grid, step_size=0.5), one_process)


def test_workers_share_first_teachers_through_a_folder(client, tmp_path):
    grid, params = {"lam": [0.1, 0.3, 0.5, 0.9]}, {"step_size": 1.0, "memory": str(tmp_path)}
    with parallel_config("sequential"):
        one_process = search(grid, step_size=1.0)
    (one_by_one := tmp_path / "one_by_one").mkdir()
    (at_once := tmp_path / "at_once").mkdir()
    # one worker after the other: a teacher and stage 1 per fold, then stage 2 of each fit alone
    for worker, n_trained in zip(client.nthreads(), (2 * (2 + 4), 2 * (2 + 4 + 4)), strict=True):
        with parallel_config("dask", workers=[worker]):
            found = search(grid, mlp_net(callbacks=[Note(one_by_one)]), **params)
        np.testing.assert_equal(found, one_process)
        assert len(noted(one_by_one)) == n_trained
    assert len(set(noted(one_by_one))) == 2
    # at once: both may train the same teacher, but neither does it twice
    with parallel_config("dask"):
        found = search(grid, mlp_net(callbacks=[Note(at_once)]), **params)
    np.testing.assert_equal(found, one_process)
    assert 2 * (2 + 4) <= len(noted(at_once)) <= 2 * (2 * 2 + 4)


@pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
def test_failures_come_back_with_their_parameters(client):
    grid = {"lam": [0.1, 2.0]}
    with parallel_config("dask"), pytest.raises(ValueError, match=r"lam == 2.0, must be <= 1"):
        search(grid, step_size=1.0, error_score="raise")
    several = pytest.warns(FitFailedWarning, match=r"(?s)2 fits failed.*lam == 2.0, must be <= 1")
    with parallel_config("dask"), several:
        assert np.isnan(search(grid, step_size=1.0)["mean_test_score"]).tolist() == [False, True]


@pytest.mark.gpu
def test_nets_of_a_gpu_land_on_it(client, tiny_encoder, tiny_texts):
    y, found = np.array([1, 0] * 8 + [-1] * 8), []
    clf = SelfPretrainingClassifier(bert_net(tiny_encoder, device="cuda"), random_state=0)
    cv = SemiSupervisedStratifiedKFold(2)
    for backend in ("sequential", "dask"):
        with parallel_config(backend):
            results = cross_validate(clf, tiny_texts, y, cv=cv, n_jobs=-1, return_estimator=True)
        for one in results["estimator"]:
            assert {w.device.type for w in one.estimators_[0].module_.parameters()} == {"cuda"}
        found.append([one.predict_proba(tiny_texts) for one in results["estimator"]])
    np.testing.assert_allclose(*found, atol=1e-3)


# -- predictions, the paper's program, a kill ------------------------------------------------------
class Model(WorkerPlugin):
    """Loads a model when a worker starts."""

    name = "model"

    def __init__(self, folder, notes):
        self.folder, self.notes = folder, notes

    def setup(self, worker):
        note(self.notes, os.getpid())
        worker.model = sklearn_spt.load(self.folder)


def test_a_frame_in_parts_is_predicted_as_a_whole(client, tiny_encoder, tiny_texts, tmp_path):
    clf = bert_net(tiny_encoder, max_epochs=1).fit(tiny_texts, ["a", "b"] * 12)
    sklearn_spt.save(clf, tmp_path / "model")
    client.register_plugin(Model(tmp_path / "model", tmp_path))

    def predicted(part):
        return part.assign(label=get_worker().model.predict(part["text"]))

    parts = dd.from_pandas(pd.DataFrame({"text": tiny_texts}), npartitions=5)
    meta = {**parts.dtypes, "label": object}
    labels = parts.map_partitions(predicted, meta=meta).compute()["label"]
    assert labels.tolist() == clf.predict(tiny_texts).tolist()
    assert noted(tmp_path) == sorted(client.run(os.getpid).values()), "loaded once by each"
    client.unregister_worker_plugin("model")


def test_the_papers_program(client, paper, command, tmp_path):
    command += ["--n-labeled", "12", "--seeds", "0", "--methods"]
    command += ["Self-Pretraining,without two-stage learning", "--out"]
    on_cluster = [tmp_path / "both.jsonl", "--scheduler", client.scheduler.address]
    subprocess.run([sys.executable, paper.__file__, *command, *on_cluster], check=True)
    paper.main([*command, str(tmp_path / "one.jsonl")])
    one, both = (
        paper.read(tmp_path / name).drop(columns="seconds").sort_values("method", ignore_index=True)
        for name in ("one.jsonl", "both.jsonl")
    )
    assert len(one) == 2
    pd.testing.assert_frame_equal(one, both)


def test_a_worker_that_is_killed_loses_no_result(client, tmp_path):
    grid, params = {"lam": [0.3]}, {"step_size": 0.5, "checkpoint_dir": tmp_path / "states"}
    with parallel_config("sequential"):
        one_process = search(grid, step_size=0.5)
    client.amm.stop()  # or dask drops all copies but one, which the worker that dies may hold
    with parallel_config("dask", scatter=[X, Y, *chain(*FOLDS)]):
        found = search(grid, on_iteration=Kill(tmp_path), **params)
    np.testing.assert_equal(found, one_process)
    assert (tmp_path / "killed").exists()
    # each iteration of the two fits ran once: the killed fit went on from its state
    assert noted(tmp_path) == [0, 0, 1, 1, 2, 2]
