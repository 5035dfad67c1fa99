"""``python -m sklearn_spt.experiments``."""

import sys

from sklearn_spt.experiments._cli import main

if __name__ == "__main__":
    sys.exit(main())
