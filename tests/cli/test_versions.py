"""What is installed."""

from __future__ import annotations

from importlib.metadata import version

import torch

import sklearn_spt


def test_versions_are_those_of_the_installed_packages(capsys):
    sklearn_spt.show_versions()
    out, err = capsys.readouterr()
    assert err == ""
    lines = dict(line.strip().split(": ", 1) for line in out.splitlines())
    for name in ("scikit-learn", "skorch", "torch", "transformers", "pytest"):
        assert lines[name] == version(name)
    assert lines["sklearn-spt"] == sklearn_spt.__version__
    assert lines["torch threads"] == str(torch.get_num_threads())
    assert not any("extra" in line or ";" in line for line in lines)
