"""skops loads every classifier with the list of trusted types that the docs give."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.methods import METHODS, half_labeled

from sklearn_spt import BertClassifier

PAGE = Path(__file__).parents[2] / "docs" / "saving.md"


@pytest.fixture(scope="module")
def trusted():
    """The list of the docs."""
    (listed,) = re.findall(r"^TRUSTED = (\[.*?^\])", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return ast.literal_eval(listed)


@pytest.fixture(params=["supervised", *METHODS])
def fitted(request, tiny_encoder, tiny_texts):
    """A classifier of each class."""
    net = BertClassifier(tiny_encoder, max_epochs=1, random_state=0)
    if request.param == "supervised":
        return net.fit(tiny_texts, [1, 0] * 12)
    texts = [f"{text} now i need a doctor at home" for text in tiny_texts]
    return METHODS[request.param](net).fit(texts, half_labeled(24))


def test_trusted_types_of_the_docs_are_enough(fitted, trusted, tiny_texts):
    io = pytest.importorskip("skops.io")
    dumped = io.dumps(fitted)
    needed = io.get_untrusted_types(data=dumped)
    assert set(needed) <= set(trusted)
    again = io.loads(dumped, trusted=[name for name in trusted if name in needed])
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), fitted.predict_proba(tiny_texts))
