"""Which text of a prompt each part of its request became, and the parts that became none."""

import json
import time
from collections.abc import Callable

import pytest

from api.dialects.shared.requests import note_of
from engine.conversation.prompt_parts import RenderedPrompt
from engine.errors import InvalidRequest
from engine.values.request import PICTURE_MARK, GenerationRequest, Message, Tool, ToolCall

TURNS = (
    Message("system", "Be brief."),
    Message("user", "Be brief. Go?"),
    Message("assistant", " Go.\n", thinking="Hm", tool_calls=(ToolCall("a", "look", '{"n": 1}'),)),
    Message("user", "Go?"),
)
_ESCAPED = [f"\n{number}" for number in range(30_000)]
LOOK = Tool("look", "", {"type": "object"})


def rendered(render: Callable[[GenerationRequest], str]) -> RenderedPrompt:
    request = GenerationRequest(messages=TURNS, tools=(LOOK,))
    return RenderedPrompt(render(request), 1, request, render)


def without_systems(request: GenerationRequest) -> str:
    return "".join(f"<{turn.role}>{turn.content}" for turn in request.messages[1:])


def test_dropped_text_that_another_message_has_is_missing() -> None:
    prompt = rendered(without_systems)
    texts = [(part.field, prompt.text[part.start : part.end]) for part in prompt.parts]
    assert texts == [
        ("messages.1.content", "Be brief. Go?"),
        ("messages.2.content", "Go."),
        ("messages.3.content", "Go?"),
    ]
    gone = ["messages.0.content", "messages.2.reasoning_content", "messages.2.tool_calls.0"]
    assert prompt.missing == (*gone, "tools.look")


@pytest.mark.parametrize(
    "turn",
    [
        Message("user", f"zqfs{'1' * 5000}aqz"),
        Message("assistant", "", tool_calls=(ToolCall("a", "look", "[" * 100_000),)),
        Message("assistant", "", tool_calls=(ToolCall("a", "look", json.dumps(_ESCAPED)),)),
    ],
    ids=["digits", "depth", "values"],
)
def test_hostile_turn_has_its_part_in_little_time(turn: Message) -> None:
    began_s = time.process_time()
    written = [call.arguments for call in turn.tool_calls]
    request = GenerationRequest(messages=(turn,))

    def render(request: GenerationRequest) -> str:
        [shown] = request.messages
        return f"{shown.content}{''.join(call.name for call in shown.tool_calls)}{written}"

    assert RenderedPrompt(render(request), 1, request, render).parts
    assert time.process_time() - began_s < 2


def test_note_in_the_place_of_an_image_is_a_part_of_its_message() -> None:
    note = note_of((), "image/png", is_allowed=True)
    request = GenerationRequest(messages=(Message("user", f"{note}\nWhat is it?"),))
    render: Callable[[GenerationRequest], str] = lambda request: request.messages[0].content  # noqa: E731
    prompt = RenderedPrompt(render(request), 1, request, render)
    fields = {part.field: prompt.text[part.start : part.end] for part in prompt.parts}
    assert fields == {"messages.0.content": prompt.text, "messages.0.content (image)": note}


@pytest.mark.parametrize(
    ("content", "pictures"),
    [
        (f"See {PICTURE_MARK} here.", ["<pad><pad>"]),
        (f"{PICTURE_MARK}See{PICTURE_MARK}", ["<pad><pad>", "<pad><pad>"]),
        (f"{PICTURE_MARK}{PICTURE_MARK}", ["<pad><pad><pad><pad>"]),
    ],
)
def test_placeholders_of_pictures_are_parts_of_their_message(
    content: str, pictures: list[str]
) -> None:
    request = GenerationRequest(messages=(Message("user", content),))
    render: Callable[[GenerationRequest], str] = lambda request: (  # noqa: E731
        f"<user>{request.messages[0].content}</user>".replace(PICTURE_MARK, "<pad><pad>")
    )
    prompt = RenderedPrompt(render(request), 1, request, render)
    first, *others = [prompt.text[part.start : part.end] for part in prompt.parts]
    assert f"<user>{first}</user>" == prompt.text
    assert [other.strip() for other in others] == pictures
    assert prompt.missing == ()


def test_end_of_a_text_is_a_part_and_its_beginning_missing() -> None:
    render: Callable[[GenerationRequest], str] = lambda request: "".join(  # noqa: E731
        turn.content.split("brief")[-1] for turn in request.messages
    )
    prompt = rendered(render)
    assert [prompt.text[part.start : part.end] for part in prompt.parts][:2] == [".", ". Go?"]
    assert prompt.missing[:2] == ("messages.0.content (in part)", "messages.1.content (in part)")


def test_template_that_refuses_marks_has_no_known_parts() -> None:
    def refuse_marks(request: GenerationRequest) -> str:
        if request.messages != TURNS:
            raise InvalidRequest("messages", "refused")
        return "text"

    prompt = rendered(refuse_marks)
    assert prompt.parts == prompt.missing == ()


@pytest.mark.parametrize(
    ("content", "decoded"),
    [("A cafe\u0301.", "A caf\u00e9."), ("Is \u2581 a sign?", "Is   a sign?")],
    ids=["composed", "sentence_piece"],
)
def test_parts_are_found_where_the_tokenizer_changes_text(content: str, decoded: str) -> None:
    request = GenerationRequest(messages=(Message("user", content), Message("user", "Go?")))

    def render(request: GenerationRequest) -> str:
        return "12:01 " + " ".join(turn.content for turn in request.messages)

    text = render(request).replace(content, decoded).replace("12:01", "at 12:02")
    prompt = RenderedPrompt(text, 1, request, render)
    found = [text[part.start : part.end] for part in prompt.parts]
    assert found == [decoded, "Go?"]
    assert prompt.missing == ()
