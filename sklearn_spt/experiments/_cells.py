"""One cell of a table: what is run, and the name of the file that keeps its record."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

#: Rises when a change of the protocol makes new records incomparable with older ones.
PROTOCOL = 1
_LATER = ("file", "n_validation")


@dataclass(frozen=True)
class Cell:
    """Data set × method × number of labelled texts × seed, and everything else that counts.

    Attributes
    ----------
    dataset : str
        Name of a data set, or path of a file.
    method : str
        Name of a method.
    n_labeled : int
        Labelled texts.
    n_unlabeled : int or None
        Unlabelled texts; None is all there are.
    n_test : int or None
        Test rows; None is the whole released test part.
    seed : int
        Draws the labelled and the unlabelled texts, and is the method's ``random_state``.
    params : dict
        Parameters of the method that differ from its defaults.
    encoder : str
        Name or path of the pretrained encoder.
    normalize : bool
        Whether the texts are prepared as the paper's authors did.
    score_iterations : bool
        Whether each iteration's ensemble is scored on the test rows.
    protocol : int
        Version of the protocol.
    file : dict or None
        For a file of the user's: checksums of what was read, and the names of its columns.
    n_validation : int or None
        Rows to learn from that are set aside and scored in place of the test rows; None scores
        the test rows.
    """

    dataset: str
    method: str
    n_labeled: int
    n_unlabeled: int | None
    n_test: int | None
    seed: int
    params: Mapping[str, Any] = field(default_factory=dict)
    encoder: str = "sentence-transformers/all-MiniLM-L6-v2"
    normalize: bool = True
    score_iterations: bool = False
    protocol: int = PROTOCOL
    file: Mapping[str, Any] | None = None
    n_validation: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the cell as a dict that can become JSON."""
        content = {**asdict(self), "params": dict(self.params)}
        # what came later is absent unless it is used, so that older records keep their names
        return {k: v for k, v in content.items() if v is not None or k not in _LATER}

    @property
    def file_name(self) -> str:
        """Name of the record's file: legible, and unique by a hash of the whole cell."""
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
    """List all cells of a grid, seeds outermost, so that every method has a first result early.

    Parameters
    ----------
    datasets, methods, n_labeled, seeds : sequence
        The axes.
    params : dict of sequences
        Values of parameters, by ``"name"`` for every method that has it, or ``"method.name"`` for
        one method. Several values are an axis of their own.
    method_params : dict of sequences
        Names of the parameters that each method has.
    files : dict or None
        Attribute ``file`` of the cells of a data set.
    **common
        Other attributes of `Cell`, the same for all.

    Returns
    -------
    list of Cell
        Without repetitions.

    Raises
    ------
    ValueError
        If a parameter belongs to none of the methods.
    """
    used: set[str] = set()
    cells: dict[str, Cell] = {}
    for seed, dataset, n, method in itertools.product(seeds, datasets, n_labeled, methods):
        axes = {}
        for name, values in params.items():
            owner, _, short = name.rpartition(".")
            if short not in method_params[method]:  # of a net that is the method itself
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
        raise ValueError(f"{text!r} is no finite number, and so no value of a parameter.")
    return number


def parse_params(items: Iterable[str]) -> dict[str, list[Any]]:
    """Read ``name=value`` or ``name=value,value,...`` from the command line.

    Raises
    ------
    ValueError
        For an item without a name, a value or an equals sign, or a name given twice.
    """
    params: dict[str, list[Any]] = {}
    for item in items:
        name, equals, values = item.partition("=")
        if not (name and equals and all(values.split(","))):
            raise ValueError(f"{item!r} is not of the form name=value or name=value,value,...")
        if name in params:
            raise ValueError(f"parameter {name!r} is given twice; write {name}=value,value.")
        params[name] = [parse_value(value) for value in values.split(",")]
    return params
