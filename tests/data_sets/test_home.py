"""The data home."""

from __future__ import annotations

import pytest

from sklearn_spt.datasets import clear_data_home, get_data_home


def test_data_home_is_found_in_the_documented_order(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "user"))
    monkeypatch.setenv("SKLEARN_SPT_DATA", str(tmp_path / "env"))
    assert get_data_home(tmp_path / "arg") == str(tmp_path / "arg")
    assert get_data_home("~/other") == str(tmp_path / "user" / "other")
    assert get_data_home() == str(tmp_path / "env")
    monkeypatch.delenv("SKLEARN_SPT_DATA")
    assert get_data_home() == str(tmp_path / "user" / "sklearn_spt_data")
    assert all((tmp_path / name).is_dir() for name in ("arg", "env", "user/sklearn_spt_data"))
    with pytest.raises(TypeError, match="data_home must be a path"):
        get_data_home(3)


def test_clear_data_home_deletes_downloads_and_nothing_else(tmp_path):
    home = tmp_path / "home"
    for name in ("sklearn_spt_downloads", "illness"):
        (home / name).mkdir(parents=True)
        (home / name / "data.txt").touch()
    clear_data_home(home)
    assert sorted(path.name for path in home.rglob("*")) == ["data.txt", "illness"]
    (home / "illness").rename(tmp_path / "illness")
    for _ in range(2):  # the second time, nothing is there
        clear_data_home(str(home))
        assert not home.exists()
