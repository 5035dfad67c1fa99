"""The tasks of a fit, which the fit callbacks of scikit-learn 1.9 and later follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # an older scikit-learn: no callback can be set

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's class."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method itself."""
        return method


class FitTask:
    """A task of a fit that has begun; without callbacks it tells nobody."""

    def __init__(self, estimator: Any, context: Any) -> None:
        self._estimator, self._context = estimator, context
        if context is not None:
            context.call_on_fit_task_begin(estimator=estimator)

    @classmethod
    def root(cls, estimator: Any, n_subtasks: int) -> FitTask:
        """Begin the fit itself."""
        start = getattr(estimator, "_init_callback_context", None)  # public for other packages
        return cls(estimator, None if start is None else start(max_subtasks=n_subtasks))

    def subtask(self, name: str, n_subtasks: int = 0) -> FitTask:
        """Begin a part of this task, which itself has so many parts."""
        if self._context is None:
            return FitTask(self._estimator, None)
        context = self._context.subcontext(task_name=name, max_subtasks=n_subtasks)
        return FitTask(self._estimator, context)

    def end(self) -> bool:
        """End the task; return True if a callback asks to end the loop around it."""
        if self._context is None:
            return False
        return bool(self._context.call_on_fit_task_end(estimator=self._estimator))


class FitTaskMixin(CallbackSupportMixin):
    """Lets callbacks follow a fit, where scikit-learn has them; ``_task`` is the running fit."""

    _task: FitTask

    @contextmanager
    def _followed(self, n_subtasks: int) -> Iterator[None]:
        """Run the block as the task of a fit that has so many parts."""
        self._task = FitTask.root(self, n_subtasks)
        try:
            yield
            self._task.end()
        finally:
            del self._task
            self._end_callbacks()

    @with_callbacks
    def _end_callbacks(self) -> None:
        """Do nothing: the decorator ends the callbacks, whatever the fit has raised."""
