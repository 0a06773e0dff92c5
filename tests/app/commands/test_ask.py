"""The prompt of ``fullstop ask``: from the command line, from standard input, or from both."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.commands.ask import whole_prompt
from app.exits import CommandError

Piped = Callable[[bytes], None]


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Piped]:
    """Lets standard input be a pipe that has given everything."""
    with ExitStack() as stack:

        def pipe(content: bytes) -> None:
            reading, writing = os.pipe()
            os.write(writing, content)
            os.close(writing)
            opened = stack.enter_context(os.fdopen(reading, encoding="utf-8"))
            monkeypatch.setattr(sys, "stdin", opened)

        yield pipe


@pytest.mark.parametrize(
    ("given", "content", "prompt"),
    [
        ("Summarise", b"a long text\n", "a long text\n\nSummarise"),
        ("Summarise", b"", "Summarise"),
        ("Summarise", b"\n \n", "Summarise"),
        ("-", b"a long text\n", "a long text"),
    ],
)
def test_what_is_piped_is_the_text_that_the_prompt_is_about(
    piped: Piped, given: str, content: bytes, prompt: str
) -> None:
    piped(content)
    assert whole_prompt(given) == prompt


def test_a_file_is_read_and_a_terminal_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "report.txt"
    file.write_text("a report")
    with file.open(encoding="utf-8") as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert whole_prompt("Summarise") == "a report\n\nSummarise"
    parent, terminal = os.openpty()
    with os.fdopen(terminal, encoding="utf-8") as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert whole_prompt("Summarise") == "Summarise"
    os.close(parent)


def test_a_program_without_standard_input_still_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert whole_prompt("Hello") == "Hello"


def test_what_is_not_text_is_refused_in_words(piped: Piped) -> None:
    piped(b"\xff\xfe")
    with pytest.raises(CommandError, match="standard input is not UTF-8"):
        whole_prompt("Summarise")
