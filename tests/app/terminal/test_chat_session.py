import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from app import paths
from app.printer import Printer
from app.process.signals import Interrupts
from app.settings.options import AnswerOptions
from app.terminal.chat import _answer, completer
from app.terminal.chat_session import HELP, ChatSession, is_quote_open
from app.terminal.tools import ChatTools
from engine.generation import Answer
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopOptions, StopScope
from engine.values.events import Finished, Timing, Usage
from engine.values.request import PICTURE_MARK, GenerationRequest, Message
from tests.support.asking import loaded_engine
from tests.support.scripted import Stage
from tests.ui.driving import MODEL, ScriptedEngine
from ui.preferences import NewConversation, ToolPreferences
from ui.records.exchange.archive import conversations_json
from ui.records.tool_choice import ToolsInUse


@pytest.fixture
def session() -> ChatSession:
    return ChatSession(AnswerOptions(("END",), NewConversation("Be brief.")))


def answer(text: str, kind: StopKind = StopKind.EOS) -> Answer:
    return Answer(text, "", (), Finished(StopInfo(kind), Usage(), Timing()))


def request(session: ChatSession, question: str) -> GenerationRequest:
    asked, made = session.ask(question)
    session.withdraw(asked)
    return made


def record(session: ChatSession, question: str, given: Answer) -> None:
    session.record(*session.ask(question), given)


def turns(session: ChatSession) -> tuple[tuple[str, str], ...]:
    return tuple((one.role, one.text) for one in session.conversation.messages)


@pytest.mark.parametrize(
    ("typed", "question"),
    [
        ('"""\nfirst\n\n  second\n"""', "first\n\n  second"),
        ("first\nsecond", "first\nsecond"),
        ("/usr/bin/a\n/usr/bin/b", "/usr/bin/a\n/usr/bin/b"),
        ('"""What a module is."""\nx = 1', '"""What a module is."""\nx = 1'),
    ],
)
def test_a_message_of_several_lines_is_one_question(
    session: ChatSession, typed: str, question: str
) -> None:
    assert not is_quote_open(typed)
    assert session.question(typed) == question


@pytest.mark.parametrize(
    ("typed", "is_longer"),
    [
        ('"""first', True),
        ('/system """first', True),
        ('"""first"""', False),
        ('says """ where', False),
    ],
)
def test_message_goes_on_within_quotes(typed: str, is_longer: bool) -> None:
    assert is_quote_open(typed) is is_longer


def test_a_request_contains_the_system_prompt_the_turns_and_the_stops(session: ChatSession) -> None:
    record(session, "one", answer("1"))
    made = request(session, "two")
    assert [(m.role, m.content) for m in made.messages] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "1"),
        ("user", "two"),
    ]
    assert made.stops.strings == ("END",)


@pytest.mark.parametrize("given", [answer("half", StopKind.ERROR), answer("", StopKind.CANCELLED)])
def test_a_failed_or_empty_answer_leaves_no_turn(session: ChatSession, given: Answer) -> None:
    record(session, "one", given)
    assert turns(session) == ()


def test_stops_are_added_listed_as_typed_and_removed_by_number(session: ChatSession) -> None:
    session.obey(r'/stop add "\n4"')
    session.obey("/set stop 6")
    assert session.stops == ("END", "\n4", "6")
    assert session.obey("/stop list") == '1. "END"\n2. "\\n4"\n3. "6"'
    assert session.obey("/stop remove 1") == "removed “END”"
    assert session.stops == ("\n4", "6")


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
    assert session.stops == ("END",)


def test_thinking_is_switched(session: ChatSession) -> None:
    assert session.obey("/thinking on") == "thinking is on"
    assert session.conversation.settings.is_thinking
    assert session.obey("/thinking") == "thinking is off"
    assert "on or off" in session.obey("/thinking maybe")
    assert not session.conversation.settings.is_thinking


def test_the_system_prompt_is_set_and_removed(session: ChatSession) -> None:
    session.obey("/system Say yes.")
    assert request(session, "x").messages[0] == Message("system", "Say yes.")
    session.obey("/system")
    assert request(session, "x").messages[0].role == "user"


def test_a_new_conversation_keeps_the_settings(session: ChatSession) -> None:
    record(session, "one", answer("1"))
    session.obey("/new")
    assert turns(session) == ()
    assert session.stops == ("END",)


def test_a_new_conversation_keeps_the_tools_without_their_approvals(session: ChatSession) -> None:
    session.conversation.tools = ToolsInUse(("s",), (("s", "off"),), (("s", "t", "f"),))
    session.obey("/new")
    assert session.conversation.tools == ToolsInUse(("s",), (("s", "off"),))


@pytest.mark.parametrize("line", ["/frobnicate", "/stop frobnicate"])
def test_an_unknown_command_is_named(session: ChatSession, line: str) -> None:
    assert "frobnicate" in session.obey(line)


def test_every_command_of_the_help_works(session: ChatSession) -> None:
    words = {line.split()[0] for line in HELP.splitlines() if line.startswith("/")}
    assert len(words) >= 11
    assert all("is not a command" not in session.obey(word) for word in words)


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        ("/mdoel", "/model?"),
        ("/set temprature 1", "temperature?"),
        ("/model demo-modle", "demo-model?"),
    ],
)
def test_a_misspelt_word_suggests_the_nearest(
    session: ChatSession, line: str, nearest: str
) -> None:
    assert f"Did you mean {nearest}" in session.obey(line)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("/set temperature 0.5", 0.5),
        ("/set top-p 0.9", 0.9),
        ("/set parameter max_tokens 12", 12),
        ("/set thinking_budget 100", 100),
    ],
)
def test_a_setting_is_changed_shown_and_set_back(
    session: ChatSession, line: str, value: float
) -> None:
    name = line.split()[-2].replace("-", "_")
    assert session.obey(line) == f"{name} is {value:g}"
    made = request(session, "x")
    given = getattr(made, name, None) or getattr(made.sampling, name, None)
    assert given == value or session.conversation.settings.thinking_budget == value
    assert f"{name:<20}{value:g}" in session.obey("/set").splitlines()
    session.obey(f"/set {name} default")
    assert getattr(session.conversation.settings, name) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("/set temperature hot", "takes a number"),
        ("/set temperature nan", "is from 0 to 2"),
        ("/set top_k 1.5", "takes a whole number"),
        ("/set max_tokens 0", "is from 1"),
    ],
)
def test_a_value_out_of_its_range_changes_nothing(
    session: ChatSession, line: str, reason: str
) -> None:
    before = session.conversation.settings
    assert reason in session.obey(line)
    assert session.conversation.settings == before


def test_a_file_goes_with_the_next_question_alone(session: ChatSession, tmp_path: Path) -> None:
    (tmp_path / "a report.txt").write_text("Sales rose.")
    assert "goes with the next question" in session.obey(f"/file {tmp_path / 'a report.txt'}")
    assert "a report.txt" in session.obey("/file")
    sent = request(session, "Why?").messages[-1].content
    assert sent == "a report.txt:\n```\nSales rose.\n```\n\nWhy?"
    record(session, "Why?", answer("1"))
    assert session.conversation.title == "Why?"
    assert request(session, "And?").messages[-1].content == "And?"


async def test_a_picture_goes_with_each_turn_to_a_model_that_sees(
    session: ChatSession, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n1")
    session.model = MODEL
    reply = session.obey(f"/file {tmp_path / 'a.png'}")
    assert reply == "a.png goes with the next question as a note: scripted reads text only"
    record(session, "Why?", answer("1"))

    async def sent() -> Message:
        asked, made = session.ask("And?")
        fitted, _ = await session.fitted(asked, made, ScriptedEngine())  # type: ignore[arg-type]
        session.withdraw(asked)
        return fitted.messages[1]

    assert "a picture, which you cannot see" in (await sent()).content
    session.model = replace(MODEL, can_see=True)
    seen = await sent()
    assert (seen.content, len(seen.pictures)) == (f"{PICTURE_MARK}Why?", 1)
    assert "without its pictures" in session.obey(f"/save {tmp_path / 'talk'}")
    assert session.obey(f"/save {tmp_path / 'talk.zip'}") == f"saved as {tmp_path / 'talk.zip'}"
    with zipfile.ZipFile(tmp_path / "talk.zip") as archive:
        names = [name for name in archive.namelist() if name.startswith("pictures/")]
        assert archive.read(*names) == (tmp_path / "a.png").read_bytes()


def test_a_file_stays_for_the_next_question_if_none_was_answered(
    session: ChatSession, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("Sales rose.")
    session.obey(f"/file {tmp_path / 'a.txt'}")
    record(session, "Why?", answer("", StopKind.ERROR))
    assert "Sales rose." in request(session, "Why?").messages[-1].content


def test_a_file_that_cannot_be_read_is_explained(session: ChatSession, tmp_path: Path) -> None:
    assert "nothing.txt" in session.obey(f"/file {tmp_path / 'nothing.txt'}")
    assert "is a folder" in session.obey(f"/file {tmp_path}")
    assert session.conversation.attachments == ()


@pytest.mark.parametrize("name", ["~$report.docx", "x" * 300])
@pytest.mark.parametrize("command", ["/file", "/save", "/load", "/model"])
def test_names_of_no_file_are_answered(
    session: ChatSession,
    command: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    record(session, "one", answer("1"))
    reply = session.obey(f"{command} {name}")
    assert any(word in reply for word in ("there is no", "not saved", "not loaded", "saved as"))


def test_a_saved_conversation_goes_on_with_its_settings_stops_and_reasons(
    session: ChatSession, tmp_path: Path
) -> None:
    session.obey("/set top_p 0.5")
    ended = Finished(StopInfo(StopKind.STOP_STRING, "END"), Usage(), Timing())
    record(session, "one", Answer("1", "", (), ended))
    assert session.obey(f"/save {tmp_path / 'kept'}") == f"saved as {tmp_path / 'kept.json'}"
    later = ChatSession(AnswerOptions())
    told = later.obey(f"/load {tmp_path / 'kept'}")
    assert told.splitlines() == ["you> one", "1", "“one” is loaded: 2 messages and 1 stop"]
    assert turns(later) == (("user", "one"), ("assistant", "1"))
    run = later.conversation.messages[-1].run
    assert run is not None
    assert run.finished is not None
    assert run.finished.stop == ended.stop
    made = request(later, "two")
    assert made.stops.strings == ("END",)
    assert made.sampling.top_p == 0.5
    assert made.messages[0].content == "Be brief."


def test_saving_again_needs_no_name_and_replaces_no_other_file(
    session: ChatSession, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text("mine")
    assert "not saved" in session.obey(f"/save {tmp_path / 'a.json'}")  # nothing is there yet
    record(session, "one", answer("1"))
    assert "exists already" in session.obey(f"/save {other}")
    assert other.read_text() == "mine"
    session.obey(f"/save {tmp_path / 'a.json'}")
    record(session, "two", answer("2"))
    assert "saved as" in session.obey("/save")
    assert len(json.loads((tmp_path / "a.json").read_text())["conversations"]) == 1
    session.obey("/new")
    assert "takes the name" in session.obey("/save")


def test_load_refuses_file_of_several_conversations(session: ChatSession, tmp_path: Path) -> None:
    several = []
    for question in ("first", "second"):
        session.obey("/new")
        record(session, question, answer("1"))
        several.append(session.conversation)
    file = tmp_path / "all.json"
    file.write_text(conversations_json(several))
    assert "holds 2 conversations" in session.obey(f"/load {file}")
    assert turns(session)[0] == ("user", "second")


def test_what_is_no_saved_conversation_is_refused_and_nothing_is_lost(
    session: ChatSession, tmp_path: Path
) -> None:
    record(session, "one", answer("1"))
    for content in (b"{}", b"hello", b"\xff"):
        (tmp_path / "x.json").write_bytes(content)
        assert "not loaded" in session.obey(f"/load {tmp_path / 'x.json'}")
    assert "not loaded" in session.obey(f"/load {tmp_path / 'none.json'}")
    assert len(turns(session)) == 2


def test_another_model_is_wanted_by_its_name(session: ChatSession) -> None:
    assert "demo-model" in session.obey("/model")
    assert session.requested_model is None
    assert session.obey("/model demo-model") == ""
    assert session.requested_model == paths.demo_model()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("/s", ["/stop", "/set", "/system", "/save"]),
        ("/set top", ["top_p", "top_k"]),
        ("/model de", ["demo-model"]),
    ],
)
def test_tab_completes_commands_and_what_follows_them(line: str, offered: list[str]) -> None:
    assert [one.text for one in completer().get_completions(Document(line), CompleteEvent())] == (
        offered
    )


def test_the_scope_of_stops_on_the_command_line_counts_and_is_saved(tmp_path: Path) -> None:
    scoped = ChatSession(AnswerOptions(("END",), stop_options=StopOptions(scope=StopScope.ALL)))
    assert request(scoped, "x").stops.stops[0].scope is StopScope.ALL
    record(scoped, "one", answer("1"))
    scoped.obey(f"/save {tmp_path / 'kept'}")
    later = ChatSession(AnswerOptions())
    later.obey(f"/load {tmp_path / 'kept'}")
    assert request(later, "x").stops.stops[0].scope is StopScope.ALL


class Remarks(Printer):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def remark(self, text: str) -> None:
        self.said.append(text)


async def nobody(_shown: str) -> str | None:
    return None


async def test_forty_turns_in_a_context_of_1024_tokens_are_all_answered(tmp_path: Path) -> None:
    asked = [f"What is the number of question {n}?" for n in range(40)]
    stage = Stage(tmp_path, {text: [f"It is {n}."] for n, text in enumerate(asked)}, context=1_024)
    printer = Remarks()

    session = ChatSession(AnswerOptions())
    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        session.model = engine.model
        tools = ChatTools(printer, nobody, ToolPreferences(), {})
        with Interrupts() as interrupts:
            for question in asked:
                await _answer(engine, session, question, printer, interrupts, tools)
        await tools.finish()
    answers = [one.text for one in session.conversation.messages if one.run is not None]
    assert answers == [f"It is {n}." for n in range(40)]
    left_out = [line for line in printer.said if line.endswith("earlier messages not included")]
    assert 1 < len(left_out) < 12, "said once for each change"
    last = session.conversation.messages[-1].run
    assert last is not None
    assert last.left_out is not None
    assert left_out[-1] == last.left_out.sentence
