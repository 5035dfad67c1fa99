"""Tests of the fetched data sets besides Illness: invented files, and the real ones if there."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sklearn_spt.datasets import (
    _crisislex,
    _phm_tuning,
    _psytar,
    _remote,
    fetch_crisislex_t6,
    fetch_phm_tuning,
    fetch_psytar,
)

HERE = Path(os.environ.get("SKLEARN_SPT_DATA", "-"))


def stand_in(remote, content, source):
    """Put `content` in the place of a remote file, at an address on this machine."""
    source.write_bytes(content)
    return dataclasses.replace(
        remote, url=source.as_uri(), sha256=hashlib.sha256(content).hexdigest()
    )


def table(rows, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue().encode()


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """Invented files in the formats of the real ones; gives the data home."""
    monkeypatch.setattr(_remote, "_DELAY", 0.0)
    sources = tmp_path / "sources"
    sources.mkdir()
    tuning = (
        "0000001\t3\tfever\tmy son has a fever\n"
        '0000002\t1\theart attack\tthat goal: "heart attack"\tagain \u2028 lol\n'
    )
    monkeypatch.setattr(
        _phm_tuning,
        "PHM_TUNING",
        stand_in(_phm_tuning.PHM_TUNING, tuning.encode(), sources / "tuning"),
    )
    for i, (name, file) in enumerate(_crisislex.CRISISLEX_T6.items()):
        rows = [
            ["tweet id", " tweet", " label"],
            [f"'{i}1'", 'water, "everywhere"\nand no boat', "on-topic"],
            [f"'{i}2'", "nice lunch", "off-topic"],
        ]
        monkeypatch.setitem(
            _crisislex.CRISISLEX_T6, name, stand_in(file, table(rows), sources / f"t6{i}")
        )
    header = ["sentences", "ADR", "WD", "EF", "INF", "SSI", "DI"]
    for name, file in _psytar.PSYTAR.items():
        rows = [header, [f'"{name}": slept badly', 1, 1, 0, 0, 0, 0], ["works", 0, 0, 1, 0, 0, 0]]
        content = table(rows, delimiter="\t", lineterminator="\n")
        monkeypatch.setitem(_psytar.PSYTAR, name, stand_in(file, content, sources / name))
    return tmp_path / "home"


FETCHERS = [fetch_phm_tuning, fetch_crisislex_t6, fetch_psytar]


def test_phm_tuning(remote):
    dataset = fetch_phm_tuning(data_home=remote)
    assert dataset.data.tolist() == [
        "my son has a fever",
        'that goal: "heart attack"\tagain \u2028 lol',
    ]
    assert dataset.target.tolist() == [1, 0]
    assert dataset.target_names == ["negative", "positive"]
    assert dataset.domain.tolist() == ["fever", "heart attack"]
    assert dataset.ids.tolist() == ["0000001", "0000002"]
    assert dataset.sha256 == _phm_tuning.PHM_TUNING.sha256
    assert set(dataset) == {
        "data", "target", "target_names", "domain", "ids", "DESCR", "filename", "sha256"
    }  # fmt: skip


def test_crisislex(remote):
    dataset = fetch_crisislex_t6(data_home=remote)
    names = ["alberta", "boston", "oklahoma", "queensland", "sandy", "west_texas"]
    assert dataset.domain.tolist() == [name for name in names for _ in range(2)]
    assert dataset.data.tolist() == ['water, "everywhere"\nand no boat', "nice lunch"] * 6
    assert dataset.target.tolist() == [1, 0] * 6
    assert dataset.target_names == ["off-topic", "on-topic"]
    assert dataset.ids.tolist()[:4] == ["01", "02", "11", "12"]
    assert len(dataset.filenames) == len(set(dataset.filenames)) == len(dataset.sha256) == 6
    assert all(Path(name).is_file() for name in dataset.filenames)
    assert set(dataset) == {
        "data", "target", "target_names", "domain", "ids", "DESCR", "filenames", "sha256"
    }  # fmt: skip


def test_some_disasters_and_those_that_are_there(remote):
    with pytest.raises(OSError, match=r"No file of CrisisLexT6 .* Name a disaster"):
        fetch_crisislex_t6(disaster="available", data_home=remote)
    two = fetch_crisislex_t6(disaster=("sandy", "alberta"), data_home=remote)
    assert two.domain.tolist() == ["sandy", "sandy", "alberta", "alberta"]
    assert two.ids.tolist() == ["41", "42", "01", "02"]
    one = fetch_crisislex_t6(disaster="sandy", data_home=remote, download_if_missing=False)
    assert one.data.tolist() == two.data.tolist()[:2]
    there = fetch_crisislex_t6(disaster="available", data_home=remote)
    assert set(there.domain) == {"sandy", "alberta"}
    own = remote / "crisislex_t6" / "2013_Boston_Bombings"
    own.mkdir(parents=True)
    (own / "2013_Boston_Bombings-ontopic_offtopic.csv").write_bytes(
        Path(two.filenames[0]).read_bytes().replace(b"'4", b"'1")
    )
    there = fetch_crisislex_t6(disaster="available", data_home=remote)
    assert set(there.domain) == {"sandy", "alberta", "boston"}


@pytest.mark.parametrize("disaster", ["katrina", ["sandy", 3], [], ["sandy", "sandy"], 3])
def test_unknown_disasters(remote, disaster):
    with pytest.raises(ValueError, match="disaster must"):
        fetch_crisislex_t6(disaster=disaster, data_home=remote)


def test_psytar(remote):
    dataset = fetch_psytar(data_home=remote)
    assert dataset.fold.tolist() == ["train", "train", "dev", "dev", "test", "test"]
    assert dataset.data.tolist()[:3] == ['"train": slept badly', "works", '"dev": slept badly']
    assert dataset.target.tolist() == [1, 0] * 3
    assert dataset.annotation_names == ["ADR", "WD", "EF", "INF", "SSI", "DI"]
    assert dataset.annotations.tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]] * 3
    assert len(dataset.filenames) == len(dataset.sha256) == 3
    test = fetch_psytar(subset="test", data_home=remote, download_if_missing=False)
    assert test.data.tolist() == dataset.data.tolist()[4:]
    assert set(test.fold) == {"test"}
    with pytest.raises(ValueError, match="subset must be one of"):
        fetch_psytar(subset="full", data_home=remote)


@pytest.mark.parametrize("fetch", FETCHERS)
def test_what_all_of_them_do(remote, fetch):
    with pytest.raises(OSError, match="download_if_missing is False"):
        fetch(data_home=remote, download_if_missing=False)
    assert not remote.exists()
    dataset = fetch(data_home=remote)
    X, y = fetch(data_home=remote, download_if_missing=False, return_X_y=True)
    assert X.tolist() == dataset.data.tolist()
    assert y.tolist() == dataset.target.tolist()
    assert X.dtype == object
    assert y.dtype == np.int64
    assert all(type(text) is str for text in X)
    assert "Reference" in dataset.DESCR
    with pytest.raises(TypeError, match="return_X_y"):
        fetch(data_home=remote, return_X_y=1)


@pytest.mark.parametrize("fetch", FETCHERS)
def test_damaged_files_are_refused(remote, fetch):
    for file in sorted(fetch(data_home=remote).get("filenames", [])) or sorted(remote.rglob("*.*")):
        Path(file).write_bytes(b"something else")
    with pytest.raises(OSError, match="is damaged"):
        fetch(data_home=remote)


@pytest.mark.parametrize("fetch", FETCHERS)
def test_offline(remote, fetch):
    for source in (remote.parent / "sources").iterdir():
        source.unlink()
    with (
        pytest.warns(UserWarning, match="trying again") as record,
        pytest.raises(OSError, match="Without a network, get this file by other means"),
    ):
        fetch(data_home=remote)
    assert record[0].filename == __file__


def test_addresses_never_change():
    remotes = [
        _phm_tuning.PHM_TUNING,
        *_crisislex.CRISISLEX_T6.values(),
        *_psytar.PSYTAR.values(),
    ]
    assert len({remote.sha256 for remote in remotes}) == len(remotes)
    assert len({remote.cached for remote in remotes}) == len(remotes)
    for remote in remotes:
        commit = remote.url.removeprefix("https://raw.githubusercontent.com/").split("/")[2]
        assert len(commit) == 40
        assert remote.url.rsplit("/", 1)[1] == Path(remote.own).name


# -- the real files ---------------------------------------------------------------------------
@pytest.mark.skipif(
    not (HERE / "phm_tuning" / "tuning.dataset").is_file(),
    reason="the tuning file is not here: SKLEARN_SPT_DATA names no folder that has it",
)
def test_the_real_tuning_file():
    dataset = fetch_phm_tuning(download_if_missing=False)
    assert np.bincount(dataset.target).tolist() == [6158, 1879]
    positive = Counter(dataset.domain[dataset.target == 1])
    assert positive == {
        "cough": 344, "depression": 529, "fever": 529, "heart attack": 215, "stroke": 262
    }  # fmt: skip
    assert len(set(dataset.ids)) == 8037
    assert len(set(dataset.data)) == 8037 - 23


@pytest.mark.skipif(
    not (HERE / "crisislex_t6").is_dir(),
    reason="CrisisLexT6 is not here: SKLEARN_SPT_DATA names no folder that has it",
)
def test_the_real_crisislex_files():
    counts = {  # off-topic, on-topic, repeated
        "alberta": [4842, 5189, 629],
        "boston": [4364, 5648, 786],
        "oklahoma": [5165, 4827, 685],
        "queensland": [4619, 5414, 999],
        "sandy": [3870, 6138, 577],
        "west_texas": [4760, 5246, 1025],
    }
    dataset = fetch_crisislex_t6(disaster="available", download_if_missing=False)
    assert set(dataset.domain) <= set(counts)
    for name in set(dataset.domain):
        rows = dataset.domain == name
        texts = dataset.data[rows]
        repeated = len(texts) - len(set(texts))
        assert [*np.bincount(dataset.target[rows]).tolist(), repeated] == counts[name]
        assert all(identifier.isdecimal() for identifier in dataset.ids[rows])


@pytest.mark.skipif(
    not (HERE / "psytar" / "train.csv").is_file(),
    reason="PsyTAR is not here: SKLEARN_SPT_DATA names no folder that has it",
)
def test_the_real_psytar_files():
    dataset = fetch_psytar(download_if_missing=False)
    assert Counter(dataset.fold) == {"train": 4201, "dev": 612, "test": 1189}
    assert dataset.annotations.sum(axis=0).tolist() == [2168, 438, 1086, 337, 789, 621]
    assert dataset.target.tolist() == dataset.annotations[:, 0].tolist()
    train = set(dataset.data[dataset.fold == "train"])
    assert [
        sum(text in train for text in dataset.data[dataset.fold == fold])
        for fold in ("dev", "test")
    ] == [4, 10]
    full = HERE / "psytar" / "full.csv"
    if full.is_file():
        with full.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t"))[1:]
        ours = zip(dataset.data, dataset.annotations.tolist(), strict=True)
        assert Counter((text, *map(str, labels)) for text, labels in ours) == Counter(
            map(tuple, rows)
        )
