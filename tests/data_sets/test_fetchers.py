"""Tests of the fetched data sets: invented files in their formats, and the real ones if there."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

from sklearn_spt.datasets import (
    _crisislex,
    _illness,
    _phm_tuning,
    _psytar,
    _remote,
    fetch_crisislex_t6,
    fetch_illness,
    fetch_phm_tuning,
    fetch_psytar,
)

FETCHERS = [fetch_illness, fetch_phm_tuning, fetch_crisislex_t6, fetch_psytar]


def table(rows, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue().encode()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A data home, and invented files in the formats of the real ones behind local addresses."""
    sources = tmp_path / "sources"
    sources.mkdir()

    def stand_in(remote, content):
        source = sources / remote.cached
        source.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        return dataclasses.replace(remote, url=source.as_uri(), sha256=digest)

    monkeypatch.setattr(_remote, "_DELAY", 0.0)
    illness = (
        "cancer\t0\tthe cancer sign of the zodiac\ndiabetes\t1\tnew diabetes study is out\n"
        "parkinson\t2\tdad was told it is parkinson\n"
        "alzheimer\t3\ti live with it \u2028 since\tmay \U0001f64f\n"
    )
    monkeypatch.setattr(_illness, "ILLNESS", stand_in(_illness.ILLNESS, illness.encode()))
    tuning = (
        "0000001\t3\tfever\tmy son has a fever\n"
        '0000002\t1\theart attack\tthat goal: "heart attack"\tagain \u2028 lol\n'
    )
    tuning = stand_in(_phm_tuning.PHM_TUNING, tuning.encode())
    monkeypatch.setattr(_phm_tuning, "PHM_TUNING", tuning)
    for i, (name, file) in enumerate(_crisislex.CRISISLEX_T6.items()):
        rows = [
            ["tweet id", " tweet", " label"],
            [f"'{i}1'", 'water, "everywhere"\nand no boat', "on-topic"],
            [f"'{i}2'", "nice lunch", "off-topic"],
        ]
        monkeypatch.setitem(_crisislex.CRISISLEX_T6, name, stand_in(file, table(rows)))
    header = ["sentences", "ADR", "WD", "EF", "INF", "SSI", "DI"]
    for name, file in _psytar.PSYTAR.items():
        rows = [header, [f'"{name}": slept badly', 1, 1, 0, 0, 0, 0], ["works", 0, 0, 1, 0, 0, 0]]
        content = table(rows, delimiter="\t", lineterminator="\n")
        monkeypatch.setitem(_psytar.PSYTAR, name, stand_in(file, content))
    return tmp_path / "home"


def test_illness(home):
    dataset = fetch_illness(data_home=home)
    assert dataset.data.tolist()[2:] == [
        "dad was told it is parkinson",
        "i live with it \u2028 since\tmay \U0001f64f",
    ]
    assert dataset.domain.tolist() == ["cancer", "diabetes", "parkinson", "alzheimer"]
    assert dataset.target.tolist() == [0, 0, 1, 1]
    assert dataset.target_names == ["negative", "positive"]
    four = fetch_illness(data_home=home, task="four_class")
    assert four.target.tolist() == [0, 1, 2, 3]
    assert len(four.target_names) == 4
    with pytest.raises(ValueError, match="task must be one of"):
        fetch_illness(data_home=home, task="3_class")


def test_phm_tuning(home):
    dataset = fetch_phm_tuning(data_home=home)
    assert dataset.data.tolist() == [
        "my son has a fever",
        'that goal: "heart attack"\tagain \u2028 lol',
    ]
    assert dataset.target.tolist() == [1, 0]
    assert dataset.target_names == ["negative", "positive"]
    assert dataset.domain.tolist() == ["fever", "heart attack"]
    assert dataset.ids.tolist() == ["0000001", "0000002"]


def test_crisislex(home):
    dataset = fetch_crisislex_t6(data_home=home)
    names = ["alberta", "boston", "oklahoma", "queensland", "sandy", "west_texas"]
    assert dataset.domain.tolist() == [name for name in names for _ in range(2)]
    assert dataset.data.tolist() == ['water, "everywhere"\nand no boat', "nice lunch"] * 6
    assert dataset.target.tolist() == [1, 0] * 6
    assert dataset.target_names == ["off-topic", "on-topic"]
    assert dataset.ids.tolist()[:4] == ["01", "02", "11", "12"]
    two = fetch_crisislex_t6(disaster=("sandy", "alberta"), data_home=home)
    assert two.domain.tolist() == ["sandy", "sandy", "alberta", "alberta"]
    assert two.ids.tolist() == ["41", "42", "01", "02"]
    one = fetch_crisislex_t6(disaster="sandy", data_home=home)
    assert one.ids.tolist() == ["41", "42"]


@pytest.mark.parametrize("disaster", ["katrina", ["sandy", 3], [], ["sandy", "sandy"], 3])
def test_unknown_disasters(home, disaster):
    with pytest.raises(ValueError, match="disaster must"):
        fetch_crisislex_t6(disaster=disaster, data_home=home)


def test_psytar(home):
    dataset = fetch_psytar(data_home=home)
    assert dataset.fold.tolist() == ["train", "train", "dev", "dev", "test", "test"]
    assert dataset.data.tolist()[:3] == ['"train": slept badly', "works", '"dev": slept badly']
    assert dataset.target.tolist() == [1, 0] * 3
    assert dataset.target_names == ["other", "adverse drug reaction"]
    assert dataset.annotation_names == ["ADR", "WD", "EF", "INF", "SSI", "DI"]
    assert dataset.annotations.tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]] * 3


@pytest.mark.parametrize("fetch", FETCHERS)
def test_what_all_of_them_do(home, fetch):
    with pytest.raises(OSError, match=rf"download_if_missing is False.* exists: {home}.*data_home"):
        fetch(data_home=home, download_if_missing=False)
    assert not home.exists()
    dataset = fetch(data_home=home)
    X, y = fetch(data_home=home, download_if_missing=False, return_X_y=True)
    assert X.tolist() == dataset.data.tolist()
    assert y.tolist() == dataset.target.tolist()
    assert X.dtype == object
    assert y.dtype == np.int64
    assert all(type(text) is str for text in X)
    assert "Reference" in dataset.DESCR
    names = dataset.get("filenames", [dataset.get("filename")])
    digests = dataset.sha256 if "filenames" in dataset else [dataset.sha256]
    contents = [Path(name).read_bytes() for name in names]
    assert [hashlib.sha256(content).hexdigest() for content in contents] == digests
    with pytest.raises(TypeError, match="return_X_y"):
        fetch(data_home=home, return_X_y=1)
    with pytest.raises(TypeError, match="download_if_missing"):
        fetch(data_home=home, download_if_missing="no")


@pytest.mark.parametrize("fetch", FETCHERS)
def test_help_shows_the_shared_paragraphs(fetch):
    for part in ("download_if_missing : bool", "return_X_y : bool", "data : ndarray", "OSError"):
        assert part in fetch.__doc__
    assert "%(" not in fetch.__doc__


@pytest.mark.parametrize(
    ("fetch", "options", "column"),
    [
        (fetch_illness, {}, "domain"),
        (fetch_phm_tuning, {}, "domain"),
        (fetch_psytar, {}, "fold"),
        *((fetch_crisislex_t6, {"disaster": d}, "domain") for d in _crisislex.CRISISLEX_T6),
    ],
)
def test_descriptions_hold_the_numbers_of_the_real_files(needs_data, fetch, options, column):
    try:
        dataset = fetch(**options, download_if_missing=False)
    except OSError as error:
        pytest.skip(str(error))
    lines = [re.split(r"\s{2,}", line) for line in dataset.DESCR.replace(",", "").splitlines()]
    table = {name: [int(cell) for cell in cells if cell.isdigit()] for name, *cells in lines}
    for name in set(dataset[column]):
        here = dataset[column] == name
        texts, counts = dataset.data[here], np.bincount(dataset.target[here])
        expected = [len(texts), *counts, len(texts) - len(set(texts))]
        assert table[name] == expected[: len(table[name])]
    if fetch is fetch_psytar:
        for name, total in zip(
            dataset.annotation_names, dataset.annotations.sum(axis=0), strict=True
        ):
            assert name == "ADR" or re.search(rf"\({name},\s{total:,}\b", dataset.DESCR)
