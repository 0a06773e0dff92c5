"""The file format of a saved run: one JSON object, versioned, enough to replay it anywhere.

Version 2::

    {
      "fullstop_run": 2,
      "question": "the last user message, for people",
      "setting": {"model": "demo-model", "eos": [2], "context_budget": 4000},
      "rules": {"stops": [{"text": "END", "scope": "all"}], "min_tokens": 3},
      "max_tokens": 512,
      "tokens": [{"id": 30, "hex": "36", "piece": "6", "special": null, "time_s": 0.1}],
      "residue": "",
      "calls": [{"raw": "{}", "calls": [{"id": "…", "name": "…", "arguments": "{}"}], "number": 1}],
      "stop": {"kind": "stop_string", "value": "END", "token_id": 44, "text_offset": 26},
      "speculation": {"passes": 3, "guessed": 12, "accepted": 9},
      "details": {"limit_from": "request"},
      "request": {"messages": [{"role": "user", "content": "…"}], "rendered": [1, 87, 4]},
      "fork": {"token_index": 20, "replaced": {"id": 44, "text": "D"}, "chosen": [45]}
    }

Objects are dataclasses of those names in ``RunTrace``, without the fields that have their default.
A token that was not sampled has its ``origin`` as well. Version 1 had other names in ``setting``,
and in ``rules`` the texts of the stops alone. ``request`` has the rest of the request, of which a
fork is made, and in ``rendered`` the tokens of the prompt; files of earlier versions lack it.

Unknown keys are ignored, so that later versions can add some. Pure; any thread.
"""

import contextlib
import dataclasses
import json
from array import array
from collections import deque
from collections.abc import Sequence
from itertools import starmap
from typing import Any

from engine.errors import InvalidRequest
from engine.files.json_fields import DamagedFile, Fields, parsed_json, to_values
from engine.output.answer import DecodingSetting
from engine.output.families import restored_family
from engine.recording.replay import MAX_TOKEN_ID
from engine.recording.run_trace import RecordedCalls, RunTrace
from engine.stopping.record import Channel, StopInfo
from engine.stopping.rules import StopRules, checked_strings
from engine.values.events import BudgetEnd, EndDetails, Speculation, TokenTrace
from engine.values.request import (
    LOCAL_OWNER,
    Fork,
    GenerationRequest,
    TraceLevel,
)
from engine.values.tokens import TokenOrigin

VERSION = 2
MAX_FILE_BYTES = 128 << 20
"""The longest run has some three megabytes, and a picture of its prompt up to twenty."""
_SHARED_FIELDS = (
    "setting", "rules", "max_tokens", "residue", "stop", "speculation", "details",
)  # fmt: skip


def to_json(run: RunTrace, question: str = "") -> str:
    """Return a run that has ended as the text of a file."""
    values = {
        "fullstop_run": VERSION,
        "question": question,
        **run_to_fields(run),
        **_request_to_fields(run),
        "tokens": [
            {
                "id": token.token_id,
                "hex": token.raw.hex(),
                "piece": token.piece,
                "special": token.special,
                "time_s": token.time_s,
                **({} if token.origin is TokenOrigin.SAMPLED else {"origin": token.origin.value}),
            }
            for token in run.tokens
        ],
        "calls": to_values(run.calls),
    }
    return json.dumps(values, ensure_ascii=False, indent=1)


def from_json(text: str) -> RunTrace:
    """Return a saved run; the file has its tokens without what stops did with them.

    Raises:
        DamagedFile: The text is no saved run; the message names the field and the expected kind.
    """
    # Python objects are many times as large as their JSON. The longest run has 20,000 tokens.
    if text.count("{") > 250_000 or text.count(",") > 2_000_000:
        raise DamagedFile("it has too many values")
    top = Fields(parsed_json(text))
    version = top.take("fullstop_run", int)
    if version > VERSION:
        raise DamagedFile(f"fullstop_run: this version reads {VERSION}, the file has {version}")
    top.take("stop", dict)  # only runs that have ended are saved
    top.take("tokens", list)
    run = run_from_fields(
        top,
        tokens=deque(starmap(_token, enumerate(top.items("tokens")))),
        calls=list(top.take("calls", tuple[RecordedCalls, ...])),
    )
    if (request := _request(top, run)) is not None:
        run.request = dataclasses.replace(request, rendered=())
        run.rendered = prompt_ids(request.rendered)
    return run


def prompt_ids(ids: Sequence[int]) -> "array[int]":
    """Return the token ids of a prompt that a file holds; raises ``DamagedFile``."""
    if not all(0 <= token_id <= MAX_TOKEN_ID for token_id in ids):
        raise DamagedFile("rendered: no vocabulary has such a token id")
    return array("i", ids)


def run_to_fields(run: RunTrace) -> dict[str, Any]:
    """Return what a saved run and a kept trace write of a run in the same way."""
    return {name: to_values(getattr(run, name)) for name in _SHARED_FIELDS}


def run_from_fields(top: Fields, **others: Any) -> RunTrace:
    """Return a run of what ``run_to_fields`` wrote and of its other fields.

    Raises:
        DamagedFile: A field has another type than in a run.
    """
    has_version_1 = top.inner("setting").has("channels")
    read = Fields(
        {
            "setting": _setting_of_version_1(top) if has_version_1 else top.raw("setting"),
            "rules": upgraded_rules(top.take("rules", dict)),
        }
    )
    setting, rules = read.take("setting", DecodingSetting), read.take("rules", StopRules)
    try:
        texts = checked_strings(rules.strings, "rules.stops")
    except InvalidRequest as error:
        raise DamagedFile(str(error)) from error
    return RunTrace(
        setting=dataclasses.replace(setting, family=restored_family(setting.family)),
        rules=rules.with_strings(texts),
        max_tokens=top.maybe("max_tokens", int),
        residue=top.take("residue", str),
        stop=top.maybe("stop", StopInfo),
        speculation=top.maybe("speculation", Speculation) or Speculation(),
        details=read_details(top),
        **others,
    )


def read_details(fields: Fields) -> EndDetails:
    """Return the details of an end; files of earlier versions have the end of a budget alone."""
    with contextlib.suppress(DamagedFile):  # a later version may know more sources of limits
        if (details := fields.maybe("details", EndDetails)) is not None:
            return details
    return EndDetails(budget_end=fields.maybe("budget_end", BudgetEnd))


def upgraded_rules(rules: Any) -> Any:
    """Return the rules of a file; version 1 has the scopes of stops beside their texts."""
    if not isinstance(rules, dict) or "strings" not in rules:
        return rules
    try:
        scopes = dict(rules.get("scopes", ()))
        stops = [{"text": text, "scope": scopes.get(text)} for text in rules["strings"]]
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"stops: {error}") from error
    return {**rules, "stops": stops}


def _setting_of_version_1(top: Fields) -> dict[str, Any]:
    """Return the setting of a file as version 2 writes it."""
    old = top.inner("setting")
    channels = old.inner("channels")
    markers = channels.maybe("harmony", dict[str, int]) or {}
    tags = {str(token_id): text for text, token_id in markers.items()}
    beginning = old.present("header", "call", "tool_name", "strips_space")
    if markers and not old.has("call"):
        beginning["header"] = ""  # for earlier versions, every answer began in a header
    family = channels.present("think_start", "think_end", "tool_start", "tool_end", "parts")
    return {
        **top.present("model"),
        **old.present("eos", "eos_sources", "has_bytes", "strips_first_space"),
        "context_budget": old.take("context_room", int),
        "memory_budget": old.maybe("memory_room", int),
        "family": {
            **family,
            **channels.present("call_style", "untagged"),
            "tags": tags or channels.take("ids", dict),
        },
        "beginning": {**beginning, "channel": old.take("starts_in", str)},
    }


def question_of(text: str) -> str:
    """Return the question that a saved run was the answer to; empty if the file has none."""
    try:
        question = json.loads(text)["question"]
    except (ValueError, KeyError, TypeError):
        return ""
    return question if isinstance(question, str) else ""


def fork_to_fields(fork: Fork) -> dict[str, Any]:
    """Return a fork as files and ``ask --json`` have it, without the tokens before it."""
    return {
        "token_index": fork.token_index,
        "replaced": {"id": fork.replaced, "text": fork.replaced_text},
        "chosen": fork.chosen,
    }


def _request_to_fields(run: RunTrace) -> dict[str, Any]:
    if (request := run.request) is None:
        return {}
    others = dataclasses.replace(
        request,
        # The file has them elsewhere.
        stops=StopRules(),
        max_tokens=None,
        fork=None,
        # They concern the server that answered.
        model=None,
        cache_owner=LOCAL_OWNER,
        trace=TraceLevel.OFF,
        rendered=tuple(run.rendered),
    )
    fork = {} if request.fork is None else {"fork": fork_to_fields(request.fork)}
    return {"request": to_values(others), **fork}


def _request(top: Fields, run: RunTrace) -> GenerationRequest | None:
    request = top.maybe("request", GenerationRequest)
    if request is None:
        return None
    return dataclasses.replace(
        request,
        stops=run.rules,
        max_tokens=run.max_tokens,
        fork=_fork(top.inner("fork"), run) if top.has("fork") else None,
        model=None,
        cache_owner=LOCAL_OWNER,
    )


def _fork(fields: Fields, run: RunTrace) -> Fork:
    index, replaced = fields.take("token_index", int), fields.inner("replaced")
    if not 0 <= index <= len(run.tokens):
        raise fields.wrong("token_index", "the run has no such token")
    before = [token.token_id for token in run.tokens if token.index < index]
    return Fork(
        (*before, *fields.take("chosen", tuple[int, ...])),
        index,
        replaced.take("id", int),
        replaced.maybe("text", str) or "",
    )


def _token(index: int, fields: Fields) -> TokenTrace:
    raw = fields.take("hex", bytes)
    token_id = fields.take("id", int)
    if not 0 <= token_id <= MAX_TOKEN_ID:
        raise fields.wrong("id", "no vocabulary has this token id")
    return TokenTrace(
        index,
        token_id,
        fields.take("piece", str),
        raw,
        Channel.TEXT,
        released=0,
        held="",
        progress=(),
        special=fields.maybe("special", str),
        time_s=fields.maybe("time_s", float) or 0.0,
        origin=_origin(fields.maybe("origin", str)),
    )


def _origin(name: str | None) -> TokenOrigin:
    # A later version may know more sources of draft tokens.
    return TokenOrigin(name) if name in set(TokenOrigin) else TokenOrigin.SAMPLED
