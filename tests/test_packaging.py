"""The package beside its code: versions, lower bounds, layers, README commands."""

from __future__ import annotations

import ast
import configparser
import importlib
import inspect
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.optional import Missing, skip_where_missing
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sklearn_spt

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The extras that user code needs; lint and docs have no lower bounds.
TESTED_EXTRAS = (
    *("offline", "tweets", "plot", "onnx", "experiments", "distributed", "parquet", "peft", "test"),
)


def requirements(*extras: str) -> list[Requirement]:
    """Direct requirements of the package and of the extras, without references to itself."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    found = [Requirement(line) for line in lines]
    return [one for one in found if canonicalize_name(one.name) != PROJECT["name"]]


def pins(file: str) -> dict[str, str]:
    """Name and version of each line of a constraints file."""
    found = {}
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement:
            name, separator, version = requirement.partition("==")
            assert separator, f"{file}: {line!r} is not an exact version"
            found[canonicalize_name(name)] = version
    return found


def environment() -> dict[str, str]:
    """Variables with which a child process imports the same package."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


# ---------------------------------------------------------------------------------------------
# Version
# ---------------------------------------------------------------------------------------------
def test_version_has_one_place():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGES.md").read_text(encoding="utf-8"), re.M)
    assert newest is not None
    assert newest.group(1) == sklearn_spt.__version__
    for name in ("CITATION.cff", "README.md", "pyproject.toml", "docs/conf.py"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"^\s*(version|release)\s*[:=]\s*[\"{]?\d", text, re.M), name


def test_version_can_be_read_without_an_import():
    # The build backend reads it from the text: an import would need torch at build time.
    text = (ROOT / "sklearn_spt" / "__init__.py").read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.+)"$', text, re.M) == [sklearn_spt.__version__]


def test_page_of_a_package_index_has_no_link_into_the_repository():
    core = pytest.importorskip("hatchling.metadata.core")
    plugins = pytest.importorskip("hatchling.plugin.manager").PluginManager()
    text = core.ProjectMetadata(str(ROOT), plugins).core.readme
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/" in readme
    assert "<img " in readme
    assert "<img " not in text
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [t for t in targets if not t.startswith("https://")] == []
    assert "when to use it, and when not" in text


def test_with_an_address_the_links_of_an_index_page_lead_to_the_source():
    pytest.importorskip("hatchling")
    for_index_page = runpy.run_path(str(ROOT / "hatch_build.py"))["for_index_page"]
    text = 'A [`page`](docs/a.md#b), [here](#b), [there](https://x.org/).\n<img src="docs/a.png">'
    assert for_index_page(text, "https://s.org/p/") == (
        "A [`page`](https://s.org/p/blob/main/docs/a.md#b), here, [there](https://x.org/).\n"
        '<img src="https://s.org/p/raw/main/docs/a.png">'
    )
    assert for_index_page(text) == "A `page`, here, [there](https://x.org/).\n"
    code = "`a[1](x)`\n\n```python\nf[1](x)\n```\n"
    assert for_index_page(code, "https://s.org/p") == code


def test_the_paper_is_cited_alike_everywhere():
    texts = [
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("CITATION.cff", "README.md", "docs/guide/bibliography.md")
    ]
    for text in texts:
        for part in ("Karisani", "Semi-Supervised Text Classification via Self-Pretraining"):
            assert part in text
        assert set(re.findall(r"10\.1145/3437963\.\d+", text)) == {"10.1145/3437963.3441814"}
    assert PROJECT["urls"]["Paper"] == "https://doi.org/10.1145/3437963.3441814"
    for text in texts[:2]:
        assert re.search(r"year\W+2021", text)


# ---------------------------------------------------------------------------------------------
# Bounds and constraints
# ---------------------------------------------------------------------------------------------
def test_minimum_constraints_are_the_lower_bounds():
    minimum = pins("constraints-min.txt")
    for requirement in requirements(*TESTED_EXTRAS):
        (specifier,) = requirement.specifier
        assert specifier.operator == ">=", f"{requirement} must have a lower bound only"
        name = canonicalize_name(requirement.name)
        assert minimum.get(name) == specifier.version, f"{requirement} against {minimum.get(name)}"


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_constraints_hold_each_direct_dependency(extra):
    held = pins("constraints.txt")
    for requirement in requirements(extra):
        name = canonicalize_name(requirement.name)
        assert name in held, f"{name} (extra {extra!r}) is missing from constraints.txt"
        assert requirement.specifier.contains(held[name]), f"{requirement} against {held[name]}"


def test_constraints_name_versions_and_no_index():
    for file in ("constraints.txt", "constraints-min.txt"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not re.search(r"://|^-|--|\+cpu", text, re.M), file


# ---------------------------------------------------------------------------------------------
# Public names and layers
# ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("module", "prefix"),
    [
        ("sklearn_spt", ""),
        ("sklearn_spt.inspection", "inspection."),
        ("sklearn_spt.model_selection", "model_selection."),
        ("sklearn_spt.datasets", "datasets."),
    ],
)
def test_every_public_name_is_in_the_api_reference(module, prefix):
    documented = set(
        re.findall(r"^   (\w[\w.]*)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.M)
    )
    public = importlib.import_module(module)
    names = {
        prefix + name
        for name in public.__all__
        # A sub-package is a heading of that page, and its names are asked for by themselves.
        if not name.startswith("__") and f"{module}.{name}" not in sys.modules
    }
    if prefix:  # what the root has as well is documented there
        names -= {prefix + name for name in sklearn_spt.__all__}
    assert names
    assert names <= documented, f"docs/api.md lacks {sorted(names - documented)}"


def test_datasets_import_no_deep_learning_library():
    code = (
        "import sys, sklearn_spt.datasets\n"
        "heavy = {'torch', 'transformers', 'skorch', 'tokenizers'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr


def test_layers_hold(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as run; run()",
            "--no-cache",
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_missing_extra_skips_its_own_tests_alone():
    """No test module imports a package of an extra when it is collected; pytest needs three."""
    extras = {
        canonicalize_name(one.name) for one in requirements(*PROJECT["optional-dependencies"])
    }
    extras -= {canonicalize_name(one.name) for one in requirements()}
    extras -= {"hypothesis", "packaging", "pytest"}
    found = []
    for file in (ROOT / "tests").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [getattr(node, "module", None)] if isinstance(node, ast.ImportFrom) else []
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else names
            found += [(file.name, n) for n in names if n and n.partition(".")[0] in extras]
    assert found == []


@pytest.mark.parametrize("values", [{"a": 1}, {"a": [(2, None)]}])
def test_what_a_missing_package_would_give_skips_a_test(values):
    gone = Missing("polars")
    skip_where_missing(values)
    for use in (
        lambda: gone.Series([1]),
        lambda: gone.NA,
        lambda: skip_where_missing({**values, "b": [(gone, 1)]}),
    ):
        with pytest.raises(pytest.skip.Exception, match="polars is not installed"):
            use()


def test_package_says_that_it_is_typed():
    assert (ROOT / "sklearn_spt" / "py.typed").is_file()


# ---------------------------------------------------------------------------------------------
# Commands and the tree
# ---------------------------------------------------------------------------------------------
def test_ci_runs_the_test_command_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^<!-- tests -->\n+```\w*\n(.*?)\n```$", readme, re.M | re.S)
    bash = shutil.which("bash")
    assert bash is not None
    shown = subprocess.run(
        [bash, ".ci/run", "--show"], capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout
    assert shown.strip() == block.strip()
    assert "-c constraints.txt" in shown
    assert "pytest" in shown


def test_ci_and_tox_run_the_same_checks():
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    checks = tox["testenv:lint"]["commands"].split("\n")[1:]
    loop = re.search(r"for check in (.*?); do", (ROOT / ".ci/run").read_text("utf-8"), re.S)
    assert re.findall(r'"(.*?)"', loop[1]) == checks
    assert any(check.startswith("bandit -q -c pyproject.toml") for check in checks)


def files_of_the_project() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in (".ci", "docs", "examples", "sklearn_spt", "tests"):
        for path in (ROOT / folder).rglob("*"):
            made = {"__pycache__", "_build", "generated"} & set(path.relative_to(ROOT).parts)
            if path.is_file() and not made:
                yield path


def test_no_file_is_large():
    large = [
        f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes"
        for path in files_of_the_project()
        if path.stat().st_size > 2_000_000
    ]
    assert not large


def test_constructors_stay_short():
    """Parameters that nobody sets and no measurement needs must go."""
    from sklearn_spt import BertClassifier, SelfPretrainingClassifier

    for kind, most in ((SelfPretrainingClassifier, 21), (BertClassifier, 16)):
        named = [p for p in inspect.signature(kind).parameters.values() if p.kind != p.VAR_KEYWORD]
        assert len(named) <= most, kind


def test_the_package_root_stays_small():
    root = ROOT / "sklearn_spt"
    assert len(list(root.glob("*.py"))) <= 12
    long = [p.name for p in root.rglob("*.py") if len(p.read_text("utf-8").splitlines()) > 450]
    assert long == []
