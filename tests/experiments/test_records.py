"""Records of single cells, and records packed into one file."""

from __future__ import annotations

import json

import pytest
from records import record

from sklearn_spt.experiments._cli import main
from sklearn_spt.experiments._records import (
    SCHEMA,
    pack_records,
    read_record,
    read_records,
    state_of,
    write_record,
)


@pytest.fixture
def folder(tmp_path):
    for seed in (2, 0, 1):
        write_record(tmp_path / "cells" / f"x-seed{seed}.json", record(seed=seed))
    return tmp_path / "cells"


def test_records_come_back_as_they_were(folder):
    assert read_records([folder]) == [record(seed=seed) for seed in (0, 1, 2)]
    assert read_record(folder / "x-seed1.json") == record(seed=1)
    assert state_of(folder / "x-seed1.json") == "done"
    assert state_of(folder / "b.json") == "missing"


def test_a_packed_file_reads_like_its_folder(folder, tmp_path):
    assert pack_records(folder, tmp_path / "cells.jsonl") == 3
    packed = read_records([tmp_path / "cells.jsonl"])
    assert packed == read_records([folder])
    again = tmp_path / "again.jsonl"
    pack_records(folder, again)
    assert again.read_bytes() == (tmp_path / "cells.jsonl").read_bytes()
    assert read_records([again, folder]) == packed * 2


def test_a_packed_record_keeps_the_order_of_the_classes(tmp_path):
    new = record()
    new["split"] = {"labeled_counts": {"other": 3, "adverse": 2}}
    write_record(tmp_path / "cells" / "x.json", new)
    pack_records(tmp_path / "cells", tmp_path / "cells.jsonl")
    for place in ("cells", "cells.jsonl"):
        (found,) = read_records([tmp_path / place])
        assert list(found["split"]["labeled_counts"]) == ["other", "adverse"]


def test_what_a_search_keeps_is_no_record(folder):
    kept = folder / "_search-x.memory" / "joblib" / "metadata.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    assert len(read_records([folder])) == 3


def test_the_command_writes_beside_the_folder(folder, tmp_path, capsys):
    assert main(["pack", str(folder)]) == 0
    assert "3 records in" in capsys.readouterr().out
    assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 3
    assert main(["pack", str(folder), "--out", str(tmp_path / "new" / "other.jsonl")]) == 0
    assert (tmp_path / "new" / "other.jsonl").is_file()
    assert main(["pack", str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", [b"{", json.dumps({"schema": SCHEMA + 1}).encode(), b"[1]", b'{"a": "\xff"}']
)
def test_a_line_that_is_not_a_record_is_named(folder, tmp_path, line):
    file = tmp_path / "cells.jsonl"
    pack_records(folder, file)
    file.write_bytes(file.read_bytes() + line + b"\n")
    with pytest.raises(ValueError, match=r"cells\.jsonl, line 4, is"):
        read_records([file])


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.json"
    write_record(path, {"schema": 1, "status": "done", "cell": {}})
    with pytest.raises(ValueError, match="Out of range float"):
        write_record(path, {"schema": 1, "status": "done", "cell": {}, "x": float("nan")})
    assert json.loads(path.read_text()) == {"schema": 1, "status": "done", "cell": {}}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "message"),
    [('{"schema": 1, "cel', r"a\.json is damaged"), ("[]", r"a\.json is not a record")],
)
def test_a_damaged_or_foreign_file_is_named(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_record(tmp_path / "a.json")


def test_no_records_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="run the experiments first"):
        read_records([tmp_path])
    with pytest.raises(FileNotFoundError, match="no folder"):
        read_records([tmp_path / "none"])
