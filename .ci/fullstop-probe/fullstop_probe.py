"""The program ``fullstop-probe`` with a namespace of its own.

Its parts have the names that they have in the application: ``api``, ``app``, ``engine``. Those are
too general for an environment that other packages share, so the parts are in a folder of this
package, and only this program looks for modules there.
"""

import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return the exit code."""
    parts = str(Path(__file__).with_name("parts"))
    if parts not in sys.path:
        sys.path.insert(0, parts)
    from app.probe_cli import main as run

    return run(argv)
