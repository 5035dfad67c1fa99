"""Files that are downloaded: from a local server, once, verified."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
from pathlib import Path

import pytest

from sklearn_spt.datasets import _illness, _remote, fetch_illness

CONTENT = b"cancer\t0\tthe cancer sign of the zodiac\nparkinson\t2\tdad was told it is parkinson\n"


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
        remote = _remote.RemoteFile(
            "Illness data set",
            f"http://127.0.0.1:{server.server_port}/data.txt",
            hashlib.sha256(CONTENT).hexdigest(),
            _illness.ILLNESS.own,
            _illness.ILLNESS.cached,
        )
        monkeypatch.setattr(_illness, "ILLNESS", remote)
        yield server
        server.shutdown()
        thread.join()


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


OWN = Path("illness", "data.txt")
CACHED = Path("sklearn_spt_downloads", "illness-171c2947.txt")


def test_fetch_downloads_once(tmp_path, server):
    server.answers = [(200, CONTENT)]
    first = fetch_illness(data_home=tmp_path)
    again = fetch_illness(data_home=tmp_path, download_if_missing=False)
    assert server.n_requests == 1
    assert tree(tmp_path) == [str(CACHED)]
    assert first.filename == again.filename == str(tmp_path / CACHED)
    assert first.target.tolist() == [0, 1]


@pytest.fixture(params=[OWN, CACHED], ids=["own", "cached"])
def at_hand(tmp_path, request):
    """A place where a file is looked for."""
    path = tmp_path / request.param
    path.parent.mkdir()
    return path


def test_a_file_at_hand_is_used_and_nothing_is_written(tmp_path, monkeypatch, server, at_hand):
    at_hand.write_bytes(CONTENT)
    monkeypatch.setenv("SKLEARN_SPT_DATA", str(tmp_path))

    def refuse(*args, **kwargs):
        raise PermissionError("read-only file system")

    # a read-only data home, also where the tests run as a user who may write everywhere
    for name in ("mkdir", "makedirs", "replace", "rename"):
        monkeypatch.setattr(os, name, refuse)
    assert fetch_illness().filename == str(at_hand)
    assert tree(tmp_path) == [str(at_hand.relative_to(tmp_path))]
    assert server.n_requests == 0


def test_a_damaged_file_is_named_and_kept(tmp_path, server, at_hand):
    at_hand.write_bytes(CONTENT[:-1])
    with pytest.raises(OSError, match=r"is damaged.*Delete it") as error:
        fetch_illness(data_home=tmp_path)
    digests = [hashlib.sha256(content).hexdigest() for content in (CONTENT[:-1], CONTENT)]
    assert all(part in str(error.value) for part in (str(at_hand), *digests))
    assert at_hand.read_bytes() == CONTENT[:-1]
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
    assert dataset.target.tolist() == [0, 1]
    assert tree(tmp_path) == [str(CACHED)]


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
    for part in ("could not be downloaded", str(tmp_path / OWN), "make_short_texts"):
        assert part in str(error.value)
    assert tree(tmp_path) == []
    assert server.n_requests == n_requests


def test_a_data_home_that_cannot_be_written_to(tmp_path, monkeypatch, server):
    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    server.answers = [(200, CONTENT)]
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match=r"cannot be saved as .* Choose a folder"):
        fetch_illness(data_home=tmp_path)
    assert tree(tmp_path) == []  # no part of it stays behind


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
