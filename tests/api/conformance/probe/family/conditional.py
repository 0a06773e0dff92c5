"""A server of the family whose one fault shows only under one condition.

Conditions and effects are two lists; a test tries every sensible pair of them.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from api.conformance.captures.values import WireDialect, unfinished_stop
from tests.api.conformance.probe.family.held_back import changed
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import PIECE, Query, Said

CHAT, COMPLETIONS, MESSAGES = WireDialect.CHAT, WireDialect.COMPLETIONS, WireDialect.MESSAGES
RESPONSES, GENERATE, OLLAMA = WireDialect.RESPONSES, WireDialect.GENERATE, WireDialect.OLLAMA
ALL = FamilyServer.DIALECTS
WITH_TEMPLATE = (MESSAGES, CHAT, RESPONSES, OLLAMA)
OPENAI = (CHAT, COMPLETIONS)


@dataclass(frozen=True)
class Moment:
    """One answer, as it should be, and what the server knows when it sends it."""

    server: "Conditional"
    query: Query
    right: Said
    index: int = 0
    number: int = 0
    open_requests: int = 1
    is_after_hang_up: bool = False
    is_reused: bool = False
    is_repeated: bool = False

    @property
    def raw(self) -> str:
        """The request's body as text."""
        return json.dumps(self.query.body, ensure_ascii=False)

    @property
    def matched(self) -> str:
        """The stop that ends the answer; empty if none does."""
        return self.right.matched or ""

    @property
    def full(self) -> str:
        """The answer without stops and limits."""
        return self.server.script(self.query)

    @property
    def stops(self) -> Any:
        """The stops as they stand in the request."""
        body = self.query.body
        holders = (body, body.get("options") or {}, body.get("sampling_params") or {})
        for holder in holders:
            for name in ("stop", "stop_sequences"):
                if name in holder:
                    return holder[name]
        return None

    @property
    def temperature(self) -> float:
        """The temperature in the request."""
        body = self.query.body
        holders = (body, body.get("options") or {}, body.get("sampling_params") or {})
        return max(float(holder.get("temperature") or 0) for holder in holders)

    @property
    def spans(self) -> int:
        """How many pieces the stop touches."""
        begin = len(self.right.text)
        return (begin + len(self.matched) - 1) // PIECE - begin // PIECE + 1


@dataclass(frozen=True)
class Condition:
    """When a server has its fault."""

    name: str
    holds: Callable[[Moment], bool]
    dialects: Sequence[WireDialect] = ALL


def _has_turn(moment: Moment) -> bool:
    return '"role": "assistant"' in moment.raw


def _has_result(moment: Moment) -> bool:
    names = ('"role": "tool"', '"tool_result"', '"function_call_output"')
    return any(name in moment.raw for name in names)


def _has_system(moment: Moment) -> bool:
    named = {"system", "instructions"} & moment.query.body.keys()
    return bool(named) or '"role": "system"' in moment.raw


def _others(moment: Moment) -> list[str]:
    return [one for one in moment.query.stops if one != moment.matched]


def _reaches_limit(moment: Moment) -> bool:
    return moment.right.tokens == moment.query.limit


CONDITIONS: tuple[Condition, ...] = (
    Condition("always", lambda m: True),
    Condition("streamed", lambda m: m.query.is_streamed),
    Condition("whole", lambda m: not m.query.is_streamed),
    Condition("tools offered", lambda m: m.query.has_tool, WITH_TEMPLATE),
    Condition("tools, streamed", lambda m: m.query.has_tool and m.query.is_streamed, WITH_TEMPLATE),
    Condition("a call", lambda m: m.right.call is not None, WITH_TEMPLATE),
    Condition(
        "a call, streamed",
        lambda m: m.right.call is not None and m.query.is_streamed,
        WITH_TEMPLATE,
    ),
    Condition("after a tool result", _has_result, WITH_TEMPLATE),
    Condition("system message", _has_system, WITH_TEMPLATE),
    Condition("system, streamed", lambda m: _has_system(m) and m.query.is_streamed, WITH_TEMPLATE),
    Condition("second turn", _has_turn, WITH_TEMPLATE),
    Condition("thinking", lambda m: bool(m.right.thinking), WITH_TEMPLATE),
    Condition(
        "thinking, streamed",
        lambda m: bool(m.right.thinking) and m.query.is_streamed,
        WITH_TEMPLATE,
    ),
    Condition("logprobs", lambda m: m.query.has_logprobs, OPENAI),
    Condition("logprobs, streamed", lambda m: m.query.has_logprobs and m.query.is_streamed, OPENAI),
    Condition("n = 2", lambda m: m.query.choices > 1, OPENAI),
    Condition("second choice", lambda m: m.index == 1, OPENAI),
    Condition("second choice, streamed", lambda m: m.index == 1 and m.query.is_streamed, OPENAI),
    Condition("temperature", lambda m: m.temperature > 0),
    Condition("seed", lambda m: '"seed"' in m.raw, (CHAT, COMPLETIONS, OLLAMA)),
    Condition("limit 1", lambda m: m.query.limit == 1),
    Condition("limit 2", lambda m: m.query.limit == 2),
    Condition("limit at the own end", lambda m: m.right.ending == "natural" and _reaches_limit(m)),
    Condition("limit at the stop's end", lambda m: bool(m.matched) and _reaches_limit(m)),
    Condition("limit reached", lambda m: m.right.ending == "limit"),
    Condition(
        "stop as a string", lambda m: isinstance(m.stops, str), (CHAT, COMPLETIONS, GENERATE)
    ),
    Condition("list of one", lambda m: isinstance(m.stops, list) and len(m.stops) == 1),
    Condition("list of four", lambda m: isinstance(m.stops, list) and len(m.stops) == 4),
    Condition(
        "list with duplicates",
        lambda m: isinstance(m.stops, list) and len(set(m.stops)) < len(m.stops),
    ),
    Condition("stop at the very start", lambda m: bool(m.matched) and not m.right.text.strip()),
    Condition(
        "stop at the very end", lambda m: bool(m.matched) and m.full == m.right.text + m.matched
    ),
    Condition(
        "stop inside a token",
        lambda m: bool(m.matched) and m.spans == 1 and len(m.right.text) % PIECE > 0,
    ),
    Condition("stop over two tokens", lambda m: m.spans == 2),
    Condition("stop over three tokens", lambda m: m.spans >= 3),
    Condition("stop of a space", lambda m: m.matched == " "),
    Condition("stop of a newline", lambda m: m.matched == "\n"),
    Condition("stop begins with a space", lambda m: m.matched[:1] == " "),
    Condition("stop holds a newline", lambda m: "\n" in m.matched and len(m.matched) > 1),
    Condition("stop of an accent", lambda m: any("\u0080" < c < "\u0250" for c in m.matched)),
    Condition("stop of CJK", lambda m: any("\u3000" < c < "\ua000" for c in m.matched)),
    Condition("stop of an emoji", lambda m: any(ord(c) > 0xFFFF for c in m.matched)),
    Condition("text beyond ASCII", lambda m: not m.right.text.isascii()),
    Condition("stop in the prompt", lambda m: bool(m.matched) and m.matched in m.query.prompt),
    Condition("stop not in the prompt", lambda m: m.matched not in m.query.prompt),
    Condition(
        "stop that begins another",
        lambda m: bool(m.matched) and any(one.startswith(m.matched) for one in _others(m)),
    ),
    Condition(
        "stop inside another",
        lambda m: bool(m.matched) and any(m.matched in one[1:] for one in _others(m)),
    ),
    Condition(
        "overlapping stops",
        lambda m: bool(m.matched) and any(one[0] == m.matched[-1] for one in _others(m)),
    ),
    Condition(
        "a stop half there",
        lambda m: not m.matched and unfinished_stop(m.right.text, m.query.stops) is not None,
    ),
    Condition(
        "stop in the thinking",
        lambda m: any(one in m.right.thinking for one in m.query.stops),
        WITH_TEMPLATE,
    ),
    Condition(
        "stop in the call",
        lambda m: any(one in (m.right.call or "") for one in m.query.stops),
        WITH_TEMPLATE,
    ),
    Condition("long stop", lambda m: len(m.matched) > 40),
    Condition("more than 300 tokens", lambda m: m.right.tokens > 300),
    Condition(
        "more than 300 tokens, streamed", lambda m: m.right.tokens > 300 and m.query.is_streamed
    ),
    Condition("few characters", lambda m: 0 < len(m.full) < 12),
    Condition("every 2nd request", lambda m: m.number % 2 == 0),
    Condition("every 8th request", lambda m: m.number % 8 == 0),
    Condition("at the same time", lambda m: m.open_requests > 1),
    Condition(
        "counts asked for",
        lambda m: m.query.is_streamed and "stream_options" in m.query.body,
        OPENAI,
    ),
    Condition(
        "no counts asked for",
        lambda m: m.query.is_streamed and "stream_options" not in m.query.body,
        OPENAI,
    ),
    Condition("JSON", lambda m: m.query.has_schema, (CHAT, RESPONSES, OLLAMA)),
    Condition(
        "JSON, streamed",
        lambda m: m.query.has_schema and m.query.is_streamed,
        (CHAT, RESPONSES, OLLAMA),
    ),
    Condition("connection used again", lambda m: m.is_reused),
    Condition("after a hang-up", lambda m: m.is_after_hang_up),
    Condition("same request again", lambda m: m.is_repeated),
    Condition("no stops", lambda m: not m.query.stops),
    Condition(
        "tool_choice none",
        lambda m: '"none"' in str(m.raw) and "tool_choice" in m.raw,
        (MESSAGES, CHAT, RESPONSES),
    ),
    Condition(
        "tool_choice required",
        lambda m: m.query.body.get("tool_choice") in ("required", {"type": "any"}),
        (MESSAGES, CHAT, RESPONSES),
    ),
    Condition(
        "tool_choice named",
        lambda m: (
            '"tool_choice": {' in m.raw and '"note"' in json.dumps(m.query.body["tool_choice"])
        ),
        (MESSAGES, CHAT, RESPONSES),
    ),
    Condition("parallel calls off", lambda m: "parallel" in m.raw, (MESSAGES, CHAT, RESPONSES)),
)


@dataclass(frozen=True)
class Effect:
    """What a server then does wrong: to the answer, to its objects, or to the response."""

    name: str
    answer: Callable[[Moment], Said] | None = None
    write: Callable[[dict[str, Any], Moment], dict[str, Any] | None] | None = None
    status: int = 0
    dialects: Sequence[WireDialect] = ALL


def _again(moment: Moment, **changes: Any) -> Said:
    return moment.server.answer(replace(moment.query, **changes))


def _with_text(change: Callable[[Moment], str]) -> Callable[[Moment], Said]:
    return lambda moment: replace(moment.right, text=change(moment))


def _with_counts(change: Callable[[Said], dict[str, int]]) -> Callable[[Moment], Said]:
    return lambda moment: replace(moment.right, **change(moment.right))  # type: ignore[arg-type]


def _stop_only(change: Callable[[Moment], str]) -> Callable[[Moment], Said]:
    def answer(moment: Moment) -> Said:
        right = moment.right
        return replace(right, text=change(moment)) if moment.matched else right

    return answer


def _ends(ending: str, matched: str | None = None) -> Callable[[Moment], Said]:
    def answer(moment: Moment) -> Said:
        right = moment.right
        is_same = right.ending == ending
        return right if is_same else replace(right, ending=ending, matched=matched)

    return answer


def _late(moment: Moment, length: int) -> str:
    begin = len(moment.right.text)
    return moment.full[: begin + length]


def _without_reason(value: dict[str, Any], moment: Moment) -> dict[str, Any]:
    for choice in value.get("choices") or ():
        if choice.get("index") == moment.index:
            choice["finish_reason"] = None
    for holder in (value, value.get("delta") or {}, value.get("meta_info") or {}):
        for name in ("stop_reason", "finish_reason", "done_reason"):
            if name in holder:
                holder[name] = None
    return value


def _without_usage(value: dict[str, Any], moment: Moment) -> dict[str, Any] | None:
    if value.get("choices") == []:
        return None
    for holder in (value, value.get("response") or {}, value.get("meta_info") or {}):
        for name in (
            *("usage", "prompt_tokens", "completion_tokens", "prompt_eval_count", "eval_count"),
        ):
            holder.pop(name, None)
    return value


def _other_name(value: dict[str, Any], moment: Moment) -> dict[str, Any]:
    return dict(json.loads(json.dumps(value).replace('"name": "note"', '"name": "other"')))


def _without_role(value: dict[str, Any], moment: Moment) -> dict[str, Any]:
    for choice in value.get("choices") or ():
        for name in ("message", "delta"):
            choice.get(name, {}).pop("role", None)
    return value


def _fewer_tops(value: dict[str, Any], moment: Moment) -> dict[str, Any]:
    for choice in value.get("choices") or ():
        logged = choice.get("logprobs") or {}
        for entry in logged.get("content") or ():
            entry["top_logprobs"] = entry.get("top_logprobs", [])[:1]
        if "top_logprobs" in logged:
            logged["top_logprobs"] = [dict(list(one.items())[:1]) for one in logged["top_logprobs"]]
    return value


EFFECTS: tuple[Effect, ...] = (
    Effect("stop ignored", lambda m: _again(m, stops=())),
    Effect("stop kept", _stop_only(lambda m: m.right.text + m.matched)),
    Effect("cut a character early", _stop_only(lambda m: m.right.text[:-1])),
    Effect("cut a token early", _stop_only(lambda m: m.right.text[:-PIECE])),
    Effect("cut a character late", _stop_only(lambda m: _late(m, 1))),
    Effect("cut a token late", _stop_only(lambda m: _late(m, len(m.matched) + PIECE))),
    Effect("first token lost", _with_text(lambda m: m.right.text[PIECE:])),
    Effect("last token lost", _with_text(lambda m: m.right.text[:-PIECE])),
    Effect("last character lost", _with_text(lambda m: m.right.text[:-1])),
    Effect("middle lost", _with_text(lambda m: m.right.text[:4] + m.right.text[7:])),
    Effect("line ends lost", _with_text(lambda m: m.right.text.replace("\n", ""))),
    Effect("text doubled", _with_text(lambda m: m.right.text * 2)),
    Effect("last token doubled", _with_text(lambda m: m.right.text + m.right.text[-PIECE:])),
    Effect("trimmed", _with_text(lambda m: m.right.text.strip())),
    Effect("marker at the end", _with_text(lambda m: m.right.text + "<|im_end|>")),
    Effect("marker at the start", _with_text(lambda m: "<s>" + m.right.text)),
    Effect("empty", _with_text(lambda m: "")),
    Effect("answer of another", _with_text(lambda m: m.server.last_text)),
    Effect("says natural", _ends("natural")),
    Effect("says limit", _ends("limit")),
    Effect("says tool", _ends("tool")),
    Effect("says stop", _ends("stop")),
    Effect("no reason", write=_without_reason),
    Effect("names no stop", lambda m: replace(m.right, matched=None)),
    Effect(
        "names a wrong stop",
        lambda m: replace(m.right, matched=f"{m.matched}x") if m.matched else m.right,
    ),
    Effect("counts one more", _with_counts(lambda one: {"tokens": one.tokens + 1})),
    Effect("counts one fewer", _with_counts(lambda one: {"tokens": one.tokens - 1})),
    Effect("counts 0", _with_counts(lambda one: {"tokens": 0})),
    Effect("counts twice", _with_counts(lambda one: {"tokens": one.tokens * 2})),
    Effect("prompt counted 0", _with_counts(lambda one: {"prompt_tokens": 0})),
    Effect("prompt counted twice", _with_counts(lambda one: {"prompt_tokens": 10})),
    Effect("prompt counted one more", _with_counts(lambda one: {"prompt_tokens": 6})),
    Effect("counts missing", write=_without_usage),
    Effect("limit one more", lambda m: _again(m, limit=m.query.limit + 1)),
    Effect("limit one fewer", lambda m: _again(m, limit=max(1, m.query.limit - 1))),
    Effect("limit ignored", lambda m: _again(m, limit=4_000)),
    Effect("thinking lost", lambda m: replace(m.right, thinking="")),
    Effect(
        "thinking in the text",
        lambda m: replace(m.right, thinking="", text=m.right.thinking + m.right.text),
    ),
    Effect("call lost", lambda m: replace(m.right, call=None)),
    Effect("call cut", lambda m: replace(m.right, call=m.right.call and m.right.call[:-2])),
    Effect(
        "call of other arguments",
        lambda m: replace(m.right, call=m.right.call and m.right.call.replace("red", "rd")),
    ),
    Effect(
        "call also as text",
        lambda m: replace(m.right, text=m.right.text + (m.right.call or "")),
    ),
    Effect("call of another name", write=_other_name, dialects=WITH_TEMPLATE),
    Effect("no role", write=_without_role, dialects=(CHAT,)),
    Effect("no logprobs", lambda m: replace(m.right, logged=None), dialects=OPENAI),
    Effect(
        "a logprob too many",
        lambda m: replace(m.right, logged=m.right.logged and (*m.right.logged, "x")),
        dialects=OPENAI,
    ),
    Effect(
        "a logprob too few",
        lambda m: replace(m.right, logged=m.right.logged and m.right.logged[:-1]),
        dialects=OPENAI,
    ),
    Effect("fewer top logprobs", write=_fewer_tops, dialects=OPENAI),
    Effect("refused", status=400),
    Effect("fails", status=500),
    Effect("hangs", status=-1),
    Effect("breaks off", status=-2),
    Effect(
        "choice ignored",
        lambda m: _again(
            m, body={name: value for name, value in m.query.body.items() if name != "tool_choice"}
        ),
        dialects=(MESSAGES, CHAT, RESPONSES),
    ),
)


# What no probe can see: under which conditions (all if none is named), which faults, and why.
_PROMPTS = ("prompt counted one more", "prompt counted twice", "prompt counted 0")
_OWN_PROMPT = (
    *("tools offered", "tools, streamed", "after a tool result", "system message", "second turn"),
    *("thinking", "temperature", "seed", "JSON", "few characters", "more than 300 tokens"),
    *("text beyond ASCII", "a call", "stop in the call", "always", "tool_choice none"),
    *("tool_choice required", "tool_choice named", "parallel calls off", "stop not in the prompt"),
)
_OWN_STOP = tuple(
    condition.name
    for condition in CONDITIONS
    if "stop" in condition.name or condition.name in ("list of four", "few characters", "long stop")
)
_TEXTS = (
    *("first token lost", "last token lost", "last character lost", "middle lost", "trimmed"),
    *("line ends lost", "text doubled", "last token doubled", "marker at the start", "empty"),
)
UNJUDGED: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (_OWN_PROMPT, _PROMPTS[:2], "no other answer has a prompt of as many tokens"),
    (
        _OWN_STOP,
        ("counts one more", "counts one fewer", "counts twice"),
        "a server may make a token behind a stop, and no other answer ends there",
    ),
    (
        ("a call", "tool_choice required", "tool_choice named", "parallel calls off"),
        ("counts one more", "counts one fewer", "counts twice"),
        "no other answer has that call",
    ),
    (
        ("thinking", "stop in the thinking"),
        (*_TEXTS, "thinking in the text"),
        "the text after thinking need not be that without",
    ),
    (("limit at the stop's end",), ("says limit",), "which of both ends an answer is an opinion"),
    ((), ("thinking lost",), "a model need not think"),
    ((), ("call lost",), "a model need not call a tool"),
    ((), ("refused",), "a server may lack what the request has"),
    (
        ("after a hang-up",),
        tuple(effect.name for effect in EFFECTS),
        "an answer without a model is over before its client can leave",
    ),
)


class Conditional(FamilyServer):
    """Has one fault under one condition.

    Attributes:
        hits: How many answers met the condition.
        changes: How many of these the fault changed.
        last_text: The text of the answer before.
    """

    def __init__(self, dialect: WireDialect, condition: Condition, effect: Effect) -> None:
        super().__init__(dialect)
        self.hits = self.changes = 0
        self.last_text = "Hello! How can I help you today?"
        self._condition, self._effect = condition, effect
        self._open = 0
        self._was_left = False
        self._connections: set[str] = set()
        self._bodies: set[str] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, and note what went on around it."""
        self._open += 1
        try:
            # Requests that come together are read before any of them is answered.
            await asyncio.sleep(0)
            return await super().handle(request)
        except (asyncio.CancelledError, ConnectionError):
            self._was_left = True
            raise
        finally:
            self._open -= 1

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        """Send the answers, the faulty ones among them."""
        rights = self.answers(query)
        moments = [self._moment(request, query, one, at) for at, one in enumerate(rights)]
        hits = [moment for moment in moments if self._condition.holds(moment)]
        self._was_left = False
        self._bodies.add(moments[0].raw)
        self._connections.add(_peer(request))
        said = list(rights)
        for moment in hits if self._effect.answer is not None else ():
            said[moment.index] = self._effect.answer(moment)  # type: ignore[misc]
        proper = self._rendered(rights, query)
        sent = self._rendered(said, query)
        for moment in hits if self._effect.write is not None else ():
            sent = self._rewritten(sent, moment)
        self.hits += len(hits)
        is_changed = bool(hits) and (self._effect.status != 0 or sent != proper)
        self.changes += is_changed
        self.last_text = rights[0].text or self.last_text
        if hits and self._effect.status:
            return await self._failed(request, query, sent)
        return await self._sent(request, query, sent)

    def _moment(self, request: web.Request, query: Query, right: Said, at: int) -> Moment:
        raw = Moment(self, query, right).raw
        return Moment(
            self,
            query,
            right,
            at,
            self.asked,
            self._open,
            self._was_left,
            _peer(request) in self._connections,
            raw in self._bodies,
        )

    def _rendered(self, said: Sequence[Said], query: Query) -> dict[str, Any] | list[bytes]:
        return self.frames(said, query) if query.is_streamed else self.body(said, query)

    def _rewritten(
        self, sent: dict[str, Any] | list[bytes], moment: Moment
    ) -> dict[str, Any] | list[bytes]:
        write = self._effect.write
        assert write is not None
        if isinstance(sent, dict):
            return write(json.loads(json.dumps(sent)), moment) or {}
        return changed(sent, lambda value: write(value, moment))

    async def _failed(
        self, request: web.Request, query: Query, sent: dict[str, Any] | list[bytes]
    ) -> web.StreamResponse:
        match self._effect.status:
            case -1:
                await asyncio.sleep(3600)
            case -2:
                assert request.transport is not None
                if isinstance(sent, list):
                    response = await self._sent(request, query, sent[: len(sent) // 2])
                    request.transport.close()
                    return response
                request.transport.close()
            case status:
                return self.refusal("out of luck", status)
        return web.Response()

    async def _sent(
        self, request: web.Request, query: Query, sent: dict[str, Any] | list[bytes]
    ) -> web.StreamResponse:
        if isinstance(sent, dict):
            return web.json_response(sent)
        response = web.StreamResponse(
            headers={"content-type": self.stream_type or self.wire.content_type}
        )
        await response.prepare(request)
        for frame in sent:
            await self.write(response, frame)
        return response


def _peer(request: web.Request) -> str:
    return str(request.transport and request.transport.get_extra_info("peername"))
