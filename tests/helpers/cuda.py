"""A CUDA device without values, and graphs that replay Python: tests that need no GPU."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
import torch._dynamo  # compares the signature of what is replaced below with its own
from torch import nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.nn.utils import clip_grad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sklearn_spt.nets import _device_loop, _token_net
from sklearn_spt.text import _pretrained

#: torch's name of the device; without a number torch would ask CUDA for the current one.
DEVICE = "cuda:0"
#: Operations that start no kernel: they take memory, or return what is there.
_NO_LAUNCH = ("empty", "empty_like", "new_empty", "detach", "_unsafe_view", "lift_fresh")
HALF = torch.bfloat16


def set_sync_debug_mode(mode):
    """Call torch's function of this name, which warns at its first call in a process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode", UserWarning)
        torch.cuda.set_sync_debug_mode(mode)


class Generators:
    """Two CUDA devices that start when a generator is read, as torch's do; each holds a seed."""

    def __init__(self, monkeypatch, started):
        self.started = started
        self.kept = None
        self.generators = [5, 5]
        own = {
            "is_available": self.start,
            "is_initialized": lambda: self.started,
            "device_count": lambda: 2,
            "_is_in_bad_fork": lambda: False,
            "manual_seed_all": self.seed,
            "get_rng_state": lambda device: self.start()[device],
            "set_rng_state": self.set_one,
            "get_rng_state_all": lambda: list(self.start()),
            "set_rng_state_all": lambda states: self.start().__setitem__(slice(None), states),
        }
        for name, function in own.items():
            monkeypatch.setattr(torch.cuda, name, function)

    def start(self):
        if not self.started:
            self.started = True
            self.seed(self.kept)
        return self.generators

    def seed(self, seed):
        self.kept = seed
        if self.started:
            self.generators[:] = [seed, seed]

    def set_one(self, state, device):
        self.start()[device] = state


class _AsOnCuda(TorchFunctionMode):
    """Takes the kernels that torch takes on CUDA, and casts as its autocast does.

    torch's own choice looks at the device in C++, where the tensors have no values and no device.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not (args and isinstance(args[0], FakeTensor)):
            return func(*args, **kwargs)
        cast = torch.is_autocast_enabled("cuda")
        if func is nn.functional.linear and cast:
            args = [x.to(HALF) for x in args]
        elif func is nn.functional.layer_norm and cast:
            args = [x.float() if isinstance(x, torch.Tensor) else x for x in args]
        elif func is nn.functional.dropout:
            return torch.native_dropout(args[0], args[1] if len(args) > 1 else kwargs["p"], True)[0]
        elif func is nn.functional.scaled_dot_product_attention:
            return self.attention(*args, **kwargs)
        return func(*args, **kwargs)

    @staticmethod
    def attention(q, k, v, attn_mask, dropout_p=0.0, scale=None, is_causal=False, **kwargs):
        """Call the memory-efficient kernel, which adds numbers; torch makes them of booleans."""
        if attn_mask.dtype is torch.bool:
            hidden = attn_mask.logical_not()
            attn_mask = torch.zeros_like(attn_mask, dtype=q.dtype).masked_fill_(hidden, -torch.inf)
        assert attn_mask.dtype is q.dtype
        attn_mask = attn_mask.expand(*q.shape[:3], k.shape[2])
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            q, k, v, attn_mask, True, dropout_p, is_causal, scale=scale
        )[0]


class Launches(TorchDispatchMode):
    """Counts what runs on CUDA; a copy to the CPU is an error. The CPU computes as ever."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()
        #: Copies from the CPU, and whether attention could have gone to cuDNN.
        self.copies = 0
        self.with_cudnn = set()

    def total(self):
        """Number of launches so far."""
        return self.counts.total()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        fake = any(isinstance(x, FakeTensor) for x in tree_leaves((args, kwargs)))
        wanted = kwargs.get("device")
        if wanted is not None and torch.device(wanted).type == "meta":
            kwargs = {**kwargs, "device": torch.device(DEVICE)}  # as C++ sees it, see `fake_cuda`
        elif not fake and (wanted is None or torch.device(wanted).type != "cuda"):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        # without values torch knows only AdamW with a rate of Python
        if func is torch.ops.aten._fused_adamw_.tensor_lr:
            assert kwargs["lr"].device.type == "cuda"
            assert kwargs["lr"].dtype is torch.float32  # the kernel reads a float
            func, kwargs = torch.ops.aten._fused_adamw_.default, {**kwargs, "lr": 0.1}
        if func is torch.ops.aten.native_dropout_backward.default:
            out = torch.empty_like(args[0])  # in C++ it asks for a tensor on the device of another
        else:
            out = func(*args, **kwargs)
        for made in tree_leaves(out):
            if isinstance(made, torch.Tensor) and made.device.type != "cuda":
                raise RuntimeError(f"{func} waits for the device")
        name = func.overloadpacket.__name__
        # C++ knows no device of the tensors, and so does not see that they are there already
        moved = name == "_to_copy" and args[0].device == out.device and args[0].dtype == out.dtype
        if name in ("_to_copy", "copy_"):
            self.copies += args[name == "copy_"].device.type == "cpu"
        if name == "_scaled_dot_product_efficient_attention":
            self.with_cudnn.add(torch.backends.cuda.cudnn_sdp_enabled())
        if not (func.is_view or moved or name in _NO_LAUNCH):
            self.counts[name] += 1
        return out


def _values(step):
    """Return the numbers of Python that a recorded step has read; a replay does not read them."""
    (group,) = step.optimizer.param_groups
    found = {**vars(step.criterion), **group, "clipping": step.clipping}
    kept = ("lam", "temperature", "lr", "betas", "eps", "weight_decay", "clipping")
    return {name: found[name] for name in kept if not isinstance(found[name], torch.Tensor)}


class Recorder:
    """Stands in for that of `_cuda_graphs`: a replay runs what was recorded once more.

    As on a GPU, recording takes two steps and copies nothing from the CPU, a replay is one launch,
    and trains the weights that were trained when it was recorded.
    """

    shapes: list[tuple[int, ...]]
    replays: int

    def __init__(self, launches=None):
        self.launches = launches
        self.shapes = []
        self.replays = 0

    def __call__(self, run):
        step = run.__self__
        assert step.optimizer.param_groups[0]["capturable"]
        self.shapes.append(tuple(step.ids.shape))
        trained = [weight.requires_grad for weight in step.module.parameters()]
        copies = 0 if self.launches is None else self.launches.copies
        with torch.random.fork_rng(devices=[]):
            run()
            run()
        assert self.launches is None or self.launches.copies == copies
        for memory in (step.loss, step.logits):
            memory.fill_(torch.nan)
        return partial(self.replay, run, trained, _values(step))

    def replay(self, run, trained, values):
        self.replays += 1
        step = run.__self__
        assert _values(step) == values
        now = [weight.requires_grad for weight in step.module.parameters()]
        before = Counter() if self.launches is None else self.launches.counts.copy()
        for flags in (trained, now):
            for weight, flag in zip(step.module.parameters(), flags, strict=True):
                weight.requires_grad_(flag)
            if flags is trained:
                run()
        if self.launches is not None:
            self.launches.counts = before + Counter(replay=1)


class _FakeMode(FakeTensorMode):
    avoid_device_init = True  # torch looks for a GPU, which the tests say is there


@contextmanager
def fake_cuda(monkeypatch, *checkpoints):
    """Let "cuda:0" be a device without values inside the block, and yield its `Launches`.

    `checkpoints` are the encoders of the fits. Logits and vectors that are fetched are random
    numbers, and each loss is 0.5. Reading anything else, and mixing devices, are errors.
    """
    for checkpoint in checkpoints:
        _pretrained.load_encoder(checkpoint)  # transformers has another use for the device meta
    launches = Launches()
    make = torch.Tensor._make_subclass
    compute = _token_net.TokenNet._in_batches
    rng = np.random.default_rng(0)

    def in_batches(self, ids, function):
        found = compute(self, ids, function)
        assert found.device.type == "cuda"
        return torch.from_numpy(rng.normal(size=tuple(found.shape)).astype(np.float32))

    def fetch(entries, name):
        for entry in entries:
            assert entry[name].device.type == "cuda"
            entry[name] = 0.5

    def make_subclass(cls, elem, grad=False, dispatch_device=False, **kwargs):
        return make(cls, elem, grad, **kwargs)  # autograd has no stream of CUDA to run on

    def one_group(tensors):
        return {(torch.device(DEVICE), torch.float32): (tensors, [])}

    def deepcopy(self, memo):  # torch's looks at the memory
        if id(self) not in memo:
            copied = self.detach().clone()
            is_weight = isinstance(self, nn.Parameter)
            memo[id(self)] = nn.Parameter(copied, self.requires_grad) if is_weight else copied
        return memo[id(self)]

    mode = _FakeMode(allow_non_fake_inputs=True)
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "_make_subclass", staticmethod(make_subclass))
        patch.setattr(FakeTensor, "__deepcopy__", deepcopy, raising=False)
        # torch 2.11 starts CUDA for each tensor of a fake device
        patch.setattr(fake_tensor, "init_gpu_context", lambda device: None)
        patch.setattr(torch.Tensor, "is_set_to", lambda self, other: True)  # there is no memory
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        patch.setattr(torch.cuda, "is_bf16_supported", lambda *args, **kwargs: True)
        patch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
        patch.setattr(clip_grad, "_has_foreach_support", lambda tensors, device: True)
        patch.setattr(clip_grad, "_group_tensors_by_device_and_dtype", one_group)
        patch.setattr(_token_net.TokenNet, "_in_batches", in_batches)
        patch.setattr(_device_loop, "fetch", fetch)
        try:
            with mode, launches, _AsOnCuda():
                yield launches
        finally:
            _pretrained._encoder_on.cache_clear()  # it holds weights without values
