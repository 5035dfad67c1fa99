"""Train an encoder further on texts without labels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sklearn_spt._progress import Progress
from sklearn_spt._random import isolated, root_seed
from sklearn_spt._typing import AnyArray
from sklearn_spt._validation import check_flag, check_integer, check_real, check_verbose
from sklearn_spt.nets._batching import bucketed_batches
from sklearn_spt.nets._device import resolve_device, resolve_precision
from sklearn_spt.nets._encoder import Encoder, attention_mask
from sklearn_spt.nets._kernels import attention_backends
from sklearn_spt.nets._schedules import n_batches
from sklearn_spt.nets._training import without_accelerator
from sklearn_spt.persistence._export import write_sentence_transformer
from sklearn_spt.persistence._folder import new_folder
from sklearn_spt.text._documents import check_documents
from sklearn_spt.text._encoding import check_texts, encode_texts, sequence_lengths
from sklearn_spt.text._locations import DEFAULT_ENCODER, encoder_folder, quiet
from sklearn_spt.text._pretrained import resolve_max_length, text_source

#: Share of the tokens that are predicted, as in BERT.
_MASKED = 0.15
#: Share of the steps in which the learning rate rises from zero; then it falls to zero.
_WARMUP = 0.1
#: Rate of the layers that predict tokens, which start at random, relative to that of the encoder.
_HEAD_RATE = 10


class MaskedTokens(nn.Module):
    """Loss of an encoder that predicts masked tokens: token ids (n, width) to a scalar.

    A token is predicted by its similarity to the word embeddings, as in BERT.
    """

    special_ids: Tensor

    def __init__(self, encoder: Encoder, mask_id: int, special_ids: list[int]) -> None:
        super().__init__()
        words: Any = encoder.model.get_input_embeddings()
        self.encoder, self.words, self.mask_id = encoder, words, mask_id
        first = nn.Linear(encoder.size, words.embedding_dim)
        nn.init.eye_(first.weight)
        self.head = nn.Sequential(first, nn.GELU(), nn.LayerNorm(words.embedding_dim))
        self.bias = nn.Parameter(torch.zeros(words.num_embeddings))
        self.register_buffer("special_ids", torch.tensor(special_ids))

    def forward(self, ids: Tensor) -> Tensor:
        """Return the mean cross-entropy of the masked tokens, in fp32."""
        mask = attention_mask(ids, self.encoder.pad_id)
        given, chosen = self.masked(ids, mask)
        bf16 = self.encoder.precision == "bf16"
        with (
            torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=bf16),
            attention_backends(ids.device),
        ):
            states, _ = self.encoder.states(given, mask)
            z = self.head(states[chosen]) @ self.words.weight.T + self.bias
        return cross_entropy(z.float(), ids[chosen], reduction="sum") / chosen.sum().clamp_min(1)

    def masked(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the encoder reads, and which tokens it predicts.

        Of these, eight tenths are masked, one is replaced by random tokens, one left as it is.
        """
        chosen = mask & ~torch.isin(ids, self.special_ids)
        # drawn on the CPU: the same numbers on every device
        chosen &= (torch.rand(ids.shape) < _MASKED).to(ids.device)
        how = torch.rand(ids.shape).to(ids.device)
        given = ids.masked_fill(chosen & (how < 0.8), self.mask_id)
        other = torch.randint(self.words.num_embeddings, ids.shape).to(ids.device)
        return torch.where(chosen & (how >= 0.9), other, given), chosen


def adapt_encoder(
    texts: Any,
    folder: str | os.PathLike[str],
    *,
    pretrained: str | os.PathLike[str] = DEFAULT_ENCODER,
    max_epochs: int = 3,
    max_length: int | str = "auto",
    batch_size: int = 32,
    lr: float = 1e-4,
    device: str = "auto",
    precision: str = "auto",
    n_threads: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    overwrite: bool = False,
) -> str:
    """Train an encoder further on texts without labels, and write it to a folder.

    Tokens are masked, and the encoder learns to predict them (task-adaptive pre-training [1]_).
    Pass the folder as `pretrained` to any net or classifier of this package. Use texts of the kind
    that you classify, above all the unlabelled ones. Leave test texts out, unless you will have the
    texts to classify before you train.

    Parameters
    ----------
    texts : sequence of str
        Texts: a list, array, pandas or polars Series, or a frame with one column. A few thousand
        are enough.
    folder : str or path-like
        New or empty folder; parents are created. It appears whole or not at all.
    pretrained : str or path-like, default="sentence-transformers/all-MiniLM-L6-v2"
        Name or folder of the encoder to begin with, as in `BertClassifier`.
    max_epochs : int, default=3
        Passes over the texts. Ten were no better in a trial ("docs/results/adaptation").
    max_length : int or "auto", default="auto"
        Texts are cut to this number of tokens, as in `BertClassifier`.
    batch_size : int, default=32
        Texts in a training batch.
    lr : float > 0, default=1e-4
        Greatest learning rate. It rises over the first tenth of the steps and then falls to zero.
        New layers, which are not kept, learn ten times as fast.
    device, precision, n_threads
        As in `BertClassifier`.
    random_state : int, RandomState or None, default=None
        Seeds the order of the texts, the masks and dropout. No global random state changes.
    verbose : int, default=0
        0 prints nothing, 1 shows a progress bar.
    overwrite : bool, default=False
        Whether to replace an encoder that an earlier call wrote.

    Returns
    -------
    str
        The folder, with the encoder in safetensors, its tokenizer, and its pooling.

    Raises
    ------
    ValueError
        If a parameter or a text is unusable, no text has a token, the encoder's tokenizer knows no
        mask, the folder is in use, or the loss becomes infinite.

    See Also
    --------
    BertClassifier : Fine-tunes the encoder on labelled texts.

    References
    ----------
    .. [1] S. Gururangan and others, "Don't Stop Pretraining: Adapt Language Models to Domains and
       Tasks", ACL 2020.

    Examples
    --------
    >>> from sklearn_spt import SelfPretrainingClassifier, adapt_encoder
    >>> encoder = adapt_encoder(texts, "adapted", random_state=0)  # doctest: +SKIP
    >>> SelfPretrainingClassifier(encoder, random_state=0).fit(texts, y)  # doctest: +SKIP
    """
    check_integer(max_epochs, "max_epochs", low=1)
    check_integer(batch_size, "batch_size", low=1)
    check_real(lr, "lr", low=0, closed="neither")
    check_integer(n_threads, "n_threads", low=1, allow_none=True)
    check_verbose(verbose)
    check_flag(overwrite, "overwrite")
    seed = root_seed(random_state)
    device = resolve_device(device)
    precision = resolve_precision(precision, device)
    encoder_folder(pretrained, verbose)
    check_documents(texts, "texts")
    ids = encode_texts(check_texts(texts, "texts"), pretrained, max_length)
    tokenizer = text_source(pretrained).tokenizer
    if tokenizer.mask_token_id is None:
        raise ValueError(
            f"the tokenizer of {os.fspath(pretrained)} has no mask token, so the encoder cannot "
            "learn to predict masked tokens; use a BERT-like encoder."
        )
    if not np.isin(ids, tokenizer.all_special_ids, invert=True).any():
        raise ValueError("texts hold no token to predict: all of them are empty.")
    with (
        new_folder(folder, overwrite) as part,
        Progress(verbose, "adapting", max_epochs * len(ids)) as progress,
        isolated(seed, n_threads),
    ):
        encoder = Encoder(os.fspath(pretrained), precision=precision, device=device)
        model = MaskedTokens(encoder, tokenizer.mask_token_id, tokenizer.all_special_ids)
        _train(model.to(device), ids, max_epochs, batch_size, lr, seed, progress)
        encoder.model.to("cpu")
        with quiet():
            if encoder.pooling == "mean":
                cut = resolve_max_length(max_length, pretrained)
                write_sentence_transformer(encoder, [], cut, part)
            else:
                encoder.model.save_pretrained(part)
            tokenizer.save_pretrained(part)
    return os.path.realpath(os.path.expanduser(folder))


def _train(
    model: MaskedTokens,
    ids: AnyArray,
    max_epochs: int,
    batch_size: int,
    lr: float,
    seed: int,
    progress: Progress,
) -> None:
    encoder, rng = model.encoder, np.random.default_rng(seed)
    device = model.bias.device
    head = [*model.head.parameters(), model.bias]
    groups = [{"params": encoder.parameters(), "lr": lr}, {"params": head, "lr": _HEAD_RATE * lr}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, fused=True)
    n = max_epochs * n_batches(len(ids), batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (_WARMUP * n), (n - step) / ((1 - _WARMUP) * n))
    )
    model.train()
    with without_accelerator([optimizer]):
        for epoch in range(1, max_epochs + 1):
            losses = []
            order = rng.permutation(len(ids))
            lengths = sequence_lengths(ids[order], encoder.pad_id)
            for rows in bucketed_batches(lengths, batch_size, rng):
                batch = torch.from_numpy(ids[order[rows], : lengths[rows].max()]).long()
                loss = model(batch.to(device))
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                losses.append(loss.detach())
                progress.advance(len(rows))
            mean = torch.stack(losses).mean().item()
            if not np.isfinite(mean):
                raise ValueError(f"the loss became {mean} in epoch {epoch}; lower lr={lr}.")
            progress.say(f"loss {mean:.3f}")
