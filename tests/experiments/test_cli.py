"""The command line."""

from __future__ import annotations

import pytest

from sklearn_spt.experiments._cli import main
from sklearn_spt.experiments._methods import methods
from sklearn_spt.experiments._records import read_records


def test_a_dry_run_lists_cells_and_runs_none(arguments, tmp_path, capsys):
    assert main([*arguments, "--method=baseline", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("missing") for line in lines)
    assert not (tmp_path / "records").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--method=bert"], "no method 'bert'"),
        (["--data=nothing"], "no data set 'nothing'"),
        (["--n-labeled=5000"], "n_labeled=5000 must be"),
        (["--data=illness"], "(keyword, positive) is for files of your own, and --data illness"),
    ],
)
def test_bad_arguments_are_named(arguments, more, message, capsys, tmp_path):
    assert main([*arguments, *more]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("records/*.json"))


def test_a_cluster_that_does_not_answer_is_named(arguments, capsys):
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    with dask.config.set({"distributed.comm.timeouts.connect": "300ms"}):
        assert main([*arguments, "--scheduler=tcp://127.0.0.1:1"]) == 2
    assert "127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argument",
    ["--seeds=a", "--seeds=2-0", "--seeds=1,2-0", "--n-labeled=x", "--data=", "--n-threads=0"],
)
def test_malformed_arguments_are_named(arguments, argument, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, argument])
    assert f"argument {argument.partition('=')[0]}" in capsys.readouterr().err


def test_list_names_data_sets_and_methods(capsys, tmp_path):
    assert main(["list", "--data-home", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for name in ("illness", "phm_tuning", "crisislex_t6", "psytar", "adr", "earthquake", "product"):
        assert f"  {name}" in out
    for name, method in methods().items():
        assert name in out
        assert method.label in out
    assert "not here" in out


def test_help_of_every_command(capsys):
    for command in ("run", "table", "plot", "search", "list"):
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        assert f"sklearn_spt.experiments {command}" in capsys.readouterr().out


def test_a_file_with_two_labels_needs_the_positive_one(arguments, capsys):
    given = [a for a in arguments if not a.startswith("--positive")]
    assert main([*given, "--method=tfidf_lr"]) == 2
    assert "name the positive class, whose F1 is scored" in capsys.readouterr().err


def test_content_and_columns_identify_a_file(arguments, posts, tmp_path, capsys):
    """Another meaning of the same name is another cell; another path of the same file is none.

    A finished cell is not run again.
    """
    grid = [*arguments, "--method=tfidf_lr", "--seeds=0"]
    grid.remove("--quiet")
    assert main(grid) == 0
    moved = tmp_path / "elsewhere" / posts.name
    moved.parent.mkdir()
    moved.write_bytes(posts.read_bytes())
    assert main([*grid, f"--data={moved}"]) == 0
    assert "0 cells done, 0 failed, 1 were there already" in capsys.readouterr().out
    assert main([*grid, "--positive=no"]) == 0
    moved.write_bytes(posts.read_bytes().replace(b"flu", b"cold"))
    assert main([*grid, f"--data={moved}"]) == 0
    records = read_records([tmp_path / "records"])
    assert len(records) == 3
    assert {r["cell"]["dataset"] for r in records} == {"posts.csv"}
    assert len({r["cell"]["file"]["data_sha256"] for r in records}) == 2


def test_an_unlabelled_file_adds_texts(arguments, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text("text\n" + "".join(f"post number {i} of many\n" for i in range(300)))
    grid = [*arguments, "--method=self_training", "--seeds=0", "--param=max_iter=0"]
    assert main([*grid, f"--unlabeled-file={more}", "--n-unlabeled=all"]) == 0
    (record,) = read_records([tmp_path / "records"])
    assert record["split"]["n_unlabeled"] > 300
    assert record["split"]["n_test"] == 80


def test_the_column_of_an_unlabelled_file_is_part_of_the_cell(tmp_path, capsys):
    more = tmp_path / "more.csv"
    more.write_text("text,body\na,b\n")
    grid = ["run", "--data=illness", f"--unlabeled-file={more}", "--method=tfidf_lr", "--dry-run"]
    names = set()
    for column in ("text", "body"):
        assert main([*grid, "--seeds=0", f"--text-column={column}"]) == 0
        names.add(capsys.readouterr().out)
    assert len(names) == 2


def test_a_search_varies_its_parameters_itself(arguments, capsys):
    given = [a for a in arguments if a != "run"]
    assert main(["search", *given, "--param=lam=0.3"]) == 2
    assert "--param lam: search varies it; use --lam and --alpha" in capsys.readouterr().err
