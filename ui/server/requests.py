"""The requests that other programs have made: records, and a ring of the newest of them.

Main thread. Knows no HTTP: the application translates what the server observed. The ring emits
that it has changed; views decide when to read it.
"""

import base64
import hashlib
import json
import re
import shlex
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from PySide6.QtCore import QObject, Signal

from engine import Generation
from engine.values.events import Finished, Usage, tokens_per_s
from engine.values.figures import describe_difference
from engine.values.request import GenerationRequest, ToolCall
from engine.values.verdict import shortest
from ui.preferences import API_KEY_VARIABLE
from ui.records.pictures import name_pictures
from ui.records.runs import Pace
from ui.words import display_name

CLIENT_LEFT = 499

Headers = tuple[tuple[str, str], ...]

# Programs that call themselves otherwise than they are known.
_KNOWN_AS = {
    "claude-cli": "claude-code",
    "codex_cli_rs": "codex",
    "codex_exec": "codex",
    "python-requests": "a Python program",
    "python-httpx": "a Python program",
    "aiohttp": "a Python program",
    "node": "a Node program",
    "fullstop-probe": "Probe",
}
_VERSION = re.compile(r"/v?\d.*")
# Headers that curl writes itself, or that describe the connection and not the request.
_CURLS_OWN = frozenset(
    {"host", "content-length", "connection", "accept-encoding", "transfer-encoding", "user-agent"}
)
# As the server records a picture.
_PICTURE = re.compile(r"\[picture of [\d,]+ bytes, SHA-256 ([0-9a-f]{16})\]")
_KEYS = {"authorization": f"Bearer ${API_KEY_VARIABLE}", "x-api-key": f"${API_KEY_VARIABLE}"}


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The part of a body that was kept: without secrets, and pictures as their size and digest."""

    text: str = ""
    size_bytes: int = 0
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """One answer to a request, with what the engine was asked."""

    request: GenerationRequest
    finished: Finished
    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    run_id: str = ""

    @property
    def size_bytes(self) -> int:
        """Roughly how much memory it takes, in bytes."""
        prompt = self.request.prompt
        prompt_chars = sum(len(message.content) for message in self.request.messages)
        texts = 200 + prompt_chars + len(prompt or ()) + len(self.text) + len(self.thinking)
        return texts + self.picture_bytes

    @property
    def picture_bytes(self) -> int:
        return sum(len(one.data) for one in self.request.all_pictures)


@dataclass(frozen=True, slots=True)
class RequestEntry:
    """One request of another program, answered or not yet."""

    id: str
    began_at: float  # seconds since the epoch
    client: str
    agent: str
    method: str
    path: str
    dialect: str = ""  # empty for routes without one
    headers: Headers = ()
    model: str = ""  # empty if none did
    is_stream: bool | None = None  # None while that is not known
    status: int | None = None  # None while it is being answered, 499 where the client disconnected
    took_s: float | None = None  # the seconds from its arrival to the last byte of the answer
    request_body: RequestBody = field(default_factory=RequestBody)
    response_body: RequestBody = field(default_factory=RequestBody)
    answer_headers: Headers = ()
    answers: tuple[RequestAnswer, ...] = ()
    requested_model: str = ""
    running: tuple[Generation, ...] = ()
    no_effect: tuple[str, ...] = ()  # what of the request changed nothing

    @property
    def ends(self) -> tuple[Finished, ...]:
        return tuple(answer.finished for answer in self.answers)

    @property
    def is_open(self) -> bool:
        return self.status is None

    @property
    def is_error(self) -> bool:
        return self.status is not None and self.status >= 400

    @property
    def whole_body(self) -> str | None:
        """The request's body with its pictures; None if some of it was not kept."""
        text = self.request_body.text
        known: dict[str, str] = {}
        if _PICTURE.search(text) is not None:
            for picture in (one for answer in self.answers for one in answer.request.all_pictures):
                digest = hashlib.sha256(picture.data).hexdigest()[:16]
                known[digest] = base64.b64encode(picture.data).decode()
        is_whole = self.request_body.is_whole and known.keys() >= set(_PICTURE.findall(text))
        return _PICTURE.sub(lambda match: known[match[1]], text) if is_whole else None

    @property
    def size_bytes(self) -> int:
        """Roughly how much memory it takes, in bytes."""
        bodies = 600 + len(self.request_body.text) + len(self.response_body.text)
        return bodies + sum(answer.size_bytes for answer in self.answers)

    def without_pictures(self) -> "RequestEntry":
        """Return it with the names of its pictures in place of their data."""
        answers = (replace(each, request=name_pictures(each.request)) for each in self.answers)
        return replace(self, answers=tuple(answers))

    @property
    def output_tokens(self) -> int:
        written = sum(answer.written_tokens for answer in self.running)
        return written + sum(end.usage.output_tokens for end in self.ends)

    @property
    def prompt_tokens(self) -> int:
        running = {answer.request.prompt_key: answer.prompt_tokens for answer in self.running}
        return sum(running.values()) + sum(usage.prompt_tokens for usage in self._usages)

    @property
    def cached_tokens(self) -> int:
        return sum(usage.cached_tokens for usage in self._usages)

    @property
    def _usages(self) -> Iterable[Usage]:
        """The usage of one answer to each prompt; several choices share their prompt."""
        answers = reversed(self.answers)  # the first read the prompt, the others found it cached
        return {one.request.prompt_key: one.finished.usage for one in answers}.values()

    @property
    def read_again(self) -> str:
        """How many tokens of a prompt were read again, and why; empty for none."""
        found = (usage.prompt_difference for usage in self._usages)
        return next((describe_difference(each) for each in found if each is not None), "")

    @property
    def first_token_s(self) -> float | None:
        times = [end.timing.first_token_s for end in self.ends]
        times += [answer.first_token_s for answer in self.running]
        return min((time for time in times if time is not None), default=None)

    @property
    def tokens_per_s(self) -> float | None:
        speeds = [tokens_per_s(end.usage, end.timing) for end in self.ends]
        known = [speed for speed in speeds if speed is not None]
        return sum(known) if known else None


def program_of(agent: str) -> str:
    """Return the name of a program from its User-Agent header: ``claude-code``."""
    text = agent.split()
    name = _VERSION.sub("", text[0])[:40] if text else ""
    return _KNOWN_AS.get(name.casefold(), name)


def usage_texts(entries: Iterable[RequestEntry]) -> tuple[str, str]:
    """Return who is using which model, briefly and as a sentence; empty for no user."""
    running = [entry for entry in entries if entry.is_open and entry.model]
    programs = list(dict.fromkeys(program_of(entry.agent) or "an app" for entry in running))
    models = list(dict.fromkeys(display_name(entry.model) for entry in running))
    if not running:
        return "", ""
    who = " and ".join(programs) if len(programs) < 3 else f"{len(programs)} apps"
    what = " and ".join(models) if len(models) < 3 else f"{len(models)} models"
    verb = "is" if len(programs) == 1 else "are"
    brief = who if len(programs) == 1 else f"{len(programs)} apps"
    return brief, f"{who} {verb} using {what}"


def stop_label(entry: RequestEntry) -> str:
    """Return kind and value of the stop, as ``stop "END"``, or why there is no answer."""
    if not entry.ends:
        if entry.status == CLIENT_LEFT:
            return "client disconnected"
        if not entry.is_error:
            return ""
        return "refused" if entry.status is not None and entry.status < 500 else "failed"
    text = shortest(entry.ends[0].stop)
    if len(entry.ends) > 1:
        text = f"{text} +{len(entry.ends) - 1}"
    return text


class RequestLog(QObject):
    """The newest requests, as many as the caps allow."""

    taken = Signal()
    replaced = Signal()  # entries were cleared or restored
    pause_changed = Signal()

    def __init__(
        self,
        parent: QObject | None = None,
        max_entries: int = 1_000,
        max_bytes: int = 24 << 20,
    ) -> None:
        super().__init__(parent)
        self._entries: OrderedDict[str, RequestEntry] = OrderedDict()
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._open: set[str] = set()
        self._pictured: OrderedDict[str, None] = OrderedDict()
        self._paces: dict[str, Pace] = {}
        self.is_paused = False

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[RequestEntry]:
        return iter(self._entries.values())

    def get(self, request_id: str) -> RequestEntry | None:
        return self._entries.get(request_id)

    def take(self, entries: Iterable[RequestEntry]) -> None:
        """Add entries; an entry with a known id replaces the earlier one."""
        for entry in entries:
            known = self._entries.get(entry.id)
            if known is None and (self.is_paused or not entry.is_open):
                continue  # it was cleared, or ignored while paused: do not list it at its end
            self._note_running(entry)
            self._size_bytes += entry.size_bytes - (known.size_bytes if known else 0)
            self._entries[entry.id] = entry
            if any(answer.picture_bytes for answer in entry.answers):
                self._pictured[entry.id] = None
        self._limit_size()
        self.taken.emit()

    def _limit_size(self) -> None:
        while self._pictured and self._size_bytes > self._max_bytes:
            name, _ = self._pictured.popitem(last=False)
            if (pictured := self._entries.get(name)) is not None:
                bare = pictured.without_pictures()
                self._size_bytes += bare.size_bytes - pictured.size_bytes
                self._entries[name] = bare
        while self._entries and (
            len(self._entries) > self._max_entries or self._size_bytes > self._max_bytes
        ):
            name, oldest = self._entries.popitem(last=False)
            self._open.discard(name)
            self._paces.pop(name, None)
            self._size_bytes -= oldest.size_bytes

    @property
    def open(self) -> list[RequestEntry]:
        """The listed requests that are being answered."""
        return [self._entries[name] for name in self._open if name in self._entries]

    def rate_of(self, entry: RequestEntry) -> float | None:
        if not entry.running:
            return entry.tokens_per_s
        pace = self._paces.setdefault(entry.id, Pace())
        pace.note(sum(answer.written_tokens for answer in entry.running), time.monotonic())
        return pace.per_s

    def stop(self, entry: RequestEntry) -> None:
        for answer in entry.running:
            answer.cancel()

    def _note_running(self, entry: RequestEntry) -> None:
        if entry.is_open:
            self._open.add(entry.id)
        else:
            self._open.discard(entry.id)
            self._paces.pop(entry.id, None)

    def set_paused(self, is_paused: bool) -> None:
        if is_paused != self.is_paused:
            self.is_paused = is_paused
            self.pause_changed.emit()

    def clear(self) -> list[RequestEntry]:
        """Remove the requests that are no longer being answered, and return them."""
        removed = [entry for entry in self if not entry.is_open]
        self._replace(entry for entry in tuple(self) if entry.is_open)
        return removed

    def restore(self, removed: Iterable[RequestEntry]) -> None:
        """Add removed requests again, in their places."""
        self._replace(sorted((*removed, *self), key=lambda entry: entry.began_at))

    def _replace(self, entries: Iterable[RequestEntry]) -> None:
        self._entries = OrderedDict((entry.id, entry) for entry in entries)
        pictured = [entry.id for entry in self if any(each.picture_bytes for each in entry.answers)]
        self._pictured = OrderedDict.fromkeys(pictured)
        self._size_bytes = sum(entry.size_bytes for entry in self)
        self._limit_size()
        self.replaced.emit()


# A request as text: a curl command, lines of JSON, readable bodies. It never contains API keys: the
# server has removed them.


def as_curl(entry: RequestEntry, url: str) -> str:
    """Return a command for a shell that sends the request again."""
    body = entry.whole_body
    parts = [f"curl {shlex.quote(url + entry.path)}"]
    if entry.method not in ("GET", "POST") or (entry.method == "POST" and not body):
        parts.append(f"-X {entry.method}")
    if entry.is_stream:
        parts.append("--no-buffer")
    for name, value in entry.headers:
        key = _KEYS.get(name.lower())
        if key is not None:
            parts.append(f'-H "{name}: {key}"')  # double quotes: the shell fills in the variable
        elif name.lower() not in _CURLS_OWN:
            parts.append(f"-H {shlex.quote(f'{name}: {value}')}")
    if body:
        parts.append(f"--data-raw {shlex.quote(body)}")
    return " \\\n  ".join(parts)


def example_curl(url: str, needs_key: bool) -> str:
    """Return a command for a shell that sends a first request."""
    keys = (("Authorization", ""),) if needs_key else ()
    body = RequestBody('{"messages": [{"role": "user", "content": "Hello"}]}')
    headers = (("Content-Type", "application/json"), *keys)
    entry = RequestEntry(
        "", 0, "", "", "POST", "/v1/chat/completions", headers=headers, request_body=body
    )
    return as_curl(entry, url)


def as_jsonl(entries: Iterable[RequestEntry]) -> str:
    """Return one line of JSON for each entry."""
    return "".join(
        json.dumps(_value(entry), ensure_ascii=False, separators=(",", ":")) + "\n"
        for entry in entries
    )


def readable(body: RequestBody) -> str:
    """Return a body for reading: JSON is indented, anything else is unchanged."""
    text = body.text
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
        except (ValueError, RecursionError):
            return text
    return text


def error_message(entry: RequestEntry) -> str:
    """Return what the server said was wrong with a request; empty if it said nothing."""
    if not entry.is_error or not entry.response_body.is_whole:
        return ""
    try:
        value = json.loads(entry.response_body.text)
    except (ValueError, RecursionError):
        return ""
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return error if isinstance(error, str) else ""


def _value(entry: RequestEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "time": datetime.fromtimestamp(entry.began_at, UTC).isoformat(timespec="milliseconds"),
        "client": entry.client,
        "user_agent": entry.agent,
        "method": entry.method,
        "path": entry.path,
        "route": entry.dialect,
        "model": entry.model,
        "stream": entry.is_stream,
        "status": entry.status,
        "answers": [
            {
                "stop": {"kind": end.stop.kind.value, "value": end.stop.value},
                "prompt_tokens": end.usage.prompt_tokens,
                "cached_tokens": end.usage.cached_tokens,
                "output_tokens": end.usage.output_tokens,
                "first_token_s": end.timing.first_token_s,
                "decode_s": end.timing.decode_s,
                "error": end.error,
            }
            for end in entry.ends
        ],
        "read_again": entry.read_again or None,
        "no_effect": entry.no_effect,
        "total_s": entry.took_s,
        "request": _message(entry.headers, entry.request_body),
        "response": _message(entry.answer_headers, entry.response_body),
    }


def _message(headers: Iterable[tuple[str, str]], body: RequestBody) -> dict[str, Any]:
    return {
        "headers": [list(pair) for pair in headers],
        "body": body.text,
        "body_bytes": body.size_bytes,
        "body_is_whole": body.is_whole,
    }
