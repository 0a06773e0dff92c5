"""Finds a server's base address, dialects and model, and adapts requests to its refusals."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from api.conformance.captures.frames import objects, parse_json, parse_object
from api.conformance.captures.values import WireDialect
from api.conformance.probe.client import Budget, Client, Received, open_session
from api.conformance.probe.dialects import DRIVERS, Driver, request_path
from api.conformance.probe.values import Access, Exchange, LocalServer, ProbeFailed, ProbeOptions
from api.terminal_text import on_one_line

_REFUSED = (400, 404, 422)
_TOO_SMALL = ("at least", "minimum", "greater", ">", "too small", "too low", "below", "less than")
_NEW_LIMIT = "max_completion_tokens"
_ANY_MODEL = "default"
_NO_MODEL = ""
_LOCAL_PORTS = {
    "Ollama": 11434,
    "LM Studio": 1234,
    "llama.cpp or mlx-lm": 8080,
    "vLLM": 8000,
    "SGLang": 30000,
}
# Headers of libraries that serve many programs, and where these name their version.
_LIBRARY = re.compile(r"python|aiohttp|uvicorn|hypercorn|gunicorn|basehttp|werkzeug", re.I)
_VERSIONS = (
    ("/api/version", "Ollama", "version"),
    ("/props", "llama.cpp", "build_info"),
    ("/version", "vLLM", "version"),
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class DetectedServer:
    """A server that answers."""

    client: Client
    others: tuple[WireDialect, ...]
    server: str
    model: str
    conclusions: tuple[str, ...] = ()


def adapt(driver: Driver, exchange: Exchange) -> tuple[Driver, str] | None:
    """Return another driver after a refusal, and a conclusion; None if the error suggests none."""
    if exchange.status not in _REFUSED or exchange.problem:
        return None
    error = error_text(exchange).lower()
    if driver.dialect is WireDialect.CHAT and not driver.limit_name and _NEW_LIMIT in error:
        conclusion = f"The limit is sent as {_NEW_LIMIT}: the server refuses max_tokens."
        return replace(driver, limit_name=_NEW_LIMIT), conclusion
    for name in ("temperature", "stream_options"):
        if name in error and name not in driver.omitted:
            conclusion = f"{name} is left out: the server refuses the value that the probe sends."
            return replace(driver, omitted=(*driver.omitted, name)), conclusion
    limit = driver.limit_name or driver.limit_path[-1]
    names = (limit.lower(), "max_tokens", "max tokens")
    if any(name in error for name in names) and any(word in error for word in _TOO_SMALL):
        # The smallest number in the error that could be the minimum; else a usual minimum.
        numbers = sorted(int(number) for number in re.findall(r"\b\d{1,4}\b", error))
        # No server requires a larger limit; a larger number in its error is the context.
        numbers = [number for number in numbers if number <= 1024] + [2, 16]
        larger = next((number for number in numbers if number > driver.min_tokens), None)
        if larger is not None:
            conclusion = f"Every request allows {larger} tokens or more: the server refuses fewer."
            return replace(driver, min_tokens=larger), conclusion
    return None


def names_model(exchange: Exchange) -> bool:
    """Whether a refusal is about the model's name."""
    return (
        exchange.status in _REFUSED
        and re.search(r"\bmodels?\b", error_text(exchange).lower()) is not None
    )


def advice(exchange: Exchange) -> str:
    """Return advice for a refusal, as the end of a sentence; empty for none."""
    if exchange.status in (401, 403):
        return f"; {exchange.status} asks for a key: give --api-key KEY, or --header NAME:VALUE"
    if names_model(exchange):
        return f"; {exchange.status} names the model: give --model NAME"
    if "header" in error_text(exchange).lower():
        return "; the answer speaks of a header: give --header NAME:VALUE"
    return ""


def error_text(exchange: Exchange) -> str:
    """Return the server's own error message."""
    return exchange.capture.error or exchange.text


def split_url(url: str) -> tuple[str, WireDialect | None]:
    """Return the base address of a URL, and the dialect of its path if it has one."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ProbeFailed(f"{url} is not an address; write one such as http://127.0.0.1:8080")
    base = f"{parts.scheme}://{parts.netloc}"
    path = parts.path.rstrip("/")
    for driver in DRIVERS.values():
        if path.endswith(driver.path):
            return base + path.removesuffix(driver.path), driver.dialect
    return base + path.removesuffix("/v1"), None


async def detect_server(
    session: aiohttp.ClientSession, options: ProbeOptions, budget: Budget
) -> DetectedServer:
    """Return the server, in the requested dialect or the first that it answers."""
    base, dialect = split_url(options.url)
    if options.api_key is not None and not options.api_key.isprintable():
        raise ProbeFailed("the API key contains a character that a header cannot carry")
    for name, value in options.headers:
        if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
            raise ProbeFailed(f"{name!r} is not a header that can be sent")
    dialect = options.dialect or dialect
    drivers = [DRIVERS[dialect]] if dialect is not None else list(DRIVERS.values())
    models = [options.model] if options.model is not None else []
    if not models:
        listed = await _list_models(session, base, options)
        if len(listed) == 1:
            models = [*listed, _NO_MODEL]
        else:
            # The first of several listed models may not be loaded.
            models = [_NO_MODEL, *(listed[:2] or [_ANY_MODEL])]
    answering: list[tuple[Client, Exchange, list[str]]] = []
    refusals: list[str] = []
    for driver in drivers:
        client, exchange, conclusions = await _try_driver(
            session, driver, base, models, options, budget
        )
        if exchange.status == 0:
            raise ProbeFailed(f"{base} does not answer: {exchange.problem}")
        if _has_answered(exchange):
            answering.append((client, exchange, conclusions))
        elif dialect is not None or exchange.status not in (404, 405, 501) or names_model(exchange):
            error = on_one_line(error_text(exchange) or "an empty answer", 200)
            cause = f"status {exchange.status}, {exchange.problem or error}"
            if exchange.problem and exchange.status < 300:
                cause = exchange.problem
            refusals.append(f"{client.path}: {cause}{advice(exchange)}")
    if not answering:
        raise ProbeFailed(_no_dialect(base, refusals, options))
    client, exchange, conclusions = answering[0]
    model = exchange.capture.model
    return DetectedServer(
        client=client,
        others=tuple(other.driver.dialect for other, _, _ in answering[1:]),
        server=await _server_name(session, base, exchange.headers.get("server", ""), options),
        model=model if not options.model and model and _is_name(model) else client.model,
        conclusions=tuple(conclusions),
    )


async def _try_driver(
    session: aiohttp.ClientSession,
    driver: Driver,
    base: str,
    models: Sequence[str],
    access: Access,
    budget: Budget,
) -> tuple[Client, Exchange, list[str]]:
    """Send short requests with one model name after the other, adapting to refusals."""
    conclusions: list[str] = []
    first: tuple[Client, Exchange, list[str]] | None = None
    for number, model in enumerate(models):
        for _ in range(6):
            client = Client(session, driver, base, model=model, access=access, budget=budget)
            exchange = await client.send_short()
            change = None if exchange.is_answer else adapt(driver, exchange)
            if change is None:
                break
            driver, conclusion = change
            conclusions.append(conclusion)
        first = first or (client, exchange, conclusions)
        if _has_answered(exchange) and number:
            name = f"{model!r} is asked for" if model else "no model is named"
            status = first[1].status
            conclusions.append(f"The model: {name}, for {models[0]!r} got status {status}.")
        if _has_answered(exchange) or not _may_be_model(exchange):
            return client, exchange, conclusions
    assert first is not None
    return first


def _has_answered(exchange: Exchange) -> bool:
    return exchange.is_answer and bool(exchange.capture.events)


def _may_be_model(exchange: Exchange) -> bool:
    """Whether another model name might be accepted: some servers report only "not found"."""
    is_error = exchange.status >= 400 and exchange.status not in (401, 403)
    return names_model(exchange) or (is_error and "error" in parse_object(exchange.text))


async def _list_models(
    session: aiohttp.ClientSession, base: str, options: ProbeOptions
) -> list[str]:
    begin = "/v1" if options.base_path is None else f"/{options.base_path.strip('/')}".rstrip("/")
    for path in (f"{begin}/models", "/api/tags"):
        if names := _model_names(await _get_json(session, base + path, options)):
            return names
    return []


async def _server_name(
    session: aiohttp.ClientSession, base: str, header: str, options: ProbeOptions
) -> str:
    """Return name and version of a server, also where its header names a library; may be empty."""
    if header and not _LIBRARY.match(header):
        return header
    for path, name, field in _VERSIONS:
        found = await _get_json(session, base + path, options)
        version = found.get(field) if isinstance(found, dict) else None
        if _is_name(version):
            return f"{name}/{version}"
    return ""


async def _get_json(session: aiohttp.ClientSession, url: str, options: ProbeOptions) -> Any:
    """Return the JSON at an address; None if there is none."""
    key = options.api_key
    headers = {"authorization": f"Bearer {key}", "x-api-key": key} if key else {}
    headers |= {name.lower(): value for name, value in options.headers}
    try:
        async with session.get(
            url,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=min(10.0, options.timeout_s)),
            allow_redirects=False,  # the key is for this server only
        ) as response:
            received = Received()
            if response.status != 200 or await received.read(response):
                return None
        return parse_json(received.content.decode("utf-8", "replace"))
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
        return None


async def local_servers(ours: Mapping[str, str]) -> dict[str, LocalServer]:
    """Return the servers on this computer that list models, at our addresses and usual ports."""
    usual = {name: f"http://127.0.0.1:{port}" for name, port in _LOCAL_PORTS.items()}
    names: dict[str, str] = {}
    for name, url in (*ours.items(), *usual.items()):
        names.setdefault(url, name)
    async with open_session(Access()) as session:
        listed = await asyncio.gather(
            *(_list_models(session, url, ProbeOptions(url=url, timeout_s=1.0)) for url in names)
        )
    found = zip(names.items(), listed, strict=True)
    return {name: LocalServer(url, tuple(models)) for (url, name), models in found if models}


def _model_names(listed: Any) -> list[str]:
    if not isinstance(listed, dict):
        return []
    models = objects(listed.get("data")) + objects(listed.get("models"))
    names = [model.get("id") or model.get("name") for model in models]
    # A server that lists in two forms at once names each model twice.
    return list(dict.fromkeys(str(name) for name in names if _is_name(name)))


def _is_name(name: object) -> bool:
    """Whether this is safe as a model's name, which is sent with every request."""
    return isinstance(name, str) and 0 < len(name) <= 500 and name.isprintable()


def _no_dialect(base: str, refusals: list[str], options: ProbeOptions) -> str:
    if refusals:
        return f"{base} answers no request. {'; '.join(refusals)}"
    paths = ", ".join(request_path(driver, options.base_path) for driver in DRIVERS.values())
    return (
        f"{base} answers none of the dialects ({paths}); give the address without the path of an "
        "endpoint, or --base-path PATH where the API is not under /v1"
    )
