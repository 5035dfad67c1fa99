"""Losses of the methods, and the arrays that carry their targets.

A batch loss is the mean over the batch. All functions stop the gradient at the targets.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sklearn_spt._validation import shown


def soft_cross_entropy(logits: Tensor, target: Tensor, temperature: float = 1.0) -> Tensor:
    """Compute ``-sum_c target_c * log softmax(logits / T)_c`` for each row, at least in float32."""
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_p = torch.log_softmax(z / temperature, dim=1)
    return -(target.detach().to(log_p.dtype) * log_p).sum(dim=1)


def distillation_loss(
    logits: Tensor, hard: Tensor, soft: Tensor, lam: float, temperature: float
) -> Tensor:
    """Compute ``(1 - lam) * CE(z, hard) + lam * T**2 * CE_T(z, soft)`` for each row.

    ``T**2`` keeps the gradient of the second term at the scale of the first (G. Hinton, O. Vinyals
    and J. Dean, "Distilling the Knowledge in a Neural Network", 2015, section 2).
    """
    hard_loss = soft_cross_entropy(logits, hard)
    soft_loss = soft_cross_entropy(logits, soft, temperature)
    return (1.0 - lam) * hard_loss + lam * temperature**2 * soft_loss


# A subclass of CrossEntropyLoss because skorch looks at exactly that: with any other criterion its
# predict_proba leaves out the softmax and returns logits, without a warning.
class DistillationLoss(torch.nn.CrossEntropyLoss):
    """Criterion that learns from hard labels and from a teacher at the same time.

    It works in any skorch net whose module returns logits. The target of a row holds two
    distributions side by side, ``[hard | soft]``, for example
    ``np.hstack([one_hot_labels, teacher_probabilities]).astype("float32")``.

    Parameters
    ----------
    lam : float, default=0.3
        λ, the share of distillation in [0, 1]. 0 is plain cross-entropy, 1 is only distillation.
        The default is the paper's, tuned there on the training set of one of its tasks.
    temperature : float, default=3.0
        T > 0, the temperature of the soft targets. The default is the paper's.

    Raises
    ------
    ValueError
        If `lam` is outside [0, 1] or the temperature is not positive.

    References
    ----------
    .. [1] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, the objective of the fine-tuning stage.

    Examples
    --------
    >>> import torch
    >>> from sklearn_spt import DistillationLoss
    >>> logits = torch.tensor([[1.0, -1.0], [0.5, 2.0]])
    >>> target = torch.tensor([[1.0, 0.0, 0.731059, 0.268941], [0.0, 1.0, 0.339244, 0.660756]])
    >>> round(DistillationLoss(lam=0.3, temperature=3.0)(logits, target).item(), 4)
    1.7854
    """

    def __init__(self, lam: float = 0.3, temperature: float = 3.0) -> None:
        if not 0 <= lam <= 1:
            raise ValueError(f"lam must be in [0, 1], got {shown(lam)}.")
        if not 0 < temperature < float("inf"):
            raise ValueError(f"temperature must be positive and finite, got {shown(temperature)}.")
        super().__init__()
        self.lam = lam
        self.temperature = temperature

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the mean loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n, K)
            Logits.
        target : Tensor of shape (n, 2 * K) or (n,)
            ``[hard | soft]``, where each row may be scaled by a weight; the mean is over rows, not
            over weights. Class indices of shape (n,) give plain cross-entropy, so that a net with
            this criterion can be scored on labels.

        Returns
        -------
        loss : Tensor of shape ()
            Mean over the batch of ``(1 - lam) * CE(hard) + lam * T**2 * CE_T(soft)``.

        Raises
        ------
        ValueError
            If the target has another shape.
        """
        if target.ndim == 1 and not target.is_floating_point():
            return super().forward(logits, target)
        n, n_classes = logits.shape
        if target.shape != (n, 2 * n_classes):
            raise ValueError(
                f"target has shape {tuple(target.shape)}, but for logits of shape "
                f"{(n, n_classes)} it must have shape {(n, 2 * n_classes)}, [hard | soft], or hold "
                "one class index (an integer) per row."
            )
        hard, soft = target[:, :n_classes], target[:, n_classes:]
        return distillation_loss(logits, hard, soft, self.lam, self.temperature).mean()

    def extra_repr(self) -> str:
        """Return the parameters, for ``repr``."""
        return f"lam={self.lam}, temperature={self.temperature}"


def one_hot(y: ArrayLike, n_classes: int) -> NDArray[np.float32]:
    """Turn class indices into indicator rows of shape (n, n_classes)."""
    return np.eye(n_classes, dtype=np.float32)[np.asarray(y)]


def distillation_targets(
    hard: NDArray[np.floating],
    soft: NDArray[np.floating] | None,
    weight: NDArray[np.floating] | None = None,
) -> NDArray[np.float32]:
    """Build targets ``[hard | soft]`` from matrices (n, K); a weight multiplies its whole row."""
    soft = np.zeros_like(hard) if soft is None else soft
    target = np.concatenate([hard, soft], axis=1, dtype=np.float32, casting="same_kind")
    if weight is not None:
        target *= weight.astype(np.float32)[:, None]
    return target
