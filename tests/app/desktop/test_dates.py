"""Dates of a system without a region."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
from PySide6.QtCore import QDate, QLocale
from ui.kit.dates import use_iso_dates_without_region
use_iso_dates_without_region()
print(QLocale.system().toString(QDate(2026, 11, 4), QLocale.FormatType.ShortFormat))
import os
print(os.environ.get("LC_TIME"))
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has a region")
@pytest.mark.parametrize(
    ("region", "written"), [("C.UTF-8", "2026-11-04"), ("de_DE.UTF-8", "04.11.26")]
)
def test_dates_without_region_are_iso(region: str, written: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LC_")}
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**kept, "LANG": region},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == [written, "None"]
