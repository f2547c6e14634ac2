"""`python -m tfcluster`."""

import sys

from tfcluster.cli import main

if __name__ == "__main__":
    sys.exit(main())
