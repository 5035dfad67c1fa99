"""Cells, grids of cells, and values from the command line."""

from __future__ import annotations

import pytest

from sklearn_spt.experiments._cells import Cell, expand, parse_params, parse_value


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


def test_the_order_of_parameters_does_not_change_the_file_name():
    first = cell(params={"lam": 0.4, "alpha": 0.2})
    second = cell(params={"alpha": 0.2, "lam": 0.4})
    assert first.file_name == second.file_name
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
def test_every_setting_changes_the_file_name(changes):
    assert cell(**changes).file_name != cell().file_name


def test_unused_later_fields_do_not_change_file_names():
    assert "n_validation" not in cell().as_json()
    assert cell(n_validation=None).file_name == cell().file_name
    assert cell(n_unlabeled=None).as_json()["n_unlabeled"] is None


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


@pytest.mark.parametrize(
    ("items", "message"),
    [
        *(([item], "name=value") for item in ("lam", "lam=", "=3", "lam=1,,2")),
        (["lam=1", "lam=0"], "'lam' is given twice"),
    ],
)
def test_a_malformed_parameter_is_an_error(items, message):
    with pytest.raises(ValueError, match=message):
        parse_params(items)
