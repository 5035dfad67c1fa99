"""The hub: what is on disk needs no request, and a server that does not answer is left."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.text import _locations
from sklearn_spt.text._locations import encoder_folder

COMMITS = {"main": "1" * 40, "v1": "2" * 40}


class Hub(BaseHTTPRequestHandler):
    """Serves the files of a folder as the encoder owner/tiny, in two revisions."""

    def __init__(self, folder, requests, silent, *args):
        self.folder, self.requests, self.silent = folder, requests, silent
        super().__init__(*args)

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        self.requests.append(self.path)
        if self.silent in self.path:
            self.rfile.read(1)  # until the other side leaves
            return
        commit, body, status = COMMITS["main"], b"", 200
        if self.path.startswith("/api/models/owner/tiny"):
            revision = self.path.split("?")[0].split("/revision/")[1]
            if revision in COMMITS:
                files = [p for p in Path(self.folder).rglob("*") if p.is_file()]
                siblings = [
                    {"rfilename": str(p.relative_to(self.folder)), "size": p.stat().st_size}
                    for p in files
                ]
                info = {"id": "owner/tiny", "sha": COMMITS[revision], "siblings": siblings}
                body = json.dumps(info).encode()
            else:
                status = 404
        elif self.path.startswith("/owner/tiny/resolve/"):
            revision, _, file = self.path.removeprefix("/owner/tiny/resolve/").partition("/")
            commit = COMMITS.get(revision, revision)
            body = (Path(self.folder) / file).read_bytes()
        else:
            status = 404
        self.send_response(status)
        if status == 404:
            missing = "Revision" if "owner/tiny" in self.path else "Repo"
            self.send_header("X-Error-Code", f"{missing}NotFound")
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub(tiny_encoder, tmp_path, monkeypatch):
    """A hub on this machine with an empty cache; call it with a part of the paths to ignore."""
    servers, requests = [], []

    def start(silent="no such path"):
        answer = partial(Hub, tiny_encoder, requests, silent)
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), answer))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        use_endpoint(monkeypatch, servers[-1].server_address[1], tmp_path)
        return requests

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
    huggingface_hub.close_session()
    _locations._hub_snapshot.cache_clear()


def use_endpoint(monkeypatch, port, folder):
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "hub"))
    huggingface_hub.close_session()  # a new one takes the environment and the new mode
    _locations._hub_snapshot.cache_clear()


def refuse(*args, **kwargs):
    raise AssertionError("a request was made")


def test_an_encoder_is_downloaded_once_and_then_needs_no_request(hub, tiny_encoder, monkeypatch):
    requests = hub()
    folder = encoder_folder("owner/tiny")
    assert Path(folder).name == COMMITS["main"]
    for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        assert (Path(folder) / file).read_bytes() == (Path(tiny_encoder) / file).read_bytes()
    assert "config.json" in requests[-1]  # it comes last, and completes the encoder
    _locations._hub_snapshot.cache_clear()
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert encoder_folder("owner/tiny") == folder


def test_a_revision_is_pinned(hub):
    requests = hub()
    assert Path(encoder_folder("owner/tiny@v1")).name == COMMITS["v1"]
    assert "/revision/v1" in requests[0]
    assert Path(encoder_folder("owner/tiny")).name == COMMITS["main"]
    n = len(requests)
    assert Path(encoder_folder(f"owner/tiny@{COMMITS['v1']}")).name == COMMITS["v1"]
    assert len(requests) == n  # the commit is in the cache already
    with pytest.raises(ValueError, match="has no revision 'v9' of it"):
        encoder_folder("owner/tiny@v9")


@pytest.mark.parametrize("revision", ["", "../../other", "a b", "v1/../../x", "-x"])
def test_an_unusable_revision_is_refused(revision):
    with pytest.raises(ValueError, match="must name a branch, a tag or a commit"):
        encoder_folder(f"owner/tiny@{revision}")


def test_an_interrupted_download_goes_on(hub):
    requests = hub()
    folder = Path(encoder_folder("owner/tiny"))
    for missing in ("model.safetensors", "tokenizer.json"):
        (folder / missing).unlink()
        _locations._hub_snapshot.cache_clear()
        n = len(requests)
        assert encoder_folder("owner/tiny") == str(folder)
        assert (folder / missing).is_file()
        assert len(requests) > n


@pytest.mark.parametrize("silent", ["/api/models", "tokenizer.json"])
def test_a_hub_that_never_answers_is_left(hub, monkeypatch, silent):
    monkeypatch.setattr(_locations, "_TIME_LIMIT", 0.5)
    hub(silent)
    what = "the Hugging Face hub" if "api" in silent else silent
    with pytest.raises(ValueError, match=rf"{what}.*did not answer within") as error:
        encoder_folder("owner/tiny")
    assert len(str(error.value)) < 500


def test_a_server_that_only_accepts_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr(_locations, "_TIME_LIMIT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        use_endpoint(monkeypatch, server.getsockname()[1], tmp_path)
        clf = SelfPretrainingClassifier("owner/tiny")
        with pytest.raises(ValueError, match=r"the Hugging Face hub.*(did not answer|Timeout)"):
            clf.fit(["a", "b"], [0, 1])
    assert not hasattr(clf, "classes_")
    huggingface_hub.close_session()
    _locations._hub_snapshot.cache_clear()


@pytest.mark.parametrize("kind", ["net", "classifier"])
def test_a_download_is_announced_with_verbose_only(hub, capfd, kind, tiny_texts, tmp_path):
    hub()
    for verbose in (0, 1):
        shutil.rmtree(tmp_path / "hub", ignore_errors=True)
        _locations._hub_snapshot.cache_clear()
        if kind == "net":
            clf = BertClassifier("owner/tiny", max_epochs=0, verbose=verbose)
        else:
            net = BertClassifier("owner/tiny")
            clf = SelfPretrainingClassifier(net, max_iter=0, finetune_epochs=0, verbose=verbose)
            clf.set_params(alpha=0.0)
        clf.fit(tiny_texts[:4], [0, 1, 0, 1] if kind == "net" else [0, 1, -1, -1])
        shown = capfd.readouterr()
        assert shown.out == ""
        assert ("Fetching the encoder owner/tiny (main) from http" in shown.err) == bool(verbose)


def test_a_download_that_is_too_large_is_refused(hub, monkeypatch):
    requests = hub()
    monkeypatch.setattr(_locations, "_MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"its files on the Hugging Face hub have 0 GB"):
        encoder_folder("owner/tiny")
    assert len(requests) == 1


def test_an_incomplete_encoder_in_the_cache_is_used_where_the_hub_is_silent(hub, monkeypatch):
    hub()
    folder = Path(encoder_folder("owner/tiny"))
    os.unlink(folder / "tokenizer.json")
    _locations._hub_snapshot.cache_clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert encoder_folder("owner/tiny") == str(folder)


def test_a_sentence_encoder_needs_its_list_of_modules(hub, tmp_path, monkeypatch):
    hub()
    source = Path(encoder_folder("owner/tiny"))
    repository = tmp_path / "hub" / "models--sentence-transformers--tiny"
    folder = repository / "snapshots" / COMMITS["main"]
    shutil.copytree(source, folder)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMITS["main"])
    assert _locations._in_cache("sentence-transformers/tiny", "main") is None
    (folder / "modules.json").write_text("[]")
    assert _locations._in_cache("sentence-transformers/tiny", "main") == str(folder)
