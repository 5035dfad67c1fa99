"""Interrupts fits, for tests of fits that are resumed."""

from __future__ import annotations


class Killed(Exception):
    """Raised by `KillAfter`."""


class KillAfter:
    """Callback that interrupts a fit after iteration `t`."""

    def __init__(self, t):
        self.t = t

    def __call__(self, iteration):
        if iteration.number == self.t:
            raise Killed
