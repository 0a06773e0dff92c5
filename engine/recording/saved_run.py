"""The file format of a saved run: one JSON object, versioned, enough to replay it anywhere.

Version 1::

    {
      "fullstop_run": 1,
      "model": "demo-model",
      "question": "the last user message, for people",
      "rules": {"strings": ["END"], "token_ids": [], "scope": "text", "include_stop": false,
                "ignore_eos": false, "min_tokens": 0},
      "max_tokens": 512,
      "setting": {"starts_in": "text", "header": null, "call": "", "tool_name": null,
                  "strips_space": false, "eos": [2], "context_room": 4000, "has_bytes": true,
                  "strips_first_space": false,
                  "channels": {"think_start": "<think>", "think_end": "</think>",
                               "tool_start": null, "tool_end": null,
                               "ids": {"3": "<think>"}, "parts": {}, "call_style": "",
                               "untagged": {}, "harmony": {}}},
      "tokens": [{"id": 30, "hex": "36", "piece": "6", "special": null, "time_s": 0.1}],
      "residue": "",
      "calls": [{"raw": "{...}", "calls": [{"id": "…", "name": "…", "arguments": "{}"}]}],
      "stop": {"kind": "stop_string", "value": "END", "token_id": 44, "token_text": "D",
               "channel": "text", "text_offset": 26, "token_index": 20, "rule_index": 0,
               "held": "", "dropped": "END"},
      "speculation": {"passes": 3, "guessed": 12, "accepted": 9, "lookup_accepted": 9,
                      "draft_accepted": 0, "head_accepted": 0, "prediction_accepted": 0,
                      "prediction_rejected": 0, "forced": 0},
      "budget_end": {"token_index": 65, "forced": 3, "budget": 64}
    }

A token that was drafted has an ``origin`` as well (``lookup``, ``prediction``, ``draft``,
``head`` or ``forced``), and so has a token that a budget forced (``budget``); ``speculation`` and
``budget_end`` are missing in files of earlier versions.

Unknown keys are ignored, so that later versions can add some. Pure; any thread.
"""

import dataclasses
import json
from collections import deque
from itertools import starmap
from typing import Any

from engine.errors import InvalidRequest
from engine.files.json_fields import DamagedFile, Fields, parsed_json
from engine.output.answer import DecodingContext
from engine.output.channels import Beginning
from engine.output.families import family_from_fields, family_to_fields
from engine.recording.replay import MAX_TOKEN_ID
from engine.recording.run_trace import RunTrace
from engine.stopping.record import Channel, StopInfo
from engine.stopping.rules import (
    STOP_OPTIONS,
    Stop,
    StopRules,
    checked_strings,
    options_to_fields,
    stop_from_fields,
    stop_options_from_fields,
)
from engine.values.events import BudgetEnd, Speculation, TokenTrace
from engine.values.request import ToolCall
from engine.values.tokens import TokenOrigin

VERSION = 1


def to_json(run: RunTrace, question: str = "") -> str:
    """Return a run that has ended as the text of a file."""
    values = {
        "fullstop_run": VERSION,
        "question": question,
        **run_to_fields(run),
        "rules": _rules_to_fields(run.rules),
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
        "calls": [
            {"raw": raw, "calls": [dataclasses.asdict(call) for call in calls]}
            for raw, calls in run.calls.items()
        ],
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
    try:
        top = Fields(parsed_json(text))
        version = top.take("fullstop_run", int)
        if version != VERSION:
            raise DamagedFile(f"fullstop_run: this version reads {VERSION}, the file has {version}")
        top.take("stop", dict)  # only runs that have ended are saved
        return run_from_fields(
            top,
            rules=_rules(top.inner("rules")),
            tokens=deque(starmap(_token, enumerate(_all(top, "tokens")))),
            calls={
                fields.take("raw", str): fields.take("calls", tuple[ToolCall, ...])
                for fields in _all(top, "calls")
            },
        )
    except InvalidRequest as error:
        raise DamagedFile(str(error)) from error


def run_to_fields(run: RunTrace) -> dict[str, Any]:
    """Return what a saved run and a kept trace write of a run in the same way."""
    stop, end = run.stop, run.budget_end
    return {
        "model": run.setting.model,
        "max_tokens": run.max_tokens,
        "setting": _setting_to_fields(run.setting),
        "residue": run.residue,
        "stop": None if stop is None else dataclasses.asdict(stop),
        "speculation": dataclasses.asdict(run.speculation),
        "budget_end": None if end is None else dataclasses.asdict(end),
    }


def run_from_fields(top: Fields, **others: Any) -> RunTrace:
    """Return a run of what ``run_to_fields`` wrote and of its other fields.

    Raises:
        DamagedFile: A field has another type than in a run.
    """
    return RunTrace(
        setting=_setting(top),
        max_tokens=top.maybe("max_tokens", int),
        residue=top.take("residue", str),
        stop=top.maybe("stop", StopInfo),
        speculation=top.maybe("speculation", Speculation) or Speculation(),
        budget_end=top.maybe("budget_end", BudgetEnd),
        **others,
    )


def question_of(text: str) -> str:
    """Return the question that a saved run was the answer to; empty if the file has none."""
    try:
        question = json.loads(text)["question"]
    except (ValueError, KeyError, TypeError):
        return ""
    return question if isinstance(question, str) else ""


def _all(fields: Fields, name: str) -> list[Fields]:
    """Return the objects of a list that must be there."""
    fields.take(name, list)
    return fields.items(name)


def _rules_to_fields(rules: StopRules) -> dict[str, Any]:
    own = {stop.text: options_to_fields(stop) for stop in rules.stops}
    return {
        **{option.name: getattr(rules, option.name) for option in STOP_OPTIONS},
        "strings": rules.strings,
        "token_ids": rules.token_ids,
        # Earlier versions know the scope of a stop, but no other option of one.
        "scopes": [(stop.text, stop.scope) for stop in rules.stops if stop.scope],
        "own": {text: options for text, options in own.items() if options},
    }


def _rules(fields: Fields) -> StopRules:
    texts = checked_strings(fields.take("strings", list), "rules.strings")
    own = _own_options(fields)
    return StopRules(
        tuple(stop_from_fields(t, own.inner(t)) if own.has(t) else Stop(t) for t in texts),
        fields.take("token_ids", tuple[int, ...]),
    ).with_options(stop_options_from_fields(fields))


def _own_options(fields: Fields) -> Fields:
    """Return the options of single stops by their texts."""
    try:
        pairs = [(text, scope) for text, scope in fields.maybe("scopes", list) or []]
    except (ValueError, TypeError) as error:
        raise fields.wrong("scopes", str(error)) from error
    for text, _ in pairs:
        checked_strings([text], "rules.scopes")
    own = fields.maybe("own", dict) or {}
    return Fields({text: {"scope": scope} for text, scope in pairs} | own, "rules.own")


def _setting_to_fields(setting: DecodingContext) -> dict[str, Any]:
    return {
        "starts_in": setting.beginning.channel,
        "header": setting.beginning.header,
        "call": setting.beginning.call,
        "tool_name": setting.beginning.tool_name,
        "strips_space": setting.beginning.strips_space,
        "eos": setting.eos,
        "eos_sources": setting.eos_sources,
        "context_room": setting.context_budget,
        "memory_room": setting.memory_budget,
        "has_bytes": setting.has_bytes,
        "strips_first_space": setting.strips_first_space,
        "channels": family_to_fields(setting.family),
    }


def _setting(top: Fields) -> DecodingContext:
    fields = top.inner("setting")
    family = family_from_fields(fields.inner("channels"))
    return DecodingContext(
        model=top.maybe("model", str) or "",
        family=family,
        beginning=_beginning(fields, has_headers=family.has_headers),
        eos=fields.take("eos", tuple[int, ...]),
        eos_sources=tuple(map(str, fields.maybe("eos_sources", list) or ())),
        context_budget=fields.take("context_room", int),
        memory_budget=fields.maybe("memory_room", int),
        has_bytes=fields.take("has_bytes", bool),
        strips_first_space=fields.take("strips_first_space", bool),
    )


def _beginning(fields: Fields, *, has_headers: bool) -> Beginning:
    header = fields.maybe("header", str)
    if has_headers and not fields.has("call"):
        header = ""  # for earlier versions, every answer began in a header
    return Beginning(
        channel=fields.take("starts_in", Channel),
        header=header,
        call=fields.maybe("call", str) or "",
        tool_name=fields.maybe("tool_name", str),
        strips_space=fields.maybe("strips_space", bool) or False,
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
