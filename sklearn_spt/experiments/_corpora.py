"""The data sets by name, and files of the user."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sklearn_spt import datasets
from sklearn_spt.datasets._crisislex import CRISISLEX_T6

#: Seed that draws the positive rows of a thinned data set.
THINNING_SEED = 0

#: Data sets whose domain is the search word of the tweets.
SEARCHED_BY_DOMAIN = ("illness", "illness_4class", "phm_tuning")


@dataclass(frozen=True)
class Source:
    """A data set; ``load(data_home, download)`` reads it, and `about` describes it in one line."""

    load: Callable[[str | None, bool], Bunch]
    about: str


def sources() -> dict[str, Source]:
    """All named data sets."""
    return {
        "illness": _fetched(
            "tweets that mention a person's diagnosis; 17% positive", datasets.fetch_illness
        ),
        "illness_4class": _fetched(
            "the same tweets, four classes", datasets.fetch_illness, task="four_class"
        ),
        "phm_tuning": _fetched(
            "tweets that mention a person's health; 23% positive", datasets.fetch_phm_tuning
        ),
        "crisislex_t6": _fetched(
            "tweets on or off the topic of six disasters; 54% positive", datasets.fetch_crisislex_t6
        ),
        **{
            f"crisislex_t6:{name}": _fetched(
                "one of the six disasters", datasets.fetch_crisislex_t6, disaster=name
            )
            for name in CRISISLEX_T6
        },
        "psytar": _fetched(
            "sentences of reviews that report an adverse drug reaction; 36% positive",
            datasets.fetch_psytar,
        ),
        "adr": _loaded(
            "SMM4H tweets that report an adverse drug reaction; 9% positive",
            datasets.load_smm4h_adr,
        ),
        "earthquake": _loaded(
            "tweets relevant to the Nepal earthquake; 47% positive", datasets.load_nepal_earthquake
        ),
        "product": _loaded(
            "tweets that intend to receive a flu vaccine; 31% positive", datasets.load_flu_vaccine
        ),
    }


def _fetched(about: str, fetch: Callable[..., Bunch], **options: Any) -> Source:
    return Source(
        lambda home, download: fetch(data_home=home, download_if_missing=download, **options), about
    )


def _loaded(about: str, load: Callable[..., Bunch]) -> Source:
    return Source(lambda home, download: load(data_home=home), about)


def read(
    name: str,
    data_home: str | None = None,
    *,
    download: bool = True,
    unlabeled_file: str | None = None,
    **columns: Any,
) -> Bunch:
    """Read a data set by its name, or a TSV, CSV or JSONL file by its path.

    `columns` is passed to `load_texts`. With ``@5%`` behind its name, a data set of two classes
    keeps so many positive rows that they are 5% of the labelled ones. The targets are codes, and
    -1 for unlabelled rows.
    """
    known = sources()
    whole, at, share = name.partition("@")
    if at and whole in known:
        bunch = read(whole, data_home, download=download, unlabeled_file=unlabeled_file, **columns)
        return thinned(bunch, share, name)
    if name in known:
        bunch = known[name].load(data_home, download)
        if name in SEARCHED_BY_DOMAIN:
            bunch.keyword = bunch.domain
    elif at and Path(whole).is_file():
        raise ValueError(f"{name}: only named data sets can be thinned, not files.")
    elif Path(name).is_file():
        bunch = datasets.load_texts(name, **columns)
        if len(bunch.target_names) == 2 and bunch.target_names not in (
            ["0", "1"],
            ["negative", "positive"],
        ):
            raise ValueError(
                f"{name} has two labels; name the positive class, whose F1 is scored, with "
                "--positive LABEL."
            )
    else:
        raise ValueError(
            f"there is no data set {name!r} and no such file; the data sets are {', '.join(known)}."
        )
    if unlabeled_file is not None:
        text = {"text": columns["text"]} if "text" in columns else {}
        more = datasets.load_texts(unlabeled_file, label=None, **text)
        bunch = _joined(bunch, more.data)
    if "fold" in bunch:
        bunch.test = bunch.fold == "test"
    unlabeled = np.array([label == -1 for label in bunch.target])
    names, codes = np.unique(bunch.target[~unlabeled], return_inverse=True)
    bunch.target = np.full(len(unlabeled), -1, dtype=np.int64)
    bunch.target[~unlabeled] = codes
    if len(names) != len(bunch.target_names):  # a class without rows, or labels as codes
        bunch.target_names = [str(label) for label in names]
    return bunch


def thinned(bunch: Bunch, share: str, name: str) -> Bunch:
    """Drop positive rows at random until they are a given share of the labelled ones."""
    positive, negative = (np.flatnonzero(bunch.target == code) for code in (1, 0))
    if len(bunch.target_names) != 2:
        raise ValueError(
            f"{name}: only data sets of two classes can be thinned; this one has "
            f"{len(bunch.target_names)}."
        )
    now = len(positive) / (len(positive) + len(negative))
    try:
        wanted = float(share.removesuffix("%")) / 100 if share.endswith("%") else 0.0
    except ValueError:
        wanted = 0.0
    if not 0 < wanted < now or share != f"{100 * wanted:g}%":
        raise ValueError(
            f"{name}: the share after the @ must be a percentage above 0% and below the "
            f"{now:.1%} that are positive, without leading or trailing zeros, as in illness@5%."
        )
    n_kept = round(wanted / (1 - wanted) * len(negative))
    drawn = np.random.default_rng(THINNING_SEED).permutation(positive)
    kept = np.setdiff1d(np.arange(len(bunch.target)), drawn[n_kept:])
    columns = {
        key: value[kept]
        for key, value in bunch.items()
        if isinstance(value, np.ndarray) and len(value) == len(bunch.target)
    }
    return Bunch(**columns, target_names=bunch.target_names)


def _joined(bunch: Bunch, texts: Any) -> Bunch:
    """Add unlabelled texts; none of them is a test row."""
    n, more = len(bunch.data), len(texts)
    fills = {
        "data": texts,
        "target": np.full(more, -1, dtype=bunch.target.dtype),
        "keyword": np.full(more, "", dtype=object),
        "fold": np.full(more, "unlabeled", dtype=object),
    }
    kept = {"target_names": bunch.target_names}
    for name, fill in fills.items():
        if name in bunch and len(bunch[name]) == n:
            kept[name] = np.concatenate([bunch[name], fill])
    return Bunch(**kept)


def checksums(paths: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA256 of each file, by its purpose."""
    return {
        f"{purpose}_sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest()
        for purpose, path in paths.items()
    }


def available(name: str, data_home: str | None = None) -> str:
    """Return the number of labelled rows of a data set, or why it cannot be read."""
    try:
        bunch = read(name, data_home, download=False)
    except (OSError, ValueError) as error:
        return f"not here: {error}"
    return f"{int((np.asarray(bunch.target) >= 0).sum()):,} labelled rows"
