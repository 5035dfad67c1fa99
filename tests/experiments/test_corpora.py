"""Data sets by name: how they are thinned."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import Bunch

from sklearn_spt.experiments import _corpora
from sklearn_spt.experiments._corpora import read


@pytest.fixture
def data_set(monkeypatch):
    """A data set of a name, 30% positive, with a released test part and rows without labels."""
    n = 1000
    target = np.where(np.arange(n) % 10 < 3, "yes", "no").astype(object)
    target[-100:] = -1
    found = Bunch(
        data=np.array([f"text {i}" for i in range(n)], dtype=object),
        target=target,
        target_names=["no", "yes"],
        fold=np.where(np.arange(n) < 200, "test", "train"),
        keyword=np.array([f"word{i}" for i in range(n)], dtype=object),
    )
    source = _corpora.Source(lambda home, download: found, "made up")
    monkeypatch.setattr(_corpora, "sources", lambda: {"made_up": source})
    return found


@pytest.mark.parametrize("share", ["5%", "12.5%"])
def test_positive_rows_are_dropped_until_they_are_the_given_share(data_set, share):
    found = read(f"made_up@{share}")
    assert found.data.tolist() == read(f"made_up@{share}").data.tolist()
    wanted = float(share[:-1]) / 100
    labeled = found.target >= 0
    assert (found.target[labeled] == 1).mean() == pytest.approx(wanted, abs=1e-3)
    # nothing else is dropped, and rows stay whole
    whole = read("made_up")
    assert (found.target == 0).sum() == (whole.target == 0).sum()
    assert (found.target == -1).sum() == 100
    assert [text.split()[1] for text in found.data] == [word[4:] for word in found.keyword]
    assert len(found.test) == len(found.data)
    kept = np.isin(whole.data, found.data)
    np.testing.assert_array_equal(found.target, whole.target[kept])


@pytest.mark.parametrize("share", ["", "5", "x%", "0%", "-5%", "30%", "nan%", "5.0%", "05%"])
def test_an_invalid_share_is_an_error(data_set, share):
    with pytest.raises(ValueError, match=r"must be a percentage above 0% and below the 30\.0%"):
        read(f"made_up@{share}")


def test_only_named_data_sets_of_two_classes_can_be_thinned(data_set, tmp_path):
    path = tmp_path / "posts.csv"
    path.touch()
    with pytest.raises(ValueError, match="only named data sets can be thinned"):
        read(f"{path}@5%")
    data_set.target[:10] = "perhaps"
    data_set.target_names = ["no", "perhaps", "yes"]
    with pytest.raises(ValueError, match=r"only data sets of two classes.*3"):
        read("made_up@5%")
