import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.support.random_cases import few_of
from ui.records.exchange.archive import conversations_from_json

REPOSITORY = Path(__file__).parents[2]
# The prompt is redrawn at each key; bracketed paste is switched on only once, at its beginning.
READY = r"\x1b\[\?2004h[^\n]*you>"
COUNT = "Count from 1 to 10, one number per line"


@pytest.fixture
def chat(headless: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """Starts ``fullstop`` in a terminal without a display and waits until it is ready."""
    children = []

    def start(*words: str) -> Any:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "app", *words],
            cwd=str(REPOSITORY),
            env=headless | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"},
            encoding="utf-8",
            timeout=30,
        )
        children.append(child)
        child.expect("No window: there is no display .*Chatting in the terminal instead")
        child.expect(READY)
        return child

    yield start
    for child in children:
        child.close(force=True)


def test_a_conversation_shows_answers_reasons_and_obeys_commands(
    chat: Callable[..., Any],
) -> None:
    child = chat("--stop", "6")
    child.sendline(COUNT)
    child.expect("1\r\n2\r\n3\r\n4\r\n5\r\n")
    child.expect(r"\[Stopped by “6” after 10 characters")
    child.expect(READY)
    child.sendline("/stop remove 1")
    child.expect(READY)
    child.sendline(r'/stop add "3\n4"')
    child.expect(READY)
    child.sendline(COUNT)
    child.expect("1\r\n2\r\n[^3]*Stopped by “3⏎4” after 4 characters")
    child.expect(READY)
    child.sendline("/quit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_a_file_a_setting_and_a_saved_conversation_reach_the_model(
    chat: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("hello there")
    (tmp_path / "b.txt").write_text("and here")
    child = chat("--file", str(tmp_path / "b.txt"))
    child.sendline(f"/file {tmp_path / 'a.txt'}")
    child.expect("a.txt goes with the next question")
    child.expect(READY)
    child.send("/se\t")
    child.expect("/set")
    child.sendline(" max_tokens 2")
    child.expect("max_tokens is 2")
    child.expect(READY)
    child.sendline(COUNT)
    child.expect("2 tokens]")
    child.expect(READY)
    child.sendline(f"/save {tmp_path / 'kept'}")
    child.expect("saved as .*kept.json")
    child.expect(READY)
    child.sendline("/new")
    child.expect(READY)
    child.sendline(f"/load {tmp_path / 'kept'}")
    child.expect("and here")
    child.expect("hello there")
    child.expect("is loaded: 2 messages")
    child.expect(READY)
    child.sendline("/quit")
    child.expect(pexpect.EOF)


def saved_questions(child: Any, file: Path) -> list[str]:
    """Save the conversation and return what was asked in it."""
    child.sendline(f"/save {file}")
    child.expect("saved as")
    child.expect(READY)
    [kept] = conversations_from_json(file.read_text())
    return [message.text for message in kept.messages if message.role == "user"]


@pytest.mark.parametrize(
    "keys",
    few_of(
        [
            "Count from 1 to 3,\x1b\rone number per line\r",
            '"""\rCount from 1 to 3,\rone number per line\r"""\r',
            "\x1b[200~Count from 1 to 3,\r\none number per line\x1b[201~\r",
        ],
        2,
    ),
    ids=["alt-return", "quotes", "paste"],
)
def test_a_message_of_several_lines_is_sent_as_one(
    chat: Callable[..., Any], tmp_path: Path, keys: str
) -> None:
    child = chat("--max-tokens", "4")
    child.send(keys)
    child.expect("4 tokens]")
    child.expect(READY)
    asked = saved_questions(child, tmp_path / "kept.json")
    assert asked == ["Count from 1 to 3,\none number per line"]


WEATHER = REPOSITORY / "tests" / "app" / "mcp" / "servers" / "weather.py"
ASK_FOR_WEATHER = "What is the weather in Paris?"


@pytest.fixture
def weather(tmp_path: Path, headless: dict[str, str]) -> None:
    """An MCP server, configured and switched off."""
    headless["FULLSTOP_DATA_DIR"] = str(tmp_path)
    server = {
        "command": sys.executable,
        "args": [str(WEATHER), str(tmp_path / "child.pid")],
        "disabled": True,
    }
    (tmp_path / "tool-servers.json").write_text(json.dumps({"mcpServers": {"weather": server}}))


@pytest.mark.usefixtures("weather")
def test_a_tool_runs_once_the_person_allows_it_and_the_model_goes_on(
    chat: Callable[..., Any],
) -> None:
    child = chat()
    child.sendline("/tools")
    child.expect("weather  Off in all chats")
    child.expect(READY)
    child.sendline("/tools wether")
    child.expect(r"Did you mean weather\?")
    child.expect(READY)
    child.sendline("/tools weather")
    child.expect("weather is on: get_weather")
    child.expect(READY)
    child.sendline(ASK_FOR_WEATHER)
    child.expect(r'weather: get_weather {"city": "Paris"}')
    child.expect("Run it?")
    child.sendline("a")
    child.expect("It is 18 degrees and sunny in Paris.")
    child.expect("sunny")  # the model's own words
    child.expect(READY)
    child.sendline("/new")
    child.expect(READY)
    child.sendline("/tools weather")
    child.expect("weather is off")
    child.expect(READY)
    child.sendline("/quit")
    child.expect(pexpect.EOF)


@pytest.mark.usefixtures("weather")
@pytest.mark.parametrize("key", few_of(["n\r", "\r", "\x03", "\x04"], 2))
def test_a_tool_that_is_not_allowed_does_not_run(chat: Callable[..., Any], key: str) -> None:
    child = chat()
    child.sendline("/tools weather")
    child.expect("weather is on")
    child.expect(READY)
    child.sendline(ASK_FOR_WEATHER)
    child.expect("Run it?")
    child.expect(r"\[N\]o:")
    child.send(key)
    child.expect("The user did not allow this call")
    child.expect(READY)
    assert "18 degrees" not in child.before


def test_the_model_is_changed_within_a_conversation(
    chat: Callable[..., Any], demo_model_path: Path, tmp_path: Path
) -> None:
    other, broken = tmp_path / "other-model", tmp_path / "broken-model"
    shutil.copytree(demo_model_path, other)
    broken.mkdir()
    child = chat()
    child.sendline(COUNT)
    child.expect("9\r\n10")
    child.expect(READY)
    child.sendline(f"/model {broken}")
    child.expect("not loaded: the model cannot be loaded")
    child.expect(READY)
    child.sendline(f"/model {other}")
    child.expect("other-model answers from here on")
    child.expect(READY)
    child.sendline(COUNT)
    child.expect("9\r\n10")
    child.expect(READY)


def test_ctrl_c_cancels_the_answer_and_the_chat_goes_on(chat: Callable[..., Any]) -> None:
    child = chat("--ignore-eos")
    for _ in range(2):
        child.sendline("Count from 1 to 100")
        child.expect("2, 3,")
        child.sendintr()
        child.expect(r"\[Cancelled after")
        child.expect(READY)
        child.sendline("/new")
        child.expect("a new conversation")
        child.expect(READY)


def test_ctrl_c_at_the_prompt_stays_and_ctrl_d_leaves(chat: Callable[..., Any]) -> None:
    child = chat()
    for _ in range(20):  # as early as possible: some arrive before the line editor is ready
        child.sendintr()
        child.expect("Ctrl-D or /quit leaves")
        child.expect(READY)
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_without_display_and_terminal_the_other_commands_are_named(
    program: Callable[..., Any],
) -> None:
    done = program()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "fullstop serve" in done.stderr
    assert "fullstop ask" in done.stderr
