"""What the inspector needs of the API: a run in every dialect, and the probe."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from api.conformance.captures.values import WireDialect
from api.conformance.probe.client import curl_command
from api.conformance.probe.run import probe
from api.conformance.probe.values import Access
from api.dialects.shared.dialect import Dialect
from api.dialects.shared.parameters import own_stop_options_to_wire
from api.server.routes import DIALECTS
from api.server.server import ServerThread
from api.transport.config import ServerConfig
from app.settings.serve import DEFAULT_HOST
from engine import (
    CacheOwner,
    DecodingContext,
    EmbeddingRequest,
    Embeddings,
    Engine,
    EngineError,
    Event,
    Finished,
    GenerationRequest,
    Limits,
    Message,
    ModelInfo,
    ModelStatus,
    NoModel,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallCompleted,
    Vocabulary,
)
from engine.recording.replay import replay
from ui.inspector.shown_run import InspectorTools, ShownRun, WireView
from ui.preferences import DEFAULT_PORT

# An engine that answers every request with one recorded answer.
#
# With it, the real server repeats an answer, or sends it in another dialect. Starts no thread and
# loads no model. Server's loop.


class RecordedEngine:
    """Answers every request with the same events. See ``api.transport.service``."""

    def __init__(
        self, model_id: str, events: Sequence[Event], vocabulary: Vocabulary | None = None
    ) -> None:
        self._events = tuple(events)
        self._vocabulary = vocabulary
        self._recorded = ModelInfo(
            id=model_id or "model",
            path=Path(),
            architecture="recorded",
            context_length=1 << 20,
            vocabulary_size=1 << 30,
            eos=(),
            can_think=True,
            can_call_tools=True,
            size_bytes=0,
            loaded_at=0,
        )

    @property
    def limits(self) -> Limits:
        return Limits()

    @property
    def model(self) -> ModelInfo | None:
        return self._recorded

    @property
    def status(self) -> ModelStatus:
        """Ready."""
        return self.models[0]

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        info = self._recorded
        return (ModelStatus(info.id, info.path, state="ready", info=info, is_default=True),)

    @property
    def is_choosing(self) -> bool:
        """Return False: there is one model."""
        return False

    def model_status(self, name: str | None = None) -> ModelStatus | None:
        """Return the model that was recorded, whatever the name."""
        return self.models[0]

    async def generate_together(
        self, requests: Sequence[GenerationRequest]
    ) -> Sequence["RecordedAnswer"]:
        return [RecordedAnswer(request, self._events, self._vocabulary) for request in requests]

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Refuse: a recording cannot read another prompt."""
        raise NoModel("a recorded answer has no model that counts tokens")

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        """Refuse: a recording cannot read another text."""
        raise NoModel("a recorded answer has no model that reads text")

    async def prompt_pieces(self, request: GenerationRequest) -> tuple[tuple[int, str], ...]:
        """Refuse: a recording cannot read another prompt."""
        raise NoModel("a recorded answer has no model that reads prompts")

    async def detokenize(self, ids: Sequence[int], name: str | None = None) -> str:
        """Refuse: a recording knows only its own ids."""
        raise NoModel("a recorded answer has no model that writes text")

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """Refuse: a recording cannot read texts."""
        raise NoModel("a recorded answer has no model that reads texts")

    async def forget_prompts(self, owner: CacheOwner) -> tuple[int, int]:
        """Do nothing, because nothing is cached."""
        return 0, 0

    def unload_when_idle(self, name: str | None = None) -> None:
        """Do nothing, because no model is in memory."""

    def unload_after(self, idle_s: float | None, name: str | None = None) -> None:
        """Do nothing, because no model is in memory."""


class RecordedAnswer:
    """Yields the recorded events one by one."""

    def __init__(
        self, request: GenerationRequest, events: Sequence[Event], vocabulary: Vocabulary | None
    ) -> None:
        last = events[-1]
        assert isinstance(last, Finished), "every answer ends in Finished"
        usage = last.usage
        self.request = request
        self.prompt_tokens = usage.prompt_tokens
        self.written_tokens = usage.output_tokens
        self.setting = DecodingContext()
        self.vocabulary = vocabulary
        self.finished: Finished | None = None
        self.not_applied = request.not_applied
        read = PromptProgress(usage.prompt_tokens, usage.prompt_tokens, usage.cached_tokens)
        self._events: tuple[Event, ...] = (read, *events)
        self._listener: Callable[[list[Event]], None] | None = None
        self._has_ended = asyncio.Event()

    def cancel(self) -> None:
        """Do nothing, because nothing is being generated."""

    def listen(self, listener: Callable[[list[Event]], None], *, hides_traces: bool) -> None:
        """Pass the events to a listener, too; a recording has no traces to hide."""
        self._listener = listener

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Yield each event by itself."""
        for event in self._events:
            if self._listener is not None:
                self._listener([event])
            if isinstance(event, Finished):
                self.finished = event
                self._has_ended.set()
            yield [event]

    async def ended(self) -> Finished:
        """Wait until the end has been read, and return it."""
        await self._has_ended.wait()
        assert self.finished is not None
        return self.finished


# Curl commands and Python programs that repeat a run's request; API keys are variables.

KEY_VARIABLE = "API_KEY"
# Parameters that the vendors' packages know, by the API's path; others go into the extra body.
_OPENAI_OWN = {
    "/v1/chat/completions": frozenset(
        {"model", "messages", "stop", "max_tokens", "temperature", "top_p", "seed", "tools"}
    ),
    "/v1/completions": frozenset(
        {"model", "prompt", "stop", "max_tokens", "temperature", "top_p", "seed"}
    ),
    "/v1/responses": frozenset(
        {"model", "input", "instructions", "max_output_tokens", "temperature", "top_p",
         "reasoning", "tools"}
    ),
}  # fmt: skip
# The package's current major version has no sampling parameters, but the API has.
_MESSAGES_OWN = frozenset(
    {"model", "messages", "system", "max_tokens", "stop_sequences", "thinking", "tools"}
)


def curl_of(path: str, base_url: str, body: dict[str, Any]) -> str:
    """Return a shell command that posts a body to a path of a server."""
    is_messages = path == "/v1/messages"
    dialect = (
        WireDialect.MESSAGES if is_messages else WireDialect.CHAT
    )  # the path decides the headers
    return curl_command(base_url + path, dialect, body, Access())


def python_of(path: str, base_url: str, body: dict[str, Any]) -> str:
    """Return a program that uses the vendor's own package, if there is one."""
    fields = {name: value for name, value in body.items() if name not in _STREAM_FIELDS}
    match path:
        case "/v1/messages":
            return (
                "import os\n\nimport anthropic\n\n"
                f"client = anthropic.Anthropic(base_url={base_url!r}, {_KEY})\n"
                f"message = client.messages.create({_arguments(fields, _MESSAGES_OWN)})\n"
                "print(message.content, message.stop_reason, message.stop_sequence)\n"
            )
        case "/v1/chat/completions" | "/v1/completions":
            is_chat = path == "/v1/chat/completions"
            call = "chat.completions.create" if is_chat else "completions.create"
            text = "message.content" if is_chat else "text"
            return (
                f"{_openai(base_url)}"
                f"answer = client.{call}({_arguments(fields, _OPENAI_OWN[path])})\n"
                "choice = answer.choices[0]\n"
                f"print(choice.{text}, choice.finish_reason, choice.matched_stop)\n"
            )
        case "/v1/responses":
            return (
                f"{_openai(base_url)}"
                f"response = client.responses.create({_arguments(fields, _OPENAI_OWN[path])})\n"
                "print(response.output_text, response.status)\n"
            )
        case "/api/chat":
            return (
                "import ollama\n\n"
                f"client = ollama.Client(host={base_url!r})\n"
                f"answer = client.chat({_arguments(fields, frozenset(fields))})\n"
                "print(answer.message.content, answer.done_reason)\n"
            )
        case _:
            return (
                "import json\nimport urllib.request\n\n"
                f"body = {_literal(fields)}\n"
                "request = urllib.request.Request(\n"
                f"    {base_url + path!r},\n"
                "    data=json.dumps(body).encode(),\n"
                '    headers={"Content-Type": "application/json"},\n'
                ")\n"
                "with urllib.request.urlopen(request) as answer:\n"
                "    print(json.load(answer))\n"
            )


_STREAM_FIELDS = frozenset({"stream", "stream_options"})
_KEY = f'api_key=os.environ.get("{KEY_VARIABLE}", "unused")'


def _openai(base_url: str) -> str:
    url = f"{base_url}/v1"
    return f"import os\n\nimport openai\n\nclient = openai.OpenAI(base_url={url!r}, {_KEY})\n"


def _arguments(body: dict[str, Any], own: frozenset[str]) -> str:
    """Return keyword arguments; parameters unknown to the package go into its extra body."""
    lines = [f"    {name}={_literal(body[name])}," for name in body if name in own]
    extra = {name: value for name, value in body.items() if name not in own}
    if extra:
        lines.append(f"    extra_body={_literal(extra)},")
    return "\n" + "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    """Return a Python literal of a JSON value, on one line."""
    assert json.dumps(value)
    return repr(value)


# Shows a run in each API: the real server replays the recorded answer.
#
# Window's loop; the server and its clients run on separate threads meanwhile.

# Headers that change with every response and do not describe the answer.
_TRANSPORT_HEADERS = frozenset({"date", "server", "content-length", "connection"})
_TIMEOUT_S = 20.0


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
        made = [
            asyncio.to_thread(_view, dialect, body, address.port, base_url)
            for dialect in DIALECTS
            if (body := body_of(dialect, request, model, prompt)) is not None
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
    recording = None if shown.trace is None else shown.trace.recording()
    if recording is not None:
        played = replay(recording)
        return [*(e for e in played.events if not isinstance(e, TokenTrace)), run.finished]
    events: list[Event] = []
    if run.thinking:
        events.append(ThinkingDelta(run.thinking))
    if run.text:
        events.append(TextDelta(run.text))
    events += [ToolCallCompleted(index, call, "") for index, call in enumerate(run.tool_calls)]
    return [*events, run.finished]


async def _prompt(engine: Engine, request: GenerationRequest) -> str:
    if isinstance(request.prompt, str):
        return request.prompt
    try:
        return "".join(text for _, text in await engine.prompt_pieces(request))
    except EngineError:
        # Without the model there is no template, so use the plain text.
        return "\n\n".join(message.content for message in request.messages)


def _view(dialect: Dialect, fields: dict[str, Any], port: int, base_url: str) -> WireView:
    path = dialect.answers[0].path
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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        content = answer.read().decode("utf-8", "replace")
        kept = [
            f"{name}: {value}"
            for name, value in answer.getheaders()
            if name.lower() not in _TRANSPORT_HEADERS
        ]
    finally:
        connection.close()
    return "\n".join((f"HTTP/1.1 {answer.status} {answer.reason}", *kept, "", content))


def inspector_tools(engine: Engine, url: Callable[[], str]) -> InspectorTools:
    """Return what the inspector needs of the application.

    Args:
        engine: Renders prompts.
        url: Returns the address of the window's server; empty while it is off.
    """

    async def views(shown: ShownRun) -> Sequence[WireView]:
        return await wire_views(engine, shown, url() or f"http://{DEFAULT_HOST}:{DEFAULT_PORT}")

    return InspectorTools(views, probe)
