"""All that is to be measured on a GPU, in three calls of at most nine minutes, without network.

``python examples/benchmarks/gpu.py pack FOLDER``
    on a machine with network: put into a folder what a GPU machine may lack, the weights of the
    default encoder in fp16, tweets as the paper prepares them, and wheels. It stays under 60 MiB.
``python3 examples/benchmarks/gpu.py a --folder FOLDER --json gpu.jsonl``
    versions, tests, attention kernels, milliseconds of a step, what is equal, memory, inference.
``python3 examples/benchmarks/gpu.py b --folder FOLDER --json gpu.jsonl``
    ``speed.py`` with two encoders, with graphs and without.
``python3 examples/benchmarks/gpu.py c --folder FOLDER --json gpu.jsonl``
    the search over λ and α: six fits and what they promise, then all 75, with F1. With
    ``--device cpu`` it gives the F1 to compare with.
``python examples/benchmarks/gpu.py report gpu.jsonl > docs/gpu.md``
    the page of the docs.

Each measurement is written when it ends, an error among them; none begins when the time is over.
``--rehearsal`` runs the same on a CPU with few texts and few rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: Packages that a machine with torch, transformers, scikit-learn and pytest may lack.
WHEELS = ("accelerate", "hypothesis", "skorch", "sortedcontainers", "tabulate")
#: Options of pip for wheels that run on any machine.
ANYWHERE = (
    "--platform",
    "any",
    "--python-version",
    "3.11",
    "--implementation",
    "py",
    "--abi",
    "none",
)
MOST_BYTES = 60 * 2**20
#: Shape of the batches whose steps are timed.
BATCH, WIDTH = 32, 48
WIDTHS = (16, 32, 48, 64, 96, 128)


# -- the folder ------------------------------------------------------------------------------------
def half_weights(encoder: Path, folder: Path) -> None:
    """Copy an encoder with its weights in fp16; the library loads them as fp32."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(encoder, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.bin", ".*"))
    weights = load_file(encoder / "model.safetensors")
    half = {n: w.to(torch.float16) if w.is_floating_point() else w for n, w in weights.items()}
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})


def pack(folder: Path) -> None:
    """Fill the folder."""
    from _texts import texts_of

    from sklearn_spt.text._locations import DEFAULT_ENCODER, encoder_folder

    folder.mkdir(parents=True)
    half_weights(Path(encoder_folder(DEFAULT_ENCODER)), folder / "encoder")
    _, texts, y = texts_of(10_500, normalize=True)
    with (folder / "texts.jsonl").open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps([t, int(c)]) + "\n" for t, c in zip(texts, y, strict=True))
    command = ["download", "--no-deps", "--only-binary=:all:", "--dest", str(folder / "wheels")]
    subprocess.run([sys.executable, "-m", "pip", *command, *ANYWHERE, *WHEELS], check=True)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size > MOST_BYTES:
        raise SystemExit(f"{folder} has {size:,} bytes, more than {MOST_BYTES:,}.")
    print(f"{folder}: {size / 2**20:.1f} MiB")


def use(folder: Path) -> None:
    """Let this process and those that it starts import what the folder brings, after all else."""
    import sklearn_spt

    site = folder / "site"
    for wheel in (folder / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]), str(site)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path.append(str(site))
    try:
        version("sklearn-spt")
    except PackageNotFoundError:  # pickles and `memory` record the version
        about = site / f"sklearn_spt-{sklearn_spt.__version__}.dist-info" / "METADATA"
        about.parent.mkdir(parents=True, exist_ok=True)
        about.write_text(f"Name: sklearn-spt\nVersion: {sklearn_spt.__version__}\n")


# -- helpers of the sections -----------------------------------------------------------------------
def attempt(record: Any, name: str, measure: Callable[..., dict[str, Any]], **about: Any) -> None:
    """Write what a measurement gives, or the error with which it ends."""
    if record.over():
        return
    try:
        found = measure(**about)
    except (Exception, SystemExit) as error:
        found = {"error": f"{type(error).__name__}: {error}"[:1000]}
        found["traceback"] = traceback.format_exc()[-4000:]
    record.add(name=name, **about, **found)


@contextmanager
def precision_of(name: str) -> Iterator[str]:
    """Yield the `precision` of `BertClassifier` for "fp32", "tf32" or "bf16"."""
    import torch

    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "tf32" if name == "tf32" else "ieee"
    try:
        yield "bf16" if name == "bf16" else "fp32"
    finally:
        settings.fp32_precision = before


def epoch_clock() -> Any:
    """Return a callback of skorch that has the seconds of each epoch."""
    import torch
    from skorch.callbacks import Callback

    def now() -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()

    class Clock(Callback):
        def __init__(self) -> None:
            self.seconds: list[float] = []

        def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
            self.begin = now()

        def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
            self.seconds.append(now() - self.begin)

    return Clock()


class SectionA:
    """Steps, kernels and memory."""

    def __init__(self, options: argparse.Namespace, record: Any) -> None:
        import numpy as np

        from sklearn_spt.text._pretrained import vocabulary_size

        self.options = options
        self.record = record
        self.device: str = options.device
        self.n_steps = 2 if options.rehearsal else 40
        self.rounds = 1 if options.rehearsal else 3
        words = vocabulary_size(options.pretrained)
        shape = (BATCH * self.n_steps, WIDTH)
        self.ids = np.random.default_rng(0).integers(words // 10, words, shape, dtype=np.int32)
        self.y = np.arange(len(self.ids)) % 2

    def run(self) -> None:
        """Measure all, the most telling first."""
        small, record = self.options.rehearsal, self.record
        precisions = ("fp32", "bf16") if small else ("fp32", "tf32", "bf16")
        nets = (1, 2) if small else (1, 5, 25)
        attempt(record, "versions", self.versions)
        attempt(record, "tests", self.tests)
        for precision in precisions:
            attempt(record, "step", self.step, precision=precision, way="eager")
        for path in ("casts", "attention", "losses", "resident"):
            attempt(record, "without", self.without, path=path)
        for kernel in ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"):
            for width in WIDTHS[:1] if small else WIDTHS:
                attempt(record, "attention", self.attention, kernel=kernel, width=width)
        for width in WIDTHS[:1] if small else WIDTHS:
            attempt(record, "kernel", self.kernel, width=width)
        for what in ("eager twice", "casts and autocast"):
            attempt(record, "equal", self.equal, what=what)
        for tokens in (8192,) if small else (8192, 16_384, 32_768, 65_536, 131_072):
            attempt(record, "inference", self.inference, tokens=tokens)
        for n in nets:
            attempt(record, "stacked", self.stacked, n=n)
        # graphs come last, since a capture that fails may harm what follows
        for way in ("graphs", "whole step"):
            for precision in precisions:
                attempt(record, "step", self.step, precision=precision, way=way)
        for what in ("graphs twice", "graphs and eager"):
            attempt(record, "equal", self.equal, what=what)
        attempt(record, "memory", self.memory)
        for n in nets:
            attempt(record, "streams", self.streams, n=n)

    def versions(self) -> dict[str, Any]:
        """Packages and device."""
        import torch

        names = ("torch", "transformers", "skorch", "scikit-learn")
        found: dict[str, Any] = {name: version(name) for name in names}
        found |= {"python": sys.version.split()[0], "cuda": torch.version.cuda}
        on_cuda = self.device == "cuda"
        return found | {"accelerator": torch.cuda.get_device_name() if on_cuda else "none"}

    def tests(self) -> dict[str, Any]:
        """Run the tests that need a GPU."""
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "tests/test_gpu.py", "-q", "-rA"]
        try:
            done = subprocess.run(
                [*command, "--tb=short", "-p", "no:cacheprovider"],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=max(min(self.record.left(), 200), 1),
                check=False,
            )
            code, printed = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            code, printed = 124, error.stdout or b""
        return {"code": code, "end": printed.decode(errors="replace")[-12_000:]}

    def net(self, **params: Any) -> Any:
        """Return a net of which only the steps are timed."""
        from sklearn_spt import BertClassifier

        settings = {"max_epochs": 1, "head_init": "random", "balanced_batches": False}
        return BertClassifier(
            self.options.pretrained, device=self.device, random_state=0, **{**settings, **params}
        )

    def best(self, work: Callable[[], Any]) -> float:
        """Least seconds of a call in some rounds."""
        from _rate import seconds

        return min(seconds(work) for _ in range(self.rounds))

    def step(self, precision: str, way: str) -> dict[str, Any]:
        """Milliseconds of a training step."""
        with precision_of(precision) as used:
            if way == "whole step":
                step = self.whole_step(used)
                took = self.best(lambda: [step(batch) for batch in self.batches()])
            else:
                net = self.net(precision=used, cuda_graphs=way == "graphs", max_epochs=3)
                clock = epoch_clock()
                net.set_params(callbacks=[clock]).fit(self.ids, self.y)
                clock.seconds.clear()  # of epochs that record graphs
                net.set_params(max_epochs=self.rounds).partial_fit(self.ids, self.y)
                took = min(clock.seconds)
        return {"milliseconds": 1000 * took / self.n_steps}

    def batches(self) -> Any:
        """The texts in batches, on the device."""
        import torch

        return torch.from_numpy(self.ids).long().to(self.device).view(-1, BATCH, WIDTH)

    def without(self, path: str) -> dict[str, Any]:
        """Milliseconds of an eager step without a fast path."""
        from sklearn_spt.nets._kernels import plain

        with plain(path):
            return self.step("bf16", "eager")

    def whole_step(self, precision: str) -> Callable[[Any], Any]:
        """Return a step on a batch, update and clipping included, on a GPU as one graph."""
        import torch
        from torch.nn.utils import clip_grad_norm_

        module, loss_of = self.module(precision)
        module.train()
        place = self.batch
        on_cuda = self.device == "cuda"
        optimizer = torch.optim.AdamW(
            module.parameters(),
            lr=torch.tensor(1e-4, device=self.device),
            weight_decay=0.0,
            fused=True,
            capturable=on_cuda,
        )

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            loss_of(module(place)).backward()
            clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()

        if not on_cuda:
            return lambda batch: [place.copy_(batch), step()]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return lambda batch: [place.copy_(batch), graph.replay()]

    def streams(self, n: int) -> dict[str, Any]:
        """Milliseconds of a whole step of each of n nets, in bf16, each on a stream of its own."""
        import torch

        steps = [self.whole_step("bf16") for _ in range(n)]
        on_cuda = self.device == "cuda"
        own = [torch.cuda.stream(torch.cuda.Stream()) if on_cuda else nullcontext() for _ in steps]
        batches = self.batches()
        if on_cuda:
            torch.cuda.synchronize()  # the streams do not wait for the copy

        def side_by_side() -> None:
            for batch in batches:
                for step, stream in zip(steps, own, strict=True):
                    with stream:
                        step(batch)

        side_by_side()  # not timed
        return {"milliseconds": 1000 * self.best(side_by_side) / self.n_steps}

    def module(self, precision: str) -> tuple[Any, Callable[[Any], Any]]:
        """Return a module and its loss on a batch that is kept as `batch`."""
        import torch

        from sklearn_spt.nets._bert_module import BertModule
        from sklearn_spt.nets._losses import DistillationLoss, distillation_targets, one_hot

        module = BertModule(self.options.pretrained, 2, precision=precision, device=self.device)
        hard = one_hot(self.y[:BATCH], 2)
        targets = torch.from_numpy(distillation_targets(hard, None)).to(self.device)
        self.batch = torch.from_numpy(self.ids[:BATCH]).long().to(self.device)
        criterion = DistillationLoss(lam=0.0, temperature=1.0)
        return module.to(self.device), lambda logits: criterion(logits, targets)

    def stacked(self, n: int) -> dict[str, Any]:
        """Milliseconds of the gradients of n nets at once, in fp32 and without dropout."""
        import torch
        from torch.func import functional_call, grad, stack_module_state, vmap
        from torch.nn.attention import SDPBackend, sdpa_kernel

        from sklearn_spt.nets._kernels import plain

        made = [self.module("fp32") for _ in range(n)]
        modules, loss_of = [module.eval() for module, _ in made], made[0][1]
        weights, buffers = stack_module_state(modules)

        def loss(weights: Any, buffers: Any) -> Any:
            return loss_of(functional_call(modules[0], (weights, buffers), (self.batch,)))

        gradients = vmap(grad(loss))
        # only the plain kernel of attention takes a further dimension everywhere
        with torch.no_grad(), plain("attention"), sdpa_kernel(SDPBackend.MATH):
            gradients(weights, buffers)  # not timed
            took = self.best(lambda: gradients(weights, buffers))
        return {"milliseconds": 1000 * took}

    def attention(self, kernel: str, width: int) -> dict[str, Any]:
        """Seconds of the first and second forward and backward pass of an attention kernel."""
        import torch
        from _rate import seconds
        from torch.nn.attention import SDPBackend, sdpa_kernel

        shape = (BATCH, 12, width, 32)
        q, k, v = (
            torch.randn(shape, device=self.device, dtype=torch.bfloat16, requires_grad=True)
            for _ in range(3)
        )
        mask = torch.zeros(BATCH, 1, width, width, device=self.device, dtype=torch.bfloat16)
        mask = None if kernel == "FLASH_ATTENTION" else mask

        def both() -> None:
            fused = torch.nn.functional.scaled_dot_product_attention
            fused(q, k, v, mask, dropout_p=0.1).sum().backward()

        with sdpa_kernel(getattr(SDPBackend, kernel)):
            first, second = seconds(both), seconds(both)
        return {"first": 1000 * first, "second": 1000 * second}

    def kernel(self, width: int) -> dict[str, Any]:
        """Name the kernel that the library takes, and the one that torch would take."""
        import torch
        from torch.nn.attention import SDPBackend

        from sklearn_spt.nets._kernels import attention_backends

        device = torch.device(self.device)
        q = torch.zeros(BATCH, 12, width, 32, device=device, dtype=torch.bfloat16)
        mask = torch.zeros(BATCH, 1, width, width, device=device, dtype=torch.bfloat16)

        def taken() -> str:
            choice = torch._fused_sdp_choice(q.requires_grad_(), q, q, mask, 0.1)
            return next(name for name, b in SDPBackend.__members__.items() if int(b) == choice)

        with attention_backends(device):
            ours = taken()
        return {"ours": ours, "as torch": taken()}

    def equal(self, what: str) -> dict[str, Any]:
        """Greatest difference of the probabilities of two fits with the same seed."""
        from sklearn_spt.nets._kernels import plain

        def probabilities(graphs: bool, *paths: str) -> Any:
            net = self.net(cuda_graphs=graphs, max_epochs=2)
            with plain(*paths) if paths else nullcontext():
                return net.fit(self.ids, self.y).predict_proba(self.ids[:256])

        fits = {
            "eager twice": [(False,), (False,)],
            "graphs twice": [(True,), (True,)],
            "graphs and eager": [(True,), (False,)],
            "casts and autocast": [(False,), (False, "casts")],
        }
        one, two = (probabilities(*given) for given in fits[what])
        return {"difference": float(abs(one - two).max())}

    def memory(self) -> dict[str, Any]:
        """Reserved MiB after each of some fits with graphs, without garbage collection."""
        import torch

        reserved = []
        gc.disable()
        try:
            for _ in range(2 if self.options.rehearsal else 10):
                self.net(cuda_graphs=True, max_epochs=2).fit(self.ids, self.y)
                on_cuda = self.device == "cuda"
                reserved.append(torch.cuda.memory_reserved() / 2**20 if on_cuda else 0.0)
        finally:
            gc.enable()
        return {"mebibytes": reserved}

    def inference(self, tokens: int) -> dict[str, Any]:
        """Texts a second by the number of tokens in a batch."""
        from unittest.mock import patch

        net = self.net(classes=[0, 1]).initialize()
        ids = self.ids.repeat(1 if self.options.rehearsal else 10, axis=0)
        with patch("sklearn_spt.nets._batching.inference_limits", return_value=(1, tokens)):
            net.forward(ids)  # not timed
            return {"texts": len(ids) / self.best(lambda: net.forward(ids))}


# -- speed and search ------------------------------------------------------------------------------
def section_b(options: argparse.Namespace, record: Any) -> None:
    """Run the programs of ``speed.py``, each run with its share of the time."""
    import speed
    from _checkpoints import RANDOM_BERT_BASE, checkpoint

    encoders = {"MiniLM": options.pretrained}
    size = "--n-texts 4000 --n-labeled 500 --step-size 1000 --rounds 3"
    shape = {}
    if options.rehearsal:
        size = "--n-texts 60 --n-labeled 24 --step-size 12 --rounds 1"
        shape = {"hidden_size": 24, "num_hidden_layers": 2, "intermediate_size": 48}

    def bert_base() -> dict[str, Any]:
        encoders["BERT-base"] = checkpoint(RANDOM_BERT_BASE, like=options.pretrained, **shape)
        return {}

    attempt(record, "BERT-base", bert_base)
    end = record.end
    runs = [(name, graphs) for name in encoders for graphs in (False, True)]
    for number, (name, graphs) in enumerate(runs):
        record.end = time.monotonic() + (end - time.monotonic()) / (len(runs) - number)
        arguments = [*size.split(), "--device", options.device, "--pretrained", encoders[name]]
        given = speed.parser().parse_args(arguments + ["--cuda-graphs"] * graphs)
        given.data = options.texts

        def measure(encoder: str, graphs: bool, given: Any = given) -> dict[str, Any]:
            return dict(speed.measure(given, record))

        attempt(record, "speed", measure, encoder=name, graphs=graphs)
    record.end = end


def section_c(options: argparse.Namespace, record: Any) -> None:
    """Search over λ and α; without graphs, and on a CPU, the first fits alone."""
    import numpy as np
    from _texts import texts_of
    from search import fits

    from sklearn_spt import BertClassifier, SelfPretrainingClassifier, TokenIdVectorizer

    size = (30, 50, 1, 2, 2) if options.rehearsal else (500, 10_500, 5, 3, 6)
    n_labeled, n, values, folds, first = size
    _, texts, y = texts_of(n, options.texts)
    y = np.where(np.arange(len(y)) < n_labeled, y, -1)
    total = values**2 * folds
    start = time.perf_counter()
    X = TokenIdVectorizer(options.pretrained).fit_transform(texts)  # once for all fits
    record.add(name="encoding", seconds=time.perf_counter() - start)

    def search(graphs: bool) -> dict[str, Any]:
        took: list[float] = []
        net = BertClassifier(options.pretrained, device=options.device, cuda_graphs=graphs)
        with tempfile.TemporaryDirectory() as folder:
            clf = SelfPretrainingClassifier(net, memory=folder, random_state=0)
            for fit in fits(clf, X, y, values=values, folds=folds):
                record.add(name="fit", graphs=graphs, **fit)
                took.append(fit["seconds"])
                if len(took) == first:
                    # the first fit of a fold makes what the others share
                    expected = folds * took[0] + (total - folds) * sum(took[1:]) / (first - 1)
                    record.add(name="promised", graphs=graphs, fits=total, seconds=expected)
                if record.over() or (len(took) == first and not graphs):
                    break
        return {"fits": len(took), "seconds": sum(took)}

    for graphs in (True, False) if options.device == "cuda" or options.rehearsal else (False,):
        attempt(record, "search", search, graphs=graphs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Pack, measure or report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("what", choices=("pack", "a", "b", "c", "report"))
    add("files", type=Path, nargs="*", help="folder of pack, files of report")
    add("--folder", type=Path, help="what pack made (default: what is installed here)")
    add("--pretrained", help="encoder (default: that of the folder, or the library's)")
    add("--device", choices=("cpu", "cuda"), default="cuda", help="where (default: cuda)")
    add("--rehearsal", action="store_true", help="on a CPU, with few texts")
    add("--json", type=Path, help="file to which each measurement is added (default: stderr)")
    add("--seconds", type=float, default=510, help="begin nothing after that (default: 510)")
    options = parser.parse_args(arguments)
    if options.what == "report":
        from _gpu_page import page

        print(page(options.files), end="")
        return
    if options.what == "pack":
        pack(*options.files)
        return
    sys.path.insert(1, str(ROOT))  # where the package is not installed
    if options.folder:
        options.folder = options.folder.resolve()
        use(options.folder)
    from _record import Record

    from sklearn_spt.text._locations import DEFAULT_ENCODER

    own = options.folder / "encoder" if options.folder else DEFAULT_ENCODER
    options.pretrained = options.pretrained or str(own)
    options.texts = options.folder / "texts.jsonl" if options.folder else "generated"
    if options.rehearsal:
        options.device = "cpu"
    record = Record(options)
    record.common = {"section": options.what, "device": options.device}
    record.common["rehearsal"] = options.rehearsal
    if options.what == "a":
        SectionA(options, record).run()
    else:
        {"b": section_b, "c": section_c}[options.what](options, record)


if __name__ == "__main__":
    main()
