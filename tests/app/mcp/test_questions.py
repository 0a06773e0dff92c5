"""Elicitation, progress and pictures of real MCP servers, over stdio and streamable HTTP."""

import asyncio
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from app.mcp.conversion import convert_elicitation
from tests.app.mcp.served import SERVERS, Served, free_port, listening
from tests.app.mcp.servers.plain import PIXEL
from tests.support.random_cases import few_of
from ui.records.tool_servers import (
    QuestionField,
    QuestionReply,
    ServerQuestion,
    ToolServerConfig,
    ToolsRefused,
)

WAYS = ["stdio", "mcp"]


@pytest.fixture(params=few_of(WAYS, 1))
def asking(request: pytest.FixtureRequest, served: Served) -> Iterator[Served]:
    program = str(SERVERS / "plain.py")
    if request.param == "stdio":
        config = ToolServerConfig("plain", sys.executable, (program,), is_on=True)
        served.do(served.host.put(config))
        served.do(served.host.ensure_ready(["plain"]))
        yield served
        return
    port = free_port()
    with listening(served, "plain.py", port, "mcp"):
        url = f"http://127.0.0.1:{port}/mcp"
        served.do(served.host.put(ToolServerConfig("plain", url=url, is_on=True)))
        served.do(served.host.ensure_ready(["plain"]))
        assert served.state("plain").problem == ""
        yield served
        served.do(served.host.remove("plain"))


def test_elicitation_form_and_its_reply(asking: Served) -> None:
    asking.replies += [
        QuestionReply("accept", {"city": "Ghent", "days": 2, "by_train": True}),
        QuestionReply("decline"),
    ]
    assert asking.call("plain", "book") == ("Ghent, 2 days, by train: True", False)
    assert asking.questions[0] == ServerQuestion(
        "plain",
        "Where do you want to go?",
        (
            QuestionField("city", "City", "Where to", "text", True),
            QuestionField("days", "Days", "", "integer", default=3, minimum=1, maximum=30),
            QuestionField("by_train", "By train", "", "boolean", default=False),
        ),
    )
    assert asking.call("plain", "book") == ("not booked: decline", False)


def test_elicitation_address_is_passed_on(asking: Served) -> None:
    asking.replies.append(QuestionReply("accept"))
    assert asking.call("plain", "sign_in") == ("accept", False)
    assert asking.questions[0].url == "https://example.org/in?a=1"


def test_elicitation_time_does_not_count_for_the_call_timeout(asking: Served) -> None:
    async def think(question: ServerQuestion) -> QuestionReply:
        await asyncio.sleep(1.5)
        return QuestionReply("accept", {"city": "Ghent"})

    asking.call_timeout_s = 1
    tool = asking.tool("plain", "book")
    answer = asking.do(asking.host.call(tool, {}, lambda *_: None, think))
    assert answer.text.startswith("Ghent")


@pytest.mark.parametrize(
    ("wait_s", "text"), [(0.0, "Ghent, Ghent"), (600.0, "timed out after 2 s")]
)
def test_concurrent_elicitations_are_shown_one_after_another(
    asking: Served, wait_s: float, text: str
) -> None:
    shown: list[str] = []

    async def reply(question: ServerQuestion) -> QuestionReply:
        assert not shown
        shown.append(question.message)
        await asyncio.sleep(0.2)
        shown.clear()
        return QuestionReply("accept", {"city": "Ghent"})

    asking.call_timeout_s = 2.0
    tool = asking.tool("plain", "ask_twice")
    call = asking.host.call(tool, {"wait_s": wait_s}, lambda *_: None, reply)
    try:
        result = asking.runner.run(asyncio.wait_for(call, 20)).text
    except ToolsRefused as refused:
        result = str(refused)
    assert text in result


def test_cancelled_call_cancels_its_elicitation(asking: Served) -> None:
    taken_back = []

    async def stop_it() -> None:
        asked = asyncio.Event()

        async def waiting(question: ServerQuestion) -> QuestionReply:
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                taken_back.append(question.message)
                raise
            raise AssertionError

        tool = asking.tool("plain", "book")
        call = asyncio.create_task(asking.host.call(tool, {}, lambda *_: None, waiting))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while not taken_back:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    asking.do(stop_it())
    assert asking.call("plain", "add", a=1, b=1) == ("2", False)


def test_progress_and_pictures_of_a_call(asking: Served) -> None:
    told: list[tuple[float, float | None, str]] = []
    tool = asking.tool("plain", "count")
    answer = asking.do(asking.host.call(tool, {}, lambda *said: told.append(said), asking.reply))
    assert answer.text == "counted"
    assert told
    assert set(told) <= {(1.0, 3.0, "at 1"), (2.0, 3.0, "at 2"), (3.0, 3.0, "at 3")}
    drawn = asking.answer("plain", "draw")
    [picture] = drawn.pictures
    assert picture.startswith(b"\x89PNG")
    assert drawn.text.splitlines()[0] == "drawn"
    assert "[image image/png, 70 bytes]" in drawn.text


def test_pictures_of_resources_and_links_are_those_of_the_call(asking: Served) -> None:
    linked = asking.answer("plain", "link")
    assert linked.pictures == (PIXEL, PIXEL)
    assert linked.text.splitlines() == [
        "[image/png, 70 bytes]",
        "[resource photos://dot: dot]",
        "[image/png, 70 bytes]",
        "[resource photos://none: none]",
    ]


def form(**properties: Any) -> Any:
    return SimpleNamespace(
        mode="form", message="m\x1b", requested_schema={"properties": properties, "required": ["a"]}
    )


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        (
            {"type": "string", "enum": ["x", "y"], "enumNames": ["X!", "Y!"]},
            QuestionField("a", "a", "", "choice", True, (("x", "X!"), ("y", "Y!"))),
        ),
        (
            {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 1},
            QuestionField("a", "a", "", "choices", True, (("x", "x"), ("y", "y")), maximum=1),
        ),
        (
            {"type": "string", "format": "email", "maxLength": 9},
            QuestionField("a", "a", "", "text", True, maximum=9, format="email"),
        ),
        (
            {"type": "number", "minimum": float("nan"), "title": "\x1b[2J"},
            QuestionField("a", "\ufffd[2J", "", "number", True),
        ),
    ],
)
def test_elicitation_field_kinds(schema: dict[str, Any], field: QuestionField) -> None:
    assert convert_elicitation("s", form(a=schema)) == ServerQuestion("s", "m\ufffd", (field,))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (form(a={"type": "object"}), "a type that no form field has"),
        (form(a="text"), "the property a must be an object"),
        (form(**{f"f{n}": {"type": "string"} for n in range(31)}), "more than 30 properties"),
        (SimpleNamespace(mode="url", message="m", url="file:///etc/passwd"), "begins with https"),
        (SimpleNamespace(mode="url", message="m", url="https://[x"), "Invalid IPv6 URL"),
    ],
)
def test_invalid_elicitation_is_refused(asked: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        convert_elicitation("s", asked)
