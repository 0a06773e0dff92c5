import pytest

from app.settings.options import AnswerOptions
from app.terminal import HELP, ChatSession
from engine.scheduling.generation import Answer
from engine.stopping.record import StopInfo, StopKind
from engine.values.chat import Message
from engine.values.events import Finished, Timing, Usage
from ui.preferences.preferences import NewConversation


@pytest.fixture
def session() -> ChatSession:
    return ChatSession(AnswerOptions(("END",), NewConversation("Be brief.")))


def answer(text: str, kind: StopKind = StopKind.EOS) -> Answer:
    return Answer(text, "", (), Finished(StopInfo(kind), Usage(), Timing()))


def test_a_plain_line_is_a_question(session: ChatSession) -> None:
    assert session.question("  hello ") == "  hello "


@pytest.mark.parametrize("line", ["", "   ", "/help", "/stop add x"])
def test_blank_lines_and_commands_are_not_questions(session: ChatSession, line: str) -> None:
    assert session.question(line) is None


def test_two_slashes_begin_a_message_with_one_slash(session: ChatSession) -> None:
    assert session.question("//help") == "/help"


def test_a_request_contains_the_system_prompt_the_turns_and_the_stops(session: ChatSession) -> None:
    session.record("one", answer("1"))
    request = session.request("two")
    assert [(m.role, m.content) for m in request.messages] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "1"),
        ("user", "two"),
    ]
    assert request.stops.strings == ("END",)


@pytest.mark.parametrize("given", [answer("half", StopKind.ERROR), answer("", StopKind.CANCELLED)])
def test_a_failed_or_empty_answer_leaves_no_turn(session: ChatSession, given: Answer) -> None:
    session.record("one", given)
    assert session.turns == ()


def test_a_cancelled_answer_is_kept_as_it_was_shown(session: ChatSession) -> None:
    session.record("one", answer("1 2", StopKind.CANCELLED))
    assert session.turns == (Message("user", "one"), Message("assistant", "1 2"))


def test_a_stop_is_added_exactly_as_typed(session: ChatSession) -> None:
    session.obey(r"/stop add  a\n ")
    assert session.options.stops == ("END", " a\\n ")


def test_a_stop_in_quotes_is_read_with_escapes(session: ChatSession) -> None:
    session.obey(r'/stop add "\n\nUser:"')
    assert session.options.stops == ("END", "\n\nUser:")


def test_the_list_shows_stops_in_a_form_that_can_be_typed(session: ChatSession) -> None:
    session.obey(r'/stop add "\n4"')
    assert session.obey("/stop list") == '1. "END"\n2. "\\n4"'


def test_a_stop_is_removed_by_its_number(session: ChatSession) -> None:
    session.obey("/stop add 6")
    assert session.obey("/stop remove 1") == 'removed "END"'
    assert session.options.stops == ("6",)


@pytest.mark.parametrize("number", ["0", "2", "x", "", "²"])
def test_a_number_without_a_stop_is_explained(session: ChatSession, number: str) -> None:
    assert "takes the number of a stop" in session.obey(f"/stop remove {number}")
    assert session.options.stops == ("END",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("/stop add ", "non-empty"),
        (r'/stop add "\q"', "escape"),
        ("/stop add " + "x" * 5000, "4096"),
    ],
)
def test_an_invalid_stop_is_refused_with_the_reason(
    session: ChatSession, line: str, reason: str
) -> None:
    told = session.obey(line)
    assert told.startswith("not added")
    assert reason in told
    assert session.options.stops == ("END",)


def test_thinking_is_switched(session: ChatSession) -> None:
    assert session.obey("/thinking on") == "thinking is on"
    assert session.request("x").thinking is True
    assert session.obey("/thinking") == "thinking is off"
    assert "on or off" in session.obey("/thinking maybe")
    assert session.request("x").thinking is False


def test_the_system_prompt_is_set_and_removed(session: ChatSession) -> None:
    session.obey("/system Say yes.")
    assert session.request("x").messages[0] == Message("system", "Say yes.")
    session.obey("/system")
    assert session.request("x").messages[0].role == "user"


def test_a_new_conversation_keeps_the_settings(session: ChatSession) -> None:
    session.record("one", answer("1"))
    session.obey("/new")
    assert session.turns == ()
    assert session.options.stops == ("END",)


def test_quit_ends_the_chat(session: ChatSession) -> None:
    assert not session.has_ended
    session.obey("/quit")
    assert session.has_ended


@pytest.mark.parametrize("line", ["/frobnicate", "/stop frobnicate"])
def test_an_unknown_command_is_named(session: ChatSession, line: str) -> None:
    assert "frobnicate" in session.obey(line)


def test_every_command_of_the_help_works(session: ChatSession) -> None:
    words = {line.split()[0] for line in HELP.splitlines() if line.startswith("/")}
    assert len(words) >= 6
    assert all("no command" not in session.obey(word) for word in words)
