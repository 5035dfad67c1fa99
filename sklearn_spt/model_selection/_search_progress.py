"""One progress bar over all fits of a search or a cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.utils.parallel import Parallel

from sklearn_spt._progress import Progress

#: Where the functions stand whose parallel calls are counted, each of which fits and scores.
_FITS_OF = "sklearn.model_selection."


@contextmanager
def search_progress(search: Any = None) -> Iterator[None]:
    """Show one progress bar over the fits that scikit-learn runs inside a ``with`` block.

    The bar stands on standard error. It shows the number of all fits from the start, and the
    remaining time. It works for every search and for `cross_val_score` and the like, and for any
    `n_jobs`. A halving search adds the fits of a round to the total when the round begins.

    Parameters
    ----------
    search : GridSearchCV or another search, default=None
        Gives the bar its name, and counts the refit as one more fit. None for functions such as
        `cross_val_score`, which do not refit.

    Notes
    -----
    Inside the block, two methods of :class:`sklearn.utils.parallel.Parallel` also count its tasks.
    The calls of `sklearn.model_selection` count, those inside the fits do not. Run one such block
    at a time, and leave ``verbose=0`` in the classifier, whose own bar would disturb this one.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_spt.model_selection import search_progress
    >>> search = GridSearchCV(DummyClassifier(), {"strategy": ["prior", "uniform"]}, cv=2)
    >>> with search_progress(search):  # doctest: +SKIP
    ...     search.fit([[0]] * 8, [0, 1] * 4)
    GridSearchCV: 100%|██████████| 5/5 [00:00<00:00, 290.03fit/s]
    """
    call, report = Parallel.__call__, Parallel.print_progress
    counted: dict[Parallel, int] = {}  # the outermost parallel call, and its tasks that are done
    n_refits = int(bool(getattr(search, "refit", False)))
    name = "fits" if search is None else type(search).__name__

    def counting_call(pool: Parallel, tasks: Iterable[Any]) -> Any:
        tasks = list(tasks)
        if counted or not all(task[0].__module__.startswith(_FITS_OF) for task in tasks):
            return call(pool, tasks)
        counted[pool] = 0
        progress.expect(len(tasks))
        try:
            return call(pool, tasks)
        finally:
            counted.clear()

    def counting_report(pool: Parallel) -> None:
        report(pool)
        if pool in counted:
            progress.advance(pool.n_completed_tasks - counted[pool])
            counted[pool] = pool.n_completed_tasks

    with Progress(1, name, n_refits, unit="fit") as progress:
        Parallel.__call__, Parallel.print_progress = counting_call, counting_report
        try:
            yield
            progress.advance(n_refits)
        finally:
            Parallel.__call__, Parallel.print_progress = call, report
