"""Servers that flood, hang, die, or send nonsense: each is named, and nothing else suffers."""

from dataclasses import replace

import pytest

from app.mcp import host
from tests.app.mcp.served import Served, hostile, is_dead
from ui.records.tools import ServerStage, ToolServerConfig


def started(served: Served, how: str) -> None:
    served.do(served.host.put(hostile(how)))
    served.do(served.host.ready([how]))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("dies", "it ended with code 7"),
        ("leaves-a-child", "it ended with code 7"),
        ("endless-line", "it sent a message of more than 16 MB"),
        ("flood", "it floods its output with messages"),
        ("stderr", "it floods its log"),
        ("junk", "its output is not MCP messages"),
    ],
)
def test_a_server_that_dies_or_floods_during_a_call_is_ended_and_named(
    served: Served, how: str, words: str
) -> None:
    started(served, how)
    assert f"The tool server “{how}” stopped: {words}." in served.refusal(how, "go")
    served.until(lambda: served.state(how).stage is ServerStage.FAILED)
    assert words in served.state(how).problem
    assert sum(len(line) for line in served.state(how).log) < 500_000


@pytest.mark.parametrize("how", ["leaves-its-session", "clears-its-mark"])
def test_a_child_that_leaves_the_session_ends_with_its_server(served: Served, how: str) -> None:
    started(served, how)
    if how == "leaves-its-session":
        assert "it ended with code 7" in served.refusal(how, "go")
    else:
        served.call(how, "go")
    served.until(lambda: any(line.startswith("child ") for line in served.state(how).log))
    (child,) = (int(line[6:]) for line in served.state(how).log if line.startswith("child "))
    served.do(served.host.switch(how, False))
    served.until(lambda: is_dead(child))


def test_a_server_that_hangs_in_a_call_is_named_after_the_time_limit(served: Served) -> None:
    started(served, "hangs")
    served.call_time_out_s = 0.3
    try:
        assert "took longer than 0.3 s" in served.refusal("hangs", "go")
    finally:
        served.call_time_out_s = 60


def test_an_answer_that_is_not_mcp_is_named_and_the_server_stays(served: Served) -> None:
    started(served, "nonsense")
    assert "gave an answer that is not valid MCP" in served.refusal("nonsense", "go")
    assert served.state("nonsense").stage is ServerStage.READY


def test_a_server_that_ends_at_once_is_named_with_its_last_output(served: Served) -> None:
    started(served, "gone")
    assert served.state("gone").stage is ServerStage.FAILED
    assert served.state("gone").problem == (
        "The tool server “gone” stopped: it ended with code 2. Last output: “there is no such "
        "folder”."
    )


def test_a_user_without_a_home_folder_can_start_a_server(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(served.folder / "none"))
    served.do(served.host.put(replace(hostile("gone"), name="homeless")))
    served.do(served.host.ready(["homeless"]))
    assert "it ended with code 2" in served.state("homeless").problem


def test_a_server_that_never_answers_is_ended_when_its_time_is_over(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The limit is read when a server starts.
    monkeypatch.setattr(host, "START_TIME_OUT_S", 0.5)
    started(served, "silent")
    assert served.state("silent").problem.startswith(
        "The tool server “silent” was not ready within 0.5 s."
    )


def test_half_of_a_surrogate_pair_damages_one_character_and_not_the_call(served: Served) -> None:
    started(served, "half-pair")
    served.call_time_out_s = 20
    try:
        assert served.call("half-pair", "go") == ("cut here: \ufffd", False)
    finally:
        served.call_time_out_s = 60


def test_a_server_that_knows_only_versions_without_a_handshake_is_used(served: Served) -> None:
    started(served, "modern")
    assert served.state("modern").problem == ""
    assert served.call("modern", "go") == ("fine", False)


def test_a_greeting_on_the_wrong_stream_does_no_harm(served: Served) -> None:
    started(served, "greets")
    assert served.call("greets", "go") == ("fine", False)
    assert "(not a message) Welcome to my server!" in served.state("greets").log


def test_names_are_shown_without_control_characters_and_unusable_tools_are_left_out(
    served: Served,
) -> None:
    started(served, "names")
    state = served.state("names")
    assert [tool.title for tool in state.tools] == ["a�[31mred�", "two words", "ünï", "go"]
    assert state.remarks[0].startswith("3 tools cannot be used")
    assert "\x1b" not in state.version


def test_of_thousands_of_tools_the_first_are_used_and_the_person_is_told(served: Served) -> None:
    started(served, "thousands")
    state = served.state("thousands")
    assert len(state.tools) == 128
    assert state.remarks == ("It lists more tools than can be used; the first 128 are.",)


def test_tools_that_only_run_as_tasks_are_not_offered_and_the_person_is_told(
    served: Served,
) -> None:
    started(served, "tasks")
    state = served.state("tasks")
    assert [tool.name for tool in state.tools] == ["go"]
    assert state.remarks == (
        "1 tool cannot be used: MCP’s tasks are required for a call, and Fullstop has none.",
    )


def test_a_program_that_is_not_installed_is_named_with_the_remedy(served: Served) -> None:
    config = ToolServerConfig("missing", "no-such-program-anywhere", is_on=True)
    served.do(served.host.put(config))
    served.do(served.host.ready(["missing"]))
    assert served.state("missing").problem == (
        "The tool server “missing” could not be started. no-such-program-anywhere was not found. "
        "Install it, or give its whole path."
    )
