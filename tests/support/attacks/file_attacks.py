"""Opens damaged files as the product does; only the product's own errors may occur.

Each reader takes a file and the folder for what it writes. It returns "read" or "refused".
"""

import argparse
import asyncio
import contextlib
import dataclasses
import io
import json
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.commands import inspect, replay
from app.exits import CommandError
from app.paths import SETTINGS_FILE
from app.settings.settings_file import StoredPreferences
from app.store import rows
from engine.files.json_fields import DamagedFile
from engine.output.answer import DecodingSetting
from engine.output.families import Family, HeaderFamily
from engine.recording.run_trace import RecordedCalls, RunTrace
from engine.recording.saved_run import from_json, question_of, to_json
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules, StopScope
from engine.values.events import TokenTrace
from engine.values.request import ToolCall
from tests.support.answers.said import SETTINGS, conversation, finished_run
from tests.support.attacks.damage import damaged
from tests.support.memory_store import MemoryConversationStore
from ui.chat.session.conversation_list import ConversationList
from ui.inspector.capture_window import read_capture
from ui.inspector.shown_run import shown_recording
from ui.kit.tasks import read_text
from ui.records.codec import Preset, presets_from_json, presets_json
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.exchange.archive import (
    conversation_markdown,
    conversations_from_json,
    conversations_json,
)
from ui.records.messages import ConversationMessage
from ui.records.stop_entries import StopEntry
from ui.records.stop_files import MAX_BYTES, stops_from_json
from ui.words import FileRefused

GOLDEN = Path(__file__).parents[2] / "api" / "golden"
_MAX_BYTES = 1 << 28


def _options(
    file: Path | str, *, stops: tuple[str, ...] = (), is_json: bool = False
) -> argparse.Namespace:
    return argparse.Namespace(
        file=file, stops=stops, is_json=is_json, no_stop=False, repetition_detection=None
    )


@dataclass(frozen=True)
class Attack:
    """One kind of file."""

    name: str
    originals: tuple[str, ...]
    read: Callable[[Path], str]
    pack: Callable[[random.Random, bytes], bytes] = lambda rng, content: content

    def carry_out(self, seed: int, folder: Path) -> str:
        """Damage an original and open it; return the outcome."""
        rng = random.Random(f"{self.name} {seed}")
        content = self.pack(rng, damaged(rng, rng.choice(self.originals)))
        path = folder / self.name
        path.write_bytes(content)
        outcome = self.read(path)
        kept = [found.read_bytes() for found in folder.iterdir() if found.is_file()]
        assert content in kept, "the original is gone"
        for found in folder.iterdir():
            found.unlink()
        return outcome


def _runs() -> tuple[str, ...]:
    tokens = [
        (3, b"<think>", "", "<think>"),
        (10, b"hm ", "hm ", None),
        (4, b"</think>", "", "</think>"),
        (11, "é".encode()[:1], "", None),
        (12, "é".encode()[1:], "é", None),
        (13, b" EN", " EN", None),
        (14, b"D", "D", None),
    ]
    traces = deque(
        TokenTrace(n, token_id, piece, raw, Channel.TEXT, 0.1 * n, 0, "", (), special)
        for n, (token_id, raw, piece, special) in enumerate(tokens)
    )
    stop = StopInfo(
        StopKind.STOP_STRING, "END", 14, "D", Channel.TEXT, 2, 6, 0, held="", dropped="END"
    )
    call = ToolCall("c1", "add", '{"a": 1}')
    made = []
    for has_bytes in (True, False):
        tags = Family(
            think_start="<think>",
            think_end="</think>",
            tool_start="<tool>",
            tool_end="</tool>",
            tags={3: "<think>", 4: "</think>"},
        )
        headers = HeaderFamily(tags={5: "<|channel|>", 6: "<|message|>", 7: "<|call|>"})
        for family in (tags, headers):
            setting = DecodingSetting(
                model="m", family=family, eos=(2,), context_budget=100, has_bytes=has_bytes
            )
            rules = StopRules.of("END", "\n6", token_ids=(9,))
            calls = [RecordedCalls('{"a": 1}', (call,), 1)]
            trace = RunTrace(setting, rules, 64, traces, stop, calls=calls)
            made.append(to_json(trace, "Why?"))
    return tuple(made)


def _read_run(path: Path) -> str:
    outcome = _commanded(
        lambda: replay.run(_options(path)),
        lambda: replay.run(_options(path, stops=("D",), is_json=True)),
    )
    try:
        text = asyncio.run(read_text(path, _MAX_BYTES))
        shown = shown_recording(from_json(text), path.name, question_of(text))
    except (FileRefused, DamagedFile):
        return "refused"
    assert shown.run.finished is not None
    assert shown.run.verdict is not None
    return outcome


def _archives() -> tuple[str, ...]:
    one = conversation("Question", "1 2 3")
    branch = ConversationMessage(
        "assistant", "another", finished_run("another"), 5.0, one.messages[0], 3, "id-b"
    )
    grown = Conversation("Tree", [*one.tree, branch], one.settings, one.stops)
    return (conversations_json([one]), conversations_json([one, grown, Conversation()]))


def _read_archive(path: Path) -> str:
    try:
        found = conversations_from_json(path.read_text(encoding="utf-8"))
    except (DamagedFile, UnicodeDecodeError):
        return "refused"
    listed = ConversationList(MemoryConversationStore())
    for one in found:
        listed.insert(one)
        conversation_markdown(one)
        for message in one.tree:
            json.loads(rows.message_row(one, message).run or "{}")
            storable(rows.message_row(one, message))
        storable(rows.conversation_row(one))
    again = conversations_from_json(conversations_json(found))
    assert len(again) == len(found)
    return "read"


def storable(values: tuple[object, ...]) -> None:
    """Fail where a database could not take the values."""
    for value in values:
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, int):
            assert -(1 << 63) <= value < 1 << 63, value
        elif isinstance(value, float):
            assert value == value, "NaN is NULL in a database"


def _read_presets(path: Path) -> str:
    try:
        found = presets_from_json(asyncio.run(read_text(path, _MAX_BYTES)))
    except (FileRefused, DamagedFile):
        return "refused"
    for preset in found:
        storable(rows.preset_row(preset))
    assert presets_from_json(presets_json(found)) == found
    return "read"


def _presets() -> tuple[str, ...]:
    settings = dataclasses.replace(SETTINGS, stop_token_ids=(5,))
    stops = (StopEntry.of("END"), StopEntry.of("\n6 ", False, scope=StopScope.ALL))
    return (presets_json([Preset("One", settings, stops), Preset("Two", ConversationSettings())]),)


def _settings() -> tuple[str, ...]:
    values = {
        "theme": "dark",
        "has_high_contrast": True,
        "text_percent": 120,
        "stays_in_tray": False,
        "server": {
            "port": 9000,
            "is_on_network": True,
            "is_key_required": True,
            "allowed_origins": ["https://a.example"],
            "at_launch": "on",
            "was_on": True,
        },
        "new_conversation": {
            "system_prompt": "Be brief.",
            "temperature": 0.5,
            "max_tokens": 64,
            "is_thinking": True,
        },
        "models": {
            "folders": ["/a", "/b"],
            "rests_after_min": 5,
            "last_used": [["/a", 1.5], ["/b", 2.5]],
        },
        "last_model": "/a",
        "window_layout": "AAECAw==",
        "version": 1,
    }
    return (json.dumps(values, indent=2),)


def _read_settings(path: Path) -> str:
    assert path.name == SETTINGS_FILE
    before = path.read_bytes()
    stored = StoredPreferences(path.parent)
    preferences = stored.preferences()
    assert stored.last_model is None or stored.last_model.is_dir()
    assert isinstance(stored.window_layout, bytes)
    # The kept settings are read back unchanged.
    other = "light" if preferences.theme != "light" else "dark"
    kept = path.with_name("before")
    kept.write_bytes(before)
    stored.save_last_model(Path("/elsewhere" if other == "light" else "/there"))
    again = StoredPreferences(path.parent)
    assert again.preferences() == preferences
    if not stored.notice:
        return "read"
    assert stored.notice.endswith(".")
    return "refused"


def _captures() -> tuple[str, ...]:
    found = []
    for path in sorted(GOLDEN.glob("*/*.json")):
        values = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(values, list):
            found.append(json.dumps([data for _, data in values if isinstance(data, dict)]))
        else:
            found.append(json.dumps(values))
    return tuple(found)


def _read_capture(path: Path) -> str:
    outcome = _commanded(
        lambda: inspect.run(_options(str(path), stops=("END",))),
        lambda: inspect.run(_options(str(path), is_json=True)),
    )
    # A stream of events, as most servers write it.
    text = path.read_bytes().decode("utf-8", "replace")
    with contextlib.suppress(ValueError, RecursionError):
        values = json.loads(text)
        if isinstance(values, list):
            lines = [f"data: {json.dumps(one)}\n\n" for one in values]
            read_capture("".join(lines), ("END",))
            read_capture("".join(lines).replace(": [", ": ", 1))
    read_capture(text, ("END",))
    return outcome


def _read_stops(path: Path) -> str:
    try:
        text = asyncio.run(read_text(path, MAX_BYTES))
        stops_from_json(text)
    except (FileRefused, ValueError) as refusal:
        words = str(refusal)
    else:
        return "read"
    assert words.startswith((f"“{path.name}”", "This is not", "A stop list", "Entry")), words
    return "refused"


def _commanded(*runs: Callable[[], int]) -> str:
    outcome = "read"
    for one in runs:
        out, err = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                one()
        except CommandError:
            outcome = "refused"
        # Pipes and files take UTF-8.
        (out.getvalue() + err.getvalue()).encode()
    return outcome


ATTACKS = (
    Attack("run.json", _runs(), _read_run),
    Attack("archive.json", _archives(), _read_archive),
    Attack("presets.json", _presets(), _read_presets),
    Attack(SETTINGS_FILE, _settings(), _read_settings),
    Attack("capture.json", _captures(), _read_capture),
    Attack("stops.json", ('["END", "\\n\\nUser:", "é"]',), _read_stops),
)
