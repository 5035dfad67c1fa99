"""The package beside its code: versions, lower bounds, imports, the README's commands."""

import configparser
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sklearn_spt
import sklearn_spt.datasets

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def requirements(*extras):
    """Requirements of the package and of extras, without references to itself."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): one for one in found if one.name != PROJECT["name"]}


def pins(file):
    """Name and version of each line of a constraints file."""
    lines = [line.partition("#")[0].strip() for line in read(file).splitlines()]
    found = [line.split("==") for line in lines if line]  # a line without == fails
    return {canonicalize_name(name): version for name, version in found}


def run(code):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )


# -- versions --------------------------------------------------------------------------------------
def test_the_version_has_one_place():
    assert re.search(r"^## (\S+)", read("CHANGES.md"), re.M)[1] == sklearn_spt.__version__
    # the build reads it from the text, since an import would need torch
    text = read("sklearn_spt/__init__.py")
    assert re.findall(r'^__version__ = "(.+)"$', text, re.M) == [sklearn_spt.__version__]
    for name in ("CITATION.cff", "README.md", "pyproject.toml", "docs/conf.py"):
        assert not re.search(r"^\s*(version|release)\s*[:=]\s*[\"{]?\d", read(name), re.M), name


def test_lower_bounds_are_the_minimum_constraints():
    minimum = pins("constraints-min.txt")
    without_bounds = {"lint", "docs", "dev"}  # the library's user needs none of these
    for name, requirement in requirements(*EXTRAS.keys() - without_bounds).items():
        (bound,) = requirement.specifier
        assert (bound.operator, bound.version) == (">=", minimum.get(name)), name


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_constraints_pin_each_direct_dependency(extra):
    held = pins("constraints.txt")
    for name, requirement in requirements(extra).items():
        assert name in held, f"{name} (extra {extra!r}) is missing from constraints.txt"
        assert requirement.specifier.contains(held[name]), requirement


def test_there_are_few_dependencies():
    assert len(PROJECT["dependencies"]) <= 10


# -- imports ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("module", ["sklearn_spt", "sklearn_spt.datasets"])
def test_light_imports(module):
    """`datasets` needs no deep learning library, and importing sets no environment variable."""
    done = run(
        f"import os, sys; before = dict(os.environ); import {module}\n"
        "assert dict(os.environ) == before\n"
        "heavy = {'torch', 'transformers', 'skorch', 'tokenizers'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    assert done.returncode == 0, done.stderr


def test_layers_hold():
    pytest.importorskip("importlinter")
    done = run(
        "import sys; from importlinter.cli import lint_imports_command as run\n"
        "sys.argv[1:] = ['--no-cache']; run()"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_contributing_shows_the_layers():
    tool = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]
    lines = [set(line.split(" : ")) for line in tool["contracts"][0]["layers"]]
    rows = re.findall(r"^\| [\w ]*\| (`\w.*?) \|", read("CONTRIBUTING.md"), re.M)
    assert [set(re.findall(r"`(\w+)/?`", row)) for row in rows] == lines


def test_public_names_are_documented_and_documented_names_exist():
    documented = set()
    for module, name in re.findall(r"^ {3}([a-z_.]+)\.(\w+)$", read("docs/api.md"), re.M):
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"
        documented.add(name)
    assert set(sklearn_spt.__all__) <= documented
    assert set(sklearn_spt.datasets.__all__) <= documented
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sklearn_spt.nothing


def test_the_package_is_typed_and_stays_small():
    assert (ROOT / "sklearn_spt" / "py.typed").is_file()
    modules = list((ROOT / "sklearn_spt").rglob("*.py"))
    assert len(modules) <= 36
    limits = {sklearn_spt.SelfPretrainingClassifier: 22, sklearn_spt.BertClassifier: 15}
    for kind, most in limits.items():
        named = [p for p in inspect.signature(kind).parameters.values() if p.kind != p.VAR_KEYWORD]
        assert len(named) <= most, kind


# -- commands --------------------------------------------------------------------------------------
def test_ci_runs_the_test_command_of_the_readme():
    (block,) = re.findall(r"^<!-- tests -->\n+```\w*\n(.*?)\n```$", read("README.md"), re.M | re.S)
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    shown = subprocess.run(
        [bash, ".ci/run", "--show"], capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout
    assert shown.strip() == block.strip()
    assert "-c constraints.txt" in shown
    assert "pytest" in shown


def test_ci_and_tox_run_the_same_checks():
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    loop = re.search(r"for check in (.*?); do", read(".ci/run"))[1]
    assert re.findall(r'"(.*?)"', loop) == tox["testenv:lint"]["commands"].split("\n")[1:]


def test_the_paper_is_cited_alike():
    assert PROJECT["urls"]["Paper"] == "https://doi.org/10.1145/3437963.3441814"
    assert "10.1145/3437963.3441814" in read("CITATION.cff")
