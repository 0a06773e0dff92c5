"""Finds out where a server listens, which dialects it answers, and which model it has.

Runs on the loop of whoever probes.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from api.captures.values import WireDialect
from api.probe.client import Budget, Client
from api.probe.dialects import DRIVERS, Driver
from api.probe.exchange import Exchange
from api.probe.values import ProbeFailed, ProbeOptions

_ABSENT = (404, 405, 501)
_LISTS = ("/v1/models", "/api/tags")
_ANY_MODEL = "default"
_LIST_TIMEOUT_S = 10.0


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
        ProbeFailed: It is no address of an HTTP server.
    """
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ProbeFailed(f"{url} is no address; write one such as http://127.0.0.1:8080")
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
        raise ProbeFailed("the API key holds a character that no header can carry")
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
    client.model = client.model if options.model else run.capture.model or client.model
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
            ) as response:
                if response.status == 200:
                    name = _first_name(await response.json(content_type=None))
                    if name:
                        return name
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
            continue
    return _ANY_MODEL


def _first_name(listed: Any) -> str | None:
    if not isinstance(listed, dict):
        return None
    for item in (listed.get("data") or []) + (listed.get("models") or []):
        name = (item.get("id") or item.get("name")) if isinstance(item, dict) else None
        if isinstance(name, str) and name:
            return name
    return None


def _why(run: Exchange) -> str:
    if run.problem:
        return run.problem
    said = run.capture.error or run.text[:200] or "an empty answer"
    return f"status {run.status}, {said}"


def _nothing(base: str, refusals: list[str]) -> str:
    if not refusals:
        return (
            f"{base} answers none of the dialects "
            f"({', '.join(driver.path for driver in DRIVERS.values())}); "
            "give the address without the path of an endpoint"
        )
    hint = "; --model NAME and --api-key KEY may be needed"
    return f"{base} answers no request. {'; '.join(refusals)}{hint}"
