"""Facts about a model in a folder on this machine, before it is loaded."""

import ast
import contextlib
import json
import math
import operator
import os
import pkgutil
import platform
import stat
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeGuard

from engine.errors import ModelLoadFailed
from engine.files.causes import os_cause
from engine.files.safe_files import open_regular, read_bounded
from engine.library.tokenizer_file import check_tokenizer
from engine.stopping.record import describe_source
from engine.wording import counted, escaped

# How much memory a model's cache takes for the tokens of an answer. There are three kinds of
# layers: those that keep every token, those that keep a window of the last tokens, and those with a
# state that never grows.

# mlx-lm allocates the memory of a cache for this many tokens at a time.
STEP_TOKENS = 256
MAX_FIGURE = 1 << 53
"""Floats hold every whole number up to here, and no model has more of anything."""

BYTES_PER_VALUE = 2
"""What a number takes in the caches of most models."""


@dataclass(frozen=True, slots=True)
class Window:
    """The layers of a model that keep a window of the last tokens.

    Attributes:
        tokens: How many they keep.
        token_bytes: What one token takes in all these layers together.
    """

    tokens: int
    token_bytes: int


@dataclass(frozen=True, slots=True)
class CacheSize:
    """The memory of one answer's cache, in bytes; all zero where it is not known.

    Attributes:
        token_bytes: What each token takes in the layers that keep every token.
        fixed_bytes: What the layers take whose state never grows.
        windows: The layers that keep a window.
    """

    token_bytes: int = 0
    fixed_bytes: int = 0
    windows: tuple[Window, ...] = ()

    def __add__(self, other: "CacheSize") -> "CacheSize":
        """Return what the caches of two models take together."""
        return CacheSize(
            self.token_bytes + other.token_bytes,
            self.fixed_bytes + other.fixed_bytes,
            self.windows + other.windows,
        )

    def bytes_of(self, tokens: int) -> int:
        """Return what ``tokens`` tokens take."""
        windows = sum(min(tokens, window.tokens) * window.token_bytes for window in self.windows)
        return self.fixed_bytes + tokens * self.token_bytes + windows

    def allocated_bytes(self, tokens: int) -> int:
        """Return the memory that mlx-lm reserves for ``tokens`` tokens."""
        return self.bytes_of(-(-tokens // STEP_TOKENS) * STEP_TOKENS)

    def tokens_in(self, size_bytes: int, limit: int) -> int:
        """Return for how many tokens some memory is enough, at most ``limit``."""
        if self.allocated_bytes(limit) <= size_bytes:
            return limit
        steps = range(1, -(-limit // STEP_TOKENS))
        fitting = bisect_right(steps, size_bytes, key=lambda n: self.bytes_of(n * STEP_TOKENS))
        return fitting * STEP_TOKENS


def estimated(
    config: Mapping[str, Any], value_bytes: int = BYTES_PER_VALUE, *, has_head: bool = False
) -> CacheSize:
    """Estimate a model's cache from its configuration; zero where that says too little.

    The configuration does not state the size of states that never grow; they are left out.

    Args:
        config: The configuration.
        value_bytes: The bytes of a number in the cache.
        has_head: Whether a draft head of its own, which is one more layer, is used with it.
    """
    text = config.get("text_config")
    scope = {**config, **(text if isinstance(text, dict) else {})}
    layers = _number(scope, "num_hidden_layers", "n_layer")
    token_bytes = _layer_values(scope) * value_bytes
    kinds = _layer_kinds(scope, layers)
    window = _number(scope, "sliding_window", "attention_chunk_size")
    in_window = kinds["window"] if window else 0
    return CacheSize(
        token_bytes=(kinds["full"] + kinds["window"] - in_window + has_head) * token_bytes,
        windows=(Window(window, in_window * token_bytes),) if in_window and token_bytes else (),
    )


def _layer_values(scope: Mapping[str, Any]) -> int:
    """Return how many numbers of one token a layer keeps."""
    latent = _number(scope, "kv_lora_rank")
    if latent:
        return latent + _number(scope, "qk_rope_head_dim")
    heads = _number(scope, "num_attention_heads", "n_head")
    width = _number(scope, "head_dim")
    width = width or (_number(scope, "hidden_size", "n_embd") // heads if heads else 0)
    return 2 * (_number(scope, "num_key_value_heads") or heads) * width


def _layer_kinds(scope: Mapping[str, Any], layers: int) -> Counter[str]:
    """Return how many layers keep every token (``full``) and how many a window."""
    named = scope.get("layer_types")
    if isinstance(named, list) and len(named) == layers:
        return Counter(_kind(str(kind)) for kind in named)
    if scope.get("use_sliding_window") is not False:
        every = _number(scope, "sliding_window_pattern")
        if every:
            return Counter(full=layers // every, window=layers - layers // every)
    every = _number(scope, "full_attention_interval")
    return Counter(full=layers // every if every else layers)


def _kind(name: str) -> str:
    if "sliding" in name or "chunked" in name:
        return "window"
    return "full" if "attention" in name and "linear" not in name else "state"


def is_count(value: Any) -> TypeGuard[int]:
    """Return whether a configuration's value is a whole number that a model can have."""
    return type(value) is int and 0 < value <= MAX_FIGURE


def _number(scope: Mapping[str, Any], *names: str) -> int:
    values = (scope.get(name) for name in names)
    return next((value for value in values if is_count(value)), 0)


INDEX = "model.safetensors.index.json"
"""The file that maps each weight to its file, if there are several weight files."""
HEAD_FILES = "*mtp*.safetensors"
"""Files with a draft head, which a model can do without, unless they begin with ``model``."""

_DEFAULT_CONTEXT = 4096
# An index may list thousands of files, with names of any length.
_MAX_NAMED, _MAX_TEMPLATE_NAME_CHARS = 5, 100
# The largest index of weights that is known has 10 MB. Parsing holds the interpreter's lock, so
# all streams wait for it.
_MAX_JSON_BYTES = 32 << 20
# The headers of the largest model that is known, of 92,000 weights in 163 files, have 16 MB.
_MAX_HEADER_BYTES = 16 << 20
_MAX_HEADERS_BYTES = 64 << 20

MAX_TEXT_BYTES = 64 << 20
"""The largest tokenizer.json that is known has 34 MB."""
# What libraries read from a model folder.
_READ_SUFFIXES = {".safetensors", ".json", ".jsonl", ".jinja", ".model", ".tiktoken", ".txt"}


@dataclass(frozen=True, slots=True)
class EosToken:
    """An id that ends generation.

    Attributes:
        token_id: The id.
        text: Its text.
        source: Where it is named, as in ``StopInfo.source``.
    """

    token_id: int
    text: str
    source: str

    @property
    def named_by(self) -> str:
        """The source in words."""
        return describe_source(self.source)


ASSISTANTS = {"gemma4_assistant", "gemma4_unified_assistant"}
"""Architectures that draft from the cache of another model, and answer nothing by themselves."""
_WITH_ASSISTANTS = {"gemma4", "gemma4_text", "gemma4_unified"}


@dataclass(frozen=True, slots=True)
class DraftInfo:
    """A smaller model with the same vocabulary that drafts tokens for the model.

    Attributes:
        id: Its name.
        path: Its folder.
        size_bytes: Size of its weight files.
        cache: The memory of its own cache for one answer.
        held_bytes: What its weights take in memory; 0 for as much as their files.
    """

    id: str
    path: Path
    size_bytes: int
    cache: CacheSize = field(default_factory=CacheSize)
    held_bytes: int = 0

    @property
    def weights_bytes(self) -> int:
        """What its weights take in memory."""
        return self.held_bytes or self.size_bytes


@dataclass(frozen=True, slots=True)
class HeadInfo:
    """The draft head in a model's own checkpoint.

    Attributes:
        problem: Why it is not used, as the end of a sentence; empty where it is.
    """

    problem: str = ""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the rest of the program knows about a loaded model.

    Attributes:
        id: The name under which APIs list it.
        path: Its folder.
        architecture: ``model_type`` of its configuration.
        context_length: Most tokens of prompt and answer together.
        vocabulary_size: The number of ids that it reads and produces: [0, vocabulary_size). Its
            tokenizer may have more.
        eos: The ids that end generation.
        can_think: Whether its answers can have reasoning.
        can_call_tools: Whether a parser for its tool calls is known.
        size_bytes: Size of the weight files.
        loaded_at: When it was loaded, in Unix seconds.
        cache: The memory of the cache of one answer.
        longest_token_bytes: Bytes of the longest token; None where it is not known.
        draft: The draft model that is loaded beside it, if there is one.
        takes_tools: Whether its chat template tells it of tools.
        own_head: The draft head of its own checkpoint; None where there is none, or nothing is
            drafted.
        own_settings: Its own numbers for sampling, by their names, where its folder has any.
        held_bytes: What its weights and those of its own draft head take in memory; 0 for as much
            as their files.
    """

    id: str
    path: Path
    architecture: str
    context_length: int
    vocabulary_size: int
    eos: tuple[EosToken, ...]
    can_think: bool
    can_call_tools: bool
    size_bytes: int
    loaded_at: int
    cache: CacheSize = field(default_factory=CacheSize)
    longest_token_bytes: int | None = None
    draft: DraftInfo | None = None
    takes_tools: bool = True
    own_head: HeadInfo | None = None
    own_settings: tuple[tuple[str, float], ...] = ()
    held_bytes: int = 0

    @property
    def weights_bytes(self) -> int:
        """What its weights and those of the draft model take in memory."""
        draft = 0 if self.draft is None else self.draft.weights_bytes
        return (self.held_bytes or self.size_bytes) + draft

    @property
    def answer_cache(self) -> CacheSize:
        """The memory of one answer's caches, including that of the draft model."""
        return self.cache if self.draft is None else self.cache + self.draft.cache


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a file.

    Raises:
        ModelLoadFailed: The file is missing, unreadable, or not a JSON object.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe never ends
            raise ModelLoadFailed(f"{_named(path)} is damaged: it is not a file")
        value = json.loads(read_bounded(path, _MAX_JSON_BYTES))
    except FileNotFoundError:
        raise ModelLoadFailed(
            f"{_named(path)} is missing: is {model_name(path.parent)} a model folder?"
        ) from None
    except OSError as error:
        raise ModelLoadFailed(f"{_named(path)} cannot be read: {os_cause(error)}") from error
    except RecursionError as error:
        raise ModelLoadFailed(f"{_named(path)} is damaged: it is nested too deeply") from error
    except json.JSONDecodeError as error:
        fault = f"line {error.lineno} is not valid JSON"
        raise ModelLoadFailed(f"{_named(path)} is damaged: {fault}") from error
    except ValueError as error:
        raise ModelLoadFailed(f"{_named(path)} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise ModelLoadFailed(f"{_named(path)} is damaged: it does not contain a JSON object")
    return value


def indexed_weights(folder: Path) -> set[str]:
    """Return the names of the weight files that a folder's index lists; empty without an index."""
    index = folder / INDEX
    if not index.exists():
        return set()
    named = read_json(index).get("weight_map") or {}
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
        reason = "weight_map must name a file for each weight"
        raise ModelLoadFailed(f"{_named(index)} is damaged: {reason}")
    return set(named.values())


def listed(names: Sequence[str]) -> str:
    """Return the first file names for a sentence, on one line and without control characters."""
    listed_names = [escaped(name)[:_MAX_TEMPLATE_NAME_CHARS] for name in names[:_MAX_NAMED]]
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


def _named(file: Path) -> str:
    """Return a file's name after its model's: clients must not learn the folders of a computer."""
    return f"the file {model_name(file.parent)}/{file.name}"


def context_length(config: dict[str, Any]) -> int:
    """Return the context length that a model's configuration states, in tokens."""
    text = config.get("text_config")
    for scope in (config, text if isinstance(text, dict) else {}):
        for key in ("max_position_embeddings", "max_sequence_length", "n_positions", "seq_length"):
            value = scope.get(key)
            if is_count(value):
                return value
    return _DEFAULT_CONTEXT


def architecture_of(config: Mapping[str, Any]) -> str:
    """Return the ``model_type`` of a configuration; empty where it states none that is a text."""
    kind = config.get("model_type")
    return kind if isinstance(kind, str) else ""


def check_folder(folder: Path) -> dict[str, Any]:
    """Check that a model folder is complete, and return its configuration.

    Raises:
        ModelLoadFailed: It is not a folder, or a file is missing or damaged; the message names it.
    """
    name = f"the folder {model_name(folder)}"
    if not folder.exists():
        raise ModelLoadFailed(f"{name} does not exist")
    if not folder.is_dir():
        raise ModelLoadFailed(
            f"{model_name(folder)} is a file; give the folder that holds config.json"
        )
    config = read_json(folder / "config.json")
    _check_files(folder)
    weights = weight_files(folder)
    missing = sorted(indexed_weights(folder) - {path.name for path, _ in weights})
    if missing:
        raise ModelLoadFailed(f"{name} is incomplete: {listed(missing)} missing")
    if not any(path.name.startswith("model") for path, _ in weights):
        raise ModelLoadFailed(f"{name} contains no weights (model*.safetensors)")
    header_bytes = 0
    for path, state in weights:
        if path.name.startswith("model") or not path.match(HEAD_FILES):
            header_bytes += _check_weights(path, state.st_size)
            if header_bytes > _MAX_HEADERS_BYTES:
                raise ModelLoadFailed(
                    f"{name} is damaged: the headers of its weights have more than "
                    f"{_MAX_HEADERS_BYTES:,} bytes"
                )
    if lacks_tokenizer(folder, config):
        raise ModelLoadFailed(f"{name} contains no tokenizer (tokenizer.json)")
    check_tokenizer(folder)
    return config


def lacks_tokenizer(folder: Path, config: dict[str, Any]) -> bool:
    """Whether a model folder lacks a tokenizer; an assistant has its model's."""
    names = ("tokenizer.json", "tokenizer.model")
    is_there = any((folder / name).is_file() for name in names)
    return not is_there and architecture_of(config) not in ASSISTANTS


def is_assistant(folder: Path) -> bool:
    """Whether a folder has an assistant, as its configuration says."""
    try:
        return architecture_of(read_json(folder / "config.json")) in ASSISTANTS
    except ModelLoadFailed:
        return False


def pairing_of(config: dict[str, Any]) -> str:
    """Return a text that is the same for a model and its assistants; empty for all other models."""
    kind = architecture_of(config)
    text = config.get("text_config")
    if kind in ASSISTANTS:
        size = config.get("backbone_hidden_size")
    elif kind in _WITH_ASSISTANTS:
        size = (text if isinstance(text, dict) else config).get("hidden_size")
    else:
        return ""
    return f"gemma4 {size}" if is_count(size) else ""


@dataclass(frozen=True, slots=True)
class WeightsInMemory:
    """What a model's weights are once they are loaded, as its files tell before.

    Attributes:
        size_bytes: Their size.
        value_bytes: The bytes of a number that the model computes with.
        has_head: Whether a draft head of its own is among them.
    """

    size_bytes: int
    value_bytes: int
    has_head: bool


# The bytes of the numbers that are not packed, by their names in safetensors files.
_FLOAT_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
# Those that a quantised model does not compute with where there is no graphics processor, for it
# would take many times as long.
_WIDENED = ("F16", "BF16")
# mlx-lm's default for quantised weights.
_GROUP_SIZE = 64
# How the names of a draft head's first weights end.
_HEAD_ENDS = ("mtp.fc.weight", "mtp_layers.0.input_proj.weight", ".eh_proj.weight")


def weights_in_memory(folder: Path, config: dict[str, Any]) -> WeightsInMemory:
    """Return what the weights of a folder take in memory; reads the headers of its files."""
    sizes: Counter[str] = Counter()
    is_slow = has_head = False
    text = config.get("text_config")
    layers = (text if isinstance(text, dict) else config).get("num_hidden_layers")
    own_head = (*_HEAD_ENDS[:2], f"layers.{layers}.eh_proj.weight")
    try:
        for path, state in weight_files(folder):
            if not (path.name.startswith("model") or path.match(HEAD_FILES)):
                continue  # nothing reads it
            stored = _stored_weights(path, state.st_size, state.st_mtime_ns)
            sizes.update(stored.sizes)
            is_slow = is_slow or not stored.scales.isdisjoint(_WIDENED)
            has_head = has_head or any(name.endswith(own_head) for name in stored.heads)
    except (ModelLoadFailed, ValueError, LookupError, TypeError):
        return WeightsInMemory(weights_size(folder), BYTES_PER_VALUE, has_head=False)
    if is_slow and not has_graphics_processor():
        wider = sum(2 * sizes.pop(kind, 0) for kind in _WIDENED)
        sizes["F32"] = sizes.get("F32", 0) + wider
    floats = [kind for kind in sizes if kind in _FLOAT_BYTES]
    usual = max(floats, key=sizes.__getitem__, default="BF16")
    return WeightsInMemory(sum(sizes.values()), _FLOAT_BYTES[usual], has_head)


def weight_figures(folder: Path) -> tuple[int, str]:
    """Return how many weights a model has, and their kind (``BF16``, ``int4``); reads headers.

    0 and an empty text where its files cannot be read.
    """
    try:
        config = read_json(folder / "config.json")
        stored = [
            _stored_weights(path, state.st_size, state.st_mtime_ns)
            for path, state in weight_files(folder)
            if path.name.startswith("model")
        ]
    except (ModelLoadFailed, ValueError, LookupError, TypeError):
        return 0, ""
    sizes = sum((Counter(one.sizes) for one in stored), Counter[str]())
    kind = max(sizes, key=sizes.__getitem__, default="")
    quantized = config.get("quantization") or config.get("quantization_config")
    stated = quantized if isinstance(quantized, dict) else {}
    groups = sum(one.groups for one in stored)
    size = stated.get("group_size", _GROUP_SIZE)
    if groups and is_count(bits := stated.get("bits")):
        kind = f"int{bits}"
    return sum(one.plain for one in stored) + groups * (size if is_count(size) else 0), kind


def has_draft_head(folder: Path) -> bool:
    """Whether the weights of a model folder name a draft head of its own."""
    try:
        return weights_in_memory(folder, read_json(folder / "config.json")).has_head
    except ModelLoadFailed:
        return False


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
    """What the header of a safetensors file says of its weights.

    Attributes:
        sizes: The bytes of all weights, by the names of their kinds of numbers.
        scales: The kinds of the scales of quantised weights.
        plain: How many weights are not quantised.
        groups: How many groups of quantised weights there are: each has one scale.
        heads: The names of weights that may belong to a draft head.
    """

    sizes: Mapping[str, int]
    scales: frozenset[str]
    plain: int
    groups: int
    heads: tuple[str, ...]


@lru_cache(maxsize=1024)
def _stored_weights(path: Path, _size: int, _changed_ns: int) -> _Stored:
    """Return what a safetensors file stores; raises ``ModelLoadFailed`` and ``LookupError``."""
    sizes: dict[str, int] = {}
    scales: set[str] = set()
    heads: list[str] = []
    plain = groups = 0
    for name, value in _read_header(path)[1].items():
        if name == "__metadata__":
            continue
        begin, end = map(operator.index, value["data_offsets"])
        kind = str(value["dtype"])
        sizes[kind] = sizes.get(kind, 0) + end - begin
        count = math.prod(map(operator.index, value["shape"]))
        if name.endswith(".scales"):
            scales.add(kind)
            groups += count
        elif kind != "U32" and not name.endswith(".biases"):
            plain += count
        if name.endswith(_HEAD_ENDS):
            heads.append(name)
    return _Stored(sizes, frozenset(scales), plain, groups, tuple(heads))


def _read_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the length of a safetensors file's header, with the 8 bytes before it, and the header.

    Raises:
        ModelLoadFailed: The file cannot be read, or its header is damaged or too long.
    """
    name = _named(path)
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if length > size - 8:
                raise ModelLoadFailed(
                    f"{name} is damaged: its header needs {counted(length + 8, 'byte')}, "
                    f"the file has {size:,}"
                )
            if length > _MAX_HEADER_BYTES:
                raise ModelLoadFailed(
                    f"{name} is damaged: its header has {counted(length, 'byte')}, and at most "
                    f"{_MAX_HEADER_BYTES:,} are read"
                )
            header = json.loads(file.read(length))
    except RecursionError as error:
        raise ModelLoadFailed(f"{name} is damaged: its header is nested too deeply") from error
    except OSError as error:
        raise ModelLoadFailed(f"{name} cannot be read: {os_cause(error)}") from error
    except ValueError as error:
        raise ModelLoadFailed(f"{name} is damaged: its header is not valid JSON") from error
    if not isinstance(header, dict):
        raise ModelLoadFailed(f"{name} is damaged: its header is not a JSON object")
    return 8 + length, header


def _check_weights(path: Path, size: int) -> int:
    """Compare a safetensors file's length with its header; return the header's length."""
    name = _named(path)
    length, header = _read_header(path)
    try:
        ends = [value["data_offsets"][1] for key, value in header.items() if key != "__metadata__"]
        expected = length + max(map(operator.index, ends), default=0)
    except (LookupError, TypeError, AttributeError) as error:
        raise ModelLoadFailed(f"{name} is damaged: its header names no end of a weight") from error
    if size != expected:
        size_text = counted(expected, "byte")
        raise ModelLoadFailed(f"{name} is damaged: expected {size_text}, found {size:,}")
    return length


def weight_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the regular files in a folder that hold weights, by name, each with its state.

    Links to nowhere, pipes and devices are left out; none where the folder cannot be read.
    """
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


def _check_files(folder: Path) -> None:
    """Refuse a folder with a file that blocks a library for ever or fills the memory.

    transformers and mlx-lm open some twenty names, whatever stands behind them.
    """
    for path in (*folder.iterdir(), *folder.glob("chat_templates/*")):
        if path.suffix not in _READ_SUFFIXES:
            continue
        try:
            state = path.stat()
        except OSError as error:
            raise ModelLoadFailed(f"{_named(path)} cannot be read: {os_cause(error)}") from error
        if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
            raise ModelLoadFailed(f"{_named(path)} is damaged: it is not a regular file")
        if path.suffix != ".safetensors" and state.st_size > MAX_TEXT_BYTES:
            raise ModelLoadFailed(
                f"{_named(path)} is too large: it has {counted(state.st_size, 'byte')}, and at "
                f"most {MAX_TEXT_BYTES:,} are read"
            )


# Reads the names of mlx-lm's files and never imports it: importing MLX takes long, and a model
# that is only offered needs none of it.

_MAX_ARCHITECTURE_CHARS = 60
# Modules of mlx-lm's models that end the whole process where a module cannot be imported: that
# module, and the package that has it.
_PACKAGES = {"olmo": ("hf_olmo", "ai2-olmo")}


def problem_of(config: dict[str, Any]) -> str:
    """Return why no model of this configuration can be loaded, as a sentence.

    Empty if nothing is known against it.
    """
    kind = architecture_of(config)
    if not kind:
        return "It is not a language model: its config.json names no model_type."
    if config.get("model_file"):
        return "It needs code of its own, and code from models is never run."
    if kind in ASSISTANTS:
        return "It drafts for a model of Gemma 4, as whose draft model it can be chosen."
    known = _modules()
    if known and _module(config) not in known:
        name = escaped(" ".join(kind.split()))[:_MAX_ARCHITECTURE_CHARS]
        return f"It is of architecture {unsupported(name)}."
    if fault := missing_package(config):
        return f"It {fault}."
    return ""


def missing_package(config: dict[str, Any]) -> str:
    """Return the words for a package that mlx-lm needs for a model and that is not installed.

    Empty if none is missing.
    """
    module, package = _PACKAGES.get(_module(config), ("", ""))
    if not module or find_spec(module) is not None:
        return ""
    return f"needs a package that is not installed here: pip install {package}"


def unsupported(architecture: str) -> str:
    """Return the words for an architecture that the installed mlx-lm does not support."""
    try:
        library = f"mlx-lm {version('mlx-lm')}"
    except PackageNotFoundError:
        library = "the installed mlx-lm"
    return f"{architecture}, which {library} does not support; a later version may"


def _module(config: dict[str, Any]) -> str:
    """Return the name of the module in which mlx-lm looks for a model.

    It goes by the model's own type, never by that of a part such as ``text_config``: a module for
    models that also see takes the parts that it knows.
    """
    kind = architecture_of(config)
    by_class = _table("MODEL_ARCHITECTURE_REMAPPING")
    classes = config.get("architectures")
    for name in classes if isinstance(classes, list) else [classes]:
        if isinstance(name, str) and (kind, name) in by_class:
            return str(by_class[kind, name])
    return str(_table("MODEL_REMAPPING").get(kind, kind))


@cache
def _folder() -> Path | None:
    package = find_spec("mlx_lm")  # of a package at the top, this imports nothing
    folders = package.submodule_search_locations if package is not None else None
    return Path(next(iter(folders))) if folders else None


@cache
def _modules() -> frozenset[str]:
    """Return the names of mlx-lm's modules of models; none if its files cannot be listed."""
    folder = _folder()
    if folder is None:
        return frozenset()
    return frozenset(module.name for module in pkgutil.iter_modules([str(folder / "models")]))


# Python 3.11 counts the depth of syntax trees for all threads together, and fails where two parse.
_parsing = Lock()


@cache
def _table(name: str) -> dict[Any, Any]:
    """Return a table of ``mlx_lm/utils.py``; empty if the file has none of this name."""
    folder = _folder()
    try:
        source = (folder / "utils.py").read_text(encoding="utf-8") if folder is not None else ""
        with _parsing:
            for statement in ast.parse(source).body:
                if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
                    value = ast.literal_eval(statement.value)
                    return value if isinstance(value, dict) else {}
    except (OSError, SyntaxError, ValueError):
        pass
    return {}
