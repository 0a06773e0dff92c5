"""Finds out which APIs a server speaks, and adapts requests to what it refuses."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from api.conformance.captures.frames import items, mapping, parse_json
from api.conformance.captures.values import WireDialect
from api.conformance.probe.client import Budget, Client, Received, read_body
from api.conformance.probe.dialects import DRIVERS, Driver, path_of
from api.conformance.probe.values import Access, Exchange, ProbeFailed, ProbeOptions
from api.terminal_text import on_one_line

# Adapts requests to what a server refuses, or advises the user which option to give.

_REFUSED = (400, 404, 422)
_TOO_SMALL = ("at least", "minimum", "greater", ">", "too small", "too low", "below", "less than")
_MOST_SHORT_TOKENS = 1024
_NEW_LIMIT = "max_completion_tokens"
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A changed way to send requests."""

    driver: Driver
    conclusion: str


def adapted(driver: Driver, run: Exchange) -> Adaptation | None:
    """Return an adaptation after a refusal; None if the error suggests none."""
    if run.status not in _REFUSED or run.problem:
        return None
    said = said_by(run).lower()
    if driver.dialect is WireDialect.CHAT and not driver.limit_name and _NEW_LIMIT in said:
        return Adaptation(
            replace(driver, limit_name=_NEW_LIMIT),
            f"The limit is sent as {_NEW_LIMIT}: the server refuses max_tokens.",
        )
    for name in ("temperature", "stream_options"):
        if name in said and name not in driver.left_out:
            return Adaptation(
                replace(driver, left_out=(*driver.left_out, name)),
                f"{name} is left out: the server refuses the value that the probe sends.",
            )
    limit = driver.limit_name or driver.limit_path[-1]
    if _adapting_names(said, limit) and any(word in said for word in _TOO_SMALL):
        min_tokens = _least_in(said, driver.least_tokens)
        if min_tokens is not None:
            return Adaptation(
                replace(driver, least_tokens=min_tokens),
                f"Every request allows {min_tokens} tokens or more: the server refuses fewer.",
            )
    return None


def names_the_model(run: Exchange) -> bool:
    """Return whether a refusal is about the model's name."""
    return run.status in _REFUSED and re.search(r"\bmodels?\b", said_by(run).lower()) is not None


def may_be_the_model(run: Exchange) -> bool:
    """Return whether a different model name might be accepted.

    Some servers report an unknown model only as "not found".
    """
    if names_the_model(run):
        return True
    return run.status >= 400 and run.status not in (401, 403) and "error" in _object(run.text)


def advice(run: Exchange) -> str:
    """Return advice for a refusal, as the end of a sentence; empty for none."""
    if run.status in (401, 403):
        return f"; {run.status} asks for a key: give --api-key KEY, or --header NAME:VALUE"
    if names_the_model(run):
        return f"; {run.status} names the model: give --model NAME"
    if "header" in said_by(run).lower():
        return "; the answer speaks of a header: give --header NAME:VALUE"
    return ""


def why(run: Exchange) -> str:
    """Describe what the server sent instead of an answer."""
    if run.problem:
        return run.problem if run.status < 300 else f"status {run.status}, {run.problem}"
    return f"status {run.status}, {on_one_line(said_by(run) or 'an empty answer', _SHOWN_CHARS)}"


def said_by(run: Exchange) -> str:
    """Return the server's own error message."""
    return run.capture.error or run.text


def _adapting_names(said: str, limit: str) -> bool:
    return limit.lower() in said or "max_tokens" in said or "max tokens" in said


def _least_in(said: str, now: int) -> int | None:
    """Return the smallest number in an error that could be the minimum; else a usual minimum."""
    numbers = sorted(int(found) for found in re.findall(r"\b\d{1,4}\b", said))
    larger = (number for number in numbers if now < number <= _MOST_SHORT_TOKENS)
    usual = (number for number in (2, 16) if number > now)
    return next(larger, None) or next(usual, None)


def _object(text: str) -> dict[str, object]:
    try:
        return mapping(parse_json(text))
    except ValueError:
        return {}


# Finds a server's base address, its dialects, and its model.

_ABSENT = (404, 405, 501)
_ANY_MODEL = "default"
_NO_MODEL = ""
_MOST_MODELS = 2
_MOST_ADAPTATIONS = 6
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LIST_TIMEOUT_S = 10.0
_NAME_CHARS = 500


@dataclass(frozen=True, slots=True)
class Place:
    """A server's address, split into parts."""

    base: str
    dialect: WireDialect | None


@dataclass(frozen=True, slots=True)
class Found:
    """A server that answers."""

    client: Client
    others: tuple[WireDialect, ...]
    server: str
    model: str
    conclusions: tuple[str, ...] = ()


@dataclass(slots=True)
class _Tried:
    """The result of trying one dialect."""

    client: Client
    run: Exchange
    conclusions: list[str]

    @property
    def is_answer(self) -> bool:
        """Whether the server speaks the dialect."""
        return self.run.is_answer and bool(self.run.capture.events)


def place_of(url: str) -> Place:
    """Split an address into parts."""
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ProbeFailed(f"{url} is not an address; write one such as http://127.0.0.1:8080")
    base = f"{parts.scheme}://{parts.netloc}"
    path = parts.path.rstrip("/")
    for driver in DRIVERS.values():
        if path.endswith(driver.path):
            return Place(base + path.removesuffix(driver.path), driver.dialect)
    return Place(base + path.removesuffix("/v1"), None)


async def found_server(
    session: aiohttp.ClientSession, options: ProbeOptions, budget: Budget
) -> Found:
    """Return the server, in the requested dialect or the first that it answers."""
    place = place_of(options.url)
    _check_headers(options)
    wanted = options.dialect or place.dialect
    drivers = [DRIVERS[wanted]] if wanted is not None else list(DRIVERS.values())
    if options.model is not None:
        models = [options.model]
    else:
        models = _candidates(await _listed_models(session, place.base, options))
    answering: list[_Tried] = []
    refusals: list[str] = []
    for driver in drivers:
        tried = await _tried(session, driver, place.base, models, options, budget)
        run = tried.run
        if run.status == 0:
            raise ProbeFailed(f"{place.base} does not answer: {run.problem}")
        if tried.is_answer:
            answering.append(tried)
        elif wanted is not None or run.status not in _ABSENT or names_the_model(run):
            refusals.append(f"{tried.client.path}: {why(run)}{advice(run)}")
    if not answering:
        raise ProbeFailed(_nothing(place.base, refusals, options))
    first = answering[0]
    said = first.run.capture.model
    return Found(
        client=first.client,
        others=tuple(other.client.driver.dialect for other in answering[1:]),
        server=first.run.headers.get("server", ""),
        model=said if not options.model and _is_name(said) and said else first.client.model,
        conclusions=tuple(first.conclusions),
    )


async def _tried(
    session: aiohttp.ClientSession,
    driver: Driver,
    base: str,
    models: Sequence[str],
    access: Access,
    budget: Budget,
) -> _Tried:
    """Send short requests with one model name after the other, adapting to refusals."""
    conclusions: list[str] = []
    first: _Tried | None = None
    for number, model in enumerate(models):
        for _ in range(_MOST_ADAPTATIONS):
            client = Client(session, driver, base, model=model, access=access, budget=budget)
            run = await client.ask_shortly()
            change = None if run.is_answer else adapted(driver, run)
            if change is None:
                break
            driver = change.driver
            conclusions.append(change.conclusion)
        tried = _Tried(client, run, conclusions)
        first = first or tried
        if tried.is_answer or not may_be_the_model(run):
            if tried.is_answer and number:
                named = f"{model!r} is asked for" if model else "no model is named"
                refused = first.run.status
                conclusions.append(f"The model: {named}, for {models[0]!r} got status {refused}.")
            return tried
    assert first is not None
    return first


def _candidates(listed: Sequence[str]) -> list[str]:
    """Return the model names to try; of several listed models, the first may not be loaded."""
    match listed:
        case [only]:
            return [only, _NO_MODEL]
        case []:
            return [_NO_MODEL, _ANY_MODEL]
        case _:
            return [_NO_MODEL, *listed[:_MOST_MODELS]]


def _check_headers(options: ProbeOptions) -> None:
    """Raise ``ProbeFailed`` for characters that a header cannot contain."""
    if options.api_key is not None and not options.api_key.isprintable():
        raise ProbeFailed("the API key contains a character that a header cannot carry")
    for name, value in options.headers:
        if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
            raise ProbeFailed(f"{name!r} is not a header that can be sent")


async def _listed_models(
    session: aiohttp.ClientSession, base: str, options: ProbeOptions
) -> list[str]:
    """Return the first models that the server lists; [] if it lists none."""
    key = options.api_key
    headers = {"authorization": f"Bearer {key}", "x-api-key": key} if key else {}
    headers |= {name.lower(): value for name, value in options.headers}
    begin = "/v1" if options.base_path is None else f"/{options.base_path.strip('/')}".rstrip("/")
    for path in (f"{begin}/models", "/api/tags"):
        try:
            async with session.get(
                base + path,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=min(_LIST_TIMEOUT_S, options.timeout_s)),
                allow_redirects=False,  # the key is for this server only
            ) as response:
                received = Received()
                if response.status != 200 or await read_body(response, received):
                    continue
            names = _detection_names(parse_json(received.content.decode("utf-8", "replace")))
            if names:
                return names
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
            continue
    return []


def _detection_names(listed: Any) -> list[str]:
    if not isinstance(listed, dict):
        return []
    listing = items(listed.get("data")) + items(listed.get("models"))
    names = [mapping(item).get("id") or mapping(item).get("name") for item in listing]
    # A server that lists in two forms at once names each model twice.
    return list(dict.fromkeys(str(name) for name in names if _is_name(name)))[: _MOST_MODELS + 1]


def _is_name(name: object) -> bool:
    """Return whether this is safe as a model's name, which is sent with every request."""
    return isinstance(name, str) and 0 < len(name) <= _NAME_CHARS and name.isprintable()


def _nothing(base: str, refusals: list[str], options: ProbeOptions) -> str:
    if refusals:
        return f"{base} answers no request. {'; '.join(refusals)}"
    paths = ", ".join(path_of(driver, options.base_path) for driver in DRIVERS.values())
    return (
        f"{base} answers none of the dialects ({paths}); give the address without the path of an "
        "endpoint, or --base-path PATH where the API is not under /v1"
    )
