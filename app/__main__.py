"""Makes ``python -m app`` the same command as ``fullstop``. Main thread."""

import sys

from app.cli import main

if __name__ == "__main__":
    sys.exit(main())
