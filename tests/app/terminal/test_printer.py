import io

import pytest

from app.printer import Printer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_receives_the_answer_exactly() -> None:
    out, err = io.StringIO(), io.StringIO()
    Printer(out, err).text("a\x1bb\r")
    assert out.getvalue() == "a\x1bb\r"


def test_a_terminal_receives_no_control_characters_of_an_answer() -> None:
    out = Terminal()
    Printer(out, io.StringIO()).text("a\x1bb")
    assert out.getvalue() == "a\\x1bb"


def test_thinking_and_remarks_stay_out_of_standard_output() -> None:
    out, err = io.StringIO(), io.StringIO()
    printer = Printer(out, err)
    printer.thinking("hm")
    printer.text("yes")
    printer.end_line()
    printer.remark("[done]")
    assert (out.getvalue(), err.getvalue()) == ("yes\n", "hm\n[done]\n")


def test_an_answer_that_ends_with_a_line_break_gets_no_second_one() -> None:
    out = io.StringIO()
    printer = Printer(out, io.StringIO())
    printer.text("yes\n")
    printer.end_line()
    assert out.getvalue() == "yes\n"


def test_a_status_line_is_shown_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    piped, watched = io.StringIO(), Terminal()
    Printer(io.StringIO(), piped).status("loading")
    Printer(io.StringIO(), watched).status("loading")
    assert piped.getvalue() == ""
    assert "loading" in watched.getvalue()


def test_a_terminal_that_would_show_control_sequences_as_text_gets_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    watched = Terminal()
    printer = Printer(io.StringIO(), watched)
    printer.status("loading")
    printer.remark("loaded")
    assert watched.getvalue() == "loaded\n"
