"""Finds out where a server listens, which dialects it answers, and which model it has.

Runs on the loop of whoever probes.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from api.conformance.captures.draft import items
from api.conformance.captures.harmless import on_one_line
from api.conformance.captures.json_text import parsed
from api.conformance.captures.values import WireDialect
from api.conformance.probe.asking.client import Budget, Client
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.asking.session import read_body
from api.conformance.probe.dialects.driver import Driver
from api.conformance.probe.dialects.drivers import DRIVERS
from api.conformance.probe.values import ProbeFailed, ProbeOptions

_ABSENT = (404, 405, 501)
_LISTS = ("/v1/models", "/api/tags")
_ANY_MODEL = "default"
_LIST_TIMEOUT_S = 10.0
_NAME_CHARS = 500


@dataclass(frozen=True, slots=True)
class Place:
    """A server's address, taken apart.

    Attributes:
        base: The address up to where a dialect's path begins.
        dialect: The dialect whose path the address ends with, if it does.
    """

    base: str
    dialect: WireDialect | None


@dataclass(frozen=True, slots=True)
class Found:
    """A server that answers.

    Attributes:
        client: Asks it in its dialect.
        others: Dialects that it answers too.
        server: What it calls itself.
    """

    client: Client
    others: tuple[WireDialect, ...]
    server: str


def place_of(url: str) -> Place:
    """Take an address apart.

    Raises:
        ProbeFailed: It is not the address of an HTTP server.
    """
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
    """Return the server, in the dialect that was asked for or the first that it answers.

    Raises:
        ProbeFailed: Nothing answers there, or not in any dialect; the message says what did.
    """
    place = place_of(options.url)
    if options.api_key is not None and not options.api_key.isprintable():
        raise ProbeFailed("the API key contains a character that a header cannot carry")
    model = options.model or await _listed_model(session, place.base, options)
    wanted = options.dialect or place.dialect
    drivers = [DRIVERS[wanted]] if wanted is not None else list(DRIVERS.values())
    answering: list[tuple[Client, Exchange]] = []
    refusals: list[str] = []
    for driver in drivers:
        client = _client(session, driver, place.base, model, options, budget)
        run = await client.ask_shortly()
        if run.status == 0:
            raise ProbeFailed(f"{place.base} does not answer: {run.problem}")
        if run.is_answer and run.capture.events:
            answering.append((client, run))
        elif run.status not in _ABSENT or wanted is not None:
            refusals.append(f"{driver.path}: {_why(run)}")
    if not answering:
        raise ProbeFailed(_nothing(place.base, refusals))
    client, run = answering[0]
    if not options.model and run.capture.model is not None and _is_name(run.capture.model):
        client.model = run.capture.model
    others = tuple(other.driver.dialect for other, _ in answering[1:])
    return Found(client, others, run.headers.get("server", ""))


def _client(
    session: aiohttp.ClientSession,
    driver: Driver,
    base: str,
    model: str,
    options: ProbeOptions,
    budget: Budget,
) -> Client:
    return Client(
        session,
        driver,
        base,
        model=model,
        api_key=options.api_key,
        timeout_s=options.timeout_s,
        budget=budget,
    )


async def _listed_model(session: aiohttp.ClientSession, base: str, options: ProbeOptions) -> str:
    """Return the first model that the server lists; any name where it lists none."""
    key = options.api_key
    headers = {"authorization": f"Bearer {key}", "x-api-key": key} if key else {}
    for path in _LISTS:
        try:
            async with session.get(
                base + path,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=min(_LIST_TIMEOUT_S, options.timeout_s)),
                allow_redirects=False,  # the key is for this server alone
            ) as response:
                received = bytearray()
                if response.status != 200 or await read_body(response, received):
                    continue
            name = _first_name(parsed(received.decode("utf-8", "replace")))
            if name:
                return name
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
            continue
    return _ANY_MODEL


def _first_name(listed: Any) -> str | None:
    if not isinstance(listed, dict):
        return None
    for item in items(listed.get("data")) + items(listed.get("models")):
        name = (item.get("id") or item.get("name")) if isinstance(item, dict) else None
        if _is_name(name):
            return str(name)
    return None


def _is_name(name: object) -> bool:
    """Return whether this may be a model's name; it is sent with every request."""
    return isinstance(name, str) and 0 < len(name) <= _NAME_CHARS and name.isprintable()


def _why(run: Exchange) -> str:
    if run.problem:
        return run.problem if run.status < 300 else f"status {run.status}, {run.problem}"
    said = run.capture.error or run.text or "an empty answer"
    return f"status {run.status}, {on_one_line(said, 200)}"


def _nothing(base: str, refusals: list[str]) -> str:
    if not refusals:
        return (
            f"{base} answers none of the dialects "
            f"({', '.join(driver.path for driver in DRIVERS.values())}); "
            "give the address without the path of an endpoint"
        )
    hint = "; --model NAME and --api-key KEY may be needed"
    return f"{base} answers no request. {'; '.join(refusals)}{hint}"
