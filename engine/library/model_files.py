"""Reads the JSON files of a model folder, and names them without the folders of this computer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.errors import ModelDamaged, ModelLoadFailed
from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile, parsed_json
from engine.files.safe_files import read_bounded
from engine.wording import counted, escaped

MAX_TEXT_BYTES = 64 << 20
"""For all that is text in a model folder; the largest tokenizer.json that is known has 34 MB."""
# The largest index of weights that is known has 10 MB. Parsing holds the interpreter's lock, so
# all streams wait for it.
_MAX_JSON_BYTES = 32 << 20


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a file; raises ``ModelLoadFailed``."""
    try:
        value = parsed_json(read_bounded(path, _MAX_JSON_BYTES))
    except FileNotFoundError:
        raise ModelLoadFailed(
            f"{file_label(path)} is missing: is {model_name(path.parent)} a model folder?"
        ) from None
    except OSError as error:
        raise ModelLoadFailed(f"{file_label(path)} cannot be read: {os_cause(error)}") from error
    except DamagedFile as error:
        raise ModelDamaged(f"{file_label(path)} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise ModelDamaged(f"{file_label(path)} is damaged: it does not contain a JSON object")
    return value


def listed(names: Sequence[str]) -> str:
    """Return the first file names for a sentence, on one line and without control characters."""
    listed_names = [escaped(name)[:100] for name in names[:5]]
    more = len(names) - len(listed_names)
    return ", ".join(listed_names) + (f" and {counted(more, 'more file')}" if more else "")


def model_name(folder: Path) -> str:
    """Return a model's name: its folder's, or the repository's in a Hugging Face cache.

    In such a cache, a model's folder is ``models--org--name/snapshots/<commit>``.
    """
    repository = folder.parent.parent.name
    if folder.parent.name == "snapshots" and repository.startswith("models--"):
        return repository.removeprefix("models--").replace("--", "/")
    return folder.name


def file_label(file: Path) -> str:
    """Return a file's name after its model's: clients must not learn the folders of a computer."""
    return f"the file {model_name(file.parent)}/{file.name}"
