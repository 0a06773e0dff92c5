"""Chat templates as files: of a model's folder, or given by the user."""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.errors import InvalidTemplate, ModelLoadFailed
from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile, parsed_json
from engine.files.safe_files import read_bounded
from engine.library.model_files import read_json

MAX_TEMPLATE_BYTES = 1 << 20
"""The largest template of a published model that is known has 60 KB."""
_FILE = "chat_template.jinja"
_FOLDER = "additional_chat_templates"
_DEFAULT, _TOOLS = "default", "tool_use"


def chat_template(folder: Path) -> str:
    """Return a model's chat template; empty if it has none that can be read."""
    try:
        return _joined(_templates(folder))
    except (OSError, ModelLoadFailed):
        return ""


def read_template(path: Path) -> str:
    """Return the template of a file in Jinja, or of a JSON file of a model's tokenizer.

    Raises ``InvalidTemplate``.
    """
    try:
        raw = read_bounded(path, MAX_TEMPLATE_BYTES)
    except OSError as error:
        raise InvalidTemplate(f"it cannot be read: {os_cause(error)}") from error
    if path.suffix == ".json":
        return _from_json(raw)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidTemplate("it is not UTF-8 text; save it as UTF-8") from None


def _from_json(raw: bytes) -> str:
    try:
        value = parsed_json(raw)
    except DamagedFile as error:
        raise InvalidTemplate(f"it is damaged: {error}") from error
    stated = value.get("chat_template") if isinstance(value, dict) else None
    if not (template := _joined(_named(stated))):
        raise InvalidTemplate('it has no "chat_template"; give a Jinja file or a tokenizer’s JSON')
    return template


def _templates(folder: Path) -> dict[str, str]:
    """Return a folder's templates by name, as transformers chooses among its files."""
    files = {file.stem: file for file in sorted((folder / _FOLDER).glob("*.jinja"))}
    if (file := folder / _FILE).is_file():
        files[_DEFAULT] = file
    if files:
        return {name: read_bounded(file).decode("utf-8", "replace") for name, file in files.items()}
    state = os.stat(config := folder / "tokenizer_config.json")
    return _named(_stated(config, state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=256)
def _stated(config: Path, _size: int, _changed_ns: int) -> Any:
    """Return the template in a tokenizer's file, for programs that poll the list of models.

    Gemma's file has 1.2 MB, whose parsing blocks all threads for 8 ms.
    """
    return read_json(config).get("chat_template")


def _named(stated: Any) -> dict[str, str]:
    if isinstance(stated, str):
        return {_DEFAULT: stated}
    if isinstance(stated, list):  # several, each with a name
        pairs = [(one.get("name"), one.get("template")) for one in stated if isinstance(one, dict)]
        stated = dict(pairs)
    if not isinstance(stated, dict):
        return {}
    return {str(name): text for name, text in stated.items() if isinstance(text, str)}


def _joined(templates: Mapping[str, str]) -> str:
    """Return one template for several: that for tools where there are tools."""
    default = templates.get(_DEFAULT, "")
    for_tools = templates.get(_TOOLS)
    if for_tools is None:
        return default or next(iter(templates.values()), "")
    if not default:
        return for_tools
    # The plus signs keep the line breaks at both ends of a branch.
    bodies = for_tools.removesuffix("\n"), default.removesuffix("\n")
    return "{{% if tools +%}}{}{{%+ else +%}}{}{{%+ endif +%}}".format(*bodies)


def special_tokens(folder: Path) -> dict[str, str]:
    """Return the texts of the special tokens that a template may write, by transformers' names."""
    try:
        stated = read_json(folder / "tokenizer_config.json")
    except ModelLoadFailed:
        return {}
    found = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token"):
        value = stated.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found
