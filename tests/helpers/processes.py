"""Code that runs in a new process."""

from __future__ import annotations

import os
import subprocess
import sys


def run_python(code, *arguments, **variables):
    """Run code that may import the test modules, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
