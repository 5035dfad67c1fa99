"""Generated posts."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, balanced_accuracy_score, f1_score
from sklearn.pipeline import make_pipeline

from sklearn_spt.datasets import _grammar, make_short_texts


def test_bunch():
    posts = make_short_texts(50, random_state=0)
    for name in ("data", "keyword"):
        assert posts[name].shape == (50,)
        assert posts[name].dtype == object
    for name in ("target", "target_clean"):
        assert posts[name].shape == (50,)
        assert posts[name].dtype == np.int64
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
    shares = {"flip_y": flip_y, "ambiguity": ambiguity, "noise": noise}
    posts = make_short_texts(n_samples, n_classes=n_classes, **shares, random_state=seed)
    assert len(posts.data) == n_samples
    assert len(posts.target_names) == n_classes
    sizes = np.bincount(posts.target_clean, minlength=n_classes)
    assert sizes.max() - sizes.min() <= 1
    assert set(posts.target) <= set(range(n_classes))
    assert abs(posts.ambiguous.sum() - ambiguity * n_samples) <= n_classes / 2 + 1e-6
    assert not any(set("{(|)}\n\t;") & set(text) for text in posts.data)


def test_reproducible_and_without_the_global_random_state():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (that one is meant)
    one = make_short_texts(100, n_labeled=30, random_state=7)
    same = make_short_texts(100, n_labeled=30, random_state=np.random.RandomState(7))
    other = make_short_texts(100, n_labeled=30, random_state=8)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert all(np.array_equal(one[key], same[key]) for key in one)
    assert one.data.tolist() != other.data.tolist()


def test_golden():
    # Whoever changes the grammar or the order of the draws changes everybody's numbers. Python's
    # hashes differ between runs and must not matter either.
    posts = make_short_texts(300, n_classes=4, n_labeled=20, random_state=0)
    content = "\n".join([*posts.data, *map(str, posts.target_partial)])
    assert hashlib.sha256(content.encode()).hexdigest()[:16] == "813d945b617b7370"


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
        (3, np.array([0.5, 0.3]), [500, 300, 200]),
        (3, None, [334, 333, 333]),
        (4, (1, 0, 0, 0), [1000, 0, 0, 0]),
    ],
)
def test_weights_are_exact(n_classes, weights, sizes):
    posts = make_short_texts(1000, n_classes=n_classes, weights=weights, random_state=0)
    assert np.bincount(posts.target_clean, minlength=n_classes).tolist() == sizes


def test_label_errors_are_as_many_as_asked_for():
    for flip_y, expected in ((0.0, 0.0), (0.02, 0.01), (0.5, 0.25), (1.0, 0.5)):
        posts = make_short_texts(3000, flip_y=flip_y, random_state=0)
        wrong = np.mean(posts.target != posts.target_clean)
        # half of the flipped ones are given the class that they had
        assert wrong == pytest.approx(expected, abs=4 * np.sqrt(expected / 3000))


@pytest.mark.parametrize(("n_labeled", "number"), [(40, 40), (0.1, 50), (500, 500), (1.0, 500)])
def test_partial_target(n_labeled, number):
    options = {"n_classes": 3, "weights": [0.9, 0.08], "n_labeled": n_labeled, "random_state": 0}
    posts = make_short_texts(500, **options)
    labelled = posts.target_partial != -1
    assert labelled.sum() == number
    assert posts.target_partial[labelled].tolist() == posts.target[labelled].tolist()
    assert (posts.target >= 0).all()
    kept = np.bincount(posts.target_partial[labelled], minlength=3)
    assert (kept >= 1).all()
    assert (np.abs(kept - np.bincount(posts.target) * number / 500) <= 1).all()
    _, y = make_short_texts(500, **options, return_X_y=True)
    assert y.tolist() == posts.target_partial.tolist()


def test_one_label_of_each_class_at_least():
    for seed in range(5):
        posts = make_short_texts(400, weights=[0.97], n_labeled=2, random_state=seed)
        assert sorted(posts.target_partial[posts.target_partial >= 0]) == [0, 1]


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
    assert any("#heartattack" in text.lower() for text in noisy.data)
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


def test_every_sentence_names_the_keyword_once():
    for kind, sentences in _grammar.PLAIN.items():
        assert all(sentence.count("{kw}") == 1 for sentence in sentences)
        assert not any("{kw}" in tail for tail in _grammar.TAILS[kind])
        assert len(set(sentences)) == len(sentences) > 60
        assert len(set(_grammar.TAILS[kind])) == len(_grammar.TAILS[kind]) >= 20


# -- what a reader can know, and what a bag of words cannot ------------------------------------
FIRST = {  # what stands in the places of a sentence, by who it is
    "self": r"(?:i|me|yours truly|this tired student|the person typing this|this mom right here)",
    "other": r"(?:my (?:(?:little|best|lab) )?\w+|our neighbor|grandma|dad)",
}
HAS_FIRST = [  # {0} is the one who has the flu
    r"{0} (?:got|had|caught) the flu",
    r"{0} could not leave the bed",
    r"{0} (?:called .* from|asked .* to bring)",
    r"the flu but {0} did",
    r"the flu for {0}(?:,|$)",
    r"it was {0} who got the flu, not",
    r"got the flu, it was {0}(?:,|$)",
    r"(?:the flu|and) hit {0} hard",
    r"(?:drove|soup to|told|laughed at) {0}(?:,| to| that| for)",
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


def ambiguous_posts(n_samples, n_classes, monkeypatch):
    """Posts about the flu that must all be read in order."""
    monkeypatch.setattr(_grammar, "KEYWORDS", ("the flu",))
    options = {"ambiguity": 1.0, "noise": 0.0, "flip_y": 0.0, "random_state": 0}
    return make_short_texts(n_samples, n_classes=n_classes, **options)


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
def test_a_rule_that_reads_in_order_makes_no_error(n_classes, names, monkeypatch):
    posts = ambiguous_posts(1500, n_classes, monkeypatch)
    assert [names[read(text)] for text in posts.data] == posts.target.tolist()
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
    posts = ambiguous_posts(12_000, n_classes, monkeypatch)
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


@pytest.mark.parametrize(
    ("options", "n_train", "n_grams", "low", "high"),
    [
        ({"ambiguity": 0.0}, 1000, 1, 0.95, 1.0),
        ({"ambiguity": 0.5}, 1000, 1, 0.65, 0.85),
        ({"ambiguity": 1.0}, 2000, 1, 0.4, 0.6),
        ({"ambiguity": 1.0, "weights": [0.85]}, 2000, 1, 0.4, 0.6),
        ({"ambiguity": 1.0, "flip_y": 0.0}, 2000, 3, 0.9, 1.0),
        ({}, 300, 2, 0.6, 0.9),  # few labels leave room for improvement
    ],
)
def test_ambiguity_sets_how_much_single_words_say(options, n_train, n_grams, low, high):
    posts = make_short_texts(n_train + 1000, **options, random_state=1)
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, n_grams), sublinear_tf=True, token_pattern=r"\b\w+\b"),
        LogisticRegression(C=30.0, max_iter=2000, class_weight="balanced"),
    ).fit(posts.data[:n_train], posts.target[:n_train])
    predicted = model.predict(posts.data[n_train:])
    assert low < balanced_accuracy_score(posts.target_clean[n_train:], predicted) <= high


# -- as hard as real texts --------------------------------------------------------------------
# On the four real tasks below, with 300 labels and three seeds, TF-IDF has an F1 of 0.45 to 0.61,
# frozen embeddings 0.59 to 0.69, and one net 0.62 to 0.73. Single draws of 300 labels differ by as
# much as the methods do, so the distances are those of means.
REAL = ("illness:cancer", "illness:diabetes", "phm_tuning", "psytar:EF")


def linear_scores(A, y, A_test, y_test):
    """F1 and average precision of logistic regression."""
    model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(A, y)
    p = model.predict_proba(A_test)[:, 1]
    return np.array([f1_score(y_test, p > 0.5), average_precision_score(y_test, p)])


def words_and_meaning(X, y, X_test, y_test, checkpoint):
    """The scores of TF-IDF and of frozen embeddings."""
    from sklearn_spt import SentenceEmbedder

    found = []
    for model in (
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        SentenceEmbedder(checkpoint, n_threads=1),
    ):
        A, A_test = model.fit_transform(X), model.transform(X_test)
        found.append(linear_scores(A, y, A_test, y_test))
    return found


@pytest.fixture(scope="module")
def draws():
    """Four draws of 300 labelled posts, 1,500 others to learn from and 800 to score."""
    kind = {"weights": [0.83], "ambiguity": 0.1, "flip_y": 0.04}
    return [make_short_texts(2600, random_state=seed, **kind) for seed in range(10, 14)]


@pytest.fixture(scope="module")
def linear(minilm, draws):
    """Scores of shape (4 draws, 2 methods, 2)."""
    rows = slice(300), slice(1800, None)
    parts = [[part for r in rows for part in (posts.data[r], posts.target[r])] for posts in draws]
    return np.array([words_and_meaning(*four, minilm) for four in parts])


def check_distances(words, meaning):
    """Check means of F1 and average precision; meaning says more than words."""
    assert 0.45 < words[0] < 0.62
    assert 0.58 < meaning[0] < 0.70
    assert 0.03 < meaning[0] - words[0] < 0.15
    assert 0.03 < meaning[1] - words[1] < 0.15


def test_posts_are_as_hard_and_as_skewed_as_real_texts(linear, draws):
    # 17 to 24% of the real texts are positive
    assert np.mean([posts.target.mean() for posts in draws]) == pytest.approx(0.187, abs=0.02)
    check_distances(*linear.mean(axis=0))


@pytest.mark.slow
def test_real_texts_are_as_hard(minilm, needs_data, monkeypatch):
    from sklearn_spt.experiments._split_protocol import cut, draw

    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples" / "studies"))
    monkeypatch.setenv("SKLEARN_SPT_DATA", str(needs_data))
    from _gain_tasks import bunch_of

    found = []
    for task in REAL:  # rows for validation
        split = draw(cut(bunch_of(task), 1000, 1000), 300, 0, 0)
        texts = list(split.texts), split.y, list(split.texts_test), split.y_test
        found.append(words_and_meaning(*texts, minilm))
    check_distances(*np.mean(found, axis=0))


@pytest.mark.slow
def test_a_net_stands_between_embeddings_and_more_labels(minilm, linear, draws):
    """As on the real tasks, where one net has an F1 that is 0.03 to 0.07 above frozen embeddings.

    On two other diseases, 3,000 more labels bring 0.08 and 0.14. With three epochs in place of one,
    and four other draws, 1,800 labels are 0.10 to 0.16 ahead here.
    """
    from sklearn_spt import BertClassifier

    X, y = draws[0].data, draws[0].target

    def scores(n_labeled, **params):
        net = BertClassifier(minilm, n_threads=1, random_state=0, **params)
        p = net.fit(X[:n_labeled], y[:n_labeled]).predict_proba(X[1800:])[:, 1]
        return np.array([f1_score(y[1800:], p > 0.5), average_precision_score(y[1800:], p)])

    one_net, embeddings = scores(300), linear[0, 1]
    six_times_the_labels = scores(1800, max_epochs=1)
    assert 0.62 < one_net[0] < 0.78
    assert (embeddings + 0.02 < one_net).all()
    assert (one_net < embeddings + 0.15).all()
    assert (one_net + 0.02 < six_times_the_labels).all()
    assert (six_times_the_labels < one_net + 0.20).all()
    assert six_times_the_labels[0] < f1_score(y[1800:], draws[0].target_clean[1800:])


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_samples": 0}, ValueError, "n_samples"),
        ({"n_classes": 5}, ValueError, "n_classes must be 2, 3 or 4"),
        ({"flip_y": 1.1}, ValueError, "flip_y"),
        ({"ambiguity": -0.1}, ValueError, "ambiguity"),
        ({"noise": "high"}, TypeError, "noise"),
        ({"return_X_y": 1}, TypeError, "return_X_y"),
        ({"weights": [0.2, 0.3, 0.5]}, ValueError, "weights must hold one share"),
        ({"weights": [0.2, 0.3]}, ValueError, "add up to 1"),
        (
            {"weights": {0: 0.2, 1: 0.8}},
            TypeError,
            "weights must be a list of shares or None, got {",
        ),
        ({"weights": 0.85}, TypeError, "weights must be a list of shares or None, got 0.85"),
        ({"weights": [-0.5, 1.5]}, ValueError, "lie in"),
        ({"weights": [0.7, 0.7], "n_classes": 3}, ValueError, "add up to 1"),
        ({"n_labeled": 1}, ValueError, "at least one"),
        ({"n_labeled": 1001}, ValueError, "at most n_samples=1000"),
        ({"n_labeled": 0.0}, ValueError, "n_labeled"),
        ({"random_state": "seed"}, ValueError, "seed"),
    ],
)
def test_make_short_texts_rejects_bad_parameters(options, error, match):
    with pytest.raises(error, match=match):
        make_short_texts(**options)
