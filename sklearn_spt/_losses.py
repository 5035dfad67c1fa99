"""Losses and the arrays that carry their targets."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sklearn_spt._labels import Codes, FloatArray


# A subclass of CrossEntropyLoss because skorch looks at exactly that: with any other criterion its
# predict_proba leaves out the softmax and returns logits, without a warning.
class DistillationLoss(torch.nn.CrossEntropyLoss):
    """Criterion that learns from hard labels and from a teacher at the same time.

    It works in any skorch net whose module returns logits. The target of a row holds two
    distributions side by side, ``[hard | soft]``, for example
    ``np.hstack([one_hot_labels, teacher_probabilities]).astype("float32")``.

    Parameters
    ----------
    lam : float in [0, 1], default=0.3
        λ, the weight of distillation. 0 is plain cross-entropy, 1 is distillation alone. The
        default is the paper's.
    temperature : float > 0, default=3.0
        T, the temperature of the soft targets. The default is the paper's.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    References
    ----------
    .. [1] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, the objective of the fine-tuning stage.
    .. [2] G. Hinton, O. Vinyals and J. Dean, "Distilling the Knowledge in a Neural Network",
       2015, section 2: the factor T².

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
            raise ValueError(f"lam must be in [0, 1], got {lam!r}.")
        if not 0 < temperature < float("inf"):
            raise ValueError(f"temperature must be positive and finite, got {temperature!r}.")
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
            over weights. Class indices of shape (n,) give plain cross-entropy.

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
        n, K = logits.shape
        if target.shape != (n, 2 * K):
            raise ValueError(
                f"target has shape {tuple(target.shape)}, but for logits of shape {(n, K)} it must "
                f"have shape {(n, 2 * K)}, [hard | soft], or hold one class index per row."
            )
        # at least in float32
        z, T = logits.to(torch.promote_types(logits.dtype, torch.float32)), self.temperature
        hard, soft = target.detach().to(z.dtype).split(K, dim=1)
        cross_entropy = -(hard * torch.log_softmax(z, dim=1)).sum(dim=1)
        distillation = -(T**2) * (soft * torch.log_softmax(z / T, dim=1)).sum(dim=1)
        return ((1 - self.lam) * cross_entropy + self.lam * distillation).mean()


def distillation_targets(
    hard: FloatArray, soft: FloatArray | None = None, weights: FloatArray | None = None
) -> NDArray[np.float32]:
    """Build targets ``[hard | soft]`` from matrices (n, K); a weight multiplies its whole row."""
    soft = np.zeros_like(hard) if soft is None else soft
    targets = np.hstack([hard, soft]).astype(np.float32)
    return targets if weights is None else targets * weights.astype(np.float32)[:, None]


def predicted_codes(P: FloatArray) -> Codes:
    """Return the most probable class of each row, the lowest of equals.

    Of two classes it is class 1 from a probability of 0.5 on, as in the authors' code.
    """
    return np.asarray((P[:, 1] >= 0.5).astype(np.intp) if P.shape[1] == 2 else P.argmax(axis=1))
