"""What predictions cost: by the number of texts, and with other programs that run one net.

    OMP_NUM_THREADS=1 python million.py FOLDER [TASK]

First, `predict` of made-up texts, in a new process for each number of them (Linux). The encoder is
made up, too: a layer of 32 units behind the tokenizer of the default one, so that the work around
the nets shows. Then, with a FOLDER of data, a net that was fine-tuned on 300 texts of a task of
few_labels.py, or tweets of illness/, predicts 5,000 others. All programs get the batches of
`predict`, and take turns on tenths of the texts; "faster" is the median over these of the ratio to
the first program.
"""

import copy
import multiprocessing
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
import psutil
import torch
from few_labels import load
from transformers import BertConfig, BertModel

import sklearn_spt
from sklearn_spt._batches import in_batches
from sklearn_spt._module import uses_bf16
from sklearn_spt._pretrained import DEFAULT_ENCODER, load_encoder
from sklearn_spt.datasets import make_short_texts


def small_model(folder, seed=0):
    """Return a classifier over a small encoder, which is written to a folder."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 64, "initializer_range": 0.2}  # so that texts differ
    BertModel(BertConfig(**sizes)).save_pretrained(folder)
    load_encoder(DEFAULT_ENCODER).tokenizer.save_pretrained(folder)
    data = make_short_texts(240, n_labeled=60, random_state=seed)
    clf = sklearn_spt.SelfPretrainingClassifier(folder, random_state=seed)
    return clf.fit(data.data, data.target_partial)


def predicted(folder, n):
    """Return n, seconds, rates, and MB before and at the peak of one call of predict."""
    clf, texts = sklearn_spt.load(folder), make_short_texts(n, random_state=1).data
    clf.predict(texts[:100])
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, start, cpu = psutil.Process().memory_info().rss, perf_counter(), process_time()
    clf.predict(texts)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    return n, seconds, n / seconds, n / cpu, before / 2**20, int(peak) / 2**10


def many_texts(folder):
    """Print a row for each number of texts, each in a process of its own."""
    sklearn_spt.save(small_model(f"{folder}/encoder"), f"{folder}/model")
    columns = ["texts", "seconds", "texts/s", "per processor second", "MB before", "peak"]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        jobs = [(f"{folder}/model", n) for n in (20_000, 100_000, 300_000)]
        rows = pool.starmap(predicted, jobs, chunksize=1)
    print(pd.DataFrame(rows, columns=columns).round().to_string(index=False), flush=True)


def by_torch(clf, precision, compiled=False):
    module = copy.deepcopy(clf.module_).eval().requires_grad_(False)
    module.precision = precision
    module = torch.compile(module, dynamic=True) if compiled else module
    return lambda ids: module(ids).softmax(dim=1)


def by_onnx(clf, folder, kind):
    import onnxruntime

    sklearn_spt.export(clf, f"{folder}/{kind}", format=kind)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(f"{folder}/{kind}/model.onnx", settings)
    return lambda ids: torch.from_numpy(session.run(None, {"input_ids": ids.numpy()})[0])


def programs(folder, data, task="illness"):
    """Print rates, differences of probabilities from those of torch in fp32, and accuracy."""
    X, y = load(data, task)
    rows = np.random.default_rng(0).permutation(len(X))[:5300]
    clf = sklearn_spt.BertClassifier(random_state=0).fit(X[rows[:300]], y[rows[:300]])
    ids, y = clf.encode(X[rows[300:]]), y[rows[300:]]
    kinds = ["fp32", "bf16"] if uses_bf16("auto", torch.device("cpu")) else ["fp32"]
    runs = {f"torch, {kind}": by_torch(clf, kind) for kind in kinds}
    runs["torch.compile, fp32"] = by_torch(clf, "fp32", compiled=True)
    runs |= {f"ONNX Runtime, {kind}": by_onnx(clf, folder, kind) for kind in ("onnx", "onnx-int8")}
    seconds, P = {name: [] for name in runs}, {name: [] for name in runs}
    for number, part in enumerate([ids[:64], *np.array_split(ids, 10)]):
        for name in np.roll(list(runs), number):
            start = perf_counter()
            P[name].append(in_batches(runs[name], part, clf.source_.pad_id, "cpu").numpy())
            seconds[name].append(perf_counter() - start)
    # without the first part, in which kernels are compiled
    times = np.array([seconds[name][1:] for name in runs])
    P = np.array([np.concatenate(P[name][1:]) for name in runs])
    off, codes = np.abs(P - P[0]), P.argmax(axis=2)
    table = {"texts/s": len(y) / times.sum(axis=1), "faster": np.median(times[0] / times, axis=1)}
    table |= {"largest": off.max(axis=(1, 2)), "mean": off.mean(axis=(1, 2))}
    table |= {"other": (codes != codes[0]).mean(axis=1), "accuracy": (codes == y).mean(axis=1)}
    print(pd.DataFrame(table, index=list(runs)).round(4).to_string())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        many_texts(place)
        if sys.argv[1:]:
            programs(place, *sys.argv[1:])
