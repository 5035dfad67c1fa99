"""Ends fits in their midst, for tests of what goes on from there."""

from __future__ import annotations


class Killed(Exception):
    """Ends a fit from a callback."""


class KillAfter:
    """Ends the fit after an iteration."""

    def __init__(self, t):
        self.t = t

    def __call__(self, iteration):
        """Raise at the time."""
        if iteration.number == self.t:
            raise Killed
