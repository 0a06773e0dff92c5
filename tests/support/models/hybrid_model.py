"""A model of today's kind: three layers of four have states, the others attention.

It is trained: it counts, repeats a few words, and has its own draft head.
"""

import shutil
from pathlib import Path

_TRAINED = Path(__file__).parent / "trained_hybrid"
_DEMO = Path(__file__).parents[3] / "assets" / "demo-model"


def write_trained_hybrid(folder: Path) -> Path:
    """Write the folder of the model, with the demo model's tokenizer, and return it."""
    shutil.copytree(_TRAINED, folder)
    for name in (
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "generation_config.json",
    ):
        shutil.copy(_DEMO / name, folder / name)
    return folder
