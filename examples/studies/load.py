"""Load on the application of ../server.py: is each answer there and right, how fast, how large?

    OMP_NUM_THREADS=1 python load.py  # needs psutil, starlette and uvicorn

32 clients send 5,000 requests of 1 to 50 made-up texts, for 30 seconds at most. An answer is wrong
if a label or, by more than 1e-6, a probability differs from what the same model says to one request
after the other. Models are the small ones of million.py, or two folders that `save` wrote. With
"two forks" the model has predicted before the fork. With "a new model" a second one is loaded and
takes over: its answer is due to requests that begin after that, to earlier ones that of either.
"""

import json
import multiprocessing
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from socket import create_server
from time import perf_counter

import numpy as np
import pandas as pd
import psutil
import uvicorn
from million import small_model

import sklearn_spt
from sklearn_spt.datasets import make_short_texts

sys.path.append(str(Path(__file__).parents[1]))
import server


def serve(listener, n_forks):
    """Load the model, and answer in this process or in forked ones."""
    app = server.application()
    app.state.clf.predict(["hello"] * 50)  # starts threads, which do not exist after a fork
    if n_forks and all(os.fork() for _ in range(n_forks)):
        return os.wait()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


def ask(port, content, path="/"):
    """Return labels and probabilities, and when the request began and ended."""
    start, connection = perf_counter(), HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, json.dumps(content))
        found = json.loads(connection.getresponse().read())
        answer = [found["labels"], found["probabilities"]]
    except (OSError, HTTPException, ValueError, KeyError):
        answer = [np.inf]
    connection.close()
    return answer, start, perf_counter()


def row(kind, requests, rights, new=None):
    """Start a server, send requests, and return what is measured."""
    with create_server(("127.0.0.1", 0), backlog=128) as listener:
        how, port = (listener, 2 * (kind == "two forks")), listener.getsockname()[1]
        process = multiprocessing.get_context("spawn").Process(target=serve, args=how)
        process.start()
        ask(port, requests[0])  # waits until the model is there
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
    numbers, found, renewed, stop = count(), [], [np.inf], perf_counter() + 30

    def megabytes():  # what processes share counts once
        return sum(member.memory_full_info().pss for member in family) / 2**20

    def client(_):
        while (i := next(numbers)) < 5000 and perf_counter() < stop:
            if new is not None and i == 100:
                sklearn_spt.save(new, os.environ["MODEL"], overwrite=True)
                renewed.append(ask(port, None, "/reload")[2])
            k = i % len(requests)
            answer, start, end = ask(port, requests[k])
            fitting = rights[:1] if new is None else rights[start > renewed[-1] :]
            off = min(np.abs(np.subtract(answer, right[k])).max() for right in fitting)
            found.append((end - start, len(requests[k]), off))

    before, start = megabytes(), perf_counter()
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(client, range(32)))
    seconds, after = perf_counter() - start, megabytes()
    for member in family:
        member.terminate()
    process.join()
    times, sizes, off = np.transpose(found)
    lost = np.isinf(off)
    counts = len(off), np.sum((off > 1e-6) & ~lost), np.sum(lost), off.max(), len(off) / seconds
    waited = 1000 * np.quantile(times, (0.5, 0.99))
    return *counts, sizes.sum() / seconds, *waited, before, after


if __name__ == "__main__":
    texts = make_short_texts(5000, random_state=2).data.tolist()
    requests = [texts[50 * i : 50 * i + 1 + i % 50] for i in range(100)]
    with tempfile.TemporaryDirectory() as folder:
        models = [sklearn_spt.load(place) for place in sys.argv[1:3]]
        models = models or [small_model(f"{folder}/{seed}", seed) for seed in (0, 1)]
        rights = [[[*server.labels(clf, part).values()] for part in requests] for clf in models]
        os.environ["MODEL"] = f"{folder}/model"
        sklearn_spt.save(models[0], f"{folder}/model")
        rows = {kind: row(kind, requests, rights) for kind in ("one process", "two forks")}
        rows["a new model"] = row("a new model", requests, rights, models[1])
        names = "requests|wrong|lost|difference|requests/s|texts/s|p50 ms|p99 ms|MB before|after"
        table = pd.DataFrame(rows, index=names.split("|")).T
        print(table.to_string(float_format="{:,.5g}".format))
