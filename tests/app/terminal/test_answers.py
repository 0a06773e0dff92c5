"""The end of an answer in the terminal."""

import json

import pytest

from app.printer import Printer
from app.terminal.answers import print_end
from engine import Answer
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage


def test_json_of_an_answer_escapes_what_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "a\x9b2J\u202e\x7fé"
    finished = Finished(StopInfo(StopKind.EOS), Usage(), Timing())
    print_end(Answer(text, "", (), finished), Printer(), is_json=True)
    printed = capsys.readouterr().out
    assert not {"\x9b", "\u202e", "\x7f"} & set(printed)
    assert json.loads(printed)["text"] == text
