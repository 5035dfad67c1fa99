"""SetFit as a scikit-learn classifier; the extra [benchmarks] installs it."""

from __future__ import annotations

import io
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_spt._random import isolated
from sklearn_spt._typing import AnyArray, FloatArray
from sklearn_spt.nets._device import resolve_device
from sklearn_spt.text._locations import encoder_folder


class SetFitClassifier(ClassifierMixin, BaseEstimator):
    """Fine-tune a sentence encoder on pairs of texts, then fit a logistic regression.

    The defaults differ from SetFit's own. `max_steps` is the number of labelled texts; all pairs of
    300 texts take hours on a CPU. Class weights are balanced; without them, the classifier hardly
    ever predicts a rare class. See Tunstall et al., 2022.
    """

    def __init__(
        self,
        pretrained: str,
        *,
        max_steps: int | None = None,
        batch_size: int = 16,
        class_weight: str | None = "balanced",
        n_threads: int | None = None,
        device: str = "auto",
        random_state: int = 0,
    ) -> None:
        self.pretrained = pretrained
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.n_threads = n_threads
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> SetFitClassifier:
        """Fine-tune the encoder, then fit the head."""
        try:
            from datasets import Dataset, disable_progress_bars
            from setfit import SetFitModel, Trainer, TrainingArguments
        except ImportError as error:
            raise ImportError(
                f"SetFit cannot be imported ({error}); install it with: pip install "
                "'sklearn-spt[benchmarks]'"
            ) from error
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        texts = list(X)
        self.device_ = resolve_device(self.device)
        with (
            tempfile.TemporaryDirectory(prefix="sklearn_spt_setfit") as output,
            isolated(self.random_state, self.n_threads),
            _quiet(),
        ):
            disable_progress_bars()
            model = SetFitModel.from_pretrained(
                encoder_folder(self.pretrained),
                local_files_only=True,
                device=self.device_,
                head_params={"class_weight": self.class_weight, "max_iter": 1000},
            )
            arguments = TrainingArguments(
                output_dir=output,
                batch_size=self.batch_size,
                max_steps=len(texts) if self.max_steps is None else self.max_steps,
                seed=self.random_state,
                show_progress_bar=False,
                report_to="none",
                save_strategy="no",
            )
            rows = Dataset.from_dict({"text": texts, "label": codes.tolist()})
            Trainer(model, arguments, train_dataset=rows).train()
        self.model_ = model
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes."""
        with isolated(self.random_state, self.n_threads), _quiet():
            P = self.model_.predict_proba(list(X), as_numpy=True, show_progress_bar=False)
        return np.asarray(torch.as_tensor(P), dtype=np.float64)

    def predict(self, X: Any) -> AnyArray:
        """Most probable classes."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the output, logs and warnings of SetFit."""
    logger = logging.getLogger("setfit")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
