"""The trace of a run, token by token: as it is recorded, and as it is stored."""

import json
import zlib
from collections import deque
from typing import Any, NamedTuple

from engine.files.json_fields import DamagedFile, Fields, from_values, parsed_json, to_values
from engine.generation import Generation
from engine.output.answer import DecodingContext
from engine.output.vocabulary import Vocabulary
from engine.recording.replay import RecordedToken, Recording, by_id, replay
from engine.recording.saved_run import setting_from, setting_to_fields
from engine.stopping.record import StopInfo
from engine.stopping.rules import StopRules
from engine.values.events import (
    BudgetEnd,
    Event,
    Finished,
    Speculation,
    TokenTrace,
    ToolCallCompleted,
)
from engine.values.request import GenerationRequest, ToolCall

# One reader changes it while the run grows; any thread reads it afterwards.

MAX_RUN_TOKENS = 20_000


class RunTrace:
    """The trace of one run, while it grows and afterwards.

    Attributes:
        setting: The model's side of the run.
        rules: Its stops.
        max_tokens: Its limit of tokens; None for none.
        tokens: Its tokens; of a long run, the newest.
        stop: Why it ended, once it has.
        residue: Text that appeared only at the end.
        speculation: The counts of its draft tokens.
        budget_end: Where a budget ended its reasoning; None where none did.
        calls: The parsed tool calls, by their raw text.
        vocabulary: The model's vocabulary; None for a saved run.
        request: The request; None for a saved run.
    """

    def __init__(
        self,
        setting: DecodingContext,
        rules: StopRules,
        max_tokens: int | None,
        capacity: int | None = MAX_RUN_TOKENS,
    ) -> None:
        self.setting = setting
        self.rules = rules
        self.max_tokens = max_tokens
        self.tokens: deque[TokenTrace] = deque(maxlen=capacity)
        self.stop: StopInfo | None = None
        self.residue = ""
        self.speculation = Speculation()
        self.budget_end: BudgetEnd | None = None
        self.calls: dict[str, tuple[ToolCall, ...]] = {}
        self.vocabulary: Vocabulary | None = None
        self.request: GenerationRequest | None = None
        self._call_text: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no token is missing; only then can the run be replayed."""
        return bool(self.tokens) and self.tokens[0].index == 0

    @property
    def can_be_replayed(self) -> bool:
        """Whether the run has ended and no token of it is missing."""
        return self.stop is not None and self.is_whole

    def take(self, event: Event) -> None:
        if isinstance(event, TokenTrace):
            self.tokens.append(event)
            self._call_text = None
        elif isinstance(event, ToolCallCompleted):
            # One text may hold several calls, which arrive together; the first carries the text.
            # Equal texts hold equal calls.
            is_first = bool(event.raw) or self._call_text is None
            text = event.raw if is_first else str(self._call_text)
            known = () if is_first else self.calls[text]
            self.calls[text] = (*known, event.call)
            self._call_text = text
        elif isinstance(event, Finished):
            self.stop = event.stop
            self.residue = event.residue
            self.speculation = event.speculation
            self.budget_end = event.budget_end

    def recording(self) -> Recording | None:
        """Return the run for a replay; None before its end and where tokens are missing."""
        return self.as_recording(self.stop) if self.stop is not None and self.is_whole else None

    def as_recording(self, stop: StopInfo) -> Recording:
        """Return the tokens that are here as a run that ended so."""
        return Recording(
            setting=self.setting,
            rules=self.rules,
            max_tokens=self.max_tokens,
            tokens=tuple(
                RecordedToken(t.token_id, t.raw, t.piece, t.special, t.time_s, t.origin)
                for t in self.tokens
            ),
            residue=self.residue,
            calls=self.calls,
            stop=stop,
            speculation=self.speculation,
            budget_end=self.budget_end,
        )


def trace_of(recording: Recording) -> RunTrace:
    """Return the trace of a saved run, by replaying its tokens with its own stops."""
    played = replay(recording, is_traced=True)
    limit = max(1, len(recording.tokens))
    trace = RunTrace(recording.setting, recording.rules, recording.max_tokens, limit)
    for event in played.events:
        if isinstance(event, TokenTrace):
            trace.take(event)
    trace.calls = recording.calls
    trace.residue = recording.residue
    trace.speculation = recording.speculation
    trace.budget_end = recording.budget_end
    trace.stop = played.stop or recording.stop
    return trace


class Recorder:
    """Collects the events of one generation whose request asks for a trace.

    Attributes:
        generation: The run.
    """

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        request = generation.request
        self._trace = RunTrace(generation.setting, request.stops, request.max_tokens, None)
        self._finished: Finished | None = None

    def take(self, event: Event) -> None:
        self._trace.take(event)
        if isinstance(event, Finished):
            self._finished = event

    def recording(self) -> Recording:
        """Return the run.

        Raises:
            ValueError: It has not ended, or was not traced.
        """
        finished = self._finished
        if finished is None:
            raise ValueError("the run has not ended yet")
        if len(self._trace.tokens) != finished.usage.output_tokens:
            raise ValueError("the run was not traced, so it cannot be replayed")
        return self._trace.as_recording(finished.stop)


# A saved run (``engine.recording.saved_run``) is for other people and programs. A kept trace is
# for this program alone, so that it can fully show an earlier run: with probabilities, the text
# held back at each token, and the request.

VERSION = 1
# The longest trace, with alternatives, takes some 20 MB before it is compressed.
_MAX_BYTES = 256 << 20
# Models have some hundred special tokens; a damaged tokenizer may mark all tokens as special.
_MAX_SPECIAL = 4_096
# Spans repeat the data of the tokens; only streams of log-probabilities need them.
_COLUMNS = tuple(name for name in TokenTrace.__dataclass_fields__ if name != "settled")


class KeptTrace(NamedTuple):
    """Identifies a kept trace.

    Attributes:
        run_id: The run's id.
        conversation_id: The id of its conversation.
        written_at: When it was written, in Unix seconds; the oldest are deleted first.
    """

    run_id: str
    conversation_id: str
    written_at: float


def packed(trace: RunTrace) -> bytes:
    """Return the trace of a run that has ended as the content of a file."""
    tokens = list(trace.tokens)
    values: dict[str, Any] = {
        "fullstop_trace": VERSION,
        "model": trace.setting.model,
        "setting": setting_to_fields(trace.setting),
        "rules": to_values(trace.rules),
        "max_tokens": trace.max_tokens,
        "columns": _COLUMNS,
        "tokens": [[to_values(getattr(token, name)) for name in _COLUMNS] for token in tokens],
        "stop": to_values(trace.stop),
        "residue": trace.residue,
        "speculation": to_values(trace.speculation),
        "budget_end": to_values(trace.budget_end),
        "calls": to_values(trace.calls),
        "request": to_values(trace.request),
        "vocabulary": _vocabulary_values(trace.vocabulary, tokens),
    }
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode("ascii"))


def unpacked(content: bytes) -> RunTrace:
    """Return the trace that a file holds.

    Raises:
        DamagedFile: It is not such a file, or one of a later version.
    """
    top = Fields(parsed_json(_text(content)))
    if top.take("fullstop_trace", int) != VERSION:
        raise DamagedFile(f"fullstop_trace: this version reads {VERSION}")
    tokens = _tokens(top)
    trace = RunTrace(
        setting_from(top),
        from_values(StopRules, _as_stops(top.take("rules", dict))),
        top.maybe("max_tokens", int),
        max(1, len(tokens)),
    )
    trace.tokens.extend(tokens)
    trace.stop = from_values(StopInfo | None, top.maybe("stop", dict))
    trace.residue = top.maybe("residue", str) or ""
    trace.speculation = from_values(Speculation, top.maybe("speculation", dict) or {})
    trace.budget_end = from_values(BudgetEnd | None, top.maybe("budget_end", dict))
    trace.calls = from_values(dict[str, tuple[ToolCall, ...]], top.maybe("calls", dict) or {})
    request = top.maybe("request", dict)
    if request is not None and "stops" in request:
        request = {**request, "stops": _as_stops(request["stops"])}
    trace.request = from_values(GenerationRequest | None, request)
    trace.vocabulary = _vocabulary(top, trace)
    return trace


def _as_stops(rules: Any) -> Any:
    """Return the rules of a trace; earlier versions kept the scopes of stops beside their texts."""
    if not isinstance(rules, dict) or "strings" not in rules:
        return rules
    try:
        scopes = dict(rules.get("scopes", ()))
        stops = [{"text": text, "scope": scopes.get(text)} for text in rules["strings"]]
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"stops: {error}") from error
    return {**rules, "stops": stops}


def _text(content: bytes) -> str:
    unpacking = zlib.decompressobj()
    try:
        raw = unpacking.decompress(content, _MAX_BYTES)
    except zlib.error as error:
        raise DamagedFile(f"the file is damaged: {error}") from error
    if not unpacking.eof:
        raise DamagedFile("the file is cut short, or too large")
    return raw.decode("ascii", "replace")


def _tokens(top: Fields) -> list[TokenTrace]:
    columns = top.take("columns", list)
    tokens = []
    for row in top.take("tokens", list):
        if not isinstance(row, list) or len(row) != len(columns):
            raise DamagedFile("tokens: a row has other columns than the rest")
        tokens.append(from_values(TokenTrace, dict(zip(columns, row, strict=True))))
    return tokens


def _vocabulary_values(
    vocabulary: Vocabulary | None, tokens: list[TokenTrace]
) -> dict[str, Any] | None:
    """Return the texts of the tokens that a run mentions, and of the special ones."""
    if vocabulary is None:
        return None
    named = {token_id for t in tokens if t.stats is not None for token_id, _ in t.stats.top}
    named.update(token.token_id for token in tokens)
    special = dict(list(vocabulary.special.items())[:_MAX_SPECIAL])
    return {
        "texts": {str(token_id): vocabulary.text_of(token_id) for token_id in sorted(named)},
        "special": to_values(special),
        "size": vocabulary.size,
    }


def _vocabulary(top: Fields, trace: RunTrace) -> Vocabulary | None:
    if not top.has("vocabulary"):
        return None
    fields = top.inner("vocabulary")
    texts = from_values(dict[int, str], fields.maybe("texts", dict) or {})
    if any(token_id < 0 for token_id in texts):
        raise DamagedFile("vocabulary.texts: a token id is negative")
    known: dict[int, str | None] = dict(texts)
    return Vocabulary(
        raw=None,
        text=by_id(known, ""),
        special=from_values(dict[int, str], fields.maybe("special", dict) or {}),
        eos=frozenset(trace.setting.eos),
        strips_first_space=trace.setting.strips_first_space,
        size=fields.maybe("size", int) or 0,
        eos_sources=dict(zip(trace.setting.eos, trace.setting.eos_sources, strict=False)),
    )
