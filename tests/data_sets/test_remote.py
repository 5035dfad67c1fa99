"""Files that are downloaded: from a local server, once, verified."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sklearn_spt.datasets import _illness, _remote, fetch_illness

# Invented rows in the format of the Illness file; a TAB and odd characters inside the last text.
ROWS = [
    ("cancer", 0, "the cancer sign of the zodiac"),
    ("diabetes", 1, "new diabetes study is out"),
    ("parkinson", 2, "dad was told it is parkinson"),
    ("alzheimer", 3, "i live with it \u2028 since\tmay \U0001f64f"),
]
CONTENT = "".join(f"{d}\t{label}\t{text}\n" for d, label, text in ROWS).encode()


class Server(http.server.ThreadingHTTPServer):
    """Answers each request with the next of `answers`: (status, body)."""

    def __init__(self):
        self.answers = []
        self.n_requests = 0
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.n_requests += 1
        status, body = self.server.answers.pop(0)
        self.send_response(status)
        # a body shorter than announced is a connection that broke off
        self.send_header("Content-Length", str(max(len(body), len(CONTENT))))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    """A server on this machine that stands for the one with the Illness file."""
    monkeypatch.setattr(_remote, "_DELAY", 0.0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        use_remote(monkeypatch, f"http://127.0.0.1:{server.server_port}/data.txt")
        yield server
        server.shutdown()
        thread.join()


def use_remote(monkeypatch, url):
    digest = hashlib.sha256(CONTENT).hexdigest()
    remote = _remote.RemoteFile(
        "Illness data set", url, digest, _illness.ILLNESS.own, _illness.ILLNESS.cached
    )
    monkeypatch.setattr(_illness, "ILLNESS", remote)


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


CACHED = str(Path("sklearn_spt_downloads", "illness-171c2947.txt"))


def test_fetch_downloads_once_and_returns_a_bunch(tmp_path, server):
    server.answers = [(200, CONTENT)]
    first = fetch_illness(data_home=tmp_path)
    again = fetch_illness(data_home=tmp_path, download_if_missing=False)
    assert server.n_requests == 1
    assert tree(tmp_path) == [CACHED]
    assert first.filename == again.filename == str(tmp_path / CACHED)
    assert first.sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert first.data.tolist() == [text for _, _, text in ROWS]
    assert first.data.dtype == first.domain.dtype == object
    assert first.domain.tolist() == ["cancer", "diabetes", "parkinson", "alzheimer"]
    assert first.target.tolist() == [0, 0, 1, 1]
    assert first.target.dtype == np.int64
    assert first.target_names == ["negative", "positive"]
    assert "MIT" in first.DESCR
    assert set(first) == {
        "data", "target", "target_names", "domain", "DESCR", "filename", "sha256"
    }  # fmt: skip


def test_fetch_options(tmp_path, server):
    server.answers = [(200, CONTENT)]
    four = fetch_illness(data_home=tmp_path, task="four_class")
    assert four.target.tolist() == [0, 1, 2, 3]
    assert len(four.target_names) == 4
    X, y = fetch_illness(data_home=tmp_path, return_X_y=True)
    assert X.tolist() == four.data.tolist()
    assert y.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("place", [Path("illness", "data.txt"), Path(CACHED)])
def test_a_file_at_hand_is_used_and_nothing_is_written(tmp_path, monkeypatch, server, place):
    (tmp_path / place).parent.mkdir()
    (tmp_path / place).write_bytes(CONTENT)
    monkeypatch.setenv("SKLEARN_SPT_DATA", str(tmp_path))

    def refuse(*args, **kwargs):
        raise PermissionError("read-only file system")

    # a read-only data home, also where the tests run as a user who may write everywhere
    for name in ("mkdir", "makedirs", "replace", "rename"):
        monkeypatch.setattr(os, name, refuse)
    (tmp_path / place).chmod(0o444)
    (tmp_path / place).parent.chmod(0o555)
    tmp_path.chmod(0o555)
    try:
        assert fetch_illness().filename == str(tmp_path / place)
        assert tree(tmp_path) == [str(place)]
    finally:
        tmp_path.chmod(0o755)
        (tmp_path / place).parent.chmod(0o755)
    assert server.n_requests == 0


@pytest.mark.parametrize("place", [Path("illness", "data.txt"), Path(CACHED)])
def test_a_damaged_file_is_named_and_kept(tmp_path, server, place):
    (tmp_path / place).parent.mkdir()
    (tmp_path / place).write_bytes(CONTENT[:-1])
    with pytest.raises(OSError, match="is damaged") as error:
        fetch_illness(data_home=tmp_path)
    message = str(error.value)
    assert str(tmp_path / place) in message
    assert hashlib.sha256(CONTENT[:-1]).hexdigest() in message
    assert hashlib.sha256(CONTENT).hexdigest() in message
    assert "Delete it" in message
    assert tree(tmp_path) == [str(place)]
    assert server.n_requests == 0


def test_missing_and_not_to_be_downloaded(tmp_path, server):
    with pytest.raises(OSError, match="download_if_missing is False") as error:
        fetch_illness(data_home=tmp_path / "none", download_if_missing=False)
    assert str(tmp_path / "none" / "illness" / "data.txt") in str(error.value)
    assert tree(tmp_path) == []
    assert not (tmp_path / "none").exists()
    assert server.n_requests == 0


@pytest.mark.parametrize(
    "trouble",
    [(503, b"busy"), (200, CONTENT[:20]), (200, b"x" * len(CONTENT)), (429, b"slow down")],
    ids=["server error", "broken off", "wrong content", "too many requests"],
)
def test_a_failed_download_is_tried_again(tmp_path, server, trouble):
    server.answers = [trouble, trouble, (200, CONTENT)]
    with pytest.warns(UserWarning, match="trying again") as record:
        dataset = fetch_illness(data_home=tmp_path)
    assert len(record) == 2
    assert record[0].filename == __file__
    assert dataset.target.tolist() == [0, 0, 1, 1]
    assert tree(tmp_path) == [CACHED]


@pytest.mark.filterwarnings("ignore:Downloading")
@pytest.mark.parametrize(
    ("answer", "n_requests", "match"),
    [
        ((200, b"x" * len(CONTENT)), 4, "SHA256 checksum"),
        ((200, CONTENT[:-4]), 4, "IncompleteRead"),
        ((404, b"gone"), 1, "404"),
    ],
    ids=["wrong content", "broken off", "not there"],
)
def test_a_download_that_fails_leaves_nothing(tmp_path, server, answer, n_requests, match):
    server.answers = [answer] * 4
    with pytest.raises(OSError, match=match) as error:
        fetch_illness(data_home=tmp_path)
    message = str(error.value)
    assert "could not be downloaded" in message
    assert str(tmp_path / "illness" / "data.txt") in message
    assert "make_short_texts" in message
    assert tree(tmp_path) == []
    assert server.n_requests == n_requests


def test_a_data_home_that_cannot_be_written_to(tmp_path, monkeypatch):
    source = tmp_path / "source.txt"
    source.write_bytes(CONTENT)
    use_remote(monkeypatch, source.as_uri())

    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match=r"cannot be saved as .* Choose a folder"):
        fetch_illness(data_home=tmp_path / "home")
    assert tree(tmp_path) == ["source.txt"]  # no part of it stays behind


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"task": "3_class"}, ValueError, "task must be one of"),
        ({"return_X_y": 1}, TypeError, "return_X_y"),
        ({"download_if_missing": "no"}, TypeError, "download_if_missing"),
    ],
)
def test_fetch_rejects_bad_parameters(tmp_path, options, error, match):
    with pytest.raises(error, match=match):
        fetch_illness(data_home=tmp_path, **options)


@pytest.mark.skipif(
    not Path(os.environ.get("SKLEARN_SPT_DATA", "-"), "illness", "data.txt").is_file(),
    reason="the Illness file is not here: SKLEARN_SPT_DATA names no folder that has it",
)
def test_the_real_illness_file():
    dataset = fetch_illness(download_if_missing=False)
    assert len(dataset.data) == len(dataset.target) == len(dataset.domain) == 22660
    assert int(dataset.target.sum()) == 3940
    assert Counter(dataset.domain) == {
        "alzheimer": 4023, "parkinson": 6216, "cancer": 6006, "diabetes": 6415
    }  # fmt: skip
    assert all(type(text) is str and text for text in dataset.data)
    four = fetch_illness(download_if_missing=False, task="four_class")
    assert np.bincount(four.target).tolist() == [1416, 17304, 3135, 805]
    assert np.array_equal(four.target >= 2, dataset.target == 1)


@pytest.mark.parametrize("before", ["answer", "content"])
def test_a_server_that_falls_silent_is_left(tmp_path, server, monkeypatch, before):
    monkeypatch.setattr(_remote, "_TIME_LIMIT", 0.5)
    released = threading.Event()

    def silent(handler):
        handler.server.n_requests += 1
        if before == "content":
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(CONTENT)))
            handler.end_headers()
            handler.wfile.write(CONTENT[:9])
        released.wait(60)

    monkeypatch.setattr(Handler, "do_GET", silent)
    try:
        with pytest.raises(OSError, match=r"did not answer within 0 seconds.*nothing was saved"):
            fetch_illness(data_home=tmp_path)
    finally:
        released.set()
    assert server.n_requests == 1
    assert tree(tmp_path) == []


def test_a_server_that_sends_too_much_is_left(tmp_path, server, monkeypatch):
    monkeypatch.setattr(_remote, "_MOST_BYTES", 3 * len(CONTENT))
    server.answers = [(200, CONTENT * 4)]
    with pytest.raises(OSError, match=rf"more than {3 * len(CONTENT)} bytes arrived"):
        fetch_illness(data_home=tmp_path)
    assert server.n_requests == 1
    assert tree(tmp_path) == []
