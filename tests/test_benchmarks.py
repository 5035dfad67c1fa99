"""The programs in examples/benchmarks run, and compare equal work only."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import build_encoder

import sklearn_spt
from sklearn_spt.text._pretrained import load_encoder

FOLDER = Path(__file__).parents[1] / "examples" / "benchmarks"
MODULES = [file.stem for file in FOLDER.glob("*.py")]

needs_trainer = pytest.mark.skipif(
    find_spec("accelerate") is None, reason="the extra [benchmarks] is not installed"
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny encoder that takes 256 tokens."""
    return build_encoder(tmp_path_factory.mktemp("benchmark"), positions=256)


@pytest.fixture
def program(monkeypatch):
    """Import a program as it is imported when it runs: with its folder in the path."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def run(program, monkeypatch, capsys, checkpoint):
    """Run a program and return what it prints; measurements go to the standard error."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *arguments, "--pretrained", checkpoint])
        module = program(name)
        threads = torch.get_num_threads()
        try:
            module.main()
        finally:
            torch.set_num_threads(threads)
        return capsys.readouterr().out

    return run


def options(checkpoint):
    return argparse.Namespace(
        pretrained=checkpoint,
        batch_size=8,
        device="cpu",
        precision="fp32",
        trainer_precision="fp32",
        cuda_graphs=False,
    )


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("what_pays", "--n-texts 40 --rounds 2 --threads 1", "without any of them"),
        ("where_time_goes", "--n-texts 40", "Padding, widths in multiples of 16"),
        ("same_scores", "--n-labeled 30 --n-test 40 --seeds 2", "Difference of F1"),
        ("scaling", "unlabeled --sizes 20 40 --step-size 0.5", "| 40 |"),
        ("scaling", "unlabeled --sizes 20 --step-size 1", "| 20 |"),
        ("scaling", "length --sizes 16 256 --rounds 1", "| 256 |"),
        ("scaling", "threads --sizes 1 --n-texts 40 --rounds 1", "| 1 |"),
        ("scaling", "million --sizes 3000", "Token ids:"),
        (
            "search",
            "--n-labeled 24 --n-unlabeled 20 --values 2 --folds 2 --step-size 0.5",
            "Sharing is faster by",
        ),
    ],
)
def test_programs_print_their_tables(run, name, arguments, wanted):
    assert wanted in run(name, *arguments.split())


def measurements(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("name", "arguments", "n"),
    [
        ("what_pays", "--n-texts 40 --rounds 9 --threads 1", 0),
        ("same_scores", "--n-labeled 30 --n-test 40 --seeds 9", 0),
        ("scaling", "length --sizes 16 32 --rounds 1", 0),
        ("search", "--n-labeled 24 --n-unlabeled 20 --values 2 --folds 2 --step-size 0.5", 2),
    ],
)
def test_programs_end_in_time_and_keep_what_they_have(run, tmp_path, name, arguments, n):
    file = tmp_path / "found.jsonl"
    run(name, *arguments.split(), "--json", str(file), "--seconds", "0")
    assert len(measurements(file) if file.exists() else []) == n


@needs_trainer
def test_speed_measures_equal_work(run, tmp_path):
    arguments = "--n-texts 60 --n-labeled 24 --step-size 12 --rounds 2 --threads 1"
    found = run("speed", *arguments.split(), "--json", str(tmp_path / "speed.json"))
    for row in ("training, texts/s", "self-pretraining, peak memory", "inference: sklearn_spt"):
        assert row in found
    *single, everything = measurements(tmp_path / "speed.json")
    assert len(single) == 3 * 4 * 2
    assert {one["task"] for one in single} == everything["all"]["seconds"].keys()
    assert "training: 2 steps on 60 texts" in found


def test_speed_says_what_is_too_large(run):
    with pytest.raises(SystemExit, match=r"leave 10, of which --step-size=20"):
        run("speed", *["--n-texts", "40", "--n-labeled", "30", "--step-size", "20"])


def test_probabilities_of_the_textbook_are_those_of_its_net(program, checkpoint):
    programs = program("_programs")
    texts, targets = ["the flu", "a shot", "a cold day"], np.eye(2)[[0, 1, 1]]
    textbook = programs.Textbook(options(checkpoint))
    textbook.train(texts, targets, 1)
    with torch.no_grad():
        logits = textbook.net.module_.eval()(**textbook.encoded(texts))
    np.testing.assert_allclose(textbook.predict_proba(texts), logits.softmax(1), atol=1e-6)


def test_work_is_the_texts_themselves(program, checkpoint):
    """Neither their order nor the batches matter, and as many others do."""
    programs = program("_programs")
    texts = [f"the flu {'again ' * n}" for n in range(12)]
    targets = np.eye(2)[np.arange(12) % 2]

    def work(kind, texts):
        programs.Counter.start()
        kind(options(checkpoint)).train(texts, targets, 2)
        return programs.Counter.work

    found = work(programs.Textbook, texts)
    assert found == work(programs.Ours, texts)
    assert (found.steps, found.texts) == (4, 24)
    assert work(programs.Ours, ["a cold", *texts[1:]]).tokens != found.tokens


@pytest.mark.parametrize(
    "wrong", [np.full((3, 2), 0.4), np.full((2, 2), 0.5), np.full((3, 1), 1.0)]
)
def test_what_is_no_labelling_stops(program, wrong):
    with pytest.raises(SystemExit, match="not comparable: x gave no probabilities of 3 texts"):
        program("speed").check_probabilities("x", wrong, 3)


@pytest.mark.parametrize("order", [np.sort, lambda share: share[::-1]])
def test_results_in_another_order_stop(program, order):
    class Disordered:
        precision = "fp32"

        def predict_proba(self, texts):
            share = order(np.array([len(text) / 10 for text in texts]))
            return np.column_stack([share, 1 - share])

    with pytest.raises(SystemExit, match="in another order than the texts"):
        program("speed").check_order("x", Disordered(), ["a", "bbb", "cc", "ddddd", "eeee"])


def test_unequal_work_stops(program, checkpoint):
    class Lazy:
        """Leaves the last text out."""

        def __init__(self, ours):
            self.train = lambda texts, y, epochs: ours.train(texts[:-1], y[:-1], epochs)

    ours = program("_programs").Ours(options(checkpoint))
    bar = type("Bar", (), {"set_postfix_str": lambda *a: None, "update": lambda *a: None})()
    record = program("_record").Record(argparse.Namespace(json=None, seconds=None))
    turns = program("speed").Turns({"one": ours, "other": Lazy(ours)}, 1, bar, record)
    texts = [f"the flu {'again ' * n}" for n in range(9)]
    with pytest.raises(SystemExit, match=r"not comparable: training of other took Work\(steps=1"):
        turns("training", lambda p: p.train(texts, np.eye(2)[np.arange(len(texts)) % 2], 1))


# -- gpu.py ----------------------------------------------------------------------------------------
@pytest.fixture
def rehearse(program, checkpoint, tmp_path, monkeypatch):
    """Run a section of the program as on a GPU, but on the CPU and with few texts."""

    def rehearse(section):
        file = tmp_path / "gpu.jsonl"
        arguments = [section, "--rehearsal", "--pretrained", checkpoint, "--json", str(file)]
        program("gpu").main(arguments)
        return measurements(file)

    return rehearse


def test_the_first_section_measures_all_but_what_needs_a_gpu(rehearse):
    found = rehearse("a")
    failed = {e["kernel"] for e in found if "error" in e}
    assert failed == {"FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"}
    assert [e["milliseconds"] > 0 for e in found if e["name"] == "step"] == [True] * 6
    assert [e["difference"] for e in found if e["name"] == "equal"] == [0.0] * 4
    names = {"versions", "tests", "step", "without", "attention", "equal"}
    names |= {"memory", "inference", "stacked", "kernel", "streams"}
    assert {e["name"] for e in found} == names
    assert next(e for e in found if e["name"] == "tests")["code"] == 0
    graphs = [e["name"] for e in found if e.get("way") in ("graphs", "whole step")]
    assert len(graphs) == 4
    assert found[-1]["name"] == "streams"
    (kernel,) = (e for e in found if e["name"] == "kernel")
    assert kernel["ours"] in {"MATH", "FLASH_ATTENTION"}  # the two of a CPU


def test_the_second_section_runs_the_programs(rehearse, program, monkeypatch):
    given = []
    speed = program("speed")
    monkeypatch.setattr(speed, "measure", lambda options, record: given.append(options) or {"n": 1})
    made, *found = rehearse("b")
    assert made["name"] == "BERT-base"
    assert "error" not in made
    assert [(e["encoder"], e["graphs"], e["n"]) for e in found] == [
        ("MiniLM", False, 1),
        ("MiniLM", True, 1),
        ("BERT-base", False, 1),
        ("BERT-base", True, 1),
    ]
    assert [options.cuda_graphs for options in given] == [False, True, False, True]
    assert len({options.pretrained for options in given}) == 2
    assert {options.data for options in given} == {"generated"}


def test_the_third_section_searches_and_promises(rehearse):
    found = rehearse("c")
    names = [e["name"] for e in found]
    assert names == ["encoding", *["fit", "fit", "promised", "search"] * 2]
    assert [e["fits"] for e in found if e["name"] == "search"] == [2, 2]
    assert all(0 <= e["f1"] <= 1 for e in found if e["name"] == "fit")


def test_a_folder_stands_in_for_an_installed_package(program, tmp_path, monkeypatch):
    """The modules of its wheels, and a version of this library, which no wheel brings."""

    def missing(name):
        raise PackageNotFoundError(name)

    gpu = program("gpu")
    monkeypatch.setattr(gpu, "version", missing)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "given")
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / "a-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("a_module_of_a_wheel.py", "")
    gpu.use(tmp_path)
    gpu.use(tmp_path)  # a second call, after one that was cut off
    site = str(tmp_path / "site")
    assert sys.path[-1] == site
    paths = os.environ["PYTHONPATH"].split(os.pathsep)
    assert paths[:1] == [str(gpu.ROOT)]
    assert paths[-1] == site
    assert "given" in paths
    assert find_spec("a_module_of_a_wheel")
    (found,) = Distribution.discover(name="sklearn-spt", path=[site])
    assert found.version == sklearn_spt.__version__


def test_a_failed_measurement_says_where(program):
    written = []
    record = SimpleNamespace(over=lambda: False, add=lambda **entry: written.append(entry))
    program("gpu").attempt(record, "x", lambda n: 1 / n, n=0)
    assert written[0]["error"] == "ZeroDivisionError: division by zero"
    assert "lambda n: 1 / n" in written[0]["traceback"]


def test_no_section_begins_after_its_time(rehearse, program, monkeypatch):
    record = program("_record").Record
    monkeypatch.setattr(record, "left", lambda self: 0.0)
    written = []
    monkeypatch.setattr(record, "add", lambda self, **entry: written.append(entry))
    gpu = program("gpu")
    gpu.attempt(record(argparse.Namespace(json=None, seconds=None)), "x", lambda: {})
    assert written == []


def test_packed_weights_are_halves_that_load_as_fp32(program, checkpoint, tmp_path):
    program("gpu").half_weights(Path(checkpoint), tmp_path / "half")
    sizes = [Path(f, "model.safetensors").stat().st_size for f in (checkpoint, tmp_path / "half")]
    assert sizes[1] < 0.6 * sizes[0]
    half, whole = (load_encoder(folder) for folder in (tmp_path / "half", checkpoint))
    for one, two in zip(half.parameters(), whole.parameters(), strict=True):
        assert one.dtype is torch.float32
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-6)


def test_packed_texts_are_read(program, tmp_path):
    (tmp_path / "texts.jsonl").write_text('["a text", 1]\n["another", 0]\n["third", 0]\n')
    _, texts, y = program("_texts").texts_of(2, tmp_path / "texts.jsonl")
    assert texts.tolist() == ["a text", "another"]
    assert y.tolist() == [1, 0]


def entry(name, device="cuda", rehearsal=False, **found):
    return json.dumps({"name": name, "device": device, "rehearsal": rehearsal, **found}) + "\n"


def test_the_page_is_made_of_what_a_gpu_measured(program, tmp_path):
    page = program("_gpu_page").page
    empty = page([])
    assert empty == (FOLDER.parents[1] / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert "|  |" not in empty  # a table without a number is a line
    assert "*Not measured yet.*" in empty
    file = tmp_path / "gpu.jsonl"
    place = {"fold": 0, "lam": 0.1, "alpha": 0.0}
    step = {"precision": "bf16", "way": "graphs"}
    file.write_text(
        entry("versions", torch="2", transformers="5", skorch="1", accelerator="GPU")
        + entry("tests", code=2, end="")
        + entry("step", milliseconds=3.14159, **step)
        + entry("kernel", width=32, **{"ours": "EFFICIENT_ATTENTION", "as torch": "MATH"})
        + entry("step", rehearsal=True, milliseconds=99, **step)
        + entry("step", device="cpu", milliseconds=99, **step)
        + entry("step", precision="bf16", way="eager", error="no")
        + entry(
            "speed",
            encoder="MiniLM",
            graphs=True,
            seconds={"training": {"trainer": [4.0, 9.0, 6.0], "sklearn_spt": [1.0, 1.0, 1.0]}},
        )
        + entry("fit", graphs=True, f1=0.7, **place)
        + entry("fit", graphs=True, f1=0.9, **{**place, "fold": 1})
        + entry("fit", graphs=False, f1=0.6, **place)
        + entry("fit", device="cpu", graphs=False, f1=0.65, **place)
    )
    found = page([file])
    assert "Measured on one GPU with torch 2" in found
    assert "Tests: `nothing printed`." in found
    assert "| bf16 | failed | 3.14 |  |" in found
    assert "| the library |  | efficient_attention |" in found
    assert "| MiniLM, graphs | 6.0 |  |  |" in found
    assert "| fp32 |  |  |  |" in found
    assert "mean: 0.650 (cpu), 0.600 (cuda), 0.700 (cuda, graphs)." in found
