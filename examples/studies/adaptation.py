"""Arms of the study in docs/results/adaptation.md: is an encoder better that knows the texts?

    python examples/studies/adaptation.py run --seed 0 --arm adapted_nets
    python examples/studies/gain_study.py report nets adapted_nets

The commands are those of gain_study.py, with two more arms. With `--scratch FOLDER` both arms use
the same adapted encoders. To adapt an encoder takes about 5 minutes on one core.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gain_study
from gain_study import N_STARTS, Cell, Study, predicted

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, adapt_encoder


@contextmanager
def adapted(cell: Cell) -> Iterator[BertClassifier]:
    """Yield a net over an encoder that was adapted to all texts of a cell."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if cell.scratch is None else cell.scratch.with_suffix("")
        if not (folder / "config.json").exists():
            split, _ = cell.draw()
            adapt_encoder(list(split.texts), folder, random_state=cell.seed, n_threads=1)
        yield BertClassifier(str(folder), n_threads=1)


def adapted_nets(cell: Cell) -> dict[str, Any]:
    """Five nets over the adapted encoder; their seeds are those of the five nets."""
    with adapted(cell) as net:
        of = Study(net, alpha=0.0, random_state=0).prepare(cell)
        return {f"adapted{i}": of.soft(of.start(i), of.V) for i in range(N_STARTS)}


def adapted_defaults(cell: Cell) -> dict[str, Any]:
    """Self-Pretraining over the adapted encoder."""
    with adapted(cell) as net:
        return predicted("defaults, adapted", SelfPretrainingClassifier(net), cell)


gain_study.ARMS |= {"adapted_nets": adapted_nets, "adapted_defaults": adapted_defaults}

if __name__ == "__main__":
    sys.exit(gain_study.main())
