"""``python -m sklearn_spt``."""

import sys

from sklearn_spt.cli._commands import main

if __name__ == "__main__":
    sys.exit(main())
