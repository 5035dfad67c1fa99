"""Tables that compare the methods with the alternatives of a user."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from sklearn_spt.experiments import _paper
from sklearn_spt.experiments._blocks import COMMON, Block, Blocks, check_same, method_of
from sklearn_spt.experiments._table import (
    KEYS,
    Column,
    Interval,
    Table,
    Value,
    in_order,
    measure,
    score,
)
from sklearn_spt.inspection._gains import CONFIDENCE, paired
from sklearn_spt.inspection._grouping import CALIBRATION, SCORE_NAMES, Record, distinct
from sklearn_spt.model_selection._intervals import mean_of_means_with_interval, mean_with_interval


def rivals_table(records: Sequence[Record], against: str = "baseline") -> Table:
    """Compare the methods on each data set."""
    cells = _cells(records, against)
    rows: list[tuple[Value, ...]] = []
    for block in cells.names:
        groups = cells.of(block)
        theirs = groups.get(against, [])
        for method in in_order(groups):
            group = groups[method]
            rows.append(
                (
                    *block,
                    _paper.LABELS.get(method, method),
                    measure(group, "f1"),
                    _gain(paired(group, theirs)) if method != against else None,
                    measure(group, "macro_f1"),
                    *(measure(group, name) for name in CALIBRATION),
                    len(group),
                )
            )
    columns = (
        *KEYS,
        Column("method", "method", "text"),
        Column("f1", SCORE_NAMES["f1"], "measure"),
        Column("gain", f"gain of F1 over {_paper.LABELS.get(against, against)}", "interval"),
        Column("macro_f1", SCORE_NAMES["macro_f1"], "measure"),
        *(Column(key, heading, "measure") for key, heading in CALIBRATION.items()),
        Column("n_seeds", "seeds", "integer"),
    )
    about = (
        f"Gains are paired by seed; the {CONFIDENCE:.0%} intervals are Student's, over seeds. "
        "Brier score and calibration error: smaller is better."
    )
    return Table("Rivals: mean ± sd over seeds", columns, tuple(rows), (about, *cells.notes()))


def ranks_table(records: Sequence[Record], against: str = "baseline") -> Table:
    """Compare the methods over all data sets at once."""
    cells = _cells(records, against)
    done = [r for block in cells.names for group in cells.of(block).values() for r in group]
    check_same(done, COMMON, "the data sets", "mean")
    methods = in_order(distinct(m for block in cells.names for m in cells.of(block)))
    f1: dict[str, dict[tuple[Block, int], float]] = {method: {} for method in methods}
    for block in cells.names:
        for method, group in cells.of(block).items():
            f1[method].update({(block, r["cell"]["seed"]): score(r) for r in group})
    common = sorted(set.intersection(*(set(scores) for scores in f1.values())))
    if not common:
        raise ValueError(
            f"no data set and seed has a result of all of {', '.join(methods)}; select the methods "
            "that have, as with where={'method': [...]} (--select method=a,b)."
        )
    values = np.array([[f1[method][key] for key in common] for method in methods])
    ranks = rankdata(-values, axis=0).mean(axis=1)
    blocks = [block for block, _ in common]
    rows: list[tuple[Value, ...]] = []
    for method, rank, scores in zip(methods, ranks, values, strict=True):
        of_blocks = [scores[[b == block for b in blocks]].mean() for block in distinct(blocks)]
        gains = [
            np.array(pairs)
            for groups in map(cells.of, cells.names)
            if (pairs := paired(groups.get(method, []), groups.get(against, [])))
        ]
        rows.append(
            (
                _paper.LABELS.get(method, method),
                float(rank),
                float(np.mean(of_blocks)),
                None
                if method == against
                else Interval(*mean_of_means_with_interval(gains, CONFIDENCE)),
                None if method == against else sum(map(len, gains)),
            )
        )
    columns = (
        Column("method", "method", "text"),
        Column("rank", f"mean rank of {len(methods)}", "number"),
        Column("f1", "mean F1", "number"),
        Column("gain", f"gain of F1 over {_paper.LABELS.get(against, against)}", "interval"),
        Column("n_pairs", "pairs", "integer"),
    )
    about = (
        f"Ranks (1 is best) and mean F1 are over the {len(common)} pairs of data set and seed that "
        "all methods have, gains over those that both methods have. All data sets count alike in "
        f"mean F1 and gains. The {CONFIDENCE:.0%} intervals are Welch's: they speak of other draws "
        "of labelled texts from these data sets, not of other data sets; a single seed of one of "
        "them gives none."
    )
    return Table("Rivals over all data sets", columns, tuple(rows), (about, *cells.notes()), 0)


def _cells(records: Sequence[Record], against: str) -> Blocks:
    cells = Blocks(records, lambda record: True, method_of)
    there = in_order(distinct(m for block in cells.names for m in cells.of(block)))
    if against not in there:
        raise ValueError(
            f"against={against!r} has no finished record; there are {', '.join(there) or 'none'}. "
            "Name another method (--against), or other folders (--records)."
        )
    return cells


def _gain(gains: Sequence[float]) -> Interval | None:
    return Interval(*mean_with_interval(np.array(gains), CONFIDENCE)) if gains else None
