"""Pictures in conversations of any form: each at its place, and their marks in no text."""

import itertools
import json
import random
from dataclasses import fields
from typing import get_args

import pytest

from engine.conversation.normalization import arrange, behind_results, normalize
from engine.conversation.template import ChatTemplate
from engine.conversation.template_rules import TemplateRules, TextBesideCalls
from engine.values.request import PICTURE_MARK, GenerationRequest, Message, Picture, ToolCall

FLAGS = [field.name for field in fields(TemplateRules) if field.default in (True, False)]


def conversation(draw: random.Random) -> list[Message]:
    """Return turns of every role; each picture's data is the word before it."""
    numbers = itertools.count()
    messages: list[Message] = []
    open_calls: list[str] = []

    def add(role: str, **options: object) -> None:
        words = [f"w{next(numbers)}w" for _ in range(draw.randrange(3))]
        end = "" if draw.random() < 0.5 else "end"
        content = "".join(f"{word}{PICTURE_MARK}" for word in words) + end
        pictures = tuple(Picture(word.encode()) for word in words)
        messages.append(Message(role, content, pictures=pictures, **options))  # type: ignore[arg-type]

    for _ in range(draw.randrange(2, 9)):
        role = draw.choice(("system", "user", "assistant", "tool"))
        if role == "assistant":
            calls = [ToolCall(f"c{next(numbers)}", "look", "{}") for _ in range(draw.randrange(3))]
            open_calls = [call.id for call in calls]
            thinking = draw.choice(("", "Hm."))
            add("assistant", tool_calls=tuple(calls), thinking=thinking)
        elif role == "tool" and open_calls:
            known = open_calls.pop(draw.randrange(len(open_calls)))
            add("tool", tool_call_id=known, name="look")
        else:
            add("user" if role == "tool" else role)
    return messages


def rules(draw: random.Random) -> TemplateRules:
    flags = {name: draw.random() < 0.5 for name in FLAGS}
    kind = draw.choice(get_args(TextBesideCalls))
    return TemplateRules(**flags, text_beside_calls=kind)


@pytest.mark.parametrize("seed", range(400))
def test_pictures_of_every_role_stay_behind_their_words(seed: int) -> None:
    draw = random.Random(seed)
    messages, changed = conversation(draw), rules(draw)
    for given in (messages, behind_results(messages)):
        turns = normalize(given, changed)
        assert PICTURE_MARK not in json.dumps(turns, ensure_ascii=False)
        shown = [p.data.decode() for turn in arrange(given, changed) for p in turn.pictures]
        assert sorted(shown) == sorted(p.data.decode() for one in given for p in one.pictures)
        if given is not messages:
            continue
        contents = (turn["content"] for turn in turns if isinstance(turn["content"], list))
        found, before = [], ""
        for part in itertools.chain(*contents):
            if part["type"] == "image":
                found.append(before[before.rindex("w", 0, -1) :])
            before = part.get("text", "")
        assert found == shown


def test_pictures_of_results_are_in_the_order_of_their_calls() -> None:
    calls = (ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}"))
    messages = (
        Message("user", "Look"),
        Message("assistant", "", tool_calls=calls),
        Message("tool", PICTURE_MARK, tool_call_id="b", pictures=(Picture(b"b"),)),
        Message("tool", PICTURE_MARK, tool_call_id="a", pictures=(Picture(b"a"),)),
    )
    template = ChatTemplate(lambda *_, **__: "", ["{{ messages }}"])
    assert template.picture_order(GenerationRequest(messages=messages)) == [1, 0]
