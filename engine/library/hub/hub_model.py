"""A model as a hub describes it, and whether it would fit into a machine's memory. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from engine.library.cache_size import is_count
from engine.library.found import bits_of
from engine.library.memory import Fit, Memory, MemoryNeed

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
# Bits of the types that https://github.com/huggingface/safetensors defines.
_TYPE = re.compile(r"(?:BF|[FIU])(\d+)(?:_\w+)?|(BOOL)")
_MOST_CHARS = 200


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model that a hub offers.

    Attributes:
        name: ``owner/name``.
        size_bytes: Size of its weight files; None if the hub does not state it.
        bits: Bits of a quantized weight; None if it is not quantized, or that is not stated.
        downloads: How often it was downloaded in the last month.
        updated: The day of its last change, if that is known.
        license: The license's identifier; empty if there is none.
        is_gated: Whether its terms have to be accepted on its page before a download.
        commit: The newest revision; empty if it is not stated.
        need: The memory that it needs, by the estimate that loading uses; None while its
            configuration has not been read.
        problem: Why it cannot be loaded, as a sentence; empty if nothing is known against it.
    """

    name: str
    size_bytes: int | None = None
    bits: int | None = None
    downloads: int = 0
    updated: date | None = None
    license: str = ""
    is_gated: bool = False
    commit: str = ""
    need: MemoryNeed | None = None
    problem: str = ""

    def fit(self, memory: Memory) -> Fit | None:
        """Return whether it fits into a machine's memory; None if that is not known."""
        if self.need is not None:
            return self.need.fit(memory)
        if self.size_bytes is not None and self.size_bytes > memory.usable:
            return Fit.TOO_LARGE
        return None


def hub_model(item: Any) -> HubModel | None:
    """Return the model that an entry of the hub's API describes; None if it describes none.

    Entry: https://huggingface.co/docs/hub/api#get-apimodels.
    """
    if not isinstance(item, dict):
        return None
    name = item.get("id")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MOST_CHARS:
        return None
    downloads, commit = item.get("downloads"), item.get("sha")
    config = item.get("config")
    return HubModel(
        name,
        size_bytes=_files_size(item.get("siblings")) or _parameters_size(item.get("safetensors")),
        bits=bits_of(config) if isinstance(config, dict) else None,
        downloads=downloads if is_count(downloads) else 0,
        updated=_day(item.get("lastModified")),
        license=_license(item.get("tags")),
        is_gated=bool(item.get("gated")),
        commit=commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else "",
    )


def _files_size(siblings: Any) -> int | None:
    """Return the size of the weight files, if the hub states the size of each."""
    if not isinstance(siblings, list):
        return None
    files = [one for one in siblings if isinstance(one, dict)]
    # Weights in folders are other forms of the model, which mlx-lm does not read.
    names = [(str(one.get("rfilename")), one.get("size")) for one in files]
    stated = [size for name, size in names if name.endswith(".safetensors") and "/" not in name]
    sizes = [size for size in stated if is_count(size)]
    return sum(sizes) if sizes and len(sizes) == len(stated) else None


def _parameters_size(safetensors: Any) -> int | None:
    """Return the size of the weights, computed from the number of each type."""
    counts = safetensors.get("parameters") if isinstance(safetensors, dict) else None
    if not isinstance(counts, Mapping) or not counts:
        return None
    bits = 0
    for kind, count in counts.items():
        said = _TYPE.fullmatch(str(kind))
        if said is None or not is_count(count):
            return None
        bits += count * (8 if said[2] else int(said[1]))
    return bits // 8


def _day(text: Any) -> date | None:
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        return None


def _license(tags: Any) -> str:
    named = (str(one) for one in tags) if isinstance(tags, list) else iter(())
    given = (one.removeprefix("license:") for one in named if one.startswith("license:"))
    return next(given, "")[:_MOST_CHARS]
