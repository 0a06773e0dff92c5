"""The trace of a run as it is stored in a file of this program alone.

It has the fields of a saved run (``engine.recording.saved_run``), and shows the run in full: its
tokens have probabilities and the text held back at each, and the request is there.
"""

import json
import zlib
from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

from engine.files.json_fields import DamagedFile, Fields, from_values, parsed_json, to_values
from engine.output.vocabulary import Vocabulary
from engine.recording.replay import MAX_TOKEN_ID, by_id
from engine.recording.run_trace import RecordedCalls, RunTrace
from engine.recording.saved_run import (
    prompt_ids,
    run_from_fields,
    run_to_fields,
    upgraded_rules,
)
from engine.values.events import TokenTrace
from engine.values.request import GenerationRequest

VERSION = 2
# Spans repeat the data of the tokens; only streams of log-probabilities need them.
_COLUMNS = tuple(name for name in TokenTrace.__dataclass_fields__ if name != "settled")


class StoredTrace(NamedTuple):
    """Identifies a stored trace.

    Attributes:
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
        **run_to_fields(trace),
        "columns": _COLUMNS,
        "tokens": [[to_values(getattr(token, name)) for name in _COLUMNS] for token in tokens],
        "calls": to_values(trace.calls),
        "request": to_values(_without_stats(trace.request)),
        "rendered": trace.rendered.tolist(),
        "vocabulary": _vocabulary_values(trace.vocabulary, tokens),
    }
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode("ascii"))


def unpacked(content: bytes) -> RunTrace:
    """Return the trace that a file holds; raises ``DamagedFile``."""
    top = Fields(parsed_json(_text(content)))
    if top.take("fullstop_trace", int) > VERSION:
        raise DamagedFile(f"fullstop_trace: this version reads {VERSION}")
    request = top.raw("request")
    if isinstance(request, dict) and "stops" in request:
        request = {**request, "stops": upgraded_rules(request["stops"])}
    trace = run_from_fields(
        top,
        tokens=deque(_tokens(top)),
        calls=_calls(top.raw("calls") or []),
        request=from_values(GenerationRequest | None, request, "request"),
    )
    trace.vocabulary = _vocabulary(top, trace)
    trace.rendered = prompt_ids(top.maybe("rendered", tuple[int, ...]) or ())
    return trace


def _calls(values: Any) -> list[RecordedCalls]:
    if isinstance(values, dict):  # of an earlier version
        values = [{"raw": raw, "calls": calls} for raw, calls in values.items()]
    return list(from_values(tuple[RecordedCalls, ...], values, "calls"))


def _text(content: bytes) -> str:
    unpacking = zlib.decompressobj()
    try:
        raw = unpacking.decompress(content, 256 << 20)  # the longest trace takes some 20 MB
    except zlib.error as error:
        raise DamagedFile(f"the file is damaged: {error}") from error
    if not unpacking.eof:
        raise DamagedFile("the file is cut short, or too large")
    return raw.decode("ascii", "replace")


def _without_stats(request: GenerationRequest | None) -> GenerationRequest | None:
    """Return a request without the likelihoods of a fork, which its tokens have."""
    if request is None or request.fork is None:
        return request
    return replace(request, fork=replace(request.fork, stats=()))


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
    return {
        "texts": {str(token_id): vocabulary.text_of(token_id) for token_id in sorted(named)},
        "special": to_values(vocabulary.special),
        "size": vocabulary.size,
    }


def _vocabulary(top: Fields, trace: RunTrace) -> Vocabulary | None:
    if not top.has("vocabulary"):
        return None
    fields = top.inner("vocabulary")
    texts = from_values(dict[int, str], fields.maybe("texts", dict) or {})
    if not all(0 <= token_id <= MAX_TOKEN_ID for token_id in texts):
        raise DamagedFile("vocabulary.texts: no vocabulary has such a token id")
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
