"""States in a folder: a fit that is cut at any moment goes on to the same bits."""

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import bert_net, build_encoder, mlp_net, points
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt._checkpoint import Checkpoint
from sklearn_spt._data import PartlyLabeled
from sklearn_spt._sealed import read_sealed, sha256, versions, write_sealed
from sklearn_spt._training import Trainer

X, Y, _ = points(3)
PARAMS = {"step_size": 0.5, "n_teachers": 2, "alpha": 0.4, "random_state": 0}


def fitted(folder=None, net=None, **params):
    params = {**PARAMS, **params}
    return SelfPretrainingClassifier(net or mlp_net(), checkpoint_dir=folder, **params).fit(X, Y)


def test_a_state_belongs_to_this_version_and_to_what_teachers_read(tmp_path):
    assert "sklearn-spt" in versions()
    keys = set()
    for text in ("Flu", "flu"):  # the same token ids of an uncased encoder
        model = SelfPretrainingClassifier(teacher=LogisticRegression())
        data = PartlyLabeled(X, Y, None, None, np.arange(3), Y >= 0, ([text], None))
        keys.add(Checkpoint(tmp_path, model, Trainer(mlp_net(), [], 1, True, 0, None), data).folder)
    assert len(keys) == 2


def test_an_encoder_that_was_trained_on_is_another_one(tmp_path, tiny_texts, monkeypatch):
    """The name of a folder stays; what it holds may not."""
    y, found = [0, 1] * 6 + [-1] * 12, []
    for seed in (0, 1):
        encoder = build_encoder(tmp_path / "encoder", seed=seed)
        clf = SelfPretrainingClassifier(bert_net(encoder), memory=str(tmp_path / "memory"))
        clf.set_params(random_state=0, checkpoint_dir=tmp_path / "fits")
        if seed == 0:
            with pytest.raises(Cut):
                clone(clf).set_params(on_iteration=Cuts(0)).fit(tiny_texts, y)
        found.append(clf.fit(tiny_texts, y).predict_proba(tiny_texts))
    clf.set_params(memory=None, checkpoint_dir=None).fit(tiny_texts, y)
    np.testing.assert_array_equal(found[1], clf.predict_proba(tiny_texts))
    assert abs(found[0] - found[1]).max() > 1e-3


def test_nets_without_a_state_are_not_trusted(tmp_path):
    class Stop(Exception):
        pass

    def stop(iteration):
        raise Stop

    expected = fitted().predict_proba(X)
    with pytest.raises(Stop):
        fitted(tmp_path, on_iteration=stop)
    (folder,) = tmp_path.iterdir()
    (folder / "state.json").unlink()
    net = folder / "0-0.safetensors"
    net.write_bytes(net.read_bytes()[:-9])
    with pytest.raises(Stop):
        fitted(tmp_path, on_iteration=stop)
    (folder / "1-0.safetensors").write_bytes(net.read_bytes()[:-9])  # torn, and in no state
    with pytest.raises(Stop):
        fitted(tmp_path, on_iteration=stop)
    np.testing.assert_array_equal(fitted(tmp_path).predict_proba(X), expected)


class Cut(Exception):
    """The process ends here."""


def cut_at(monkeypatch, number):
    """Raise an error before the operation on a file that has this number."""
    count = 0

    def counted(operation):
        def run(*args, **kwargs):
            nonlocal count
            count += 1
            if count == number:
                raise Cut
            return operation(*args, **kwargs)

        return run

    for place, name in ((Path, "replace"), (Path, "unlink"), (Path, "mkdir")):
        monkeypatch.setattr(place, name, counted(getattr(place, name)))
    return lambda: count


@pytest.mark.parametrize("ensemble", ["last", "all"])
def test_a_fit_that_is_cut_in_a_write_goes_on(tmp_path, monkeypatch, ensemble):
    expected, number, again = fitted(ensemble=ensemble).predict_proba(X), 0, True
    while again:
        number += 1
        folder = tmp_path / str(number)
        with monkeypatch.context() as patch:
            count = cut_at(patch, number)
            try:
                fitted(folder, ensemble=ensemble)
            except Cut:
                pass
            else:
                again = count() >= number
        if again:
            found = fitted(folder, ensemble=ensemble).predict_proba(X)
            np.testing.assert_array_equal(found, expected)
            assert list(folder.iterdir()) == []
    assert number > 8  # writes of nets and states, and removals


def test_a_second_cut_and_another_seed(tmp_path):
    """Fits of other seeds stand side by side, and each may be cut more than once."""
    expected = {seed: fitted(random_state=seed).predict_proba(X) for seed in (0, 1)}
    for number in (0, 1):
        for seed in (0, 1):
            with pytest.raises(Cut):
                fitted(tmp_path, random_state=seed, on_iteration=Cuts(number))
    assert len(list(tmp_path.iterdir())) == 2
    for seed in (0, 1):
        found = fitted(tmp_path, random_state=seed).predict_proba(X)
        np.testing.assert_array_equal(found, expected[seed])


class Cuts:
    def __init__(self, number):
        self.number = number

    def __call__(self, iteration):
        if iteration.number == self.number:
            raise Cut


def test_the_folder_holds_what_is_needed_and_no_more(tmp_path):
    with pytest.raises(Cut):
        fitted(tmp_path, ensemble="last", on_iteration=Cuts(1))
    (folder,) = tmp_path.iterdir()
    assert sorted(file.name for file in folder.iterdir()) == ["1-0.safetensors", "state.json"]
    content = json.loads((folder / "state.json").read_text().partition("\n")[2])
    assert content["t"] == 1
    assert set(content["files"]) == {"1-0.safetensors"}


@pytest.mark.parametrize(
    "change",
    [{"alpha": 0.5}, {"step_size": 0.4}, {"n_students": 2}, {"ensemble": "last"}, {"lam": 0.9}],
)
def test_another_fit_does_not_find_it(tmp_path, change):
    with pytest.raises(Cut):
        fitted(tmp_path, on_iteration=Cuts(0))
    seen = []
    fitted(tmp_path, on_iteration=lambda it: seen.append(it.number), **change)
    assert seen[0] == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_verbose_callbacks_and_the_place_change_nothing(tmp_path):
    with pytest.raises(Cut):
        fitted(tmp_path / "one", on_iteration=Cuts(1))
    (tmp_path / "one").rename(tmp_path / "two")
    seen = []
    with warnings.catch_warnings(action="ignore"):
        net = mlp_net(verbose=1)
        fitted(tmp_path / "two", net, on_iteration=seen.append, verbose=1)
    assert [iteration.number for iteration in seen] == [2]
    again = pickle.loads(pickle.dumps(seen[0]))
    np.testing.assert_array_equal(again.predict_proba(X), seen[0].predict_proba(X))


def test_sealed_files(tmp_path):
    (tmp_path / "a").write_bytes(b"weights")
    file = tmp_path / "state.json"
    write_sealed(file, {"n": 1}, [tmp_path / "a"])
    assert read_sealed(file)["n"] == 1
    assert read_sealed(file)["files"] == {"a": sha256(tmp_path / "a")}
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a", "state.json"]
    (tmp_path / "a").unlink()
    with pytest.raises(ValueError, match=r"a is missing or damaged \(its SHA-256 changed\)"):
        read_sealed(file)
    for content in (b"", b"\xff\xfe", file.read_bytes()[1:], b"{}\n{}"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="damaged or not of this library"):
            read_sealed(file)
