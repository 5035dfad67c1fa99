"""Cells, grids of cells, and values from the command line."""

from __future__ import annotations

import pytest

from sklearn_spt.experiments._cells import Cell, expand, parse_params

SIZES = {"n_labeled": 300, "n_unlabeled": 2000, "n_test": 2000, "seed": 0}
CELL = {"dataset": "illness", "method": "self_pretraining", **SIZES}


def file_name(**changes):
    return Cell(**{**CELL, **changes}).file_name


OTHER_SIZES = {"n_labeled": 500, "n_unlabeled": None, "n_test": 100, "n_validation": 100, "seed": 1}
OTHER = {"dataset": "psytar", "method": "baseline", "params": {"lam": 0.4}, "encoder": "bert"}
OTHER_WAYS = {"normalize": False, "score_iterations": True, "protocol": 2}


@pytest.mark.parametrize(("name", "value"), {**OTHER_SIZES, **OTHER, **OTHER_WAYS}.items())
def test_every_setting_changes_the_file_name(name, value):
    assert file_name(**{name: value}) != file_name()


def test_what_does_not_change_the_file_name():
    assert file_name().startswith("illness-300-self_pretraining-seed0-")
    params = {"lam": 0.4, "alpha": 0.2}
    assert file_name(params=params) == file_name(params=dict(reversed(params.items())))
    assert file_name(n_validation=None) == file_name()
    content = Cell(**{**CELL, "n_unlabeled": None}).as_json()
    assert "n_validation" not in content
    assert content["n_unlabeled"] is None
    name = file_name(dataset="/some folder/my texts.csv")
    assert "/" not in name
    assert " " not in name


METHOD_PARAMS = {"self_pretraining": ("lam", "alpha"), "self_training": ("threshold", "max_iter")}


def grid(n_labeled=(300,), seeds=(0,), **params):
    return expand(
        datasets=["illness"],
        methods=list(METHOD_PARAMS),
        n_labeled=n_labeled,
        seeds=seeds,
        params=params,
        method_params=METHOD_PARAMS,
        n_unlabeled=10,
        n_test=10,
    )


def test_the_grid_is_the_product_with_seeds_outermost():
    cells = grid(n_labeled=[300, 500], seeds=[0, 1])
    assert [(c.seed, c.n_labeled, c.method) for c in cells] == [
        (s, n, m) for s in (0, 1) for n in (300, 500) for m in METHOD_PARAMS
    ]


def test_values_of_a_parameter_are_an_axis_of_the_methods_that_have_it():
    cells = grid(**{"lam": [0.1, 0.2], "self_training.max_iter": [5]})
    assert [(c.method, dict(c.params)) for c in cells] == [
        ("self_pretraining", {"lam": 0.1}),
        ("self_pretraining", {"lam": 0.2}),
        ("self_training", {"max_iter": 5}),
    ]


def test_a_value_for_one_method_replaces_that_for_all_in_any_order():
    given = {"self_pretraining.lam": [0.9], "lam": [0.1]}
    for params in (given, dict(reversed(given.items()))):
        assert [dict(c.params) for c in grid(**params) if c.params] == [{"lam": 0.9}]


@pytest.mark.parametrize("name", ["gamma", "self_pretraining.gamma", "baseline.lr"])
def test_a_parameter_of_no_method_is_an_error(name):
    with pytest.raises(ValueError, match=f"{name}.*belongs to none"):
        grid(**{name: [1]})


def test_parameters_from_the_command_line():
    found = parse_params(["a=3,0.3,1e-4", "b=true,None,slanted"])
    assert found == {"a": [3, 0.3, 1e-4], "b": [True, None, "slanted"]}
    assert type(found["a"][0]) is int


@pytest.mark.parametrize(
    ("items", "message"),
    [
        *(([item], "name=value") for item in ("lam", "lam=", "=3", "lam=1,,2")),
        (["lam=1", "lam=0"], "'lam' is given twice"),
        (["lam=inf"], "not a finite number"),
    ],
)
def test_a_malformed_parameter_is_an_error(items, message):
    with pytest.raises(ValueError, match=message):
        parse_params(items)
