"""Converts settings, stop lists, runs, folders and presets to JSON values and back.

Pure; any thread. Unknown keys are ignored, so that later versions can add keys.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from engine.errors import InvalidRequest
from engine.files.json_fields import DamagedFile, Fields, from_values, parsed_json, to_values
from engine.recording.saved_run import read_details
from engine.stopping.record import StopInfo
from engine.stopping.rules import OWN_STOP_OPTIONS, Stop, StopOptions, StopRules, checked_strings
from engine.values.events import CacheMiss, Finished, PromptDifference, Speculation, Timing, Usage
from engine.values.request import ToolCall
from ui.records.attachments import attachment_from, attachment_values, reading_from
from ui.records.conversations import (
    ChosenModel,
    ConversationFolder,
    ConversationSettings,
    QueuedMessage,
    ReadingPosition,
    WhenFull,
)
from ui.records.messages import ConversationMessage
from ui.records.passages import Excerpt
from ui.records.runs import ForkOrigin, LeftOut, Run, RunState
from ui.records.stop_entries import StopEntry
from ui.records.titles import title_from_file
from ui.records.tool_calls import result_from, result_values


def check_version(top: Fields, name: str, newest: int) -> None:
    """Refuse a file of another kind, or of a later version."""
    if not top.has(name):
        raise DamagedFile(f"{name}: is missing")
    if top.take(name, int) > newest:
        raise DamagedFile(f"{name}: the file was made by a newer version of Fullstop")


def moment(unix_s: float | None) -> float:
    """Return a time if a calendar can show it; otherwise 1970."""
    # The last second that a date with a four-digit year can show in every time zone.
    return unix_s if unix_s is not None and 0 <= unix_s <= 253_370_000_000.0 else 0.0


def shown_rank(rank: int | None) -> int:
    """Return the rank of a version, limited so that the database can still count up."""
    return min(max(rank or 0, 0), 1 << 52)


def settings_values(settings: ConversationSettings) -> dict[str, Any]:
    """Return settings as JSON values; unset ones are left out."""
    values = dataclasses.asdict(settings)
    values["stop_token_ids"] = list(settings.stop_token_ids)
    values["stop_options"] = to_values(settings.stop_options)
    # Zero counts as set: at temperature 0 the likeliest token is always chosen.
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value not in ("", [], {})
    }


def settings_from(fields: Fields) -> ConversationSettings:
    """Return settings; raises ``DamagedFile`` if a value has a wrong type."""
    return ConversationSettings(
        **fields.plain(ConversationSettings),
        stop_token_ids=tuple(
            token_id
            for token_id in fields.maybe("stop_token_ids", list) or ()
            if type(token_id) is int and token_id >= 0
        ),
        stop_options=fields.maybe("stop_options", StopOptions) or StopOptions(),
    )


def model_values(choice: ChosenModel | None) -> dict[str, str]:
    """Return a conversation's model as JSON values; empty if it has none."""
    if choice is None:
        return {}
    folder = {} if choice.folder is None else {"folder": str(choice.folder)}
    return {"name": choice.name, **folder}


def model_from(fields: Fields) -> ChosenModel | None:
    """Return a conversation's model; raises ``DamagedFile`` if a value has a wrong type."""
    name, folder = fields.maybe("name", str), fields.maybe("folder", str)
    if not name:
        return None
    # A path cannot contain NUL, and a relative path could mean another folder at each start.
    is_usable = bool(folder) and "\0" not in (folder or "") and Path(folder or "").is_absolute()
    return ChosenModel(title_from_file(name), Path(folder) if folder and is_usable else None)


def stops_values(stops: list[StopEntry]) -> list[dict[str, Any]]:
    """Return a stop list as JSON values."""
    values: list[dict[str, Any]] = []
    for entry in stops:
        stop = to_values(entry.stop)
        own = {"sequence": stop.pop("text"), "is_enabled": entry.is_enabled}
        values.append({**own, "scope": entry.scope.value, **stop})
    return values


def stop_entry_from(item: Fields) -> StopEntry:
    """Return a row of a stop list; raises ``DamagedFile`` if it has no text."""
    text, is_enabled = item.take("sequence", str), item.maybe("is_enabled", bool) is not False
    try:
        options = item.present(*(option.name for option in OWN_STOP_OPTIONS))
        entry = StopEntry(from_values(Stop, {**options, "text": text}), is_enabled)
    except DamagedFile:  # a later version may know more scopes
        return StopEntry(Stop(text), is_enabled)
    return entry.within(entry.scope)


def stops_from(fields: Fields) -> list[StopEntry]:
    """Return a stop list; raises ``DamagedFile`` if a sequence cannot be used."""
    stops = [stop_entry_from(item) for item in fields.items("stops")]
    try:
        checked_strings([entry.stop.text for entry in stops], "stops")
    except InvalidRequest as error:
        raise fields.wrong("stops", error.reason) from error
    return stops


def folder_values(folder: ConversationFolder) -> dict[str, Any]:
    """Return a folder as JSON values."""
    return {
        "id": folder.id,
        "name": folder.name,
        "system_prompt": folder.system_prompt,
        "stops": stops_values(list(folder.stops)),
        "is_open": folder.is_open,
        "has_memory": folder.has_memory,
        "created_at": folder.created_at,
    }


def folder_from(fields: Fields) -> ConversationFolder:
    """Return a folder; raises ``DamagedFile`` if a value has a wrong type."""
    return ConversationFolder(
        name=title_from_file(fields.maybe("name", str) or ""),
        system_prompt=fields.maybe("system_prompt", str) or "",
        stops=tuple(stops_from(fields)),
        is_open=fields.maybe("is_open", bool) or False,
        has_memory=fields.maybe("has_memory", bool) is not False,
        created_at=moment(fields.maybe("created_at", float)),
        id=fields.take("id", str),
    )


def run_values(run: Run) -> dict[str, Any]:
    """Return a run as JSON values without its text, which is stored beside it."""
    values: dict[str, Any] = {
        "id": run.id,
        "state": run.state,
        "stops": list(run.stops),
        "model": run.model_id,
        "started_at": run.started_at,
    }
    optional = {
        "stops_from": run.stops_from,
        "max_tokens": run.max_tokens,
        "thinking": run.thinking,
        "thinking_s": run.thinking_s,
        "tool_calls": [dataclasses.asdict(call) for call in run.tool_calls],
        "prompt_total": run.prompt_total,
        "prompt_cached": run.prompt_cached,
        "refusal": run.refusal,
        "continued_chars": run.continued_chars,
        "results": [result_values(result) for result in run.results],
        "pictures": [attachment_values(picture) for picture in run.pictures],
        "paused_at": run.paused_at,
        "left_out": None if run.left_out is None else dataclasses.asdict(run.left_out),
        "forked_from": to_values(run.forked_from),
        "imported": run.is_imported,
    }
    values.update((name, value) for name, value in optional.items() if value)
    if run.rules != StopRules.of(*run.stops):
        values["rules"] = to_values(run.rules)
    if run.finished is not None:
        values["finished"] = dataclasses.asdict(run.finished)
    return values


def _left_out(fields: Fields) -> LeftOut | None:
    until, messages = fields.maybe("until", int) or 0, fields.maybe("messages", int) or 0
    if not 0 < messages <= until:
        return None
    return LeftOut(
        until,
        messages,
        max(fields.maybe("context", int) or 0, 0),
        fields.maybe("is_summarized", bool) is True,
        fields.maybe("problem", str) or "",
    )


def when_full_from(fields: Fields) -> WhenFull | None:
    """Return the treatment of a conversation's oldest messages; None for the default."""
    chosen = fields.maybe("when_full", str)
    return cast(WhenFull, chosen) if chosen in get_args(WhenFull) else None


def position_values(position: ReadingPosition | None) -> dict[str, Any] | None:
    """Return where a conversation was read as JSON values."""
    return None if position is None else {"message_id": position[0], "share": position[1]}


def position_from(fields: Fields) -> ReadingPosition:
    """Return where a conversation was read; raises ``DamagedFile`` if a value is wrong."""
    share = fields.maybe("share", float) or 0.0
    return fields.take("message_id", str), share if 0 <= share <= 1 else 0.0


def queue_values(queue: Iterable[QueuedMessage]) -> list[dict[str, Any]]:
    """Return messages that wait to be sent as JSON values."""
    return [
        {"text": text, "files": [attachment_values(file) for file in files]}
        for text, files in queue
    ]


def queue_from(fields: Fields) -> tuple[QueuedMessage, ...]:
    """Return the messages that wait to be sent; raises ``DamagedFile`` if a value is wrong."""
    return tuple(
        (item.take("text", str), tuple(map(attachment_from, item.items("files"))))
        for item in fields.items("queue")
    )


def message_values(message: ConversationMessage) -> dict[str, Any]:
    """Return the fields of a message beside its text and run, as JSON values."""
    values: dict[str, Any] = {
        "attached_chars": message.attached_chars,
        "sent_chars": list(message.sent_chars),
        "readings": list(message.readings),
        "excerpts": to_values(message.excerpts),
        "is_pinned": message.is_pinned,
        "summary": message.summary,
    }
    return {name: value for name, value in values.items() if value}


def take_message_values(message: ConversationMessage, fields: Fields) -> None:
    """Read the fields of a message beside its text and run; wrong values are ignored."""
    with contextlib.suppress(DamagedFile):
        message.is_pinned = fields.maybe("is_pinned", bool) is True
    if message.role == "assistant":
        return
    with contextlib.suppress(DamagedFile):
        message.attached_chars = max(fields.maybe("attached_chars", int) or 0, 0)
        message.summary = fields.maybe("summary", str) or ""
        message.sent_chars = tuple(
            chars if type(chars) is int and chars >= 0 else None
            for chars in fields.maybe("sent_chars", list) or ()
        )
        message.readings = tuple(map(reading_from, fields.maybe("readings", list) or ()))
        message.excerpts = fields.maybe("excerpts", tuple[Excerpt, ...]) or ()


def run_from(fields: Fields, text: str, without_end: RunState = "interrupted") -> Run:
    """Return a run from its JSON values."""
    stops = fields.maybe("stops", list) or []
    if not all(isinstance(stop, str) for stop in stops):
        raise fields.wrong("stops", "must be a list of texts")
    run = Run(
        rules=_rules(fields, stops),
        stops_from=fields.maybe("stops_from", str) or "",
        max_tokens=fields.maybe("max_tokens", int),
        model_id=fields.maybe("model", str) or "",
        state=_state(fields),
        text=text,
        thinking=fields.maybe("thinking", str) or "",
        thinking_s=fields.maybe("thinking_s", float),
        tool_calls=fields.maybe("tool_calls", list[ToolCall]) or [],
        prompt_total=fields.maybe("prompt_total", int) or 0,
        prompt_cached=fields.maybe("prompt_cached", int) or 0,
        finished=_finished(fields.inner("finished")) if fields.has("finished") else None,
        refusal=fields.maybe("refusal", str) or "",
        continued_chars=fields.maybe("continued_chars", int) or 0,
        results=[result_from(item) for item in fields.items("results")],
        pictures=tuple(
            file for file in map(attachment_from, fields.items("pictures")) if file.kept_file
        ),
        paused_at=max(fields.maybe("paused_at", int) or 0, 0),
        left_out=_left_out(fields.inner("left_out")) if fields.has("left_out") else None,
        forked_from=fields.maybe("forked_from", ForkOrigin),
        is_imported=fields.maybe("imported", bool) or False,
        started_at=moment(fields.maybe("started_at", float)),
        id=fields.take("id", str),
    )
    run.prompt_processed = run.prompt_total
    if not run.is_over or (run.state == "finished" and run.finished is None):
        run.state = without_end
    return run


def _rules(fields: Fields, stops: list[str]) -> StopRules:
    rules = None
    with contextlib.suppress(DamagedFile, InvalidRequest):  # a later version may know more
        rules = fields.maybe("rules", StopRules)
    return StopRules.of(*stops) if rules is None else rules


def _state(fields: Fields) -> RunState:
    # A later version may know more states; such a run counts as unrecorded.
    name = fields.take("state", str)
    states: tuple[RunState, ...] = get_args(RunState)
    return next((state for state in states if state == name), "unrecorded")


def _usage(fields: Fields) -> Usage:
    # A later version may know more reasons.
    miss = fields.maybe("cache_miss", str)
    cache_miss = CacheMiss(miss) if miss in set(CacheMiss) else None
    difference = None
    with contextlib.suppress(DamagedFile):  # or more parts
        difference = fields.maybe("prompt_difference", PromptDifference)
    return Usage(**fields.plain(Usage), cache_miss=cache_miss, prompt_difference=difference)


def _finished(fields: Fields) -> Finished:
    return Finished(
        stop=fields.take("stop", StopInfo),
        usage=_usage(fields.inner("usage")),
        timing=Timing(**fields.inner("timing").plain(Timing)),
        speculation=fields.maybe("speculation", Speculation) or Speculation(),
        details=read_details(fields),
        **fields.plain(Finished),
    )


# Presets: named settings with a stop list.

VERSION = 1


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings and stops for a conversation."""

    name: str
    settings: ConversationSettings
    stops: tuple[StopEntry, ...] = ()


def presets_json(presets: Iterable[Preset]) -> str:
    """Return presets as the text of a file."""
    listed = [preset_values(preset) for preset in presets]
    return json.dumps({"fullstop_presets": VERSION, "presets": listed}, indent=1) + "\n"


def presets_from_json(text: str) -> list[Preset]:
    """Return the presets of a file; raises ``DamagedFile``, which names the field."""
    top = Fields(parsed_json(text))
    check_version(top, "fullstop_presets", VERSION)
    return [preset_from(fields) for fields in top.items("presets")]


def preset_values(preset: Preset) -> dict[str, Any]:
    """Return a preset as JSON values."""
    return {
        "name": preset.name,
        "settings": settings_values(preset.settings),
        "stops": stops_values(list(preset.stops)),
    }


def preset_from(fields: Fields) -> Preset:
    """Return a preset; raises ``DamagedFile`` if a value cannot be used."""
    name = fields.take("name", str).strip()
    if not name:
        raise fields.wrong("name", "must not be empty")
    settings = settings_from(fields.inner("settings"))
    return Preset(name, settings, tuple(stops_from(fields)))
