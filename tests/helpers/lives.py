"""Which nets of a fit are alive while it goes on."""

from __future__ import annotations

import gc
import weakref

from sklearn_spt.self_pretraining._trainer import Run


class Lives:
    """Follows one net of each iteration: an ``on_iteration`` callback.

    Parameters
    ----------
    which : str
        The attribute of an iteration that holds the net.

    Attributes
    ----------
    before : dict
        For each student, whether the nets followed so far are alive just before its training.
    """

    def __init__(self, which, monkeypatch):
        self.which = which
        self.nets = []
        self.before = {}
        student = Run.student

        def noted(run, t, *args):
            gc.collect()
            self.before[t] = [net() is not None for net in self.nets]
            return student(run, t, *args)

        monkeypatch.setattr(Run, "student", noted)

    def __call__(self, iteration):
        """Follow the net of this iteration."""
        self.nets.append(weakref.ref(getattr(iteration, self.which)))
