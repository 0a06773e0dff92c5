"""The weights of a model folder, by the headers of its safetensors files."""

import contextlib
import json
import math
import operator
import os
import platform
import stat
import sys
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import ModelDamaged, ModelLoadFailed
from engine.files.causes import os_cause
from engine.files.safe_files import open_regular
from engine.library.configuration import bits_of, is_count, text_part
from engine.library.model_files import file_label, read_json
from engine.wording import counted

INDEX = "model.safetensors.index.json"
"""The file that maps each weight to its file, if there are several weight files."""
HEAD_FILES = "*mtp*.safetensors"
"""Files with a draft head, which a model can do without, unless they begin with ``model``."""
# The headers of the largest model that is known, of 92,000 weights in 163 files, have 16 MB.
_MAX_HEADER_BYTES = 16 << 20

# Bytes of unpacked numbers, by their names in safetensors files.
_FLOAT_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
# Widened at load where there is no graphics processor: computing with them would be far slower.
_WIDENED = ("F16", "BF16")
# How the names of a draft head's first weights end.
_HEAD_ENDS = ("mtp.fc.weight", "mtp_layers.0.input_proj.weight", ".eh_proj.weight")


def indexed_weights(folder: Path) -> set[str]:
    """Return the names of the weight files that a folder's index lists; empty without an index."""
    index = folder / INDEX
    if not index.exists():
        return set()
    named = read_json(index).get("weight_map") or {}
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
        reason = "weight_map must name a file for each weight"
        raise ModelDamaged(f"{file_label(index)} is damaged: {reason}")
    return set(named.values())


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model, as the headers of its files tell before they are loaded.

    Attributes:
        size_bytes: Their memory once they are loaded.
        value_bytes: The bytes of one number that is not quantized.
        has_head: Whether a draft head of the model is among them.
        count: How many there are, without a draft head in a file of its own; 0 if not known.
        kind: ``BF16`` or ``int4``, for example; empty if that is not known.
    """

    size_bytes: int
    value_bytes: int = 2
    has_head: bool = False
    count: int = 0
    kind: str = ""


def weights_of(folder: Path) -> Weights:
    """Describe the weights of a model folder, of which it reads the headers alone."""
    try:
        config = read_json(folder / "config.json")
        stored = {
            path.name: _stored_weights(path, state.st_size, state.st_mtime_ns)
            for path, state in weight_files(folder)
            if is_read(path.name)
        }
    except (ModelLoadFailed, ValueError, LookupError, TypeError):
        return Weights(weights_size(folder))
    layers = text_part(config).get("num_hidden_layers")
    own_head = (*_HEAD_ENDS[:2], f"layers.{layers}.eh_proj.weight")
    quantized = config.get("quantization") or config.get("quantization_config")
    size = quantized.get("group_size") if isinstance(quantized, dict) else None
    own = [one for name, one in stored.items() if name.startswith("model")]
    groups = sum(one.groups for one in own)
    sizes = sum((one.sizes for one in own), Counter[str]())
    kind = max(sizes, key=sizes.__getitem__, default="")
    if groups and (bits := bits_of(config)):
        kind = f"int{bits}"
    sizes = sum((one.sizes for one in stored.values()), Counter[str]())
    has_slow_scales = any(not one.scales.isdisjoint(_WIDENED) for one in stored.values())
    if has_slow_scales and not has_graphics_processor():
        sizes["F32"] += sum(2 * sizes.pop(narrow, 0) for narrow in _WIDENED)
    floats = [kind for kind in sizes if kind in _FLOAT_BYTES]
    return Weights(
        sizes.total(),
        _FLOAT_BYTES[max(floats, key=sizes.__getitem__, default="BF16")],
        any(name.endswith(own_head) for one in stored.values() for name in one.heads),
        # mlx-lm's default is 64.
        sum(one.plain for one in own) + groups * (size if is_count(size) else 64),
        kind,
    )


@cache
def has_graphics_processor() -> bool:
    """Whether the installed MLX computes on a graphics processor."""
    if sys.platform == "darwin":
        return platform.machine() == "arm64"
    return any(map(_is_installed, ("mlx-cuda-12", "mlx-cuda-13")))


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


class _Stored(NamedTuple):
    """What the header of a safetensors file says of its weights."""

    sizes: Counter[str]
    scales: frozenset[str]
    plain: int
    groups: int
    heads: tuple[str, ...]


@lru_cache(maxsize=1024)
def _stored_weights(path: Path, _size: int, _changed_ns: int) -> _Stored:
    """Return what a safetensors file stores; raises ``ModelLoadFailed`` and ``LookupError``."""
    sizes: Counter[str] = Counter()
    scales: set[str] = set()
    heads: list[str] = []
    plain = groups = 0
    for name, value in read_header(path)[1].items():
        if name == "__metadata__":
            continue
        begin, end = map(operator.index, value["data_offsets"])
        kind = str(value["dtype"])
        sizes[kind] += end - begin
        count = math.prod(map(operator.index, value["shape"]))
        if name.endswith(".scales"):
            scales.add(kind)
            groups += count
        elif kind != "U32" and not name.endswith(".biases"):
            plain += count
        if name.endswith(_HEAD_ENDS):
            heads.append(name)
    return _Stored(sizes, frozenset(scales), plain, groups, tuple(heads))


def read_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Return a safetensors file's header, and its length with the 8 bytes before it."""
    name = file_label(path)
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if length > size - 8:
                raise ModelDamaged(
                    f"{name} is damaged: its header needs {counted(length + 8, 'byte')}, "
                    f"the file has {size:,}"
                )
            if length > _MAX_HEADER_BYTES:
                raise ModelDamaged(
                    f"{name} is damaged: its header has {counted(length, 'byte')}, and at most "
                    f"{_MAX_HEADER_BYTES:,} are read"
                )
            header = json.loads(file.read(length))
    except OSError as error:
        raise ModelLoadFailed(f"{name} cannot be read: {os_cause(error)}") from error
    except (ValueError, RecursionError) as error:
        raise ModelDamaged(f"{name} is damaged: its header is not valid JSON") from error
    if not isinstance(header, dict):
        raise ModelDamaged(f"{name} is damaged: its header is not a JSON object")
    return 8 + length, header


def check_weights(path: Path, size: int) -> int:
    """Compare a safetensors file's length with its header; return the header's length."""
    name = file_label(path)
    length, header = read_header(path)
    try:
        ends = [value["data_offsets"][1] for key, value in header.items() if key != "__metadata__"]
        expected = length + max(map(operator.index, ends), default=0)
    except (LookupError, TypeError, AttributeError) as error:
        raise ModelDamaged(f"{name} is damaged: its header names no end of a weight") from error
    if size != expected:
        size_text = counted(expected, "byte")
        raise ModelDamaged(f"{name} is damaged: expected {size_text}, found {size:,}")
    return length


def is_read(name: str) -> bool:
    """Return whether a file holds weights that mlx-lm reads, or a draft head, by its name."""
    return "/" not in name and any(
        fnmatch(name, form) for form in ("model*.safetensors", HEAD_FILES)
    )


def weight_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the regular files in a folder that hold weights, by name, each with its state."""
    files: list[tuple[Path, os.stat_result]] = []
    for path in sorted(folder.glob("*.safetensors")):
        with contextlib.suppress(OSError):
            state = path.stat()
            if stat.S_ISREG(state.st_mode):
                files.append((path, state))
    return files


def weights_size(folder: Path) -> int:
    """Return the total size of a folder's weight files, in bytes."""
    return sum(state.st_size for _, state in weight_files(folder))
