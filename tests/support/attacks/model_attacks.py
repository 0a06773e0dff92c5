"""Reads damaged model folders as the library does; only the product's own errors may occur."""

import contextlib
import json
import random
import shutil
from pathlib import Path

from engine.errors import EngineError
from engine.inference.sampling import sampling_defaults
from engine.library.configuration import context_length
from engine.library.local_models import Origin, look_into
from engine.library.memory_need import estimated, need
from engine.library.model_folder import check_folder
from engine.library.weights import INDEX
from tests.support.attacks.damage import damaged, flipped

DEMO = Path(__file__).parents[3] / "assets" / "demo-model"
_WEIGHTS = "model.safetensors"
_FILES = (
    *("config.json",) * 3, *(INDEX,) * 2, *(_WEIGHTS,) * 2, "generation_config.json",
    "tokenizer_config.json", "tokenizer.json",
)  # fmt: skip
_SOUND_INDEX = json.dumps(
    {
        "metadata": {"total_size": 3811557},
        "weight_map": {"model.embed_tokens.weight": _WEIGHTS, "model.norm.weight": _WEIGHTS},
    }
)


def damage_model(seed: int, folder: Path) -> None:
    """Put a copy of the demo model into a folder, one of its files damaged."""
    rng = random.Random(f"model {seed}")
    for file in DEMO.iterdir():
        if file.is_file():
            shutil.copyfile(file, folder / file.name)
    path = folder / rng.choice(_FILES)
    if path.name == _WEIGHTS:
        path.write_bytes(_other_weights(rng, path.read_bytes()))
    else:
        text = _SOUND_INDEX if path.name == INDEX else path.read_text(encoding="utf-8")
        path.write_bytes(damaged(rng, text))


def attack(seed: int, folder: Path) -> str:
    """Damage a model and read it; return "read" or "refused"."""
    damage_model(seed, folder)
    found = look_into(folder, Origin.FOLDER)
    assert 0 <= found.context_length < 1 << 63
    found.problem.encode()
    with contextlib.suppress(EngineError):
        assert need(folder).total < 1 << 200
    with contextlib.suppress(EngineError):
        sampling_defaults(folder)
    try:
        config = check_folder(folder)
    except EngineError as refusal:
        str(refusal).encode()
        return "refused"
    context_length(config)
    estimated(config)
    return "read"


def _other_weights(rng: random.Random, content: bytes) -> bytes:
    end = 8 + int.from_bytes(content[:8], "little")
    match rng.randrange(4):
        case 0:
            return flipped(rng, content[:8]) + content[8:]
        case 1:
            return content[:8] + flipped(rng, content[8:end], 40) + content[end:]
        case 2:
            return content[: rng.randrange(len(content))]
        case _:
            header = damaged(rng, content[8:end].decode())
            return len(header).to_bytes(8, "little") + header + content[end:]
