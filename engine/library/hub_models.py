"""The models of a hub: search, details, and suggestions for this machine."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from engine.library.architectures import problem_of, sees
from engine.library.configuration import bits_of, context_length, is_count
from engine.library.hub import Hub, HubFailed, parsed_reply
from engine.library.memory_need import Fit, Memory, MemoryNeed, estimated, need_of
from engine.library.weights import is_read

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{7,64}")
# Bits of the types that https://github.com/huggingface/safetensors defines.
_TYPE = re.compile(r"(?:BF|[FIU])(\d+)(?:_\w+)?|(BOOL)")

USUAL_RESULTS = 20
MAX_RESULTS = 200
_FIELDS = (
    "config", "disabled", "downloads", "gated", "lastModified", "pipeline_tag", "safetensors",
    "sha", "tags",
)  # fmt: skip
# Other models with the tag ``mlx`` hear, speak, draw, or compare texts.
_CHATTING = frozenset({"", "text-generation", "image-text-to-text", "any-to-any"})
_FRONT_MATTER = re.compile(r"\A\ufeff?---\s*\n.*?\n---\s*(?:\n|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model that a hub offers; None and empty texts stand for unknown values.

    ``size_bytes`` are those of its weight files, ``bits`` those of a quantized weight, ``problem``
    is a sentence, and ``need`` is not known until its configuration has been read.
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
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > 200:
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
        commit=commit if isinstance(commit, str) and COMMIT.fullmatch(commit) else "",
    )


def _files_size(siblings: Any) -> int | None:
    """Return the size of the weight files, if the hub states the size of each."""
    if not isinstance(siblings, list):
        return None
    files = [file for file in siblings if isinstance(file, dict)]
    names = [(str(file.get("rfilename")), file.get("size")) for file in files]
    stated = [size for name, size in names if is_read(name)]
    sizes = [size for size in stated if is_count(size)]
    return sum(sizes) if sizes and len(sizes) == len(stated) else None


def _parameters_size(safetensors: Any) -> int | None:
    counts = safetensors.get("parameters") if isinstance(safetensors, dict) else None
    if not isinstance(counts, Mapping) or not counts:
        return None
    bits = 0
    for kind, count in counts.items():
        match = _TYPE.fullmatch(str(kind))
        if match is None or not is_count(count):
            return None
        bits += count * (8 if match[2] else int(match[1]))
    return bits // 8


def _day(text: Any) -> date | None:
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        return None


def _license(tags: Any) -> str:
    named = (str(tag) for tag in tags) if isinstance(tags, list) else iter(())
    given = (tag.removeprefix("license:") for tag in named if tag.startswith("license:"))
    return next(given, "")[:200]


HubModels = tuple[tuple[HubModel, ...], bool]
"""The models that a search has found, and whether there are more."""


def search(hub: Hub, text: str, limit: int = USUAL_RESULTS) -> HubModels:
    """Return the MLX models whose names contain each word, the most downloaded first.

    ``with_needs`` adds their memory needs, with a request for each.
    """
    limit = min(max(limit, 1), MAX_RESULTS)
    terms = text.casefold().split()
    params: dict[str, Any] = {
        "filter": "mlx",
        "sort": "downloads",
        "limit": min(100, limit) if len(terms) < 2 else 100,
        "expand": list(_FIELDS),
    }
    if terms:
        params["search"] = max(terms, key=len)  # the hub looks for one term only
    models: dict[str, HubModel] = {}
    path = "/api/models"
    for _ in range(10):
        body, following = hub.get(path, params)
        items = parsed_reply(body)
        if not isinstance(items, list):
            raise HubFailed("the hub's answer is not a list of models; try again later")
        for item in items:
            model = hub_model(item)
            if model is None or item.get("disabled"):
                continue
            if str(item.get("pipeline_tag") or "") not in _CHATTING:
                continue
            if len(terms) < 2 or all(term in model.name.casefold() for term in terms):
                models.setdefault(model.name, model)
        path, params = following, {}  # the address of a next page contains the query
        if not path or len(models) >= limit:
            break
    return tuple(models.values())[:limit], bool(path) or len(models) > limit


def with_needs(hub: Hub, models: tuple[HubModel, ...]) -> tuple[HubModel, ...]:
    """Return the models with the memory that each needs, where its configuration can be read."""
    outcomes = hub.at_once(_with_need, models)
    return tuple(
        model if outcome.exception() else outcome.result()
        for model, outcome in zip(models, outcomes, strict=True)
    )


def look_up(hub: Hub, repository: str) -> HubModel:
    """Return a hub's details of one model, with the exact size of its files and its memory need."""
    body, _ = hub.get(f"/api/models/{repository}", {"blobs": "true"}, repository=repository)
    model = hub_model(parsed_reply(body))
    if model is None:
        raise HubFailed(f"the hub's answer does not describe {repository}; try again later")
    return _with_need(hub, model)


def look_up_all(hub: Hub, repositories: tuple[str, ...]) -> tuple[HubModel | None, ...]:
    """Return a hub's details of several models; None for unreadable ones."""
    outcomes = hub.at_once(look_up, repositories)
    found = tuple(None if outcome.exception() else outcome.result() for outcome in outcomes)
    if found and not any(found):
        outcomes[0].result()  # raises why
    return found


def card(hub: Hub, repository: str) -> str:
    """Return a model's card as Markdown, without its front matter; empty if it has none."""
    from huggingface_hub.errors import EntryNotFoundError

    path = f"/{repository}/resolve/main/README.md"
    try:
        body, _ = hub.get(path, repository=repository)
    except HubFailed as error:
        if isinstance(error.__cause__, EntryNotFoundError):
            return ""
        raise
    return _FRONT_MATTER.sub("", body.decode("utf-8", "replace"))


def _with_need(hub: Hub, model: HubModel) -> HubModel:
    try:
        path = f"/{model.name}/resolve/{model.commit or 'main'}/config.json"
        config = parsed_reply(hub.get(path, repository=model.name)[0])
    except HubFailed:
        return model
    if not isinstance(config, dict):
        return model
    need = None
    if model.size_bytes is not None:
        need = need_of(
            model.size_bytes, estimated(config), context_length(config), can_see=sees(config)
        )
    return dataclasses.replace(
        model, bits=bits_of(config) or model.bits, need=need, problem=problem_of(config)
    )
