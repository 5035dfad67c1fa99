"""The pages: python blocks compile and nearly all of them run, links and file names lead somewhere.

A block runs in the namespace of its page, after the blocks above it, with a tiny encoder in the
place of each named one and with fewer generated posts. A comment ``<!-- not run: reason -->`` just
above a block says that it is only compiled.
"""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import shutil
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sklearn
import torch

import sklearn_spt
import sklearn_spt.datasets
import sklearn_spt.inspection
import sklearn_spt.model_selection
from sklearn_spt.text import _locations

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGES.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^>]+) -->\n+)?"
    r"^```(?P<language>[\w{}-]*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    code: str
    line: int
    reason: str | None


def text_of(page: Path) -> str:
    """Text of a page."""
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    """Path of a page inside the project, for the names of the tests."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str = "python") -> list[Block]:
    """Fenced blocks of a page in one language."""
    text = text_of(page)
    return [
        Block(m["language"], m["code"], text.count("\n", 0, m.start("code")) + 1, m["reason"])
        for m in _FENCE.finditer(text)
        if m["language"] == language
    ]


def prose(page: Path) -> str:
    """Text of a page without its fenced blocks and without code in a line."""
    return re.sub(r"`[^`\n]+`", "`code`", _FENCE.sub("", text_of(page)))


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as GitHub and MyST make them, and the explicit ones."""
    text = _FENCE.sub("", text_of(page))
    made = set(re.findall(r"^\(([\w-]+)\)=$", text, re.M))
    for heading in re.findall(r"^#+ +(.+?) *$", text, re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        made.add(plain.replace(" ", "-"))
    return made


@pytest.fixture(scope="module")
def wide_tiny_encoder(tiny_encoder: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny tokenizer with an encoder of one small layer that reads 512 tokens."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("wide") / "tiny"
    shutil.copytree(tiny_encoder, folder)
    config = BertConfig.from_pretrained(tiny_encoder)
    # large weights, so that even without training no two texts get the same probabilities
    config.update(
        {"max_position_embeddings": 512, "num_hidden_layers": 1, "initializer_range": 0.5}
    )
    with torch.random.fork_rng(devices=[]), _locations.quiet():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def small_world(wide_tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give every encoder the tiny weights, make generated data small, work in an own folder."""
    make = sklearn_spt.datasets.make_short_texts

    def fewer(n_samples: int = 60, **params: Any) -> Any:
        if params.get("n_labeled") is not None:
            params["n_labeled"] = 24
        return make(min(n_samples, 60), **params)

    monkeypatch.setattr(sklearn_spt.datasets, "make_short_texts", fewer)
    monkeypatch.setattr(_locations, "_bundle_folder", lambda: wide_tiny_encoder)
    monkeypatch.setattr(_locations, "_verify_bundle", lambda folder: None)
    monkeypatch.setattr(_locations, "_hub_snapshot", lambda *_: str(wide_tiny_encoder))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(wide_tiny_encoder, tmp_path / "my_encoder")


# ---------------------------------------------------------------------------------------------
# Code on the pages
# ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_compile(page):
    for block in blocks(page):
        where = f"{name_of(page)}, line {block.line}"
        assert ast.parse(block.code, filename=where) is not None


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_python_blocks_run(page, small_world):
    namespace: dict[str, Any] = {"__name__": "__page__"}
    ran = 0
    with sklearn.config_context():  # whatever a page sets ends with it
        for block in blocks(page):
            if block.reason is None:
                # blank lines in front, so that a traceback names the line of the page
                padded = "\n" * (block.line - 1) + block.code
                exec(compile(padded, name_of(page), "exec"), namespace)
                ran += 1
    assert ran > 0, "a page with code has at least one block that runs"


def test_few_blocks_are_left_out():
    found = [block for page in PAGES for block in blocks(page)]
    left_out = [block for block in found if block.reason is not None]
    assert len(found) >= 10
    assert len(left_out) <= len(found) // 4, [block.reason for block in left_out]


# ---------------------------------------------------------------------------------------------
# Links and names of files
# ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    broken = []
    for target in re.findall(r"\]\(<?([^)>\s]+)>?\)", prose(page)):
        if target.startswith("https://"):
            continue  # no test uses the network
        file, _, anchor = target.partition("#")
        other = (page.parent / file).resolve() if file else page
        if not other.is_file() or (anchor and anchor not in anchors(other)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_exist(page):
    named = set(re.findall(r"(?:examples|docs|tests)/[\w./-]*\w\.\w+", text_of(page)))
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_every_page_is_in_a_table_of_contents():
    docs = ROOT / "docs"
    listed = [
        ((page.parent / line).resolve().relative_to(docs)).as_posix()
        for page in docs.rglob("*.md")
        for toctree in blocks(page, "{toctree}")
        for line in toctree.code.splitlines()
        if line and not line.startswith(":")
    ]
    pages = {page.relative_to(docs).with_suffix("").as_posix() for page in docs.rglob("*.md")}
    assert sorted(listed) == sorted(pages - {"index"} | {"gallery/index"})


# ---------------------------------------------------------------------------------------------
# Examples
# ---------------------------------------------------------------------------------------------
def test_arguments_of_a_notebook_are_those_of_its_kernel():
    """Every example that has options ends in a notebook otherwise."""
    for path in EXAMPLES:
        if "parse_args" in text_of(path):
            assert 'parse_args([] if "ipykernel" in sys.modules else None)' in text_of(path)


def test_reading_order_names_every_example():
    text = text_of(ROOT / "examples" / "README.md")
    named = re.findall(r"\]\((\d\d_\w+\.py)\)", text)
    assert named == [path.name for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_a_page_of_the_gallery(path):
    docstring = ast.get_docstring(ast.parse(text_of(path), filename=str(path))) or ""
    title, underline, *rest = docstring.splitlines()
    assert underline == "=" * len(title)
    assert f"python examples/{path.name}" in "\n".join(rest)
    assert re.search(r"\b(seconds?|minutes?|half a minute)\b", docstring)


def test_every_public_class_is_in_the_gallery():
    """Its page then links to the examples that call it or name it in a role.

    sphinx-gallery takes a class whose class methods alone are used for no use of the class.
    """
    texts = "".join(map(text_of, EXAMPLES))
    named = set(re.findall(r"(?<!class )\b(\w+)\(", texts))
    named |= set(re.findall(r":class:`~?[\w.]*?(\w+)`", texts))
    public = [
        name
        for module in (sklearn_spt, sklearn_spt.inspection, sklearn_spt.model_selection)
        for name in module.__all__
        if isinstance(getattr(module, name), type)
    ]
    assert len(public) > 15
    assert [name for name in public if name not in named] == []


SMALL = {
    "01_quickstart": "--n-labeled 20 --n-unlabeled 16 --n-test 10 --seeds 0 1",
    "08_save_and_serve": "--n-labeled 24 --n-unlabeled 24 --n-test 20",
}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("01_quickstart", ["made-up short posts", "20 labelled, 16 unlabelled and 10", "against"]),
        ("02_grid_search", ["'lam':", "F1 on test posts"]),
        ("03_own_csv", ["NaN", "p_yes", "60 texts"]),
        ("04_beside_self_training", ["one net", "self-training", "Brier score"]),
        ("05_own_net", ["F1 on the posts without a label"]),
        ("06_changed_pseudo_labels", ["iteration 3", "true class"]),
        ("07_rare_positives", ["mutual learning", "Self-Pretraining", "recall"]),
        ("08_save_and_serve", ["equal bit by bit: True", "saved, 3 nets"]),
        ("09_several_classes", ["macro avg", "report about oneself"]),
        ("10_all_systems", ["Spaced repetition", "Co-decomposition", "Self-Pretraining"]),
        ("11_learning_curve", ["labels alone", "with the unlabelled texts"]),
        ("12_many_jobs", ["two processes", "dask"]),
    ],
)
def test_example_runs_in_small(name, shown, small_world, monkeypatch, capsys, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")

    def out_of_reach(*args, **kwargs):
        raise OSError("no test uses the network")

    monkeypatch.setattr(urllib.request, "urlopen", out_of_reach)
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setenv("SKLEARN_SPT_DATA", str(tmp_path / "nothing"))
    path = ROOT / "examples" / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), *SMALL.get(name, "").split()])
    with torch.random.fork_rng(devices=[]):
        runpy.run_path(str(path), run_name="__main__")
    plt.close("all")
    printed = capsys.readouterr().out
    assert [part for part in shown if part not in printed] == []


# ---------------------------------------------------------------------------------------------
# Results
# ---------------------------------------------------------------------------------------------
RESULTS = ROOT / "docs" / "results.md"
COMMANDS = sorted({block.code for page in PAGES for block in blocks(page, "{record-table}")})
FIVE_TASKS = "illness,phm_tuning,crisislex_t6:alberta,crisislex_t6:boston,psytar"
EIGHT_METHODS = (
    "tfidf_lr,embeddings_lr,baseline,baseline_shuffled,bert_classifier,bert_ensemble,"
    "sklearn_self_training,self_pretraining_classifier"
)


def rows_of(text: str) -> list[list[str]]:
    """Cells of the rows of a Markdown table, without its two header lines."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.fixture
def printed_table(monkeypatch, capsys):
    """Run a command of the experiments and return the rows of the table that it prints."""
    from sklearn_spt.experiments._cli import main

    def run(command: str) -> list[list[str]]:
        assert main(shlex.split(command.replace("\\\n", " "))) == 0
        return rows_of(capsys.readouterr().out)

    monkeypatch.chdir(ROOT)
    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_tables_print_a_table(command, printed_table):
    program = "python -m sklearn_spt.experiments "
    assert command.startswith(program)
    assert printed_table(command.removeprefix(program))


def test_some_tables_come_from_records():
    assert len(COMMANDS) >= 10


def test_main_table_of_results_agrees_with_the_records(printed_table):
    five = printed_table(
        "table ranks --records docs/records/rivals.jsonl "
        f"--select method={EIGHT_METHODS} --select dataset={FIVE_TASKS}"
    )
    three = printed_table("table ranks --records docs/records/held_out.jsonl")
    # method | mean rank | mean F1 | gain | pairs
    of_five, of_three = ({row[0]: row[2:4] for row in rows} for rows in (five, three))
    shown = rows_of(text_of(RESULTS))
    assert 3 <= len(shown) <= 8
    assert shown == [[row[0], *of_five[row[0]], *of_three[row[0]]] for row in shown]
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        numbers = set(re.findall(r"\| (0\.\d{3}) \| (0\.\d{3}) \|", text_of(page)))
        assert len(numbers) >= 3
        assert numbers <= {(row[1], row[3]) for row in shown}


def test_pages_are_short():
    n_words = {name_of(page): len(text_of(page).split()) for page in PAGES}
    assert n_words[name_of(RESULTS)] < 600
    assert {name: n for name, n in n_words.items() if n > 3000} == {}
