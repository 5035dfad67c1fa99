"""One cell of a table: one run, and the name of the file with its record."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

#: Version of the protocol. It rises when new records cannot be compared with older ones.
PROTOCOL = 1
_LATER = ("file", "n_validation")


@dataclass(frozen=True)
class Cell:
    """Data set × method × number of labelled texts × seed, and all other settings of a run."""

    dataset: str
    method: str
    n_labeled: int
    #: None takes all.
    n_unlabeled: int | None
    #: None takes the whole released test part.
    n_test: int | None
    #: Draws the texts, and is the ``random_state`` of the method.
    seed: int
    #: Parameters of the method that differ from its defaults.
    params: Mapping[str, Any] = field(default_factory=dict)
    encoder: str = "sentence-transformers/all-MiniLM-L6-v2"
    #: Whether the texts are prepared as the paper's authors did.
    normalize: bool = True
    score_iterations: bool = False
    protocol: int = PROTOCOL
    #: Checksums and column names of a user's file.
    file: Mapping[str, Any] | None = None
    #: Training rows that are scored in place of the test rows.
    n_validation: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the cell as a dict that can become JSON."""
        content = {**asdict(self), "params": dict(self.params)}
        # unused later fields are left out, so that older records keep their file names
        return {k: v for k, v in content.items() if v is not None or k not in _LATER}

    @property
    def file_name(self) -> str:
        """Name of the record's file, unique by a hash of the whole cell."""
        content = json.dumps(self.as_json(), sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()[:10]
        params = [f"{name}={value}" for name, value in sorted(self.params.items())]
        parts = [self.dataset, str(self.n_labeled), self.method, *params, f"seed{self.seed}"]
        legible = "-".join(re.sub(r"[^\w.=]+", "_", part.rsplit("/", 1)[-1]) for part in parts)
        return f"{legible[:120]}-{digest}.json"


def expand(
    *,
    datasets: Sequence[str],
    methods: Sequence[str],
    n_labeled: Sequence[int],
    seeds: Sequence[int],
    params: Mapping[str, Sequence[Any]],
    method_params: Mapping[str, Sequence[str]],
    files: Mapping[str, Mapping[str, Any]] | None = None,
    **common: Any,
) -> list[Cell]:
    """List all cells of a grid, without repetitions, by seed first.

    A key of `params` is ``"name"`` for every method with this parameter, or ``"method.name"``. Each
    of its values gives a cell. `common` are attributes of `Cell` that all cells share.
    """
    used: set[str] = set()
    cells: dict[str, Cell] = {}
    for seed, dataset, n, method in itertools.product(seeds, datasets, n_labeled, methods):
        axes = {}
        # what is given for a method comes later and replaces what is given for all
        for name, values in sorted(params.items(), key=lambda item: "." in item[0]):
            owner, _, short = name.rpartition(".")
            if short not in method_params[method]:  # the method is the net itself
                short = short.removeprefix("estimator__")
            if owner in ("", method) and short in method_params[method]:
                axes[short] = values
                used.add(name)
        for combination in itertools.product(*axes.values()):
            cell = Cell(
                dataset=dataset,
                file=(files or {}).get(dataset),
                method=method,
                n_labeled=n,
                seed=seed,
                params=dict(zip(axes, combination, strict=True)),
                **common,
            )
            cells[cell.file_name] = cell
    unused = sorted(set(params) - used)
    if unused:
        raise ValueError(
            f"parameter {unused[0]!r} belongs to none of the methods {', '.join(methods)}; write "
            "name=value, or method.name=value for one method."
        )
    return list(cells.values())


def parse_value(text: str) -> Any:
    """Read a value from the command line: a number, true, false, none, or a word."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not a finite number; give a finite value.")
    return number


def parse_params(items: Iterable[str]) -> dict[str, list[Any]]:
    """Read items ``name=value`` or ``name=value,value,...`` of the command line."""
    params: dict[str, list[Any]] = {}
    for item in items:
        name, equals, values = item.partition("=")
        if not (name and equals and all(values.split(","))):
            raise ValueError(f"{item!r} is not of the form name=value or name=value,value,...")
        if name in params:
            raise ValueError(f"parameter {name!r} is given twice; write {name}=value,value.")
        params[name] = [parse_value(value) for value in values.split(",")]
    return params
