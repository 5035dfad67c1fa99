"""LoRA adapters of peft in a folder: settings as JSON, weights beside those of the encoder."""

from __future__ import annotations

import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import nn

# Some of the other settings name code, or change the weights of the encoder.
_SETTINGS = ("r", "lora_alpha", "lora_dropout", "target_modules", "use_rslora", "use_dora")
_WEIGHTS = "adapter.safetensors"


def is_lora(value: Any) -> bool:
    """Whether a value is the configuration of a LoRA."""
    return type(value).__name__ == "LoraConfig" and type(value).__module__.startswith("peft.")


def lora_settings(config: Any, name: str) -> dict[str, Any]:
    """Return the settings of a LoRA as plain data; others than these must have their defaults."""
    found = {setting: getattr(config, setting) for setting in _SETTINGS}
    if isinstance(found["target_modules"], set):
        found["target_modules"] = sorted(found["target_modules"])
    again = lora(found)
    lost = [f.name for f in fields(config) if getattr(config, f.name) != getattr(again, f.name)]
    if lost:
        raise ValueError(
            f"{name} (LoraConfig) cannot be saved with {', '.join(lost)}: a folder keeps "
            f"{', '.join(_SETTINGS)} alone. Use pickle or joblib for this classifier."
        )
    return found


def lora(settings: dict[str, Any]) -> Any:
    """Return the configuration with these settings."""
    from peft import LoraConfig

    return LoraConfig(**settings)


def write_adapter(model: Any, folder: Path) -> Any:
    """Write the weights of an adapter, if there is one; return the encoder without it."""
    if not hasattr(model, "unload"):
        return model
    weights = {name: w for name, w in model.state_dict().items() if "lora_" in name}
    save_file(weights, folder / _WEIGHTS)
    return copy.deepcopy(model).unload()


def read_adapter(model: nn.Module, folder: Path) -> None:
    """Give a fresh adapter its weights, if the folder has some."""
    if (folder / _WEIGHTS).is_file():
        model.load_state_dict(load_file(folder / _WEIGHTS), strict=False)
