"""Searches a hub for MLX models that can chat, and reads the details of a model.

Blocks, so the caller gives it a separate thread.
"""

import dataclasses
import re
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.library.architectures import problem_of
from engine.library.cache_size import estimated
from engine.library.found import bits_of
from engine.library.hub.asking import Hub
from engine.library.hub.hub_model import HubModel, hub_model
from engine.library.hub_failures import HubFailed
from engine.library.memory import need_of
from engine.library.models import context_length

USUAL_RESULTS = 20
MOST_RESULTS = 200

_LIST_LIMIT_S = 20.0
_CONFIG_LIMIT_S = 10.0
_MOST_QUERY_CHARS = 200
_MOST_PAGES = 10
_MOST_CONFIG_BYTES = 4 << 20
_MOST_CARD_BYTES = 1 << 20
_PAGE = 100
_FIELDS = (
    "config",
    "disabled",
    "downloads",
    "gated",
    "lastModified",
    "pipeline_tag",
    "safetensors",
    "sha",
    "tags",
)
# Other models with the tag ``mlx`` hear, speak, draw, or compare texts.
_CHATTING = frozenset({None, "", "text-generation", "image-text-to-text", "any-to-any"})
_FRONT_MATTER = re.compile(r"\A\ufeff?---\s*\n.*?\n---\s*(?:\n|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search.

    Attributes:
        models: The most downloaded first.
        has_more: Whether the hub has more of them.
    """

    models: tuple[HubModel, ...]
    has_more: bool = False


def search(hub: Hub, text: str, most: int = USUAL_RESULTS) -> SearchResult:
    """Return the MLX models whose names contain each word, the most downloaded first.

    Their memory needs are not known yet: ``with_needs`` adds them, with a request for each.
    """
    text = text.strip()
    if len(text) > _MOST_QUERY_CHARS:
        raise HubFailed(f"the search text exceeds {_MOST_QUERY_CHARS} characters; shorten it")
    most = min(max(most, 1), MOST_RESULTS)
    return hub.within(_LIST_LIMIT_S, partial(_found, text=text, most=most))


def with_needs(hub: Hub, models: tuple[HubModel, ...]) -> tuple[HubModel, ...]:
    """Return the models with the memory that each needs, as its configuration says.

    A model is returned unchanged if its configuration cannot be read within some seconds, for
    example because the model is gated.
    """
    outcomes = hub.at_once(_CONFIG_LIMIT_S, [partial(_with_need, model=one) for one in models])
    return tuple(
        outcome.result() if outcome.done() else model
        for model, outcome in zip(models, outcomes, strict=True)
    )


def look_up(hub: Hub, repository: str) -> HubModel:
    """Return a hub's details of one model, with the exact size of its files and its memory need."""
    return hub.within(_LIST_LIMIT_S, partial(_looked_up, repository=repository))


def look_up_all(hub: Hub, repositories: tuple[str, ...]) -> tuple[HubModel | None, ...]:
    """Return a hub's details of several models; None for those that cannot be read."""
    outcomes = hub.at_once(
        _CONFIG_LIMIT_S, [partial(_looked_up, repository=one) for one in repositories]
    )
    failures = [one.exception() for one in outcomes if one.done()]
    for failure in failures:
        if failure is not None and not isinstance(failure, HubFailed):
            raise failure
    if outcomes and not any(one.done() and one.exception() is None for one in outcomes):
        raise next(
            (one for one in failures if one is not None),
            HubFailed("the hub did not answer in time; try again later"),
        )
    return tuple(
        one.result() if one.done() and one.exception() is None else None for one in outcomes
    )


def card(hub: Hub, repository: str) -> str:
    """Return a model's card as Markdown, without its front matter."""

    def read(asked: Hub) -> str:
        reply = asked.get(
            f"/{repository}/resolve/main/README.md",
            repository=repository,
            most_bytes=_MOST_CARD_BYTES,
        )
        return _FRONT_MATTER.sub("", reply.body.decode("utf-8", "replace"))

    return hub.within(_LIST_LIMIT_S, read)


def _found(hub: Hub, text: str, most: int) -> SearchResult:
    words = text.casefold().split()
    params: dict[str, Any] = {
        "filter": "mlx",
        "sort": "downloads",
        "limit": min(_PAGE, most) if len(words) < 2 else _PAGE,
        "expand": list(_FIELDS),
    }
    if words:
        params["search"] = max(words, key=len)  # the hub looks for one word only
    found: dict[str, HubModel] = {}
    path = "/api/models"
    for _ in range(_MOST_PAGES):
        reply = hub.get(path, params)
        items = reply.value()
        if not isinstance(items, list):
            raise HubFailed("the hub's answer is not a list of models; try again later")
        for item in items:
            model = hub_model(item)
            if model is None or not _can_chat(item):
                continue
            if len(words) < 2 or all(word in model.name.casefold() for word in words):
                found.setdefault(model.name, model)
        path, params = reply.next_page, {}  # the address of a next page contains the query
        if not path or len(found) >= most:
            break
    return SearchResult(tuple(found.values())[:most], bool(path) or len(found) > most)


def _can_chat(item: dict[str, Any]) -> bool:
    kind = item.get("pipeline_tag")
    return not item.get("disabled") and (kind is None or str(kind) in _CHATTING)


def _looked_up(hub: Hub, repository: str) -> HubModel:
    reply = hub.get(f"/api/models/{repository}", {"blobs": "true"}, repository=repository)
    model = hub_model(reply.value())
    if model is None:
        raise HubFailed(f"the hub's answer does not describe {repository}; try again later")
    return _with_need(hub, model)


def _with_need(hub: Hub, model: HubModel) -> HubModel:
    try:
        reply = hub.get(
            f"/{model.name}/resolve/{model.commit or 'main'}/config.json",
            repository=model.name,
            most_bytes=_MOST_CONFIG_BYTES,
        )
        config = reply.value()
    except HubFailed:
        return model
    if not isinstance(config, dict):
        return model
    need = None
    if model.size_bytes is not None:
        need = need_of(model.size_bytes, estimated(config), context_length(config))
    return dataclasses.replace(
        model, bits=bits_of(config) or model.bits, need=need, problem=problem_of(config)
    )
