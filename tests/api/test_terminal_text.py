"""Control characters in answers are shown, never obeyed: on terminals, in pipes, and in reports."""

import json
import unicodedata

import pytest

from api.conformance.captures.diagnosis import as_text, diagnose
from api.conformance.captures.recognition import parse
from api.terminal_text import harmless, harmless_json, on_one_line

STEERING = (
    "\x00\x07\x08\x1b\r\x7f\x80\x9b\u200e\u202a\u202e\u2066\u2069\u2028\ufeff\ud800\U000e0041"
)
# Joiners, and signs of Arabic and Syriac that have a visible form.
_SEEN = "\n\t\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"


def is_steering(char: str) -> bool:
    return char not in _SEEN and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def test_no_control_character_of_unicode_is_left() -> None:
    # Below the supplementary planes, whose format characters belong to single scripts.
    every = "".join(map(chr, range(0x10000)))
    left = [hex(ord(char)) for char in harmless(every) if is_steering(char)]
    assert left == []


def test_visible_characters_are_left_alone() -> None:
    text = "a\n\tß 日本 👩\u200d💻 نص שלום"
    assert harmless(text) == text


def test_one_line_stays_one_line() -> None:
    assert on_one_line("a\nb\tc\u2028d\x85e") == "a\\nb\\tc\\u2028d\\x85e"
    assert on_one_line("x" * 300, 10) == "x" * 9 + "…"


def test_json_reads_back_the_same_and_controls_no_terminal() -> None:
    value = {"k" + STEERING: ["v" + STEERING, 1, "é"]}
    written = harmless_json(value)
    assert json.loads(written) == value
    assert harmless(written) == written
    assert "é" in written


FIELDS = ("model", "id", "finish_reason", "content", "arguments", "name", "error", "matched_stop")


@pytest.mark.parametrize("field", FIELDS)
def test_no_field_of_a_capture_controls_the_terminal_or_breaks_its_line(field: str) -> None:
    evil = f"x{STEERING}\nERROR forged: not our words"
    message = {"content": "hi", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    answer = {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
    text = json.dumps(answer)
    for old in ('"content": "hi"', '"name": "f"', '"arguments": "{}"', '"model": "m"'):
        if old.startswith(f'"{field}"'):
            text = text.replace(old, f'"{field}": {json.dumps(evil)}')
    if field in ("finish_reason", "matched_stop"):
        answer["choices"] = [{"message": message, "finish_reason": "stop", field: evil}]
        text = json.dumps(answer)
    if field == "error":
        text = json.dumps({"error": {"message": evil}})
    capture = parse(text)
    shown = as_text(capture, diagnose(capture, ("END",)))
    assert harmless(shown) == shown
    assert not any(line.startswith("ERROR forged") for line in shown.splitlines())
