"""Optional methods of a net beyond skorch's interface."""

from __future__ import annotations

import numpy as np
from helpers.nets import MLP, bert_net, mlp_net
from skorch import NeuralNetClassifier

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.nets._protocol import PreparedNet, TextNet, prepared


def test_bert_classifier_has_all_of_them(tiny_encoder):
    net = bert_net(tiny_encoder)
    assert isinstance(net, TextNet)
    assert prepared(net) is net


def test_any_other_net_gets_the_defaults():
    net = mlp_net()
    assert not isinstance(net, TextNet | PreparedNet)
    plain = prepared(net)
    assert plain.start_head(np.ones((2, 2)), np.array([0, 1]), balanced=True) is None
    assert plain.n_threads is None
    with plain.training_run(np.ones((2, 2))) as nothing:
        assert nothing is None


class LengthNet(NeuralNetClassifier):
    """A custom net that encodes texts as their lengths and first letters."""

    calls: list[int] = []  # noqa: RUF012

    def encode(self, X):
        self.calls.append(len(X))
        return np.array([[len(x) / 10, ord(x[0]) / 100] for x in X], dtype=np.float32)


def test_a_custom_net_encodes_texts_once():
    LengthNet.calls.clear()
    texts = ["aa", "b" * 40] * 6
    y = [0, 1, 0, 1] + [-1] * 8
    net = LengthNet(MLP, lr=0.5, batch_size=4, verbose=0)
    clf = SelfPretrainingClassifier(net, finetune_epochs=20, random_state=0).fit(texts, y)
    assert LengthNet.calls == [12]
    assert clf.predict(texts).tolist() == [0, 1] * 6
