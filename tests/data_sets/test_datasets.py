"""Tests of the data sets: fetched from a local server, read from small files, and generated."""

from __future__ import annotations

import hashlib
import http.server
import os
import re
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline

import sklearn_spt.datasets as datasets_package
from sklearn_spt.datasets import (
    _grammar,
    _illness,
    _remote,
    clear_data_home,
    fetch_illness,
    get_data_home,
    load_tsv,
    make_short_texts,
)
from sklearn_spt.datasets._short_texts import _apportion

# Invented rows in the format of the Illness file; a TAB and odd characters inside the last text.
ROWS = [
    ("cancer", 0, "the cancer sign of the zodiac"),
    ("diabetes", 1, "new diabetes study is out"),
    ("parkinson", 2, "dad was told it is parkinson"),
    ("alzheimer", 3, "i live with it \u2028 since\tmay \U0001f64f"),
]
CONTENT = "".join(f"{d}\t{label}\t{text}\n" for d, label, text in ROWS).encode()


# -- data home --------------------------------------------------------------------------------
def test_data_home_is_found_in_the_documented_order(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "user"))
    monkeypatch.setenv("SKLEARN_SPT_DATA", str(tmp_path / "env"))
    assert get_data_home(tmp_path / "arg") == str(tmp_path / "arg")
    assert get_data_home("~/other") == str(tmp_path / "user" / "other")
    assert get_data_home() == str(tmp_path / "env")
    monkeypatch.delenv("SKLEARN_SPT_DATA")
    assert get_data_home() == str(tmp_path / "user" / "sklearn_spt_data")
    assert all((tmp_path / name).is_dir() for name in ("arg", "env", "user/sklearn_spt_data"))
    with pytest.raises(TypeError, match="data_home must be a path"):
        get_data_home(3)


def test_clear_data_home_deletes_downloads_and_nothing_else(tmp_path):
    home = tmp_path / "home"
    downloads = home / "sklearn_spt_downloads"
    downloads.mkdir(parents=True)
    (downloads / "x.txt").write_text("x")
    mine = home / "illness" / "data.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    clear_data_home(home)
    assert sorted(path.name for path in home.rglob("*")) == ["data.txt", "illness"]
    mine.unlink()
    mine.parent.rmdir()
    clear_data_home(str(home))
    assert not home.exists()
    clear_data_home(home)  # nothing there: nothing to do
    assert not home.exists()


# -- fetching ---------------------------------------------------------------------------------
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
        dataset = fetch_illness(data_home=tmp_path, n_retries=2, delay=0.0)
    assert len(record) == 2
    assert record[0].filename == __file__
    assert dataset.target.tolist() == [0, 0, 1, 1]
    assert tree(tmp_path) == [CACHED]


@pytest.mark.parametrize(
    ("answers", "n_retries", "n_requests", "match"),
    [
        ([(200, b"x" * len(CONTENT))], 0, 1, "SHA256 checksum"),
        ([(200, CONTENT[:-4])], 0, 1, "IncompleteRead"),
        ([(404, b"gone")], 3, 1, "404"),
    ],
    ids=["wrong content", "broken off", "not there"],
)
def test_a_download_that_fails_leaves_nothing(
    tmp_path, server, answers, n_retries, n_requests, match
):
    server.answers = answers
    with pytest.raises(OSError, match=match) as error:
        fetch_illness(data_home=tmp_path, n_retries=n_retries, delay=0.0)
    message = str(error.value)
    assert "could not be downloaded" in message
    assert str(tmp_path / "illness" / "data.txt") in message
    assert "make_short_texts" in message
    assert tree(tmp_path) == []
    assert server.n_requests == n_requests


def test_offline(tmp_path, monkeypatch):
    use_remote(monkeypatch, (tmp_path / "nowhere").as_uri())
    with (
        pytest.warns(UserWarning, match="trying again"),
        pytest.raises(OSError, match="Without a network"),
    ):
        fetch_illness(data_home=tmp_path, n_retries=1, delay=0.0)
    assert tree(tmp_path) == []


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
        ({"n_retries": -1}, ValueError, "n_retries"),
        ({"delay": -1.0}, ValueError, "delay"),
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


# -- load_tsv ---------------------------------------------------------------------------------
@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "posts.tsv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_load_tsv(write):
    path = write(
        "0001\t3\tflu\tin bed with the flu\n"
        '0002\t1\theart attack\tso "funny", almost a \'heart attack\n'
        "0003\t\tflu\tunlabelled\twith a TAB\t\n"
        "\n"
        "0004\t-1\tflu\t \u00e9t\u00e9 \u2028 and \x85 more \U0001f912 \n"
        "0005\t 3 \t\t\n"
    )
    dataset = load_tsv(path)
    assert dataset.data.tolist() == [
        "in bed with the flu",
        'so "funny", almost a \'heart attack',
        "unlabelled\twith a TAB\t",
        " \u00e9t\u00e9 \u2028 and \x85 more \U0001f912 ",
        "",
    ]
    assert dataset.target.tolist() == [1, 0, -1, -1, 1]
    assert dataset.target.dtype == np.int64
    assert dataset.keyword.tolist() == ["flu", "heart attack", "flu", "flu", ""]
    assert dataset.ids.tolist() == ["0001", "0002", "0003", "0004", "0005"]
    assert dataset.data.dtype == dataset.keyword.dtype == dataset.ids.dtype == object
    assert dataset.target_names == ["negative", "positive"]
    assert dataset.filename == str(path)
    X, y = load_tsv(str(path), return_X_y=True)
    assert X.tolist() == dataset.data.tolist()
    assert y.tolist() == dataset.target.tolist()


def test_load_tsv_labels_of_ones_own(write):
    path = write("1\t0\tk\ta\n2\t1\tk\tb\n3\t2\tk\tc\n4\t3\tk\td\n")
    y = load_tsv(path, positive=(2, 3), negative=[0, "1"]).target
    assert y.tolist() == [0, 0, 1, 1]
    path = write("1\tyes\tk\ta\n2\t-1\tk\tb\n3\t\tk\tc\n")
    assert load_tsv(path, positive="yes", negative=-1).target.tolist() == [1, 0, -1]


def test_load_tsv_line_ends_byte_order_mark_and_encodings(write):
    expected = ["\u00e9t\u00e9", "two"]
    text = "1\t3\tk\t\u00e9t\u00e9\r\n2\t1\tk\ttwo"
    for encoding in ("utf-8", "utf-8-sig", "latin-1", "utf-16"):
        path = write(text.encode(encoding))
        dataset = load_tsv(path, encoding="utf-8" if "utf-8" in encoding else encoding)
        assert dataset.data.tolist() == expected
        assert dataset.ids.tolist() == ["1", "2"]


@settings(deadline=None, max_examples=50)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["1", "3", "", "-1"]),
            st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"])),
            st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_load_tsv_gives_back_what_was_written(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("tsv") / "posts.tsv"
    lines = [f"{number}\t" + "\t".join(row) for number, row in enumerate(rows)]
    path.write_bytes("\n".join(lines).encode())
    dataset = load_tsv(path)
    assert dataset.data.tolist() == [text for _, _, text in rows]
    assert dataset.keyword.tolist() == [keyword for _, keyword, _ in rows]
    codes = {"1": 0, "3": 1, "": -1, "-1": -1}
    assert dataset.target.tolist() == [codes[label] for label, _, _ in rows]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("1\t3\tk\ta\n2\t1\tb\n", r"line 2: 3 column\(s\) instead of 4"),
        ("1\t3\tk\ta\n\n2\t7\tk\tb\n", r"line 3: unknown label '7'. Labels are -1, 1, 3 or"),
        (b"1\t3\tk\ta\n2\t1\tk\t\xe9t\n", "line 2: byte 0xe9 is not utf-8"),
        ("\n\n", "holds no document"),
        ("", "holds no document"),
    ],
)
def test_load_tsv_names_the_line_at_fault(write, content, match):
    path = write(content)
    with pytest.raises(ValueError, match=match) as error:
        load_tsv(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"positive": (1, 3)}, ValueError, "label '1' is in both"),
        ({"positive": ()}, ValueError, "positive must hold"),
        ({"negative": ""}, ValueError, "negative must hold"),
        ({"return_X_y": None}, TypeError, "return_X_y"),
    ],
)
def test_load_tsv_rejects_bad_parameters(write, options, error, match):
    with pytest.raises(error, match=match):
        load_tsv(write("1\t3\tk\ta\n"), **options)


def test_load_tsv_without_a_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_tsv(tmp_path / "none.tsv")


# -- make_short_texts -------------------------------------------------------------------------
def test_bunch():
    posts = make_short_texts(50, random_state=0)
    assert set(posts) == {
        "data", "target", "target_clean", "target_names", "keyword", "ambiguous"
    }  # fmt: skip
    assert posts.data.shape == posts.target.shape == posts.keyword.shape == (50,)
    assert posts.data.dtype == posts.keyword.dtype == object
    assert posts.target.dtype == posts.target_clean.dtype == np.int64
    assert all(type(text) is str and text == text.strip() for text in posts.data)
    assert posts.target_names == ["no report", "report"]
    X, y = make_short_texts(50, random_state=0, return_X_y=True)
    assert X.tolist() == posts.data.tolist()
    assert y.tolist() == posts.target.tolist()


@settings(deadline=None, max_examples=40)
@given(
    n_samples=st.integers(1, 60),
    n_classes=st.integers(2, 4),
    flip_y=st.floats(0, 1),
    ambiguity=st.floats(0, 1),
    noise=st.floats(0, 1),
    seed=st.integers(0, 2**31),
)
def test_every_combination_of_parameters(n_samples, n_classes, flip_y, ambiguity, noise, seed):
    posts = make_short_texts(
        n_samples,
        n_classes=n_classes,
        flip_y=flip_y,
        ambiguity=ambiguity,
        noise=noise,
        random_state=seed,
    )
    assert len(posts.data) == n_samples
    assert len(posts.target_names) == n_classes
    sizes = np.bincount(posts.target_clean, minlength=n_classes)
    assert sizes.max() - sizes.min() <= 1
    assert set(posts.target) <= set(range(n_classes))
    assert abs(posts.ambiguous.sum() - ambiguity * n_samples) <= n_classes / 2 + 1e-6
    assert not any("{" in text or "\n" in text or "\t" in text for text in posts.data)


def test_reproducible_and_without_the_global_random_state():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (that one is meant)
    one = make_short_texts(100, n_labeled=30, random_state=7)
    same = make_short_texts(100, n_labeled=30, random_state=np.random.RandomState(7))
    other = make_short_texts(100, n_labeled=30, random_state=8)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    for key in ("data", "target", "target_clean", "target_partial", "keyword", "ambiguous"):
        assert one[key].tolist() == same[key].tolist()
    assert one.data.tolist() != other.data.tolist()


def test_independent_of_the_hash_seed_and_of_deep_learning_libraries():
    # `sklearn_spt` itself loads torch; here it is an empty package around `datasets`
    package = Path(datasets_package.__file__).parents[1]
    program = (
        "import sys, types\n"
        "sys.modules['sklearn_spt'] = types.ModuleType('sklearn_spt')\n"
        f"sys.modules['sklearn_spt'].__path__ = [{str(package)!r}]\n"
        "from sklearn_spt.datasets import make_short_texts\n"
        "b = make_short_texts(40, n_classes=4, n_labeled=20, random_state=0)\n"
        "print(ascii(b.data.tolist()), b.target_partial.tolist())\n"
        "print({'torch', 'skorch', 'transformers', 'tokenizers'} & set(sys.modules))\n"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    there = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    here = make_short_texts(40, n_classes=4, n_labeled=20, random_state=0)
    assert there.splitlines() == [
        f"{here.data.tolist()!a} {here.target_partial.tolist()}",
        "set()",
    ]


def test_golden():
    # Whoever changes the grammar or the order of the draws changes everybody's numbers.
    texts = make_short_texts(300, n_classes=4, random_state=0).data
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == "d9def5fd41ac850a"


def test_errors_and_withheld_labels_do_not_change_the_posts():
    plain = make_short_texts(80, flip_y=0.0, random_state=3)
    for options in ({"flip_y": 0.5}, {"n_labeled": 10}, {"n_labeled": 0.5, "flip_y": 0.1}):
        posts = make_short_texts(80, **options, random_state=3)
        assert posts.data.tolist() == plain.data.tolist()
        assert posts.target_clean.tolist() == plain.target.tolist()


@pytest.mark.parametrize(
    ("n_classes", "weights", "sizes"),
    [
        (2, None, [500, 500]),
        (2, [0.85], [850, 150]),
        (2, [0.85, 0.15], [850, 150]),
        (3, np.array([0.5, 0.3]), [500, 300, 200]),
        (3, None, [334, 333, 333]),
        (4, (1, 0, 0, 0), [1000, 0, 0, 0]),
    ],
)
def test_weights_are_exact(n_classes, weights, sizes):
    posts = make_short_texts(1000, n_classes=n_classes, weights=weights, random_state=0)
    assert np.bincount(posts.target_clean, minlength=n_classes).tolist() == sizes


@settings(deadline=None, max_examples=100)
@given(shares=st.lists(st.floats(0.01, 1), min_size=1, max_size=5), total=st.integers(0, 10_000))
def test_apportion(shares, total):
    shares = np.array(shares) / np.sum(shares)
    counts = _apportion(shares, total)
    assert counts.sum() == total
    assert (np.abs(counts - shares * total) < 1 + 1e-6).all()


def test_label_errors_are_as_many_as_asked_for():
    for flip_y, expected in ((0.0, 0.0), (0.02, 0.01), (0.5, 0.25), (1.0, 0.5)):
        posts = make_short_texts(3000, flip_y=flip_y, random_state=0)
        wrong = np.mean(posts.target != posts.target_clean)
        # half of the flipped ones are given the class that they had
        assert wrong == pytest.approx(expected, abs=4 * np.sqrt(expected / 3000))


@pytest.mark.parametrize(("n_labeled", "number"), [(40, 40), (0.1, 50), (500, 500), (1.0, 500)])
def test_partial_target(n_labeled, number):
    posts = make_short_texts(
        500, n_classes=3, weights=[0.9, 0.08], n_labeled=n_labeled, random_state=0
    )
    labelled = posts.target_partial != -1
    assert labelled.sum() == number
    assert posts.target_partial[labelled].tolist() == posts.target[labelled].tolist()
    assert (posts.target >= 0).all()
    kept = np.bincount(posts.target_partial[labelled], minlength=3)
    assert (kept >= 1).all()
    exact = np.bincount(posts.target) * number / 500
    assert (np.abs(kept - exact) <= 1).all()
    X, y = make_short_texts(
        500,
        n_classes=3,
        weights=[0.9, 0.08],
        n_labeled=n_labeled,
        random_state=0,
        return_X_y=True,
    )
    assert y.tolist() == posts.target_partial.tolist()
    assert X.tolist() == posts.data.tolist()


def test_one_label_of_each_class_at_least():
    for seed in range(5):
        posts = make_short_texts(400, weights=[0.97], n_labeled=2, random_state=seed)
        assert sorted(posts.target_partial[posts.target_partial >= 0]) == [0, 1]


def test_keywords_of_ones_own():
    keywords = ["a {cold}", "sunburn"]
    posts = make_short_texts(200, keywords=keywords, noise=0.0, random_state=0)
    assert set(posts.keyword) == set(keywords)
    assert all(word in text for word, text in zip(posts.keyword, posts.data, strict=True))
    tagged = make_short_texts(400, keywords=["a heart attack"], noise=1.0, random_state=0)
    assert any("#heartattack" in text.lower() for text in tagged.data)


def test_noise():
    marks = {
        "hashtag": r"#\w+",
        "url": "https://example.com/[0-9a-f]+",
        "mention": r"(?i)@user_\d{3} ",
        "emoji": "[\U0001f300-\U0001faff]",
    }
    clean = make_short_texts(500, noise=0.0, random_state=0)
    noisy = make_short_texts(2000, noise=0.25, random_state=0)
    for pattern in marks.values():
        assert not any(re.search(pattern, text) for text in clean.data)
        has = np.array([bool(re.search(pattern, text)) for text in noisy.data])
        for label in (0, 1):  # and it says nothing about the class
            share = has[noisy.target_clean == label].mean()
            assert share == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 1000))
    assert all(text == text.lower() for text in clean.data)
    known = {
        word
        for text in make_short_texts(5000, noise=0.0, random_state=1).data
        for word in re.findall("[a-z]+", text)
    }
    plain = re.compile(r"(#\w+|https?://\S+|@\w+)")
    unknown = [
        bool(set(re.findall("[a-z]+", plain.sub("", text.lower()))) - known) for text in noisy.data
    ]
    assert 0.15 < np.mean(unknown) < 0.3  # typing errors; some slips give another word


# -- what a reader can know, and what a bag of words cannot ------------------------------------
FIRST = {  # what stands in the places of a sentence, by who it is
    "self": r"(?:i|me|yours truly|this tired student|the person typing this|this mom right here)",
    "other": r"(?:my (?:(?:little|best|lab) )?\w+|our neighbor|grandma|dad)",
}
HAS_FIRST = [  # {0} is the one who has the flu
    r"{0} got the flu and .* did not",
    r"did not get the flu but {0} did",
    r"{0} had the flu while",
    r"only watched while {0} had the flu",
    r"{0} could not leave the bed",
    r"{0} caught the flu",
    r"the flu for {0}(?:,|$)",
    r"it was {0} who got the flu, not",
    r"got the flu, it was {0}(?:,|$)",
    r"the flu hit {0} hard",
    r"and hit {0} hard",
    r"{0} called .* from bed because",
    r"drove {0} to the clinic",
    r"{0} asked .* to bring pills",
    r"brought soup to {0},",
    r"told {0} that the test",
    r"laughed at {0} for having",
]
ALARM = [  # it is so
    r"{0} thought it was just .* but it was the flu",
    r"turns out {0} did have the flu",
    r"first test negative, then positive for {0}(?:,|$)",
    r"{0} stayed home because of the flu",
    r"{0} had the flu and .* was only a dream",
    r"and {0} got treated for the flu",
    r"that keeps {0} in bed, it is the flu",
    r"{0} said it was a joke but it was the flu",
]


def read(text):
    """Read a post about the flu, in order: the name of its kind, or None for no report."""
    for who, pattern in FIRST.items():
        if any(re.search(r"\b" + rule.format(pattern), text) for rule in HAS_FIRST + ALARM):
            return who
    return None


@pytest.mark.parametrize(
    ("n_classes", "names"),
    [(2, {None: 0, "self": 1, "other": 1}), (3, {None: 0, "other": 1, "self": 2})],
)
def test_a_rule_that_reads_in_order_makes_no_error(n_classes, names):
    posts = make_short_texts(
        1500,
        n_classes=n_classes,
        ambiguity=1.0,
        noise=0.0,
        flip_y=0.0,
        keywords=["the flu"],
        random_state=0,
    )
    read_off = np.array([names[read(text)] for text in posts.data])
    wrong = posts.data[read_off != posts.target]
    assert wrong.tolist() == []
    assert posts.ambiguous.all()


def bag(text):
    return tuple(sorted(re.findall(r"\w+", text)))


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_same_words_occur_in_two_classes_equally_often(n_classes, monkeypatch):
    # so few words that bags come back
    monkeypatch.setattr(_grammar, "OPENERS", ("ok",))
    monkeypatch.setattr(_grammar, "CLOSERS", ("lol",))
    monkeypatch.setattr(_grammar, "SLOTS", {key: v[:1] for key, v in _grammar.SLOTS.items()})
    for people in ("SAME_CASE", "ANY_CASE"):
        few = {kind: names[:1] for kind, names in getattr(_grammar, people).items()}
        monkeypatch.setattr(_grammar, people, few)
    posts = make_short_texts(
        12_000,
        n_classes=n_classes,
        ambiguity=1.0,
        noise=0.0,
        flip_y=0.0,
        keywords=["the flu"],
        random_state=0,
    )
    counts = defaultdict(Counter)
    for text, label in zip(posts.data, posts.target, strict=True):
        counts[bag(text.removeprefix("ok ").removesuffix(", lol"))][label] += 1
    frequent = [count for count in counts.values() if count.total() >= 40]
    assert sum(count.total() for count in frequent) > 0.6 * len(posts.data)
    for count in frequent:
        assert len(count) == 2
        half = count.total() / 2
        # a fair coin: five standard deviations, as there are some hundred bags
        assert abs(max(count.values()) - half) < 5 * np.sqrt(half / 2)


def balanced_accuracy(posts, n_train, ngrams, **options):
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, ngrams), sublinear_tf=True, token_pattern=r"\b\w+\b"),
        LogisticRegression(C=30.0, max_iter=2000, **options),
    )
    model.fit(posts.data[:n_train], posts.target[:n_train])
    truth = posts.target_clean[n_train:]
    return balanced_accuracy_score(truth, model.predict(posts.data[n_train:]))


def test_single_words_are_not_enough():
    posts = make_short_texts(4000, ambiguity=1.0, flip_y=0.0, random_state=1)
    assert balanced_accuracy(posts, 2000, 1) < 0.6
    assert balanced_accuracy(posts, 2000, 3) > 0.9


def test_imbalance_does_not_help_single_words():
    posts = make_short_texts(4000, ambiguity=1.0, weights=[0.85], random_state=1)
    assert balanced_accuracy(posts, 2000, 1, class_weight="balanced") < 0.6


def test_ambiguity_sets_how_much_single_words_say():
    scores = [
        balanced_accuracy(make_short_texts(2000, ambiguity=share, random_state=1), 1000, 1)
        for share in (0.0, 0.5, 1.0)
    ]
    assert scores[0] > 0.95
    assert 0.65 < scores[1] < 0.85
    assert scores[2] < 0.6


def test_few_labels_leave_room_for_improvement():
    # 300 labels: far from chance, far from perfect
    posts = make_short_texts(1300, random_state=1)
    assert 0.6 < balanced_accuracy(posts, 300, 2) < 0.9


def test_posts_are_varied():
    posts = make_short_texts(2000, random_state=0)
    assert len(set(posts.data)) > 1950
    words = CountVectorizer().fit(posts.data).vocabulary_
    assert len(words) > 500
    lengths = [len(text.split()) for text in posts.data]
    assert min(lengths) >= 4
    assert max(lengths) <= 45


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_samples": 0}, ValueError, "n_samples"),
        ({"n_samples": 10.0}, TypeError, "n_samples"),
        ({"n_classes": 1}, ValueError, "n_classes"),
        ({"n_classes": 5}, ValueError, "n_classes must be 2, 3 or 4"),
        ({"flip_y": 1.1}, ValueError, "flip_y"),
        ({"ambiguity": -0.1}, ValueError, "ambiguity"),
        ({"noise": "high"}, TypeError, "noise"),
        ({"return_X_y": 1}, TypeError, "return_X_y"),
        ({"weights": [0.2, 0.3, 0.5]}, ValueError, "weights must hold one share"),
        ({"weights": [0.2, 0.3]}, ValueError, "add up to 1"),
        ({"weights": [-0.5, 1.5]}, ValueError, "lie in"),
        ({"weights": [0.7, 0.7], "n_classes": 3}, ValueError, "add up to 1"),
        ({"keywords": "flu"}, TypeError, "list of str"),
        ({"keywords": []}, ValueError, "keywords is empty"),
        ({"keywords": ["the\tflu"]}, ValueError, "single spaces"),
        ({"keywords": [3]}, ValueError, "keywords"),
        ({"n_labeled": 1}, ValueError, "at least one"),
        ({"n_labeled": 1001}, ValueError, "at most n_samples=1000"),
        ({"n_labeled": 0.0}, ValueError, "n_labeled"),
        ({"n_labeled": "all"}, TypeError, "n_labeled"),
        ({"random_state": "seed"}, ValueError, "seed"),
    ],
)
def test_make_short_texts_rejects_bad_parameters(options, error, match):
    with pytest.raises(error, match=match):
        make_short_texts(**options)
