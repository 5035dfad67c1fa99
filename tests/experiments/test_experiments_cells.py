"""Cells, the protocol that cuts and draws, and records on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils import Bunch

from sklearn_spt.experiments._cells import Cell, expand, parse_params, parse_value
from sklearn_spt.experiments._protocol import cut, draw
from sklearn_spt.experiments._records import read_record, read_records, state_of, write_record


def cell(**changes):
    given = {
        "dataset": "illness",
        "method": "self_pretraining",
        "n_labeled": 300,
        "n_unlabeled": 2000,
        "n_test": 2000,
        "seed": 0,
        "params": {},
    }
    return Cell(**{**given, **changes})


# -- cells ------------------------------------------------------------------------------------
def test_a_file_name_is_a_function_of_the_cell():
    assert cell().file_name == cell().file_name
    assert cell().file_name.startswith("illness-300-self_pretraining-seed0-")


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "psytar"},
        {"method": "baseline"},
        {"n_labeled": 500},
        {"n_unlabeled": None},
        {"n_test": 100},
        {"seed": 1},
        {"params": {"lam": 0.4}},
        {"encoder": "bert-base-uncased"},
        {"normalize": False},
        {"score_iterations": True},
        {"protocol": 2},
        {"n_validation": 100},
    ],
)
def test_whatever_counts_changes_the_file_name(changes):
    assert cell(**changes).file_name != cell().file_name


def test_what_came_later_does_not_change_the_names_of_older_records():
    assert "n_validation" not in cell().as_json()
    assert cell(n_validation=None).file_name == cell().file_name
    assert cell(n_unlabeled=None).as_json()["n_unlabeled"] is None


def test_the_order_of_parameters_does_not_count():
    first = cell(params={"lam": 0.4, "alpha": 0.2})
    second = cell(params={"alpha": 0.2, "lam": 0.4})
    assert first.file_name == second.file_name


def test_a_path_as_data_set_gives_a_plain_file_name():
    name = cell(dataset="/some folder/my texts.csv").file_name
    assert "/" not in name
    assert " " not in name


METHOD_PARAMS = {"self_pretraining": ("lam", "alpha"), "self_training": ("threshold", "max_iter")}


def grid(**changes):
    given = {
        "datasets": ["illness"],
        "methods": list(METHOD_PARAMS),
        "n_labeled": [300],
        "seeds": [0, 1],
        "params": {},
        "method_params": METHOD_PARAMS,
        "n_unlabeled": 10,
        "n_test": 10,
    }
    return expand(**{**given, **changes})


def test_the_grid_is_the_product_with_seeds_outermost():
    cells = grid(n_labeled=[300, 500])
    assert [(c.seed, c.n_labeled, c.method) for c in cells] == [
        (s, n, m) for s in (0, 1) for n in (300, 500) for m in METHOD_PARAMS
    ]


def test_values_of_a_parameter_are_an_axis_of_the_methods_that_have_it():
    cells = grid(params={"lam": [0.1, 0.2]}, seeds=[0])
    assert [(c.method, dict(c.params)) for c in cells] == [
        ("self_pretraining", {"lam": 0.1}),
        ("self_pretraining", {"lam": 0.2}),
        ("self_training", {}),
    ]


def test_a_parameter_can_be_meant_for_one_method():
    cells = grid(params={"self_training.max_iter": [5]}, seeds=[0])
    assert {c.method: dict(c.params) for c in cells} == {
        "self_pretraining": {},
        "self_training": {"max_iter": 5},
    }


@pytest.mark.parametrize("name", ["gamma", "self_pretraining.gamma", "baseline.lr"])
def test_a_parameter_of_no_method_is_an_error(name):
    if name == "self_pretraining.gamma":
        with pytest.raises(ValueError, match="gamma"):
            grid(params={name: [1]})
    else:
        with pytest.raises(ValueError, match=f"{name}.*belongs to none"):
            grid(params={name: [1]})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.3", 0.3),
        ("1e-4", 1e-4),
        ("true", True),
        ("None", None),
        ("slanted", "slanted"),
    ],
)
def test_values_from_the_command_line(text, value):
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_parameters_from_the_command_line():
    assert parse_params(["lam=0.1,0.2", "growth=pool"]) == {"lam": [0.1, 0.2], "growth": ["pool"]}


@pytest.mark.parametrize("item", ["lam", "lam=", "=3", "lam=1,,2"])
def test_a_malformed_parameter_is_an_error(item):
    with pytest.raises(ValueError, match="name=value"):
        parse_params([item])


def test_a_parameter_given_twice_is_an_error():
    with pytest.raises(ValueError, match="'lam' is given twice"):
        parse_params(["lam=1", "lam=0"])


# -- the protocol -----------------------------------------------------------------------------
def words(i):
    """A text that resembles no other one."""
    return f"a{i} b{i} c{i} d{i} e{i}"


def bunch(n=200, **more):
    texts = np.array([words(i) for i in range(n)], dtype=object)
    target = np.array([int(i % 4 == 0) for i in range(n)])
    return Bunch(data=texts, target=target, target_names=["negative", "positive"], **more)


def test_the_test_part_is_stratified_and_apart():
    corpus = cut(bunch(), n_test=40)
    assert len(corpus.test) == 40
    assert corpus.target[corpus.test].sum() == 10
    assert len(np.intersect1d(corpus.test, corpus.rest)) == 0
    assert len(corpus.rest) == 160
    assert corpus.dropped == {}


def test_what_repeats_a_test_row_is_dropped_and_counted():
    data = bunch()
    test = cut(data, n_test=40).test
    rest = np.setdiff1d(np.arange(200), test)
    data.data[rest[0]] = data.data[test[0]]
    data.data[rest[1]] = f"RT @somebody: {data.data[test[1]]}"
    corpus = cut(data, n_test=40)
    np.testing.assert_array_equal(corpus.test, test)
    assert corpus.dropped == {"exact": 1, "retweet": 1}
    assert not set(rest[:2]) & set(corpus.rest)


def test_a_validation_part_takes_the_place_of_the_test_part():
    data = bunch()
    outer, corpus = cut(data, n_test=40), cut(data, n_test=40, n_validation=30)
    scored, learned = corpus.texts[corpus.test], corpus.texts[corpus.rest]
    assert len(scored) == 30
    assert corpus.target[corpus.test].sum() == pytest.approx(30 / 4, abs=1)
    # together they are what may be learned from; no test row is among them
    assert sorted([*scored, *learned]) == sorted(outer.texts[outer.rest])


def test_the_message_names_the_part_that_does_not_fit():
    with pytest.raises(ValueError, match="n_validation=160 leaves nothing of 160 rows"):
        cut(bunch(), n_test=40, n_validation=160)
    with pytest.raises(ValueError, match="n_validation=1 is less than 2, the number of classes"):
        cut(bunch(), n_test=40, n_validation=1)


def test_what_repeats_a_validation_row_is_dropped_too():
    data = bunch()
    corpus = cut(data, n_test=40, n_validation=30)
    data.data[data.data == corpus.texts[corpus.rest[0]]] = corpus.texts[corpus.test[0]]
    again = cut(data, n_test=40, n_validation=30)
    assert again.dropped == {"exact": 1}
    assert len(again.rest) == len(corpus.rest) - 1


def test_a_released_test_part_is_kept():
    mask = np.arange(200) < 50
    corpus = cut(bunch(test=mask), n_test=None)
    np.testing.assert_array_equal(corpus.test, np.arange(50))
    smaller = cut(bunch(test=mask), n_test=20)
    assert set(smaller.test) < set(range(50))
    # the other released test rows are not learned from either
    np.testing.assert_array_equal(smaller.rest, np.arange(50, 200))


def test_all_test_rows_without_a_released_part_is_an_error():
    with pytest.raises(ValueError, match="no released test part"):
        cut(bunch(), n_test=None)
    with pytest.raises(ValueError, match="n_test=200 leaves nothing"):
        cut(bunch(), n_test=200)


def test_a_seed_draws_labelled_texts_by_class_and_hides_the_rest():
    corpus = cut(bunch(), n_test=40)
    split = draw(corpus, n_labeled=20, n_unlabeled=100, seed=3)
    assert (split.y >= 0).sum() == 20
    assert (split.y == 1).sum() == 5
    assert (split.y == -1).sum() == 100
    assert len(set(split.texts) | set(split.texts_test)) == 20 + 100 + 40
    assert split.facts["labeled_counts"] == {"negative": 15, "positive": 5}


def test_labelled_texts_do_not_depend_on_the_number_of_unlabelled_ones():
    corpus = cut(bunch(), n_test=40)
    few, all_ = (draw(corpus, n_labeled=20, n_unlabeled=n, seed=3) for n in (10, None))
    assert few.texts[:20].tolist() == all_.texts[:20].tolist()
    assert few.texts[20:].tolist() == all_.texts[20:30].tolist()
    assert len(all_.texts) == 160


def test_seeds_draw_differently_and_each_draws_the_same_again():
    corpus = cut(bunch(), n_test=40)
    checksums = [draw(corpus, 20, 50, seed).facts["sha256_rows"] for seed in (0, 1, 0)]
    assert checksums[0] == checksums[2] != checksums[1]


@pytest.mark.parametrize(("n_positive", "n_labeled"), [(1, 20), (4, 10)])
def test_a_class_too_rare_for_a_part_is_named(n_positive, n_labeled):
    data = bunch()
    data.target = (np.arange(200) < n_positive).astype(int)
    with pytest.raises(ValueError, match=r"rows of the class 'positive'"):
        draw(cut(data, n_test=100), n_labeled, None, seed=0)


def test_one_class_alone_is_an_error():
    data = bunch()
    data.target[:] = 0
    data.target_names = ["negative"]
    with pytest.raises(ValueError, match="a single class"):
        cut(data, n_test=40)


def test_rows_without_a_label_are_unlabelled_texts_only():
    data = bunch()
    data.target[100:] = -1
    corpus = cut(data, n_test=40)
    assert (corpus.target[corpus.test] >= 0).all()
    split = draw(corpus, 20, None, seed=0)
    assert len(split.texts) == 160


@pytest.mark.parametrize(("n_labeled", "n_unlabeled"), [(1, 10), (160, None), (20, 141)])
def test_too_many_or_too_few_texts_are_an_error(n_labeled, n_unlabeled):
    corpus = cut(bunch(), n_test=40)
    with pytest.raises(ValueError, match=r"n_(un)?labeled="):
        draw(corpus, n_labeled, n_unlabeled, seed=0)


# -- records ----------------------------------------------------------------------------------
def test_a_record_comes_back_as_it_was(tmp_path: Path):
    record = {"schema": 1, "status": "done", "cell": cell().as_json(), "scores": {"f1": 0.5}}
    write_record(tmp_path / "sub" / "a.json", record)
    assert read_record(tmp_path / "sub" / "a.json") == record
    assert read_records([tmp_path]) == [record]
    assert state_of(tmp_path / "sub" / "a.json") == "done"
    assert state_of(tmp_path / "b.json") == "missing"


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path: Path):
    path = tmp_path / "a.json"
    write_record(path, {"schema": 1, "status": "done", "cell": {}})
    with pytest.raises(ValueError, match="Out of range float"):
        write_record(path, {"schema": 1, "status": "done", "cell": {}, "x": float("nan")})
    assert json.loads(path.read_text()) == {"schema": 1, "status": "done", "cell": {}}
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_or_foreign_file_is_named(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"schema": 1, "cel')
    with pytest.raises(ValueError, match=r"a\.json is damaged"):
        read_record(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("[]")
    with pytest.raises(ValueError, match=r"b\.json is no record"):
        read_record(tmp_path / "b.json")


def test_no_records_is_an_error_that_says_what_to_do(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="run the experiments first"):
        read_records([tmp_path])
    with pytest.raises(FileNotFoundError, match="no folder"):
        read_records([tmp_path / "none"])
