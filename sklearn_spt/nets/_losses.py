"""Losses of the methods, and the arrays that carry their targets.

A batch loss is the mean over the batch. All functions stop the gradient at the targets.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor


def soft_cross_entropy(logits: Tensor, target: Tensor, temperature: float = 1.0) -> Tensor:
    """Compute the cross-entropy of tempered logits against soft targets, per row.

    Parameters
    ----------
    logits : Tensor of shape (n, K)
        Logits z. Half precision is raised to float32 first.
    target : Tensor of shape (n, K)
        Target distributions; a row may be scaled by a weight. They carry no gradient.
    temperature : float, default=1.0
        T > 0.

    Returns
    -------
    loss : Tensor of shape (n,)
        ``-sum_c target_c * log softmax(z / T)_c``. The factor T**2 is not in it.

    Raises
    ------
    ValueError
        If the shapes differ or the temperature is not positive.
    """
    _check_temperature(temperature)
    if logits.ndim != 2 or logits.shape != target.shape:
        raise ValueError(
            "logits and target must both have shape (n, K), got "
            f"{tuple(logits.shape)} and {tuple(target.shape)}."
        )
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_p = torch.log_softmax(z / temperature, dim=1)
    return -(target.detach().to(log_p.dtype) * log_p).sum(dim=1)


def distillation_loss(
    logits: Tensor, hard: Tensor, soft: Tensor, lam: float, temperature: float
) -> Tensor:
    """Mix the loss on hard labels with distillation from a teacher, per row.

    Parameters
    ----------
    logits : Tensor of shape (n, K)
        Logits z of the student.
    hard : Tensor of shape (n, K)
        One-hot labels; a row may be scaled by a weight.
    soft : Tensor of shape (n, K)
        The teacher's probabilities at the same temperature; a row may be scaled by a weight.
    lam : float
        λ, the share of distillation in [0, 1]; 1 gives the loss on pseudo-labelled documents.
    temperature : float
        T > 0.

    Returns
    -------
    loss : Tensor of shape (n,)
        ``(1 - lam) * CE(z, hard) + lam * T**2 * CE_T(z, soft)``. T**2 keeps the gradient of the
        second term at the scale of the first whatever T is.

    Raises
    ------
    ValueError
        If the shapes differ, `lam` is outside [0, 1] or the temperature is not positive.

    References
    ----------
    .. [1] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, the objective of the fine-tuning stage.
    .. [2] G. Hinton, O. Vinyals and J. Dean, "Distilling the Knowledge in a Neural Network",
       2015, section 2.
    """
    _check_lam(lam)
    hard_loss = soft_cross_entropy(logits, hard)
    soft_loss = soft_cross_entropy(logits, soft, temperature)
    return (1.0 - lam) * hard_loss + lam * temperature**2 * soft_loss


# A subclass of CrossEntropyLoss because skorch looks at exactly that: with any other criterion its
# predict_proba leaves out the softmax and returns logits, without a word.
class DistillationLoss(torch.nn.CrossEntropyLoss):
    """Criterion that learns from hard labels and from a teacher at the same time.

    It takes the place of the criterion of any skorch net whose module returns logits. The target
    of a row holds two distributions side by side, ``[hard | soft]``; `distillation_targets` builds
    it.

    Parameters
    ----------
    lam : float, default=0.3
        λ, the share of distillation in [0, 1]. 0 is plain cross-entropy, 1 is distillation alone.
        The default is the paper's, tuned there on the training set of one of its tasks.
    temperature : float, default=3.0
        T > 0, the temperature of the soft targets. The default is the paper's.

    Raises
    ------
    ValueError
        If `lam` is outside [0, 1] or the temperature is not positive.

    See Also
    --------
    distillation_targets : Builds the targets.

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
        _check_lam(lam)
        _check_temperature(temperature)
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
            ``[hard | soft]``, where each half of a row may be scaled by the row's weight. The
            mean is over rows, not over weights. A vector of class indices gives plain
            cross-entropy, so that a net with this criterion can still be scored on labels.

        Returns
        -------
        loss : Tensor of shape ()
            Mean over the batch of ``(1 - lam) * CE(hard) + lam * T**2 * CE_T(soft)``.

        Raises
        ------
        ValueError
            If the target is neither of the two.
        """
        if target.ndim == 1 and not target.is_floating_point():
            return super().forward(logits, target)
        n, n_classes = logits.shape
        if target.shape != (n, 2 * n_classes):
            raise ValueError(
                f"target has shape {tuple(target.shape)}, but for {n} rows of logits {n_classes} "
                f"wide it must have shape {(n, 2 * n_classes)}, [hard | soft], or hold one class "
                f"index (an integer) per row."
            )
        hard, soft = target[:, :n_classes], target[:, n_classes:]
        return distillation_loss(logits, hard, soft, self.lam, self.temperature).mean()

    def extra_repr(self) -> str:
        """Return the parameters, for ``repr``."""
        return f"lam={self.lam}, temperature={self.temperature}"


def one_hot(y: ArrayLike, n_classes: int) -> NDArray[np.float32]:
    """Turn class indices into indicator rows.

    Parameters
    ----------
    y : array-like of shape (n,)
        Class indices from 0 to ``n_classes - 1``.
    n_classes : int
        Number of classes K.

    Returns
    -------
    indicator : ndarray of shape (n, K), float32
        1 in the column of the row's class, 0 elsewhere.

    Raises
    ------
    TypeError
        If `y` does not hold integers.
    ValueError
        If a class index is out of range.
    """
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must hold one class index per row, got shape {y.shape}.")
    if y.size and y.dtype.kind not in "iu":
        raise TypeError(f"y must hold integer class indices, got dtype {y.dtype}.")
    bad = np.flatnonzero((y < 0) | (y >= n_classes))
    if bad.size:
        raise ValueError(
            f"class indices must be from 0 to {n_classes - 1}, but row {bad[0]} is {y[bad[0]]}."
        )
    indicator = np.zeros((len(y), n_classes), dtype=np.float32)
    indicator[np.arange(len(y)), y.astype(np.intp)] = 1.0
    return indicator


def distillation_targets(
    hard: ArrayLike | None, soft: ArrayLike | None, weight: ArrayLike | None = None
) -> NDArray[np.float32]:
    """Build targets ``[hard | soft]`` for `DistillationLoss`.

    Parameters
    ----------
    hard : array-like of shape (n,) or (n, K), or None
        Class indices, or one-hot rows, scaled or not. None stands for zeros.
    soft : array-like of shape (n, K) or None
        The teacher's tempered probabilities, scaled or not. None stands for zeros; then `hard`
        must be a matrix, for class indices alone do not tell how many classes there are.
    weight : array-like of shape (n,), default=None
        Weights >= 0, each of which multiplies both halves of its row. None means 1.

    Returns
    -------
    target : ndarray of shape (n, 2 * K), float32
        The rows, in the order given.

    Raises
    ------
    ValueError
        If shapes do not fit, the number of classes is unknown, or a weight is negative or not
        finite.
    """
    if hard is not None:
        hard = np.asarray(hard)
    if soft is not None:
        soft = np.asarray(soft, dtype=np.float32)
        if soft.ndim != 2:
            raise ValueError(f"soft must have shape (n, K), got {soft.shape}.")
        if hard is None:
            hard = np.zeros_like(soft)
        elif hard.ndim == 1:
            hard = one_hot(hard, soft.shape[1])
    if hard is None or hard.ndim != 2:
        raise ValueError(
            "the number of classes is unknown: give soft, or hard as a matrix, for example "
            "one_hot(y, n_classes)."
        )
    if soft is None:
        soft = np.zeros(hard.shape, dtype=np.float32)
    if hard.shape != soft.shape:
        raise ValueError(
            f"hard and soft must have the same rows and classes, got {hard.shape} and {soft.shape}."
        )
    target = np.concatenate([hard, soft], axis=1, dtype=np.float32, casting="same_kind")
    if weight is not None:
        target *= _checked_weight(weight, len(target))[:, None]
    return target


def _checked_weight(weight: ArrayLike, n: int) -> NDArray[np.float32]:
    weight = np.asarray(weight, dtype=np.float32)
    if weight.shape != (n,):
        raise ValueError(f"weight must have shape ({n},), one per row, got {weight.shape}.")
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        raise ValueError(
            f"weight must be finite and at least 0, but row {bad[0]} is {weight[bad[0]]}."
        )
    return weight


def _check_lam(lam: float) -> None:
    if not 0 <= lam <= 1:
        raise ValueError(f"lam must be in [0, 1], got {lam!r}.")


def _check_temperature(temperature: float) -> None:
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be positive and finite, got {temperature!r}.")
