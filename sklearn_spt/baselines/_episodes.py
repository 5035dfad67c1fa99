"""Steps of `SpacedRepetitionClassifier`: episodes, comparison of queues, history."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._base import SemiSupervisedData
from sklearn_spt._functional import class_counts
from sklearn_spt._holdout import HoldOut, hold_out, positive_code
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt.baselines._leitner import due_documents, next_queues
from sklearn_spt.baselines._selection import throttle
from sklearn_spt.baselines._training_set import training_set
from sklearn_spt.nets._parts import modules


class Episodes:
    """State of a fit: held-out rows, training set, pseudo-labels and history."""

    def __init__(self, model: Any, net: NeuralNet, data: SemiSupervisedData) -> None:
        self.model, self.data = model, data
        self.max_episodes = model.max_iter if data.n_unlabeled else 0
        self.trainer = SupervisedTrainer(model, net, data.classes, "spaced-rep")
        self.pseudo = np.full(data.n_unlabeled, -1, dtype=np.int64)
        self.labeled_iter = self.pseudo.copy()
        self.history: list[dict[str, Any]] = []
        self.held: HoldOut | None = None
        positive = positive_code(data.classes, model.pos_label)
        if self.max_episodes:
            self.held = hold_out(
                data,
                model.validation_fraction,
                self.trainer.rng(0, 1),
                positive=positive,
                otherwise="One episode is run, and the last net learns from its highest queue.",
                remedy="Label more rows of the rare classes.",
            )
            if self.held is None:
                self.max_episodes = 1
            else:
                self.data = self.held.training_part(data)

    def train(
        self, rows: IntArray, codes: IntArray, *path: int, **options: Any
    ) -> tuple[NeuralNet, list[float]]:
        """Train a fresh net on the labelled rows and on unlabelled rows with pseudo-labels."""
        X, y, weights = training_set(self.data, rows, codes)
        return self.trainer.train(X, y, *path, weights=weights, **options)

    def label(self, net: NeuralNet, U: IntArray) -> FloatArray:
        """Class probabilities of all unlabelled documents that are left."""
        if not len(U):
            return np.zeros((0, self.data.n_classes))
        with timed(self.history[-1]["seconds"], "labeling"):
            return self._probabilities(net, U)

    def _probabilities(self, net: NeuralNet, rows: IntArray) -> FloatArray:
        return self.trainer.probabilities(net, multi_indexing(self.data.X_unlabeled, rows))

    def score(self, net: NeuralNet) -> float:
        """Score on the held-out rows, 0 without them."""
        if self.held is None:
            return 0.0
        return self.held.score(self.trainer.probabilities(net, self.held.X))

    @property
    def _added(self) -> IntArray:
        """Unlabelled rows that are in the training set."""
        return np.flatnonzero(self.labeled_iter >= 0)

    def start(self) -> tuple[NeuralNet, float]:
        """Train the first net on the labelled rows that are not held out, and score it."""
        none = np.arange(0)
        record = self._record(0, 0)
        with timed(record["seconds"], "training"):
            g, record["loss"] = self.train(none, none, 0)
        if self.held is not None:
            with timed(record["seconds"], "validation"):
                record["validation_score"] = self.score(g)
        return g, record.get("validation_score", 0.0)

    def episode(
        self, m: int, U: IntArray, provisional: IntArray
    ) -> tuple[NeuralNet, float, IntArray]:
        """Train a fresh net while the documents move between queues.

        Return the net with the weights of its best epoch, its score, and the queues of `U`.
        """
        model = self.model
        queue = np.zeros(len(U), dtype=np.int64)
        scores: list[float] = []
        best_weights: dict[str, Any] = {}
        best = 0

        def after_epoch(g: NeuralNet, epoch: int) -> bool:
            nonlocal best
            due = due_documents(queue, epoch, model.n_queues)
            if len(due):
                P = self._probabilities(g, U[due])
                correct = P.argmax(axis=1) == provisional[due]
                queue[due] = next_queues(queue[due], correct, model.n_queues)
            scores.append(self.score(g))
            if epoch == 1 or self.held is None or scores[-1] > scores[best - 1]:
                best = epoch
                if self.held is not None and epoch < model.episode_epochs:
                    for name, module in modules(g).items():
                        best_weights[name] = copy.deepcopy(module.state_dict())
            return epoch - best >= model.patience

        record = self._record(m, len(U))
        rows = self._added
        with timed(record["seconds"], "episode"):
            g, record["loss"] = self.train(
                rows,
                self.pseudo[rows],
                m,
                epochs=model.episode_epochs,
                on_epoch=after_epoch,
            )
        if best < len(scores):
            for name, module in modules(g).items():
                module.load_state_dict(best_weights[name])
        if self.held is not None:
            record["validation_score"] = scores[best - 1]
        record["best_epoch"] = best
        record["queue_sizes"] = np.bincount(queue, minlength=model.n_queues).tolist()
        return g, scores[best - 1], queue

    def select(self, members: IntArray, P: FloatArray) -> IntArray:
        """Select the most confident of the rows `members` of P."""
        n_train = len(self.data.y) + len(self._added)
        confidence = P[members].max(axis=1)
        return members[throttle(confidence, n_train, self.model.threshold, self.model.max_fraction)]

    def designate(self, queue: IntArray, P: FloatArray) -> int:
        """Return the queue whose documents give the best score, ties to the highest.

        Call it in the first episode, when all unlabelled documents are left. Queues are not
        compared without held-out rows, or if at most one holds confident documents. Then it is the
        highest queue with confident documents, or else the highest that is not empty.
        """
        selected = {int(j): self.select(np.flatnonzero(queue == j), P) for j in set(queue)}
        candidates = {j: rows for j, rows in sorted(selected.items()) if len(rows)}
        if self.held is None or len(candidates) < 2:
            return max(candidates or selected)
        record = self.history[-1]
        scores: dict[int, float] = {}
        with timed(record["seconds"], "trials"):
            for j, rows in candidates.items():
                h, _ = self.train(rows, P[rows].argmax(axis=1), 1, 1 + j)
                scores[j] = self.score(h)
        record["queue_scores"] = {str(j): score for j, score in scores.items()}
        return max(scores, key=lambda j: (scores[j], j))

    def add(self, m: int, rows: IntArray, codes: IntArray) -> None:
        """Add documents with their pseudo-labels to the training set."""
        self.pseudo[rows], self.labeled_iter[rows] = codes, m
        counts = class_counts(codes, self.data.classes)
        self.history[-1].update(n_added=len(rows), pseudo_label_counts=counts)

    def refit(self) -> NeuralNet:
        """Train a net with all pseudo-labels; it is the last where no held-out row chooses one."""
        rows = self._added
        with timed(self.history[-1]["seconds"], "refit"):
            net, _ = self.train(rows, self.pseudo[rows], 0)
        return net

    def _record(self, m: int, pool_size: int) -> dict[str, Any]:
        """Append the entry of an episode to the history."""
        entry = {
            "iteration": m,
            "n_train": len(self.data.y) + len(self._added),
            "pool_size": pool_size,
            "n_added": 0,
            "pseudo_label_counts": class_counts(np.arange(0), self.data.classes),
            "seconds": {},
        }
        self.history.append(entry)
        self.trainer.progress.say(f"episode {m}")
        return entry
