"""The data sets of the Self-Pretraining paper, from files that you have, and made-up texts."""

from __future__ import annotations

import csv
import gzip
import inspect
import io
import json
import os
import re
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch, check_random_state

from sklearn_spt._labels import check_scalar

__all__ = ["load_flu_vaccine", "load_nepal_earthquake", "load_smm4h_adr", "make_short_texts"]

Place = str | os.PathLike[str] | None
_INTENT = "flu_vaccine_intent_to_receive"
#: Names of the columns of files; in each row, the first one that is filled counts.
_COLUMNS = {
    "data": ("full_text", "text", "tweet_text", "tweet", "tweet.full_text", "tweet.text"),
    "target": (f"label.{_INTENT}", _INTENT, "intent", "class", "label"),
    "ids": ("id_str", "tweet_id", "id"),
    "keyword": ("keyword",),
    "date": ("tweet.created_at", "created_at", "date", "year"),
}
_ADR = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "noadr": 0, "adr": 1, "noade": 0, "ade": 1}


# -- the paper's data sets -------------------------------------------------------------------------
def load_nepal_earthquake(
    path: Place = None, *, data_home: Place = None, return_X_y: bool = False
) -> Any:
    """Load tweets sent after the 2015 earthquake in Nepal, relevant or not, from your files.

    The "earthquake" data set of the Self-Pretraining paper: 7,000 tweets in the fold train, 1,166
    in dev, 3,502 in test; 47% are relevant to the disaster (Alam, Joty and Imran, ACL 2018). Get
    ``ACL_ICWSM_2018_datasets.zip`` from CrisisNLP (https://crisisnlp.qcri.org). Its terms allow
    research on humanitarian computing only, and ask for the contents to be kept confidential.

    Parameters
    ----------
    path : str or path-like, default=None
        Folder that has, itself or in a folder inside, ``2015_Nepal_Earthquake_train.tsv``,
        ``..._dev.tsv`` and ``..._test.tsv``, with the columns ``tweet_id``, ``text``, ``label``
        ("relevant" or "not_relevant") and perhaps ``keyword``; and perhaps the texts that you got
        for the released numbers of unlabelled tweets, in ``2015_Nepal_Earthquake_unlabelled.tsv``,
        ``.csv`` or ``.jsonl``. None means ``nepal_earthquake`` in the data home.
    data_home : str or path-like, default=None
        As in :func:`sklearn.datasets.get_data_home`; used if `path` is None.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (n_samples,), dtype object
            The texts, each a str.
        target : ndarray of shape (n_samples,), dtype int64
            1 relevant, 0 not relevant, -1 unlabelled.
        fold, ids, keyword : ndarray of shape (n_samples,), dtype object
            "train", "dev", "test" or "unlabelled"; the number of the tweet; its keyword, "" where
            the file has none.
        target_names, DESCR, filenames : list of str, str, list of str
            Names of the classes 0 and 1, this text, and the files that were read.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file or a column is missing, a label is unknown, or a text is empty.
    """
    files, parts, codes = [], [], {"not_relevant": 0, "relevant": 1}
    for fold in ("train", "dev", "test", "unlabel+ed"):
        known, name = "+" not in fold, rf"^2015_nepal_earthquake_{fold}\."
        for file in _find(path, data_home, "nepal_earthquake", name, needed=known)[:1]:
            rows = _read(file, codes if known else None)
            parts.append(rows.assign(fold=fold if known else "unlabelled"))
            files.append(file)
    return _bunch(parts, load_nepal_earthquake, files, return_X_y, target_names=[*codes])


def load_flu_vaccine(
    path: Place = None, *, texts: Place = None, data_home: Place = None, return_X_y: bool = False
) -> Any:
    """Load tweets whose authors intend to receive a flu vaccine, or do not, from your files.

    The "product" data set of the Self-Pretraining paper (Huang et al., W3PHIAI 2017). Tweets up to
    2014 are for training (4,503 were used, 31% positive), those from 2015 on for the test (2,114,
    22%). Get ``flu_vaccine.json.gz``, which has numbers and labels, from the authors, and the texts
    from Twitter.

    Parameters
    ----------
    path : str or path-like, default=None
        The file with the labels, or its folder: ``flu_vaccine.json.gz``, one JSON object a line,
        with ``id``, ``label`` (an object with ``flu_vaccine_intent_to_receive``, "yes" or "no") and
        perhaps ``tweet`` (an object with ``text`` and ``created_at``); or ``flu_vaccine.tsv`` or
        ``.csv`` with the columns ``id``, ``intent``, and perhaps ``text``, ``created_at`` and
        ``keyword``. None means ``flu_vaccine`` in the data home.
    texts : str or path-like, default=None
        File with ``id`` and ``text`` of the tweets, if the labels come without. None means
        ``flu_vaccine_texts.jsonl``, ``.tsv`` or ``.csv`` beside the labels, if it is there.
    data_home, return_X_y
        As in `load_nepal_earthquake`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As by `load_nepal_earthquake`, and `year`, by the date of the tweet or else by its number,
        and `n_dropped`, numbers of rows without "no intent label" or "no text", which are left out.
    """
    files = _find(path, data_home, "flu_vaccine", r"^flu_vaccine\.")[:1]
    table = _read(files[0], {"no": 0, "yes": 1, "": -1}, texts=False)
    beside = _find(files[0].parent, None, "", r"^flu_vaccine_texts\.", needed=False)
    for file in beside[:1] if texts is None else [Path(texts)]:
        fetched = table["ids"].map(_read(file).drop_duplicates("ids").set_index("ids")["data"])
        table["data"] = table["data"].where(table["data"] != "", fetched.fillna(""))
        files.append(file)
    relevant, found = table["target"] >= 0, table["data"] != ""
    n_dropped = {"no intent label": sum(~relevant), "no text": sum(relevant & ~found)}
    rows = table[relevant & found]
    years = np.array([_year(*row) for row in zip(rows["date"], rows["ids"], strict=True)])
    if rows.empty:
        raise ValueError(f"{files[0]} gives no row ({n_dropped}); pass the texts by texts=.")
    if not years.all():
        line = rows.index[years == 0][0]
        raise ValueError(f"{files[0]}, line {line}: neither a date nor the number tells the year.")
    rows = rows.assign(year=years, fold=np.where(years < 2015, "train", "test"))
    more = {"target_names": ["no", "yes"], "n_dropped": n_dropped}
    return _bunch([rows], load_flu_vaccine, files, return_X_y, **more)


def _year(date: str, number: str) -> int:
    """Year of a tweet, by its date or its number; 0 if neither has one."""
    if found := re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", date):
        return int(found[-1])  # "Mon Apr 27 01:13:45 +0000 2009" has it last
    if not number.isdecimal() or int(number) <= 29_700_859_247:  # of November 2010
        return 0
    # since then, a tweet's number is its time in ms after this one, shifted by 22 bits
    return int(pd.Timestamp((int(number) >> 22) + 1_288_834_974_657, unit="ms").year)


def load_smm4h_adr(path: Place = None, *, data_home: Place = None, return_X_y: bool = False) -> Any:
    """Load tweets that report an adverse drug reaction, or do not, from your files.

    The "adr" data set of the Self-Pretraining paper (Weissenbacher et al., SMM4H 2019): 20,624
    tweets for training, 9% positive, and 4,992 for the test, 8% positive. Register with the shared
    task SMM4H (https://healthlanguageprocessing.org) to get it. The texts must not be passed on.

    Parameters
    ----------
    path : str or path-like, default=None
        A file, or a folder. Read are the files in it, or in its folders, with ``task2_en`` in their
        names (2020); if there are none, those with ``task1`` (2019); else those with ``train``,
        ``valid``, ``dev``, ``test`` or ``eval``. The columns are ``tweet_id``, ``user_id`` (not
        used), ``class`` (0 or 1, or NoADE and ADE), ``tweet`` and perhaps ``keyword``. Where the
        first line does not name them, they stand in this order; of three columns, the second is
        ``class`` or ``user_id``. None means ``smm4h_adr`` in the data home.
    data_home, return_X_y
        As in `load_nepal_earthquake`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As by `load_nepal_earthquake`; the target of files without classes is -1. `fold` is "test"
        for files with "test" or "eval" in their names, "dev" for "valid" or "dev", else "train".
    """
    names = "task2_en", "task1", "train|valid|dev|test|eval"
    files, parts = _find(path, data_home, "smm4h_adr", *names), []
    for file in files:
        folds = {"test|eval": "test", "valid|dev": "dev", "": "train"}
        fold = next(f for words, f in folds.items() if re.search(words, file.name.lower()))
        parts.append(_read(file, {**_ADR, "": -1, "-1": -1}, smm4h=True).assign(fold=fold))
    classes = ["no adverse drug reaction", "adverse drug reaction"]
    return _bunch(parts, load_smm4h_adr, files, return_X_y, target_names=classes)


def _find(path: Any, data_home: Any, name: str, *patterns: str, needed: bool = True) -> list[Path]:
    """Return the file, or those in the folder whose names match the first pattern that any does."""
    place = Path(get_data_home(data_home), name) if path is None else Path(path).expanduser()
    files = [place] if place.is_file() else []
    for pattern in patterns:
        kinds = rf"({pattern}).*(tsv|csv|txt|jsonl?_?)(\.gz)?$"
        files = files or [f for f in sorted(place.rglob("*")) if re.search(kinds, f.name.lower())]
    if needed and not files:
        raise FileNotFoundError(f"{place} has no file of the data set; its docstring says which.")
    return files


def _read(
    file: Path, codes: dict[str, int] | None = None, *, texts: bool = True, smm4h: bool = False
) -> pd.DataFrame:
    """Read the columns of a file, with the lines as the index, and labels as `codes`.

    Without `codes`, no row is labelled, and rows without a text are left out. Without `texts`, the
    column may be missing. A file of SMM4H may lack the names of the columns.
    """
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    if not text.strip():
        raise ValueError(f"{file} is empty.")
    if ".json" in file.name.lower():
        lines = {i: line for i, line in enumerate(text.split("\n"), 1) if line.strip()}
        # whole numbers as str, since numbers of tweets need all their digits
        table = pd.json_normalize([json.loads(line, parse_int=str) for line in lines.values()])
        table.index = list(lines)
    else:
        # in a TSV, quotation marks are ordinary characters
        tabs: dict[str, Any] = {"sep": "\t", "quoting": csv.QUOTE_NONE}
        how = {} if ".csv" in file.name.lower() else tabs
        table = pd.read_csv(io.StringIO(text), header=None, dtype=str, na_filter=False, **how)
        table.index += 1
        names = table.iloc[0].str.strip().str.lower().tolist()
        if smm4h and not {"tweet", "text"}.intersection(names):
            names = ["tweet_id", "user_id", "class", "tweet"]
            if table.shape[1] == 3:
                del names[1 if table[1].str.strip().str.lower().isin(_ADR).all() else 2]
            if len(names) != table.shape[1]:
                raise ValueError(f"{file} does not have the columns {', '.join(names)}.")
        else:
            table = table.iloc[1:]
        table = table.set_axis(names, axis=1)
    table = table.astype(object).where(table.notna(), "").map(lambda cell: str(cell).strip())
    rows = pd.DataFrame(index=table.index)
    needed = {"ids": True, "data": texts, "target": codes is not None and "" not in codes}
    for field, names in _COLUMNS.items():
        there = table[[name for name in names if name in table]]
        if there.shape[1] == 0 and needed.get(field):
            has = ", ".join(map(repr, table.columns[:8]))
            raise ValueError(f"{file} has no column {' or '.join(names)}. Its columns are {has}.")
        rows[field] = there.replace("", np.nan).bfill(axis=1).iloc[:, 0] if there.shape[1] else ""
    rows = rows.fillna("")
    rows["ids"] = rows["ids"].str.strip("'\"")
    if codes is None:
        return rows.assign(target=-1)[rows["data"] != ""]
    rows["target"] = rows["target"].str.lower().map(codes)
    problems = {f"its label is none of {', '.join(filter(None, codes))}": rows["target"].isna()}
    problems["its text is empty; drop the row"] = (rows["data"] == "") & texts
    for problem, wrong in problems.items():
        if wrong.any():
            raise ValueError(f"{file}, line {rows.index[wrong][0]}: {problem}.")
    return rows


def _bunch(
    parts: list[pd.DataFrame], loader: Any, files: list[Path], return_X_y: bool, **more: Any
) -> Any:
    """Return the rows as a Bunch, or their texts and targets only."""
    rows = pd.concat(parts).drop(columns="date")
    kinds = {"target": np.int64, "year": np.int64}
    fields = {name: rows[name].to_numpy(dtype=kinds.get(name, object)) for name in rows}
    if return_X_y:
        return fields["data"], fields["target"]
    return Bunch(**fields, DESCR=inspect.getdoc(loader), filenames=[*map(str, files)], **more)


# -- made-up texts ---------------------------------------------------------------------------------
#: Phrases before and behind the clauses, and the clauses of each topic.
_PHRASES = """
* before: ; ; ; hello,; hi,; dear team,; sorry to bother you,; my order is from may and; i paid and;
i wrote from the app on friday:; i am logged in and; your courier is nice, but; after your update
* after: ; ; please help; thank you; and nobody answers; what now; my last parcel was fine; the
price was fair; my account is old; i would buy it again; this is the third time; i like your shop
* delivery: the parcel never came; the courier rang next door; tracking has not moved; the box lay
in the rain; the van drove past us; it sits in a depot; half of the order is missing; customs holds
the package; the pickup point was closed; my letterbox is empty; a stranger signed
* payment: i was charged twice; the invoice has no tax number; my credit card was declined; a
voucher was not deducted; the refund is pending; the total differs from the cart; my bank blocked
the transfer; you debited too much; the discount code expired; a reminder fee was added
* account: i cannot log in; the password link is dead; my profile shows an old name; the
verification mail never arrives; someone changed my email; two factor codes fail; the captcha loops
forever; please delete my data; the newsletter keeps coming; the app signs me out
* defect: the screen stays black; a hinge broke off; it smells of burnt plastic; the battery is
flat; one wheel wobbles; the zipper tore; water leaks from below; the motor hums loudly; the handle
came loose; a screw is stripped; the glass has a crack; paint peels
* return: how do i send it back; it does not fit me; i changed my mind; i need a label for the shop;
can i swap it for blue; the deadline is near; who pays the postage; i would like a smaller size; the
wrapping is open; may i bring it to a branch; it was an unwanted present
* advice: which model suits a small flat; does it work with older parts; is there a longer one; what
is it made of; how much does it weigh; can a child use it; do you recommend the cheaper one; how
loud is it; is a spare part included; does it need oil; is the manual online
"""


def make_short_texts(
    n_samples: int = 1000,
    *,
    n_classes: int = 4,
    weights: Any = None,
    n_labeled: int | float | None = None,
    flip_y: float = 0.0,
    ambiguity: float = 0.1,
    random_state: int | np.random.RandomState | None = None,
    return_X_y: bool = False,
) -> Any:
    """Make up short texts whose classes are topics: messages to the support of a shop.

    No person wrote these texts: a program draws one or two of a dozen clauses of the topic, and
    puts them between phrases that all topics share. With few labels, many clauses are in no
    labelled text, but in unlabelled texts they stand beside clauses that are. Use the texts to try
    things out; they tell nothing about texts of your own.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of texts.
    n_classes : int in [2, 6], default=4
        Number of topics.
    weights : array-like of shape (n_classes,), default=None
        Share of each topic, before `flip_y`. None means equal shares.
    n_labeled : int, float or None, default=None
        How many texts, or which share of them, keep their label in `target_partial`: a random
        sample of each class, in proportion to its size, at least one. None means all.
    flip_y : float in [0, 1], default=0.0
        Share of the texts that get a class at random, like errors of annotators.
    ambiguity : float in [0, 1], default=0.1
        Share of the texts with two clauses of which the second is of another topic.
    random_state : int, RandomState or None, default=None
        Pass an int for the same texts at each call. `n_labeled` and `flip_y` do not change them.
    return_X_y : bool, default=False
        Whether to return ``(data, target_partial)`` instead of a Bunch.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (n_samples,), dtype object
            The texts, each a str.
        target, target_partial : ndarray of shape (n_samples,), dtype int64
            Class of each text; the same with -1 where the label is withheld.
        target_names : list of str
            Names of the topics.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Examples
    --------
    >>> from sklearn_spt.datasets import make_short_texts
    >>> bunch = make_short_texts(200, n_labeled=40, random_state=0)
    >>> bunch.data.shape, int((bunch.target_partial >= 0).sum())
    ((200,), 40)
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    check_scalar(n_classes, "n_classes", Integral, min_val=2, max_val=6)
    for name, share in (("flip_y", flip_y), ("ambiguity", ambiguity)):
        check_scalar(share, name, Real, min_val=0, max_val=1)
    shares = np.asarray([1 / n_classes] * n_classes if weights is None else weights, dtype=float)
    if shares.shape != (n_classes,) or (shares < 0).any() or abs(shares.sum() - 1) > 1e-6:
        raise ValueError(f"weights must be {n_classes} shares that add up to 1, got {weights!r}.")
    rng = check_random_state(random_state)
    ends = np.round(np.cumsum(shares) * n_samples).astype(int)
    topics = rng.permutation(np.repeat(np.arange(n_classes), np.diff(ends, prepend=0)))
    named = (part.split(": ", 1) for part in " ".join(_PHRASES.split()).split("* ")[1:])
    phrases = {name: re.split(r" ?; ?", text.strip()) for name, text in named}
    names = list(phrases)[2 : n_classes + 2]

    def drawn(name: str) -> str:
        return phrases[name][rng.randint(len(phrases[name]))]

    data = np.empty(n_samples, dtype=object)
    for row, topic in enumerate(topics):
        u, other = rng.random_sample(), (topic + rng.randint(1, n_classes)) % n_classes
        # of those that are not ambiguous, a third have one clause, and two thirds have two
        second = drawn(names[other if u < ambiguity else topic]) if u < (2 + ambiguity) / 3 else ""
        clauses = drawn(names[topic]), second, drawn("after")
        data[row] = f"{drawn('before')} {', '.join(filter(None, clauses))}".strip()
    flipped = rng.random_sample(n_samples) < flip_y
    target = np.where(flipped, rng.randint(n_classes, size=n_samples), topics).astype(np.int64)
    partial = target.copy() if n_labeled is None else _withhold(target, n_labeled, rng)
    if return_X_y:
        return data, partial
    return Bunch(data=data, target=target, target_partial=partial, target_names=names)


def _withhold(target: Any, n_labeled: int | float, rng: np.random.RandomState) -> Any:
    """Replace all but some labels by -1, in proportion to the sizes of the classes."""
    classes, n = np.unique(target), len(target)
    number = n_labeled if isinstance(n_labeled, Integral) else round(n_labeled * n)
    if not len(classes) <= number <= n:
        rule = f"from {len(classes)} (one for each class) to {n} texts, or a share of them"
        raise ValueError(f"n_labeled must be {rule}, got {n_labeled!r}.")
    place = np.empty(n)
    for code in classes:  # spread over the whole, but one of each class comes first
        rows = rng.permutation(np.flatnonzero(target == code))
        place[rows] = [-1, *(np.arange(1, len(rows)) + rng.random_sample()) / len(rows)]
    return np.where(np.argsort(np.argsort(place)) < number, target, -1)
