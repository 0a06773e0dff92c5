"""The window's server: on its own thread, with its request log and the models that it shares."""

import asyncio
import contextlib
import dataclasses
import errno
import http.client
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from api.transport.config import Address, ConfigError, ServerConfig
from api.transport.record import (
    EVERYTHING,
    Content,
    RecordedBody,
    RecordedRun,
    RequestObserver,
    RequestRecord,
)
from app import __version__
from app.composition import offered_models
from app.settings.serve import DEFAULT_HOST
from engine import (
    Engine,
    Finished,
    OfferedModel,
    TraceLevel,
)
from engine.library.models import model_name
from engine.recording.run_trace import RunTrace
from ui.models.model_library import ModelLibrary
from ui.preferences import ServerPreferences
from ui.server.requests import RequestAnswer, RequestBody, RequestEntry
from ui.server.server_switch import AddressRefused

# Passes observed requests from the server to the window's log, in batches.
#
# Called on the server's loop, where it converts the API's records to the window's; delivers them
# on the window's loop.

_Note = tuple[RequestEntry, dict[str, RunTrace]]


class RequestFeed(RequestObserver):
    """An observer of the server."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[list[RequestEntry]], None],
        requested_trace: Callable[[], tuple[TraceLevel, int]] = lambda: (TraceLevel.OFF, 0),
        keep_trace: Callable[[str, RunTrace], None] = lambda _id, _trace: None,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._requested_trace = requested_trace
        self._keep_trace = keep_trace
        self._lock = threading.Lock()
        self._waiting: list[_Note] = []

    def requested_trace(self) -> tuple[TraceLevel, int]:
        """Return the level of detail to record for each token."""
        return self._requested_trace()

    def requested_content(self) -> Content:
        """Return that the whole content of a request is recorded."""
        return EVERYTHING

    def request_began(self, record: RequestRecord) -> None:
        """Record a request."""
        self._put((entry_of(record), {}))

    def request_advanced(self, record: RequestRecord) -> None:
        """Record which model answers a request, and its answers."""
        entry = dataclasses.replace(
            entry_of(record),
            model=record.model,
            asked_model=record.requested_model,
            running=tuple(run.generation for run in record.runs),
        )
        self._put((entry, {}))

    def request_ended(self, record: RequestRecord) -> None:
        """Record the end of a request."""
        entry = ended_entry_of(record)
        runs = zip(entry.answers, _finished(record), strict=True)
        traces = {answer.run_id: trace_of(run) for answer, (run, _) in runs}
        kept = {name: trace for name, trace in traces.items() if trace is not None}
        self._put((entry, kept))

    def _put(self, note: _Note) -> None:
        with self._lock:
            self._waiting.append(note)
            wake_is_due = len(self._waiting) == 1
        if wake_is_due:
            # The window's loop may have ended before the last answers.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            notes, self._waiting = self._waiting, []
        for _, traces in notes:
            for name, trace in traces.items():
                self._keep_trace(name, trace)
        self._deliver([entry for entry, _ in notes])


def trace_of(run: RecordedRun) -> RunTrace | None:
    """Return a generation's tokens for the inspector; None if none were recorded."""
    if not run.tokens:
        return None
    generation = run.generation
    request = generation.request
    trace = RunTrace(generation.setting, request.stops, request.max_tokens)
    trace.vocabulary, trace.request = generation.vocabulary, request
    # The run has ended, so nobody adds tokens any more: they need not be copied.
    trace.tokens = run.tokens
    for call in run.calls:
        trace.take(call)
    if run.finished is not None:
        trace.take(run.finished)
    return trace


def entry_of(record: RequestRecord) -> RequestEntry:
    """Return the window's record of a request that has begun."""
    agents = (value for name, value in record.headers if name.lower() == "user-agent")
    return RequestEntry(
        id=record.request_id,
        began_at=record.began_at,
        client=record.client,
        agent=next(agents, ""),
        method=record.method,
        path=record.path,
        dialect=record.dialect,
        headers=record.headers,
    )


def ended_entry_of(record: RequestRecord) -> RequestEntry:
    """Return the window's record of a request that has ended."""
    return dataclasses.replace(
        entry_of(record),
        model=record.model,
        asked_model=record.requested_model,
        is_stream=record.is_stream,
        status=record.status,
        took_s=record.took_s,
        asked=_body(record.request_body),
        answered=_body(record.response_body),
        answer_headers=record.response_headers,
        answers=tuple(
            _answer(run, finished, f"{record.request_id}/{number}")
            for number, (run, finished) in enumerate(_finished(record), 1)
        ),
    )


def _finished(record: RequestRecord) -> list[tuple[RecordedRun, Finished]]:
    return [(run, run.finished) for run in record.runs if run.finished]


def _answer(run: RecordedRun, finished: Finished, run_id: str) -> RequestAnswer:
    return RequestAnswer(
        request=run.generation.request,
        finished=finished,
        text="".join(run.texts),
        thinking="".join(run.thoughts),
        tool_calls=tuple(delta.call for delta in run.calls),
        run_id=run_id,
    )


def _body(body: RecordedBody) -> RequestBody:
    return RequestBody(body.text, body.size_bytes, body.is_whole)


# Offers the models of the library to other programs; each is loaded when it is needed.
#
# Requests of other programs choose a model by the field ``model``, unless the preferences let the
# default model (the one loaded last) answer all of them. Main thread.


def keep_offered(engine: Engine, library: ModelLibrary) -> None:
    """Offer the models of the library, and again when they or the loaded model change.

    A model that was still loading when the library was read is offered once it is loaded, also if
    it is in none of the library's folders.
    """
    library.changed.connect(lambda: offer_found(engine, library))

    def offer_loaded() -> None:
        if any(model.is_loaded and model.offered is None for model in engine.models):
            offer_found(engine, library)

    library.models.changed.connect(offer_loaded)


def offer_found(engine: Engine, library: ModelLibrary) -> None:
    """Let requests name the models that the library found, and those that are still in memory.

    A model whose folder is gone goes on answering under its name until it is unloaded.
    """
    if library.is_looking or not library.has_looked:
        return
    offers = [
        _resolved(offered, library.draft_of(offered.folder))
        for offered in offered_models(model.found for model in library.local)
    ]
    there = {offer.folder for offer in offers}
    left = [
        model.offered or OfferedModel(model.id, model.folder)
        for model in engine.models
        if model.is_loaded and model.folder not in there
    ]
    names = {offer.id for offer in left}
    engine.offer([*left, *(offer for offer in offers if offer.id not in names)])


def _resolved(model: OfferedModel, draft: Path | None) -> OfferedModel:
    """Return a model at the folder that a link leads to; it also has the name of that folder.

    A loaded model has that name, and the window's own requests use it.
    """
    folder = model.folder.resolve()
    own = model_name(folder)
    aliases = model.aliases if own == model.id else (*model.aliases, own)
    return replace(model, folder=folder, draft=draft, aliases=aliases)


# The window's server: runs on its own thread, started and stopped on demand.
#
# Fits ``ui.server.server_switch.ServerControl`` and ``RequestReplay``. Called on the window's
# loop, which it never blocks; imports the web framework when the server is first started.

if TYPE_CHECKING:
    from api.server.server import ServerThread
    from api.server.telemetry import Telemetry

NETWORK_HOST = "0.0.0.0"
_REPLAY_TIMEOUT_S = 600.0
_NOT_SENT_AGAIN = frozenset(
    {"host", "content-length", "connection", "transfer-encoding", "accept-encoding", "user-agent"}
)
_KEY_HEADERS = frozenset({"authorization", "x-api-key"})


async def _no_key() -> str | None:
    return None


class LocalServer:
    """Serves the window's engine to other programs."""

    def __init__(
        self,
        engine: Engine,
        port: int | None = None,
        preferences: Callable[[], ServerPreferences] = ServerPreferences,
        key: Callable[[], Awaitable[str | None]] = _no_key,
        observer: Callable[[], RequestObserver] | None = None,
    ) -> None:
        self._engine = engine
        self._port = port
        self._preferences = preferences
        self._ask_for_key = key
        self._observer = observer
        self._thread: ServerThread | None = None
        self._telemetry: Telemetry | None = None
        self._key: str | None = None
        self._url = ""

    async def start(self) -> str:
        """Start serving and return the address."""
        config = await self._config()
        self._note(config, await asyncio.to_thread(self._start, config))
        return self._url

    async def apply(self) -> str:
        """Serve with the preferences and the key of now; running answers go on.

        Raises:
            AddressRefused: The server goes on at its earlier address.
            OSError: It cannot serve with these settings.
        """
        thread = self._thread
        if thread is None:
            raise OSError("The server is off.")
        config = await self._config()
        if self._telemetry is not None:
            self._telemetry.secret = config.api_key
        try:
            self._note(config, await asyncio.to_thread(thread.apply, config))
        except ConfigError as error:
            raise OSError(str(error)) from error
        except OSError as error:
            problem = _port_taken_error(error, config)
            if thread.address is None:
                raise problem from None
            self._key = config.api_key
            raise AddressRefused(str(problem)) from error
        return self._url

    async def stop(self) -> None:
        """Stop serving; running answers get a short time to finish."""
        thread, self._thread = self._thread, None
        self._url = ""
        if thread is not None:
            await asyncio.to_thread(thread.stop)
        telemetry, self._telemetry = self._telemetry, None
        if telemetry is not None:
            await asyncio.to_thread(telemetry.close)

    async def replay(self, entry: RequestEntry) -> None:
        """Send a request of the log again, with the current key."""
        if not self._url:
            raise OSError("The server is off. Turn it on to send the request again.")
        if not entry.asked.is_whole:
            raise OSError("The request was too long to keep, so it cannot be sent again.")
        await asyncio.to_thread(self._send, entry, self._url, self._key)

    def _start(self, config: ServerConfig) -> Address:
        from api.server.server import ServerThread
        from api.server.telemetry import telemetry_for

        telemetry = telemetry_for(os.environ, __version__, config.api_key)
        observer = None if self._observer is None else self._observer()
        observers = [each for each in (observer, telemetry) if each is not None]
        thread = ServerThread(self._engine, config, observers)
        try:
            address = thread.start()
        except BaseException as error:
            if telemetry is not None:
                telemetry.close()
            if isinstance(error, OSError):
                raise _port_taken_error(error, config) from None
            raise
        self._thread, self._telemetry = thread, telemetry
        return address

    async def _config(self) -> ServerConfig:
        """Return what the preferences want of the server.

        Raises:
            OSError: It cannot be; the message says why.
        """
        preferences = self._preferences()
        needs_key = preferences.is_on_network or preferences.is_key_required
        key = await self._ask_for_key() if needs_key else None
        if needs_key and key is None:
            raise OSError("An API key is required. Create one in Local Server.")
        try:
            return ServerConfig(
                host=NETWORK_HOST if preferences.is_on_network else DEFAULT_HOST,
                port=preferences.port if self._port is None else self._port,
                api_key=key,
                is_open_here=not preferences.is_key_required,
                allowed_origins=preferences.allowed_origins,
                allowed_hosts=preferences.allowed_hosts,
                task_max_tokens=preferences.task_max_tokens,
                are_models_chosen=self._are_models_chosen,
            )
        except ConfigError as error:
            raise OSError(str(error)) from error

    def _note(self, config: ServerConfig, address: Address) -> None:
        """Remember how the server is reached."""
        is_on_network = config.host == NETWORK_HOST
        self._url = f"http://{own_address()}:{address.port}" if is_on_network else address.url
        self._key = config.api_key

    def _are_models_chosen(self) -> bool:
        """Whether requests choose a model by its name: a single one answers to every name."""
        return self._preferences().is_model_chosen and len(self._engine.models) > 1

    @staticmethod
    def _send(entry: RequestEntry, url: str, key: str | None) -> None:
        address = urlsplit(url)
        headers = {"user-agent": f"Fullstop/{__version__} (sent again)"}
        for name, value in entry.headers:
            if name.lower() not in _NOT_SENT_AGAIN | _KEY_HEADERS:
                headers[name] = value
        if key is not None:
            headers["x-api-key"] = key
        connection = http.client.HTTPConnection(
            str(address.hostname), address.port, timeout=_REPLAY_TIMEOUT_S
        )
        try:
            body = entry.asked.text.encode() or None
            connection.request(entry.method, entry.path, body, headers)
            connection.getresponse().read()
        except http.client.HTTPException as error:
            raise OSError(f"The server gave no answer ({type(error).__name__}).") from error
        finally:
            connection.close()


def _port_taken_error(error: OSError, config: ServerConfig) -> OSError:
    """Return an error that says to a person that another program has the port."""
    if error.errno != errno.EADDRINUSE:
        return error
    taken = OSError(f"Port {config.port} is taken by another program. Choose another one.")
    taken.errno = error.errno
    return taken


def own_address() -> str:
    """Return this computer's address on its network, or the loopback address without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only selects the network interface.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return DEFAULT_HOST
        return str(probe.getsockname()[0])
