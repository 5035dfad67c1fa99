"""How Spaced-rep runs an episode, compares queues, and what it notes down meanwhile.

The algorithm itself is `SpacedRepetitionClassifier._fit`; here are the parts of its steps.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._base import SemiSupervisedData, class_counts, concatenated
from sklearn_spt._holdout import HoldOut, hold_out, positive_code, weights_of
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt.baselines._leitner import due_documents, moved, selected


class Episodes:
    """One fit in progress: the held-out rows V, the growing training set T, the records.

    Parameters
    ----------
    model : SpacedRepetitionClassifier
        Whose parameters are used.
    net : skorch.NeuralNet
        Unfitted.
    data : SemiSupervisedData
        The documents.

    Attributes
    ----------
    number : int
        Episodes to be run, at most.
    pseudo, labeled_iter : ndarray of int of shape (n_unlabeled,)
        Pseudo-label of each unlabelled document, and the episode that gave it; or -1.
    history : list of dict
        See ``history_``.
    progress : Progress
        The bar; a context manager.
    """

    def __init__(self, model: Any, net: NeuralNet, data: SemiSupervisedData) -> None:
        self.model, self.data = model, data
        self.positive = positive_code(data.classes, model.pos_label)
        self.number = model.max_iter if data.n_unlabeled else 0
        self.trainer = SupervisedTrainer(model, net, data.classes, "spaced-rep")
        self.progress = self.trainer.progress
        self.pseudo = np.full(data.n_unlabeled, -1, dtype=np.int64)
        self.labeled_iter = self.pseudo.copy()
        self.history: list[dict[str, Any]] = []
        self.train_rows = np.arange(len(data.y))
        self.held: HoldOut | None = None
        if self.number:
            self._split()

    @property
    def validated(self) -> bool:
        """Whether there are held-out rows."""
        return self.held is not None

    def _split(self) -> None:
        """Hold out V (step 1)."""
        self.held = hold_out(
            self.data,
            self.model.validation_fraction,
            self.trainer.rng(0, 1),
            positive=self.positive,
            otherwise="One episode is run, and the last net learns from its highest queue.",
            remedy="Label more rows of the rare classes.",
            stacklevel=5,
        )
        if self.held is None:
            self.number = 1
        else:
            self.train_rows = self.held.train

    # -- nets -----------------------------------------------------------------------------------
    def train(
        self, labeled: IntArray, rows: IntArray, codes: IntArray, *path: int, **options: Any
    ) -> tuple[NeuralNet, list[float]]:
        """Train a fresh net on labelled rows and on unlabelled rows with pseudo-labels."""
        data = self.data
        part = labeled if len(labeled) < len(data.y) else None
        X = data.X_labeled if part is None else multi_indexing(data.X_labeled, part)
        if len(rows):
            X = concatenated(X, multi_indexing(data.X_unlabeled, rows))
        y = np.concatenate([data.y[labeled], codes])
        weights = weights_of(data.weights, part, len(rows))
        return self.trainer.train(X, y, *path, weights=weights, **options)

    def label(self, net: NeuralNet, U: IntArray) -> FloatArray:
        """Class probabilities of all unlabelled documents that are left."""
        if not len(U):
            return np.zeros((0, self.data.n_classes))
        with timed(self.history[-1]["seconds"], "labeling"):
            return self._label(net, U)

    def _label(self, net: NeuralNet, rows: IntArray) -> FloatArray:
        return self.trainer.probabilities(net, multi_indexing(self.data.X_unlabeled, rows))

    def score(self, net: NeuralNet) -> float:
        """Score on V, 0 without it."""
        if self.held is None:
            return 0.0
        return self.held.score(self.trainer.probabilities(net, self.held.X))

    @property
    def _added(self) -> IntArray:
        """Rows of U that are in T."""
        return np.flatnonzero(self.labeled_iter >= 0)

    # -- steps ----------------------------------------------------------------------------------
    def start(self) -> tuple[NeuralNet, float]:
        """Train g_0 on the labelled rows that are not held out, and score it (step 2)."""
        none = np.arange(0)
        record = self._record(0, 0)
        with timed(record["seconds"], "training"):
            g, record["loss"] = self.train(self.train_rows, none, none, 0)
        if self.validated:
            with timed(record["seconds"], "validation"):
                record["validation_score"] = self.score(g)
        return g, record.get("validation_score", 0.0)

    def episode(
        self, m: int, U: IntArray, provisional: IntArray
    ) -> tuple[NeuralNet, float, IntArray]:
        """Train a fresh net while the documents move between the queues (steps 3.2 to 3.5).

        Returns the net with the weights of its best epoch, its score, and the queue of each
        document of `U` at the end.
        """
        model = self.model
        queue = np.zeros(len(U), dtype=np.int64)
        scores: list[float] = []
        kept: dict[str, Any] = {}
        best = 0

        def after_epoch(g: NeuralNet, epoch: int) -> bool:
            nonlocal best
            due = due_documents(queue, epoch, model.n_queues)
            if len(due):  # the others are not even labelled
                P = self._label(g, U[due])
                correct = P.argmax(axis=1) == provisional[due]
                if model.correct == "agreement+confidence":
                    correct &= P.max(axis=1) >= model.threshold
                queue[due] = moved(queue[due], correct, model.n_queues, model.demote)
            scores.append(self.score(g))
            if epoch == 1 or not self.validated or scores[-1] > scores[best - 1]:
                best = epoch
                if self.validated and epoch < model.episode_epochs:
                    for name in g._modules:
                        kept[name] = copy.deepcopy(getattr(g, f"{name}_").state_dict())
            return epoch - best >= model.patience

        record = self._record(m, len(U))
        rows = self._added
        with timed(record["seconds"], "episode"):
            g, record["loss"] = self.train(
                self.train_rows,
                rows,
                self.pseudo[rows],
                m,
                epochs=model.episode_epochs,
                on_epoch=after_epoch,
            )
        if best < len(scores):
            for name, state in kept.items():
                getattr(g, f"{name}_").load_state_dict(state)
        if self.validated:
            record["validation_score"] = scores[best - 1]
        record["best_epoch"] = best
        record["queue_sizes"] = np.bincount(queue, minlength=model.n_queues).tolist()
        return g, scores[best - 1], queue

    def choose(self, m: int, members: IntArray, P: FloatArray, queue: int) -> IntArray:
        """Select documents of a queue (step 3.7); the same ones whenever it is asked."""
        model = self.model
        n_train = len(self.train_rows) + len(self._added)
        rng = self.trainer.rng(m, 0, queue)
        rows = selected(P[members], n_train, model.threshold, model.max_fraction, model.select, rng)
        return members[rows]

    def designate(self, m: int, U: IntArray, queue: IntArray, P: FloatArray) -> int:
        """Find the queue whose documents help most on V (step 3.6), ties to the highest.

        Without V, or with a single queue that has something to give, nothing is trained. If none
        has, it is the highest that is occupied.
        """
        chosen = {int(j): self.choose(m, np.flatnonzero(queue == j), P, j) for j in set(queue)}
        offers = {j: rows for j, rows in sorted(chosen.items()) if len(rows)}
        if not self.validated or len(offers) < 2:
            return max(offers or chosen)
        record = self.history[-1]
        scores: dict[int, float] = {}
        with timed(record["seconds"], "trials"):
            for j, rows in offers.items():
                added = np.concatenate([self._added, U[rows]])
                codes = np.concatenate([self.pseudo[self._added], P[rows].argmax(axis=1)])
                h, _ = self.train(self.train_rows, added, codes, m, 1 + j)
                scores[j] = self.score(h)
        record["queue_scores"] = {str(j): score for j, score in scores.items()}
        return max(scores, key=lambda j: (scores[j], j))

    def add(self, m: int, rows: IntArray, codes: IntArray, **queues: int) -> None:
        """Move documents from U to T (step 3.8), and note which queues they are from."""
        self.pseudo[rows], self.labeled_iter[rows] = codes, m
        counts = class_counts(codes, self.data.classes)
        self.history[-1].update(n_added=len(rows), pseudo_label_counts=counts, **queues)

    def refit(self, m: int) -> NeuralNet:
        """Train a net on all labelled rows and the pseudo-labels of the first m episodes."""
        rows = np.flatnonzero((self.labeled_iter > 0) & (self.labeled_iter <= m))
        with timed(self.history[-1]["seconds"], "refit"):
            net, _ = self.train(np.arange(len(self.data.y)), rows, self.pseudo[rows], 0)
        return net

    def _record(self, m: int, pool_size: int) -> dict[str, Any]:
        """Begin the entry of an episode."""
        empty = np.arange(0)
        entry = {
            "iteration": m,
            "n_train": len(self.train_rows) + len(self._added),
            "pool_size": pool_size,
            "n_added": 0,
            "pseudo_label_counts": class_counts(empty, self.data.classes),
            "seconds": {},
        }
        self.history.append(entry)
        self.progress.say(f"episode {m}")
        return entry
