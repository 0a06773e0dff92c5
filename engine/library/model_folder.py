"""Checks that a model folder is complete and safe to load."""

import stat
from pathlib import Path
from typing import Any

from engine.errors import ModelDamaged, ModelLoadFailed
from engine.files.causes import os_cause
from engine.library.architectures import ASSISTANTS
from engine.library.configuration import architecture_of
from engine.library.model_files import MAX_TEXT_BYTES, file_label, listed, model_name, read_json
from engine.library.tokenizer_file import check_tokenizer
from engine.library.weights import HEAD_FILES, check_weights, indexed_weights, weight_files
from engine.wording import counted

# What libraries read from a model folder.
_READ_SUFFIXES = {".safetensors", ".json", ".jsonl", ".jinja", ".model", ".tiktoken", ".txt"}


def check_folder(folder: Path) -> dict[str, Any]:
    """Return a folder's configuration; raises ``ModelLoadFailed`` if it is not complete."""
    name = f"the folder {model_name(folder)}"
    if not folder.exists():
        raise ModelLoadFailed(f"{name} does not exist")
    if not folder.is_dir():
        raise ModelLoadFailed(
            f"{model_name(folder)} is a file; give the folder that holds config.json"
        )
    config = read_json(folder / "config.json")
    _check_files(folder)
    if missing := missing_files(folder, config):
        raise ModelLoadFailed(f"{name} is incomplete: {listed(missing)} missing")
    header_bytes = 0
    for path, state in weight_files(folder):
        if path.name.startswith("model") or not path.match(HEAD_FILES):
            header_bytes += check_weights(path, state.st_size)
            if header_bytes > MAX_TEXT_BYTES:
                raise ModelDamaged(
                    f"{name} is damaged: the headers of its weights have more than "
                    f"{MAX_TEXT_BYTES:,} bytes"
                )
    check_tokenizer(folder)
    return config


def missing_files(folder: Path, config: dict[str, Any]) -> list[str]:
    """Return the files that a folder lacks; raises ``ModelLoadFailed`` for a damaged index."""
    there = {path.name for path, _ in weight_files(folder)}
    missing = sorted(indexed_weights(folder) - there)
    # Files of other names, such as that of a draft head, are no weights to mlx-lm.
    if not missing and not any(name.startswith("model") for name in there):
        missing = ["weights (model*.safetensors)"]
    tokenizers = (folder / name for name in ("tokenizer.json", "tokenizer.model"))
    # An assistant has its model's.
    if architecture_of(config) not in ASSISTANTS and not any(map(Path.is_file, tokenizers)):
        missing.append("tokenizer.json")
    return missing


def is_assistant(folder: Path) -> bool:
    """Whether a folder has an assistant, as its configuration says."""
    try:
        return architecture_of(read_json(folder / "config.json")) in ASSISTANTS
    except ModelLoadFailed:
        return False


def _check_files(folder: Path) -> None:
    """Refuse a folder with a file that blocks a library for ever or fills the memory.

    transformers and mlx-lm open some twenty names, whatever stands behind them.
    """
    for path in (*folder.iterdir(), *folder.glob("additional_chat_templates/*")):
        if path.suffix not in _READ_SUFFIXES:
            continue
        try:
            state = path.stat()
        except OSError as error:
            raise ModelLoadFailed(
                f"{file_label(path)} cannot be read: {os_cause(error)}"
            ) from error
        if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
            raise ModelDamaged(f"{file_label(path)} is damaged: it is not a regular file")
        if path.suffix != ".safetensors" and state.st_size > MAX_TEXT_BYTES:
            raise ModelLoadFailed(
                f"{file_label(path)} is too large: it has {counted(state.st_size, 'byte')}, and at "
                f"most {MAX_TEXT_BYTES:,} are read"
            )
