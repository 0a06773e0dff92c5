"""Pictures in the records of prompts: their parts, what was read again, and no marks in texts."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_vlm")

from api.server.routes import DIALECTS
from engine.engine import Engine
from engine.files.json_fields import to_values
from engine.values.events import PromptPart
from engine.values.figures import describe_difference
from engine.values.request import (
    PICTURE_MARK,
    CacheOwner,
    GenerationRequest,
    Message,
    Sampling,
    ToolCall,
)
from tests.support.models.seeing import picture, question, write_seeing_model
from ui.inspector.shown_run import question_text

RED, BLUE, TALL = picture("red"), picture("blue"), picture("green", (32, 160))
LATER = "one two three four five six seven " * 8
CALL = ToolCall("c1", "look", "{}")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    write_seeing_model(tmp_path)
    engine = Engine()
    asyncio.run(engine.load(tmp_path))
    yield engine
    asyncio.run(engine.aclose())


async def answer(engine: Engine, *messages: Message) -> Any:
    request = GenerationRequest(
        messages=messages,
        max_tokens=2,
        sampling=Sampling(temperature=0),
        cache_owner=CacheOwner("me", "a"),
    )
    return (await (await engine.generate(request)).collect()).finished


async def test_changed_picture_is_named_where_a_prompt_is_read_again(engine: Engine) -> None:
    system = Message("system", "Look.")

    def asked(shown: Any) -> tuple[Message, ...]:
        done = Message("assistant", "A wall.")
        return system, question("First?", RED), done, question(LATER, BLUE, shown)

    await answer(engine, *asked(RED))
    found = (await answer(engine, *asked(TALL))).usage.prompt_difference
    assert (found.part, found.message, found.role) == (PromptPart.PICTURE, 3, "user")
    assert found.here == found.before == ""
    assert "a picture in message 3 (user) differs" in describe_difference(found)
    changed = (system, question("Second?", RED), *asked(RED)[2:])
    assert (await answer(engine, *changed)).usage.prompt_difference.part is PromptPart.MESSAGE


async def test_tokens_of_pictures_are_those_of_their_message(engine: Engine) -> None:
    messages = (Message("system", "Look."), question("Why?", RED, TALL))
    prompt = await engine.render_prompt(GenerationRequest(messages=messages))
    [whole] = [part for part in prompt.parts if part.field == "messages.1.content"]
    [shown] = [part for part in prompt.parts if part.field.endswith("(image)")]
    assert prompt.text[shown.start : shown.end].count("<|image_pad|>") == 6 + 5
    assert (whole.start, whole.message) == (shown.start, shown.message)


async def test_prompt_has_the_indices_and_positions_of_each_picture(engine: Engine) -> None:
    messages = (Message("system", "Look."), question("Why?", RED, TALL))
    prompt = await engine.render_prompt(GenerationRequest(messages=messages))
    red, tall = prompt.pictures
    assert (red.picture, red.tokens, red.grid) == (0, 6, (2, 3))
    assert (tall.picture, tall.tokens, tall.grid) == (1, 5, (5, 1))
    pads = [index for index, piece in enumerate(prompt.pieces) if piece == "<|image_pad|>"]
    assert pads == [*range(red.first, red.last + 1), *range(tall.first, tall.last + 1)]
    at = red.first
    assert red.positions == ((at, at, at), (at, at + 1, at + 2))
    behind = at + 3 + tall.first - red.last - 1  # a picture takes as many as its longer side
    assert tall.positions == ((behind, behind, behind), (behind, behind + 4, behind))


async def test_marked_prompt_is_the_same_as_a_raw_one(engine: Engine) -> None:
    request = GenerationRequest(messages=(question("Why?", RED, TALL),))
    prompt = await engine.render_prompt(request)
    raw = GenerationRequest(prompt=prompt.marked, pictures=request.all_pictures)
    assert prompt.marked.count("<|image_pad|>") == 2
    assert (await engine.render_prompt(raw)).tokens == prompt.tokens


async def test_marks_of_pictures_are_in_no_text(engine: Engine) -> None:
    look = f"See {PICTURE_MARK} now"
    messages = (
        Message("system", look, pictures=(RED,)),
        Message("user", look, pictures=(BLUE,)),
        Message("assistant", look, tool_calls=(CALL,), pictures=(TALL,)),
        Message("tool", look, tool_call_id="c1", name="look", pictures=(RED,)),
        Message("user", PICTURE_MARK + LATER, pictures=(BLUE,)),
    )
    request = GenerationRequest(messages=messages, max_tokens=2)
    prompt = await engine.render_prompt(request)
    finished = await answer(engine, *messages)
    texts = [
        json.dumps(to_values(prompt), ensure_ascii=False),
        json.dumps(to_values(finished), ensure_ascii=False),
        question_text(request),
        *(
            json.dumps(dialect.request_body(request, "m", prompt.text), ensure_ascii=False)
            for dialect in DIALECTS
        ),
    ]
    assert [text for text in texts if PICTURE_MARK in text] == []
    assert prompt.missing == ()


async def test_fork_has_the_pictures_of_results_in_the_order_of_its_prompt(tmp_path: Path) -> None:
    write_seeing_model(tmp_path)
    file = tmp_path / "chat_template.jinja"
    unseen = "{%- if message.role == 'tool' and part.type == 'image' %}{%- elif part.type"
    file.write_text(file.read_text().replace("{%- if part.type", unseen))
    calls = (CALL, ToolCall("c2", "look", "{}"))
    messages = (
        question("Look"),
        Message("assistant", "", tool_calls=calls),
        Message("tool", PICTURE_MARK, tool_call_id="c2", pictures=(RED,)),
        Message("tool", PICTURE_MARK, tool_call_id="c1", pictures=(BLUE,)),
    )
    request = GenerationRequest(messages=messages)
    with closing(Engine()) as engine:
        await engine.load(tmp_path)
        prompt = await engine.render_prompt(request)
        fork = await engine.render_prompt(replace(request, rendered=tuple(prompt.tokens)))
        assert [one.picture for one in fork.pictures] == [one.picture for one in prompt.pictures]
