"""Shows a run in each API: the real server replays the recorded answer.

Window's loop; the server and its clients run on separate threads meanwhile.
"""

import asyncio
import http.client
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from api.conformance.probe.detection import local_servers
from api.conformance.probe.run import probe
from api.conformance.probe.values import LocalServer
from api.dialects.openai.completions import COMPLETIONS
from api.dialects.sglang.dialect import GENERATE
from api.dialects.shared.dialect import Dialect
from api.dialects.shared.parameters import own_stop_options_to_wire
from api.server.routes import DIALECTS
from api.server.server import ServerThread
from api.service.config import ServerConfig
from app.inspector.recorded_engine import RecordedEngine
from app.inspector.request_code import curl_of, python_of
from app.process.registered_servers import registered_addresses
from app.settings.serve import DEFAULT_HOST
from engine import Engine
from engine.errors import EngineError
from engine.recording.replay import replay
from engine.values.events import Event, TextDelta, ThinkingDelta, TokenTrace, ToolCallCompleted
from engine.values.request import GenerationRequest, Message
from ui.inspector.shown_run import InspectorTools, ShownRun, WireView
from ui.preferences import DEFAULT_PORT

# Headers that change with every response and do not describe the answer.
_TRANSPORT_HEADERS = frozenset({"date", "server", "content-length", "connection"})
_NO_PICTURES = "This API takes no pictures."
# Its prompt has the model's own marks of pictures.
_NO_MARKS = "This appears while a model that sees the pictures is loaded."


async def wire_views(engine: Engine, shown: ShownRun, base_url: str) -> list[WireView]:
    """Return a run in each API that can express it."""
    if shown.run.finished is None:
        raise ValueError("This appears when the answer has ended.")
    request = request_of(shown)
    prompt = await _prompt(engine, request)
    vocabulary = None if shown.trace is None else shown.trace.vocabulary
    events = await asyncio.to_thread(events_of, shown)
    recorded = RecordedEngine(shown.run.model_id, events, vocabulary)
    server = ServerThread(cast(Engine, recorded), ServerConfig())
    address = await asyncio.to_thread(server.start)
    try:
        model = shown.run.model_id or "model"
        bodies = [(dialect, body_of(dialect, request, model, prompt)) for dialect in DIALECTS]
        made = [
            asyncio.to_thread(_view, dialect, body, address.port, base_url)
            for dialect, body in bodies
            if body is not None or (request.all_pictures and dialect in (COMPLETIONS, GENERATE))
        ]
        return list(await asyncio.gather(*made))
    finally:
        await asyncio.to_thread(server.stop)


def body_of(
    dialect: Dialect, request: GenerationRequest, model: str, prompt: str
) -> dict[str, Any] | None:
    """Return a dialect's body that asks for a generation; None if it cannot."""
    body = dialect.request_body(request, model, prompt)
    own = {} if body is None else own_stop_options_to_wire(request.stops, body)
    return {**body, "fullstop": own} if body is not None and own else body


def request_of(shown: ShownRun) -> GenerationRequest:
    """Return the request of a run, as far as it is known."""
    request = shown.request
    if request is not None and request.begun:
        # No API takes the tokens of an answer's beginning; all of them take its text.
        begun = Message("assistant", shown.run.text[: shown.run.continued_chars])
        messages = request.messages[:-1] if request.continues_message else request.messages
        return replace(request, messages=(*messages, begun), begun=())
    if request is not None:
        return request
    return GenerationRequest(
        messages=(Message("user", shown.question or "…"),),
        stops=shown.run.rules,
        max_tokens=shown.run.max_tokens,
    )


def events_of(shown: ShownRun) -> Sequence[Event]:
    """Return the events of a run: token by token if they were recorded, else in one piece."""
    run = shown.run
    assert run.finished is not None
    if shown.trace is not None and shown.trace.can_be_replayed:
        played = replay(shown.trace)
        return [*(e for e in played.events if not isinstance(e, TokenTrace)), run.finished]
    events: list[Event] = []
    if run.thinking:
        events.append(ThinkingDelta(run.thinking))
    if run.text:
        events.append(TextDelta(run.text))
    events += [ToolCallCompleted(index, call, "") for index, call in enumerate(run.tool_calls)]
    return [*events, run.finished]


async def _prompt(engine: Engine, request: GenerationRequest) -> str:
    """Return the prompt as text; empty where it has pictures and their places are not known."""
    if request.all_pictures:
        try:
            return (await engine.render_prompt(request)).marked
        except EngineError:
            return ""
    if isinstance(request.prompt, str):
        return request.prompt
    try:
        return "".join(text for _, text in await engine.prompt_pieces(request))
    except EngineError:
        # Without the model there is no template, so use the plain text.
        return "\n\n".join(message.text for message in request.messages)


def _view(dialect: Dialect, fields: dict[str, Any] | None, port: int, base_url: str) -> WireView:
    path = dialect.answers[0].path
    if fields is None:
        problem = _NO_PICTURES if dialect is COMPLETIONS else _NO_MARKS
        return WireView(dialect.title, path, problem=problem)
    whole = {**fields, "stream": False}
    streamed = {**fields, **dialect.stream_fields, "stream": True}
    return WireView(
        name=dialect.title,
        path=path,
        request=json.dumps(whole, indent=2, ensure_ascii=False),
        whole=_sent(port, path, whole),
        stream=_sent(port, path, streamed),
        curl=curl_of(path, base_url, whole),
        python=python_of(path, base_url, whole),
    )


def _sent(port: int, path: str, body: dict[str, object]) -> str:
    """Return the server's answer: status, the important headers, and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20.0)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        content = answer.read().decode("utf-8", "replace")
        shown_headers = [
            f"{name}: {value}"
            for name, value in answer.getheaders()
            if name.lower() not in _TRANSPORT_HEADERS
        ]
    finally:
        connection.close()
    return "\n".join((f"HTTP/1.1 {answer.status} {answer.reason}", *shown_headers, "", content))


def inspector_tools(engine: Engine, url: Callable[[], str]) -> InspectorTools:
    """Return what the inspector needs of the application."""

    async def views(shown: ShownRun) -> Sequence[WireView]:
        return await wire_views(engine, shown, url() or f"http://{DEFAULT_HOST}:{DEFAULT_PORT}")

    async def servers() -> dict[str, LocalServer]:
        own = {"Fullstop": url()} if url() else {}
        served = {"fullstop serve": f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"}
        for address in await asyncio.to_thread(registered_addresses):
            served[f"fullstop serve, port {urlsplit(address).port}"] = address
        found = await local_servers(own | served)
        # With an API key, the window's server lists nothing.
        return {name: LocalServer(address) for name, address in own.items()} | found

    return InspectorTools(views, probe, servers)
