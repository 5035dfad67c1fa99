"""Generated posts."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.pipeline import make_pipeline

import sklearn_spt.datasets as datasets_package
from sklearn_spt.datasets import _grammar, make_short_texts
from sklearn_spt.datasets._short_texts import _apportion


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


@pytest.mark.slow
def test_posts_of_the_quickstart_are_as_hard_as_real_tweets(minilm):
    """300 labels; the real scores are means over five seeds, from docs/records/rivals.jsonl.

    Single words say more here than in real tweets, because generated posts repeat them: TF-IDF has
    0.54 there, and stands behind frozen embeddings.
    """
    from sklearn_spt import BertClassifier, SentenceEmbedder

    kind = {"weights": [0.83], "ambiguity": 0.2, "flip_y": 0.08}
    posts = make_short_texts(300, random_state=10, **kind)
    test = make_short_texts(600, random_state=20, **kind)
    assert posts.target.mean() == pytest.approx(0.19, abs=0.03)  # of the tweets 17%

    def f1(predicted):
        return f1_score(test.target, predicted)

    embedder = SentenceEmbedder(minilm, n_threads=1)
    linear = LogisticRegression(class_weight="balanced", max_iter=2000)
    linear.fit(embedder.fit_transform(posts.data), posts.target)
    embeddings = f1(linear.predict(embedder.transform(test.data)))
    net = BertClassifier(minilm, n_threads=1, random_state=0).fit(posts.data, posts.target)
    one_net = f1(net.predict(test.data))
    ceiling = f1(test.target_clean)
    words = make_pipeline(TfidfVectorizer(), LogisticRegression(class_weight="balanced"))
    single_words = f1(words.fit(posts.data, posts.target).predict(test.data))

    assert embeddings == pytest.approx(0.586, abs=0.06)
    assert one_net == pytest.approx(0.662, abs=0.06)
    assert embeddings + 0.03 < one_net < ceiling - 0.1
    assert single_words < one_net + 0.05


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
