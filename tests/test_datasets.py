"""The loaders, on made-up files in the released formats, and the generator of texts."""

import gzip
import json
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_spt import datasets
from sklearn_spt.datasets import load_flu_vaccine, load_nepal_earthquake, load_smm4h_adr
from sklearn_spt.datasets import make_short_texts as make

NAMES = "nepal_earthquake", "flu_vaccine", "smm4h_adr"
LOADERS = {name: getattr(datasets, f"load_{name}") for name in NAMES}


def number_of(year, month=6):
    """A tweet number of some year, as Twitter makes them."""
    ms = int(datetime(year, month, 1, tzinfo=UTC).timestamp() * 1000)
    return str((ms - 1_288_834_974_657) << 22)


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def flu_rows(*years_and_labels, text="shot in {}"):
    """Rows of the release, with texts unless `text` is empty."""
    for year, label in years_and_labels:
        labels = {} if label is None else {"flu_vaccine_intent_to_receive": label}
        row = {"id": int(number_of(year, 12)), "label": {"flu_vaccine_relevant": "yes", **labels}}
        yield {**row, "tweet": {"text": text.format(year), "id": 1}} if text else row


# -- all loaders -----------------------------------------------------------------------------------
@pytest.fixture
def home(tmp_path):
    """A data home with all three."""
    for fold, label in (("train", "relevant"), ("dev", "not_relevant"), ("test", "relevant")):
        rows = ["tweet_id\ttext\tlabel", f"1\t{fold} tents needed\t{label}"]
        write_lines(tmp_path / "nepal_earthquake" / f"2015_Nepal_Earthquake_{fold}.tsv", rows)
    write_lines(tmp_path / "flu_vaccine" / "flu_vaccine.json.gz", flu_rows((2013, "yes")))
    rows = ["tweet_id\tuser_id\ttweet\tclass", "1\t2\tthese pills keep me up\t1"]
    write_lines(tmp_path / "smm4h_adr" / "task2_en_training.tsv", rows)
    return tmp_path


@pytest.mark.parametrize("name", LOADERS)
def test_from_a_folder_or_the_data_home(home, monkeypatch, name):
    load = LOADERS[name]
    bunch = load(home / name)
    for field in ("data", "fold", "ids", "keyword"):
        assert bunch[field].dtype == object
        assert all(isinstance(value, str) for value in bunch[field])
    assert bunch.target.dtype == np.int64
    assert len(bunch.target_names) == 2
    assert all(filename.startswith(str(home / name)) for filename in bunch.filenames)
    assert "Self-Pretraining paper" in bunch.DESCR
    assert load(data_home=home).data.tolist() == bunch.data.tolist()
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(home))
    X, y = load(return_X_y=True)
    assert X.tolist() == bunch.data.tolist()
    assert y.tolist() == bunch.target.tolist()


@pytest.mark.parametrize("name", LOADERS)
def test_nothing_there(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="has no file of the data set") as error:
        LOADERS[name](data_home=tmp_path)
    assert str(tmp_path / name) in str(error.value)


# -- Nepal earthquake ------------------------------------------------------------------------------
@pytest.mark.parametrize("folder", [".", "nepal", "ACL_ICWSM_2018_datasets/nepal"])
def test_nepal(home, folder):
    nepal = home / "nepal_earthquake"
    (nepal / folder).mkdir(parents=True, exist_ok=True)
    for file in nepal.glob("*.tsv"):
        file.rename(nepal / folder / file.name)
    # not UTF-8, an open quotation mark, a label with blanks, a keyword
    content = (
        "tweet_id\ttext\tlabel\tkeyword\n'5'\t\"été is fine\tnot_relevant \tété\n"
        "6\thelp\trelevant\t\n"
    )
    (nepal / folder / "2015_Nepal_Earthquake_test.tsv").write_bytes(content.encode("latin-1"))
    bunch = load_nepal_earthquake(nepal)
    texts = ["train tents needed", "dev tents needed", '"été is fine', "help"]
    assert bunch.data.tolist() == texts
    assert bunch.target.tolist() == [1, 0, 0, 1]
    assert bunch.target_names == ["not_relevant", "relevant"]
    assert bunch.fold.tolist() == ["train", "dev", "test", "test"]
    assert bunch.ids.tolist() == ["1", "1", "5", "6"]
    assert bunch.keyword.tolist() == ["", "", "été", ""]
    assert len(bunch.filenames) == 3


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("unlabelled.tsv", ["tweet_id\ttext", "8\twater", "9\tfood", "10\t "]),
        ("unlabeled.csv", ["id,tweet", "8,water", "9,food"]),
        ("unlabeled.csv.gz", ["id,tweet", '8,"water"', "9,food"]),
        ("unlabelled.json", [{"id_str": "8", "id": 7, "text": "water"}, {"id": 9, "text": "food"}]),
        ("unlabeled.jsonl.gz", [{"id": 8, "full_text": "water"}, {"id": 9, "full_text": "food"}]),
    ],
)
def test_nepal_with_unlabelled_tweets(home, name, rows):
    nepal = home / "nepal_earthquake"
    write_lines(nepal / "2015_Nepal_Earthquake_unlabelled_ids.txt", ["8", "9", "10"])
    assert set(load_nepal_earthquake(nepal).fold) == {"train", "dev", "test"}
    path = write_lines(nepal / f"2015_Nepal_Earthquake_{name}", rows)
    bunch = load_nepal_earthquake(nepal)
    assert bunch.data.tolist()[3:] == ["water", "food"]
    assert bunch.target.tolist()[3:] == [-1, -1]
    assert bunch.fold.tolist()[3:] == ["unlabelled"] * 2
    assert bunch.ids.tolist()[3:] == ["8", "9"]
    assert bunch.filenames[3:] == [str(path)]


# -- flu vaccine -----------------------------------------------------------------------------------
ROWS = ((2013, "yes"), (2014, "no"), (2015, "no"), (2016, "Yes"), (2014, None))


@pytest.mark.parametrize("name", ["flu_vaccine.json", "flu_vaccine.json_.gz", "flu_vaccine.jsonl"])
def test_flu_vaccine(tmp_path, name):
    path = write_lines(tmp_path / name, flu_rows(*ROWS))
    bunch = load_flu_vaccine(tmp_path)
    assert bunch.data.tolist() == [f"shot in {year}" for year in (2013, 2014, 2015, 2016)]
    assert bunch.target.tolist() == [1, 0, 0, 1]
    assert bunch.target_names == ["no", "yes"]
    assert bunch.year.tolist() == [2013, 2014, 2015, 2016]
    assert bunch.fold.tolist() == ["train", "train", "test", "test"]
    assert bunch.ids.tolist()[0] == number_of(2013, 12)  # with all its digits
    assert bunch.n_dropped == {"no intent label": 1, "no text": 0}
    assert bunch.filenames == [str(path)]
    assert load_flu_vaccine(path).data.tolist() == bunch.data.tolist()


def test_flu_vaccine_with_texts_of_its_own(tmp_path):
    write_lines(tmp_path / "flu_vaccine.json.gz", flu_rows(*ROWS, text=""))
    with pytest.raises(ValueError, match=r"gives no row .*'no text': 4.*texts="):
        load_flu_vaccine(tmp_path)
    rows = [{"id_str": number_of(year, 12), "text": f"s {year}"} for year in (2013, 2015, 2014)]
    texts = write_lines(tmp_path / "mine.jsonl", rows)
    bunch = load_flu_vaccine(tmp_path, texts=texts)
    assert bunch.data.tolist() == ["s 2013", "s 2014", "s 2015"]
    assert bunch.n_dropped == {"no intent label": 1, "no text": 1}
    assert len(bunch.filenames) == 2
    texts.rename(tmp_path / "flu_vaccine_texts.jsonl")
    assert load_flu_vaccine(tmp_path).data.tolist() == bunch.data.tolist()


def test_flu_vaccine_as_a_table(tmp_path):
    rows = [
        "tweet_id,intent,created_at,text",
        "1,yes,Mon Apr 27 01:13:45 +0000 2009,shot done",
        '2,no,2015-01-01T00:00:00Z,"no, thanks"',
        "3,,2014,flu news",
        "4,no,31.12.2014,skip",
        f"{number_of(2015, 1)},no,,january",
        f"{int(number_of(2015, 1)) - (1 << 22)},no,,december",
    ]
    write_lines(tmp_path / "flu_vaccine.csv", rows)
    bunch = load_flu_vaccine(tmp_path)
    assert bunch.data.tolist() == ["shot done", "no, thanks", "skip", "january", "december"]
    assert bunch.year.tolist() == [2009, 2015, 2014, 2015, 2014]


# -- SMM4H -----------------------------------------------------------------------------------------
def test_smm4h_2020(tmp_path):
    files = {
        "task2_en_test.tsv": ["tweet_id\ttweet", "4\tpills pills"],
        "task2_en_training.tsv": ["tweet_id\tuser_id\ttweet\tclass", "1\t9\tpills, no sleep\t1"],
        "validation/task2_en_validation.tsv": ["Tweet_ID\tclass\ttweet", '3\t0\tso "well"'],
        **{f"{name}.tsv": ["else"] for name in ("task1_training", "task2_fr_training", "readme")},
    }
    for name, rows in files.items():
        write_lines(tmp_path / name, rows)
    bunch = load_smm4h_adr(tmp_path)
    assert bunch.data.tolist() == ["pills pills", "pills, no sleep", 'so "well"']
    assert bunch.ids.tolist() == ["4", "1", "3"]
    assert bunch.target.tolist() == [-1, 1, 0]
    assert bunch.fold.tolist() == ["test", "train", "dev"]
    assert bunch.target_names == ["no adverse drug reaction", "adverse drug reaction"]
    assert load_smm4h_adr(tmp_path / "task2_en_training.tsv").target.tolist() == [1]


@pytest.mark.parametrize(
    ("rows", "target"),
    [
        (["1\t9\t1\tno sleep", '2\t9\t0\t"flu is bad'], [1, 0]),
        (["1\tADE\tno sleep", '2\tNoADE\t"flu is bad'], [1, 0]),
        (["1\t1.0\tno sleep", '2\t0\t"flu is bad'], [1, 0]),
        (["1\t9\tno sleep", '2\t8\t"flu is bad'], [-1, -1]),
    ],
)
def test_smm4h_2019_without_names_of_the_columns(tmp_path, rows, target):
    write_lines(tmp_path / "smm4h_task1_tweets_all.txt", rows)
    bunch = load_smm4h_adr(tmp_path)
    assert bunch.data.tolist() == ["no sleep", '"flu is bad']
    assert bunch.target.tolist() == target
    assert bunch.ids.tolist() == ["1", "2"]
    assert bunch.fold.tolist() == ["train"] * 2


# -- what cannot be used ---------------------------------------------------------------------------
NEPAL_TEST = "nepal_earthquake", "2015_Nepal_Earthquake_test.tsv"
SMM4H_TRAIN, FLU = ("smm4h_adr", "task1_train.tsv"), ("flu_vaccine", "flu_vaccine.tsv")


@pytest.mark.parametrize(
    ("place", "rows", "match"),
    [
        (NEPAL_TEST, ["tweet_id\ttext", "1\thelp"], "no column .* or label.*'tweet_id', 'text'"),
        (NEPAL_TEST, ["1\thelp\trelevant", "2\tok\trelevant"], "no column full_text or text"),
        (NEPAL_TEST, ["tweet_id\ttext\tlabel", "1\thelp\tmaybe"], "line 2: its label is none of"),
        (NEPAL_TEST, ["tweet_id\ttext\tlabel", "1\t\trelevant"], "line 2: its text is empty"),
        (NEPAL_TEST, ["tweet_id\ttext\tlabel", "1\thelp"], "line 2: its label is none of"),
        (NEPAL_TEST, [], "is empty"),
        (SMM4H_TRAIN, ["1\t9\t1\tsleepy", "2\t9\t0\t "], "line 2: its text is empty"),
        (SMM4H_TRAIN, ["1\tsleepy"], "does not have the columns tweet_id"),
        (FLU, ["id\tintent\ttext", "1\tyep\ta"], "line 2: its label is none of no, yes"),
        (FLU, ["id\tintent\ttext", "1\tyes\ta"], "line 2: neither a date nor"),
        (FLU, ["intent\ttext", "yes\ta"], "no column id_str or tweet_id"),
        (FLU, ["id\tintent\ttext", "1\t\ta"], "gives no row .*'no intent label': 1"),
    ],
)
def test_files_that_cannot_be_used(home, place, rows, match):
    name, file = place
    path = write_lines(home / name / file, rows)
    with pytest.raises(ValueError, match=rf"{file}.*{match}"):
        LOADERS[name](path.parent if place is NEPAL_TEST else path)


# -- made-up texts ---------------------------------------------------------------------------------
@pytest.mark.usefixtures("global_random_state_unchanged")
def test_a_bunch_of_texts():
    bunch = make(random_state=0)
    assert bunch.data.shape == bunch.target.shape == bunch.target_partial.shape == (1000,)
    assert all(isinstance(text, str) and text == text.strip() != "" for text in bunch.data)
    assert np.bincount(bunch.target).tolist() == [250] * 4
    assert bunch.target.dtype == bunch.target_partial.dtype == np.int64
    assert bunch.target_names == ["delivery", "payment", "account", "defect"]
    np.testing.assert_array_equal(bunch.target_partial, bunch.target)
    assert bunch.data.tolist() != make(random_state=1).data.tolist()


@given(
    n_samples=st.integers(12, 200),
    n_classes=st.integers(2, 6),
    share=st.floats(0.01, 1.0),
    flip_y=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_labels_change_no_text_and_each_class_has_one(n_samples, n_classes, share, flip_y, seed):
    settings = {"n_classes": n_classes, "random_state": seed}
    plain = make(n_samples, **settings)
    least = max(n_classes, round(share * n_samples))
    bunch = make(n_samples, n_labeled=least, flip_y=flip_y, **settings)
    assert bunch.data.tolist() == plain.data.tolist()
    labeled = bunch.target_partial >= 0
    assert labeled.sum() == least
    np.testing.assert_array_equal(bunch.target_partial[labeled], bunch.target[labeled])
    assert set(bunch.target_partial[labeled]) == set(bunch.target)


def test_weights_a_share_of_labels_and_a_tuple():
    shares = [0.7, 0.1, 0.1, 0.1]
    X, y = make(500, weights=shares, n_labeled=0.2, random_state=3, return_X_y=True)
    bunch = make(500, weights=shares, n_labeled=100, random_state=3)
    assert X.tolist() == bunch.data.tolist()
    assert y.tolist() == bunch.target_partial.tolist()
    assert np.bincount(bunch.target).tolist() == [350, 50, 50, 50]
    assert np.bincount(y[y >= 0]).tolist() == [70, 10, 10, 10]
    assert make(3).data.shape == (3,)
    rng = np.random.RandomState(3)
    assert make(500, weights=shares, random_state=rng).data.tolist() == X.tolist()


def test_flipped_labels():
    clean, noisy = (make(4000, flip_y=f, random_state=0).target for f in (0.0, 0.4))
    # a flipped label is right again in one of four cases
    assert np.mean(clean != noisy) == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("n_classes", [2, 4, 6])
def test_few_labels_leave_something_to_learn(n_classes):
    X, y = make(4000, n_classes=2, ambiguity=1.0, random_state=n_classes, return_X_y=True)
    model = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=1000))
    assert model.fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) < 0.6
    bunch = make(4000, n_classes=n_classes, n_labeled=20 * n_classes, random_state=0)
    X, y, test = bunch.data, bunch.target, slice(2000, None)
    few = np.flatnonzero(bunch.target_partial[:2000] >= 0)
    assert model.fit(X[few], y[few]).score(X[test], y[test]) < 0.85
    assert model.fit(X[:2000], y[:2000]).score(X[test], y[test]) > 0.92


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_samples": 0}, "n_samples == 0"),
        ({"n_classes": 1}, "n_classes == 1, must be >= 2"),
        ({"n_classes": 7}, "n_classes == 7, must be <= 6"),
        ({"flip_y": 1.5}, "flip_y == 1.5"),
        ({"ambiguity": -1}, "ambiguity == -1"),
        ({"weights": [0.5, 0.5]}, "weights must be 4 shares that add up to 1"),
        ({"weights": [1.5, -0.5, 0, 0]}, "weights must be 4 shares that add up to 1"),
        ({"n_labeled": 3}, r"n_labeled must be from 4 \(one for each class\)"),
        ({"n_labeled": 1001}, "to 1000 texts, or a share of them, got 1001"),
    ],
)
def test_parameters_out_of_range(params, match):
    with pytest.raises(ValueError, match=match):
        make(**params)
