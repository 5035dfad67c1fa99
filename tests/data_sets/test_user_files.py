"""Tests of the loaders for data sets that the user has, on invented files in their formats."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

import numpy as np
import pytest

from sklearn_spt.datasets import load_flu_vaccine, load_nepal_earthquake, load_smm4h_adr
from sklearn_spt.datasets._tweets import year_of

LOADERS = {
    "nepal_earthquake": load_nepal_earthquake,
    "flu_vaccine": load_flu_vaccine,
    "smm4h_adr": load_smm4h_adr,
}


def number_of(year, month=6):
    """Give a tweet number of some year, as Twitter makes them."""
    ms = int(datetime(year, month, 1, tzinfo=UTC).timestamp() * 1000)
    return str((ms - 1_288_834_974_657) << 22)


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def flu_rows(*years_and_labels, text="shot in {}"):
    """Rows of the release, with texts unless `text` is empty."""
    for year, label in years_and_labels:
        labels = {} if label is None else {"flu_vaccine_intent_to_receive": label}
        row = {"id": number_of(year, 12), "label": {"flu_vaccine_relevant": "yes", **labels}}
        yield {**row, "tweet": {"text": text.format(year), "id": 1}} if text else row


# -- what all of them do ----------------------------------------------------------------------
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


@pytest.fixture
def nepal(home):
    return home / "nepal_earthquake"


@pytest.mark.parametrize("name", LOADERS)
def test_from_the_data_home_or_a_folder(home, monkeypatch, name):
    load = LOADERS[name]
    dataset = load(home / name)
    assert dataset.data.dtype == dataset.fold.dtype == dataset.ids.dtype == object
    assert dataset.target.dtype == np.int64
    assert len(dataset.target_names) == 2
    assert all(filename.startswith(str(home / name)) for filename in dataset.filenames)
    assert "Reference" in dataset.DESCR
    assert load(data_home=home).data.tolist() == dataset.data.tolist()
    monkeypatch.setenv("SKLEARN_SPT_DATA", str(home))
    X, y = load(return_X_y=True)
    assert X.tolist() == dataset.data.tolist()
    assert y.tolist() == dataset.target.tolist()


@pytest.mark.parametrize("name", LOADERS)
def test_nothing_there_or_bad_parameters(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"{name} of the data home") as error:
        LOADERS[name](data_home=tmp_path)
    assert str(tmp_path / name) in str(error.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError, match="return_X_y must be True or False"):
        LOADERS[name](data_home=tmp_path, return_X_y=1)


# -- Nepal earthquake -------------------------------------------------------------------------
@pytest.mark.parametrize("folder", [".", "nepal", "ACL_ICWSM_2018_datasets/nepal"])
def test_nepal(nepal, folder):
    (nepal / folder).mkdir(parents=True, exist_ok=True)
    for file in nepal.glob("*.tsv"):
        file.rename(nepal / folder / file.name)
    # not UTF-8, an open quotation mark, a label with blanks
    content = (
        "tweet_id\ttext\tlabel\n'5'\t\"\u00e9t\u00e9 is fine\tnot_relevant \n6\thelp\trelevant\n"
    )
    (nepal / folder / "2015_Nepal_Earthquake_test.tsv").write_bytes(content.encode("latin-1"))
    dataset = load_nepal_earthquake(nepal)
    assert dataset.data.tolist()[1:] == ["dev tents needed", '"\u00e9t\u00e9 is fine', "help"]
    assert dataset.target.tolist() == [1, 0, 0, 1]
    assert dataset.target_names == ["not_relevant", "relevant"]
    assert dataset.fold.tolist() == ["train", "dev", "test", "test"]
    assert dataset.ids.tolist() == ["1", "1", "5", "6"]
    assert len(dataset.filenames) == 3


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("unlabelled.tsv", ["tweet_id\ttext", "8\twater", "9\tfood", "10\t "]),
        ("unlabeled.csv", ["id,tweet", "8,water", "9,food"]),
        ("unlabelled.json", [{"id_str": "8", "id": 7, "text": "water"}, {"id": 9, "text": "food"}]),
        ("unlabeled.jsonl.gz", [{"id": 8, "full_text": "water"}, {"id": 9, "full_text": "food"}]),
        ("unlabelled.txt", ["id\ttext", "8\twater", "9\tfood"]),
    ],
)
def test_nepal_with_unlabelled_tweets(nepal, name, rows):
    write_lines(nepal / "2015_Nepal_Earthquake_unlabelled_ids.txt", ["8", "9", "10"])
    assert set(load_nepal_earthquake(nepal).fold) == {"train", "dev", "test"}
    path = write_lines(nepal / f"2015_Nepal_Earthquake_{name}", rows)
    dataset = load_nepal_earthquake(nepal)
    assert dataset.data.tolist()[3:] == ["water", "food"]
    assert dataset.target.tolist()[3:] == [-1, -1]
    assert dataset.fold.tolist()[3:] == ["unlabelled"] * 2
    assert dataset.ids.tolist()[3:] == ["8", "9"]
    assert dataset.filenames[3:] == [str(path)]


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (["tweet_id\ttext", "1\thelp"], r"test\.tsv has no column 'label' or .*'tweet_id'"),
        (["1\thelp\trelevant", "2\tok\trelevant"], r"test\.tsv has no column 'text'"),
        (["tweet_id\ttext\tlabel"], "holds no row"),
        (["tweet_id\ttext\tlabel", "1\thelp\tmaybe"], "line 2, column 'label': unknown label"),
        (["tweet_id\ttext\tlabel", "1\t\trelevant"], "line 2, column 'text': an empty text"),
        (["tweet_id\ttext\tlabel", "1\thelp"], r"line 2: 2 column\(s\) instead of the 3"),
    ],
)
def test_nepal_errors(nepal, rows, match):
    write_lines(nepal / "2015_Nepal_Earthquake_test.tsv", rows)
    with pytest.raises(ValueError, match=match):
        load_nepal_earthquake(nepal)


def test_nepal_with_a_missing_fold_or_texts_without_numbers(nepal):
    write_lines(nepal / "2015_Nepal_Earthquake_unlabelled.tsv", ["number\twords", "1\twater"])
    with pytest.raises(ValueError, match=r"no column 'id_str' or .*'number', 'words'"):
        load_nepal_earthquake(nepal)
    (nepal / "2015_Nepal_Earthquake_dev.tsv").unlink()
    with pytest.raises(FileNotFoundError, match=r"2015_Nepal_Earthquake_dev\.tsv is missing"):
        load_nepal_earthquake(nepal)


# -- flu vaccine ------------------------------------------------------------------------------
ROWS = ((2013, "yes"), (2014, "no"), (2015, "no"), (2016, "Yes"), (2014, None))


@pytest.mark.parametrize("name", ["flu_vaccine.json", "flu_vaccine.json_.gz", "flu_vaccine.jsonl"])
def test_flu_vaccine(tmp_path, name):
    path = write_lines(tmp_path / name, flu_rows(*ROWS))
    dataset = load_flu_vaccine(tmp_path)
    assert dataset.data.tolist() == [f"shot in {year}" for year in (2013, 2014, 2015, 2016)]
    assert dataset.target.tolist() == [1, 0, 0, 1]
    assert dataset.target_names == ["no", "yes"]
    assert dataset.year.tolist() == [2013, 2014, 2015, 2016]
    assert dataset.fold.tolist() == ["train", "train", "test", "test"]
    assert dataset.ids.tolist()[0] == number_of(2013, 12)
    assert dataset.n_dropped == {"no intent label": 1, "no text": 0}
    assert dataset.filenames == [str(path)]
    assert load_flu_vaccine(path).data.tolist() == dataset.data.tolist()


def test_flu_vaccine_with_texts_of_its_own(tmp_path):
    write_lines(tmp_path / "flu_vaccine.json.gz", flu_rows(*ROWS, text=""))
    with pytest.raises(ValueError, match=r"4 have no text.*numbers and labels.*texts="):
        load_flu_vaccine(tmp_path)
    rows = [{"id_str": number_of(year, 12), "text": f"s {year}"} for year in (2013, 2015, 2014)]
    texts = write_lines(tmp_path / "mine.jsonl", rows)
    dataset = load_flu_vaccine(tmp_path, texts=texts)
    assert dataset.data.tolist() == ["s 2013", "s 2014", "s 2015"]
    assert dataset.n_dropped == {"no intent label": 1, "no text": 1}
    assert len(dataset.filenames) == 2
    texts.rename(tmp_path / "flu_vaccine_texts.jsonl")
    assert load_flu_vaccine(tmp_path).data.tolist() == dataset.data.tolist()


def test_flu_vaccine_as_a_table(tmp_path):
    rows = [
        "tweet_id,intent,created_at,text",
        "1,yes,Mon Apr 27 01:13:45 +0000 2009,shot done",
        '2,no,2015-01-01T00:00:00Z,"no, thanks"',
        "3,,2014,flu news",
    ]
    write_lines(tmp_path / "flu_vaccine.csv", rows)
    dataset = load_flu_vaccine(tmp_path)
    assert dataset.data.tolist() == ["shot done", "no, thanks"]
    assert dataset.year.tolist() == [2009, 2015]


@pytest.mark.parametrize(
    ("row", "year"),
    [
        ({"created_at": "Wed Dec 31 23:59:59 +0000 2014"}, 2014),
        ({"tweet": {"created_at": "2015-01-01 00:00:00"}}, 2015),
        ({"date": "31.12.2014"}, 2014),
        ({"id": "277588214733230080"}, 2012),
        ({"id": number_of(2015, 1)}, 2015),
        ({"id": str(int(number_of(2015, 1)) - (1 << 22))}, 2014),
        ({"id": "12345"}, None),
        ({"id": "a1"}, None),
    ],
)
def test_year_of_a_tweet(row, year):
    assert year_of(row) == year


# -- SMM4H ------------------------------------------------------------------------------------
def test_smm4h_2020(tmp_path):
    files = {
        "task2_en_test.tsv": ["tweet_id\ttweet", "4\tpills pills"],
        "task2_en_training.tsv": ["tweet_id\tuser_id\ttweet\tclass", "1\t9\tpills, no sleep\t1"],
        "validation/task2_en_validation.tsv": ["Tweet_ID\tclass\ttweet", '3\t0\tso "well"'],
        **{f"{name}.tsv": ["else"] for name in ("task1_training", "task2_fr_training", "readme")},
    }
    for name, rows in files.items():
        write_lines(tmp_path / name, rows)
    dataset = load_smm4h_adr(tmp_path)
    assert dataset.data.tolist() == ["pills pills", "pills, no sleep", 'so "well"']
    assert dataset.ids.tolist() == ["4", "1", "3"]
    assert dataset.target.tolist() == [-1, 1, 0]
    assert dataset.fold.tolist() == ["test", "train", "dev"]
    assert dataset.target_names == ["no adverse drug reaction", "adverse drug reaction"]
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
def test_smm4h_2019_without_a_header(tmp_path, rows, target):
    write_lines(tmp_path / "smm4h_task1_tweets_all.txt", rows)
    dataset = load_smm4h_adr(tmp_path)
    assert dataset.data.tolist() == ["no sleep", '"flu is bad']
    assert dataset.target.tolist() == target
    assert dataset.ids.tolist() == ["1", "2"]
    assert dataset.fold.tolist() == ["train"] * 2


@pytest.mark.parametrize(
    ("name", "rows", "match"),
    [
        ("smm4h_adr", ["1\t9\t1\tsleepy", "2\t9\t2\tok"], "line 2, column 'class': unknown lab"),
        ("smm4h_adr", ["1\t9\t1\tsleepy", "2\t9\t0\t "], "line 2, column 'tweet': an empty text"),
        ("smm4h_adr", ["1\tsleepy"], r"line 1: 2 column\(s\), without names"),
        ("smm4h_adr", ["tweet_id\tclass", "1\t0"], "no column 'tweet'"),
        ("smm4h_adr", [], "is empty"),
        ("flu_vaccine", ["id\tintent\ttext", "1\tyep\ta"], r"line 2, column .*label.*'no', 'yes'"),
        ("flu_vaccine", ["id\tintent\ttext", "1\tyes\ta"], "'created_at': neither a date"),
        ("flu_vaccine", ["id\ttext", "1\ta"], r"no column 'label.flu.*'id', 'text'"),
        ("flu_vaccine", ["intent\ttext", "yes\ta"], "no column 'id_str' or 'tweet_id'"),
        ("flu_vaccine", ["id\tintent\ttext", "1\t\ta"], "gives no row: 1 have no intent label"),
    ],
)
def test_smm4h_and_flu_vaccine_errors(tmp_path, name, rows, match):
    path = write_lines(tmp_path / "train.tsv", rows)
    with pytest.raises(ValueError, match=match) as error:
        LOADERS[name](path)
    assert "train.tsv" in str(error.value)
