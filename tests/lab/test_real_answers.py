"""A few answers of the real model, where it was fetched: short runs of ``tests.lab.real_answers``.

``FULLSTOP_REAL_MODELS`` names the folder that ``python -m tests.lab.real_models`` was given.
"""

import os
from pathlib import Path

import pytest

from tests.lab.real_answers import ALL, run
from tests.lab.real_models import NAME

_FOLDER = os.environ.get("FULLSTOP_REAL_MODELS", "")
pytestmark = pytest.mark.skipif(
    not _FOLDER or not (Path(_FOLDER) / NAME / "config.json").exists(),
    reason="the real model was not fetched",
)


@pytest.mark.parametrize("check", ALL)
def test_the_real_model_answers_as_the_oracle_says(check: str) -> None:
    run(Path(_FOLDER) / NAME, 4, [check], both=False)
