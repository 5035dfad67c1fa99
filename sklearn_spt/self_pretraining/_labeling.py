"""What nets say about documents: a net that teaches again is not asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from skorch import NeuralNet

from sklearn_spt._base import SemiSupervisedData
from sklearn_spt._progress import Progress
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt.nets._training import predict_logits, select_rows
from sklearn_spt.self_pretraining._state import Nets

#: Of a net: logits of shape (n, n_classes) for a sample of U, and (n_labeled, n_classes) for L.
Logits = tuple[FloatArray, FloatArray]


@dataclass
class Known:
    """Logits of one net."""

    net: NeuralNet
    on_U: FloatArray  # of shape (n_unlabeled, n_classes), NaN where the net was not asked
    on_L: FloatArray


class TeacherLogits:
    """Logits of the nets that teach, for samples of U and for L.

    Samples overlap, and where all nets that predict teach, each teaches in several iterations. What
    is kept takes 8 bytes for each such net, unlabelled document and class.

    Parameters
    ----------
    data : SemiSupervisedData
        U, L and the classes.
    progress : Progress
        Counts each document that is asked for, also those that need no net any more.
    """

    def __init__(self, data: SemiSupervisedData, progress: Progress) -> None:
        self.data = data
        self.progress = progress
        self.known: list[Known] = []

    def of(self, M2: Nets, rows: IntArray, C: Any) -> list[Logits]:
        """Return the logits of each net.

        Parameters
        ----------
        M2 : tuple of skorch.NeuralNet
            The nets.
        rows : ndarray of int of shape (n,)
            Rows of U, each at most once.
        C : indexable of length n
            These documents.

        Raises
        ------
        ValueError
            See `predict_logits`.
        """
        found = []
        for M in M2:
            found.append(self._of(M, rows, C))
            self.progress.advance(len(rows) + len(self.data.y))
        return found

    def _of(self, M: NeuralNet, rows: IntArray, C: Any) -> Logits:
        data, K = self.data, self.data.n_classes
        known = next((known for known in self.known if known.net is M), None)
        if known is None:
            return predict_logits(M, C, K), predict_logits(M, data.X_labeled, K)
        new = rows[np.isnan(known.on_U[rows, 0])]
        if len(new):
            known.on_U[new] = predict_logits(M, select_rows(M, data.X_unlabeled, new), K)
        return known.on_U[rows], known.on_L

    def keep(self, again: Nets, M2: Nets, rows: IntArray, logits: Sequence[Logits]) -> None:
        """Keep the logits of the nets that will teach again, and of no others.

        Parameters
        ----------
        again : tuple of skorch.NeuralNet
            These nets.
        M2 : tuple of skorch.NeuralNet
            Nets that taught.
        rows : ndarray of int of shape (n,)
            Rows of U that they labelled.
        logits : sequence of (on_C, on_L)
            What each of them said, see `of`.
        """
        wanted = {id(net) for net in again}
        self.known = [known for known in self.known if id(known.net) in wanted]
        missing = wanted - {id(known.net) for known in self.known}
        for M, (on_C, on_L) in zip(M2, logits, strict=True):
            if id(M) in missing:
                on_U = np.full((self.data.n_unlabeled, self.data.n_classes), np.nan)
                on_U[rows] = on_C
                self.known.append(Known(M, on_U, on_L))
