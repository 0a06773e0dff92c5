"""Where a prompt differs from an earlier one of its owner: the place, the part and the texts."""

import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load

from engine.conversation.prompt_parts import RenderedPrompt
from engine.inference.cache.recent_prompts import RecentPrompts
from engine.inference.mlx_lm_internals import inner_tokenizer
from engine.inference.text import chat_template, encoded, render
from engine.output.vocabulary import decode_ids
from engine.values.events import PromptDifference, PromptPart
from engine.values.request import GenerationRequest, Message, Tool, ToolCall
from tests.support.families.templates import TEMPLATES
from tests.support.scripted import write_tokenizer

PAIRS = 500
DATED = (
    "<|start|>system\nKnowledge cutoff: 2024-06\nToday: {{ today or '26 Jul 2026' }}\n"
    "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    "{% if tools %}\n# Tools{% for t in tools %}\n{{ t | tojson }}{% endfor %}{% endif %}<|end|>\n"
    "{% for m in messages if m.role != 'system' %}<|start|>{{ m.role }}\n"
    "{% if m.reasoning_content and (loop.last or keep) %}<think>\n{{ m.reasoning_content }}\n"
    "</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function | tojson }}{% endfor %}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n"
    "{% if enable_thinking is true %}<think>\n{% elif enable_thinking is false %}"
    "<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
FAMILIES = {**{name: TEMPLATES[name] for name in ("llama31", "mistral", "qwen3")}, "dated": DATED}
_WORDS = (
    "alpha river stone window seven yellow market engine paper cloud orbit ladder quiet "
    "copper maple signal harbor violet thunder meadow crystal basket lantern pocket"
)
WORDS = _WORDS.split()
FIND = Tool("find", "Finds a place by its name on a map.", {"type": "object", "properties": {}})
READ = Tool("read_file", "Reads one file of the project.", {"type": "object", "properties": {}})
WRITE = Tool("write_file", "Replaces the text of one file.", {"type": "object", "properties": {}})


SPECIAL = (
    "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
    "[INST]", "[/INST]", "<think>", "</think>",
)  # fmt: skip
ROLES = ("system", "user", "assistant")


class Prompts:
    """The prompts of one tokenizer, of which the last ones are kept."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.recent = RecentPrompts()
        self._template = chat_template(tokenizer)
        self._model: Any = SimpleNamespace(
            id="m", context_length=1 << 20, longest_token_bytes=None, vocabulary_size=1 << 20
        )

    def render(self, request: GenerationRequest) -> tuple[list[int], RenderedPrompt]:
        tokens, _, rendered, _ = render(self.tokenizer, request, self._model, self._template)
        return tokens, rendered

    def add(
        self, request: GenerationRequest, answer: str, owner: str = "me", thinking: str = ""
    ) -> list[int]:
        tokens, rendered = self.render(request)
        thinking_tokens = encoded(self.tokenizer, thinking)
        rendered = replace(rendered, thinks=rendered.text.endswith("<think>\n"))
        held = [*tokens, *thinking_tokens, *encoded(self.tokenizer, answer)]
        self.recent.add(owner, held, rendered, len(thinking_tokens))
        return held

    def difference(self, request: GenerationRequest, owner: str = "me") -> PromptDifference | None:
        tokens, rendered = self.render(request)
        decode = partial(decode_ids, inner_tokenizer(self.tokenizer))
        return self.recent.difference(owner, tokens, rendered, decode)


@pytest.fixture(scope="module", params=list(FAMILIES))
def prompts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prompts:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder, template=FAMILIES[request.param], special=SPECIAL, pieces=ROLES)
    return Prompts(load(folder))


def conversation(draw: random.Random, turns: int = 3) -> GenerationRequest:
    def text(least: int = 8) -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(least, 20)))

    messages = [Message("system", f"You help. {text()}.\nBranch: main\n{text()}")]
    for index in range(turns):
        messages.append(Message("user", f"Hi {text()}"))
        if index % 2:
            call = ToolCall(f"call{index}abcd", "find", json.dumps({"name": text()}))
            messages.append(Message("assistant", "", tool_calls=(call,)))
            messages.append(Message("tool", text(), tool_call_id=call.id, name="find"))
        messages.append(Message("assistant", f"So: {text()}"))
    messages.append(Message("user", text()))
    return GenerationRequest(messages=tuple(messages), tools=(FIND, READ))


def with_message(request: GenerationRequest, index: int, content: str) -> GenerationRequest:
    messages = list(request.messages)
    messages[index] = replace(messages[index], content=content)
    return replace(request, messages=tuple(messages))


def changed(
    request: GenerationRequest, draw: random.Random
) -> tuple[GenerationRequest, PromptPart, int]:
    """Return a request with one change, and the part and message that it is in."""
    messages = request.messages
    kind = draw.choice(["system", "system line", "tools", "tools", "message", "message", "removed"])
    if kind == "system":
        return with_message(request, 0, messages[0].content + " Be brief."), PromptPart.SYSTEM, 0
    if kind == "system line":
        text = messages[0].content.replace("Branch: main", "Branch: topic")
        return with_message(request, 0, text), PromptPart.SYSTEM, 0
    if kind == "tools":
        tools = draw.choice(
            [(READ, FIND), (FIND, READ, WRITE), (FIND,), (READ,), (FIND, WRITE),
             (replace(FIND, description="Finds a place by its name, anywhere."), READ)]
        )  # fmt: skip
        return replace(request, tools=tools), PromptPart.TOOLS, 0
    places = [
        index
        for index, message in enumerate(messages[:-2])
        if message.role == "user" or (message.role != "system" and message.content)
    ]
    if kind == "removed":  # a question and all up to the next
        questions = [index for index in places if messages[index].role == "user"]
        first = questions[0]
        rest = messages[:first] + messages[questions[1] :]
        return replace(request, messages=rest), PromptPart.MESSAGE, first
    index = draw.choice(places)
    text = messages[index].content
    edited = draw.choice([text + " again", text[: len(text) // 2], "Entirely else.", text.title()])
    return with_message(request, index, edited), PromptPart.MESSAGE, index


def test_pairs_of_prompts_with_one_change_name_its_place_and_part(prompts: Prompts) -> None:
    draw = random.Random(40)
    for pair in range(PAIRS // len(FAMILIES)):
        request = conversation(draw, turns=draw.randint(2, 4))
        prompts.recent.clear()
        before = prompts.add(request, "Well, that is a long answer of many words.")
        other, part, message = changed(request, draw)
        after, rendered = prompts.render(other)
        old_text = prompts.render(request)[1].text
        equal = next(
            index for index, (one, two) in enumerate(zip(before, after, strict=False)) if one != two
        )
        found = prompts.difference(other)
        assert found is not None, (pair, part)
        assert (found.part, found.message) == (part, message), (pair, part, message, found)
        assert found.token_index == equal
        assert found.here in rendered.text
        assert found.before in old_text
        assert found.here != found.before
        assert 16 <= found.read_again <= len(after) - equal


def test_date_of_a_template_is_named(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, template=DATED)
    prompts = Prompts(load(tmp_path))
    request = conversation(random.Random(1))
    for old, new in (("27 Nov 2026", "28 Nov 2026"), ("2026-11-28", "2026-12-01")):
        prompts.recent.clear()
        prompts.add(replace(request, template_options={"today": old}), "Yes.")
        found = prompts.difference(replace(request, template_options={"today": new}))
        assert found is not None
        assert found.part is PromptPart.DATE
        assert new in found.here
        assert old in found.before


def next_turn(request: GenerationRequest, answer: str, thinking: str = "") -> GenerationRequest:
    more = (Message("assistant", answer, thinking=thinking), Message("user", "And the next one?"))
    return replace(request, messages=(*request.messages, *more))


ANSWER = "The lantern is in the harbor, behind the copper ladder and the seven baskets."


@pytest.mark.parametrize(
    ("thinking", "kept", "expected"),
    [(True, False, PromptPart.THINKING), (False, False, PromptPart.ANSWER_OPENING)],
)
def test_next_turn_without_reasoning_names_what_was_stripped(
    tmp_path: Path, thinking: bool, kept: bool, expected: PromptPart
) -> None:
    write_tokenizer(tmp_path, template=DATED)
    prompts = Prompts(load(tmp_path))
    request = replace(conversation(random.Random(2)), thinking=thinking)
    thoughts = "They ask for the lantern.\n</think>\n\n" if thinking else ""
    prompts.add(request, ANSWER, thinking=thoughts)
    found = prompts.difference(next_turn(request, ANSWER))
    assert found is not None
    assert found.part is expected
    assert found.message == request_messages(request) + 1
    assert ANSWER[:20] in found.here


def request_messages(request: GenerationRequest) -> int:
    return sum(message.role != "system" for message in request.messages)


def test_reasoning_that_a_template_drops_from_an_earlier_turn_is_named(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, template=DATED)
    prompts = Prompts(load(tmp_path))
    request = next_turn(conversation(random.Random(3)), ANSWER, "They ask for the lantern.")
    kept = {"keep": True}
    prompts.add(replace(request, template_options=kept), "Yes.")
    found = prompts.difference(request)
    assert found is not None
    assert found.part is PromptPart.THINKING
    assert found.message == request_messages(request) - 1
    assert "They ask for" in found.before
    assert "They ask for" not in found.here


def test_next_turn_and_equal_prompts_have_no_difference(prompts: Prompts) -> None:
    prompts.recent.clear()
    request = GenerationRequest(messages=(Message("user", "Where is the lantern?"),))
    tokens, rendered = prompts.render(request)
    prompts.recent.add("me", tokens, rendered, 0)
    assert prompts.difference(request) is None
    assert prompts.difference(replace(request, messages=(Message("user", "Else?"),))) is None


def test_same_text_in_other_tokens_is_named(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, template=DATED, pieces=["lantern"])
    prompts = Prompts(load(tmp_path))
    request = conversation(random.Random(5))
    tokens, rendered = prompts.render(request)
    letters = [part for char in ANSWER for part in encoded(prompts.tokenizer, char)]
    prompts.recent.add("me", [*tokens, *letters], rendered, 0)
    found = prompts.difference(next_turn(request, ANSWER))
    assert found is not None
    assert found.part is PromptPart.TOKENS
    assert found.message == request_messages(request) + 1


def test_owners_never_see_texts_of_each_other(prompts: Prompts) -> None:
    prompts.recent.clear()
    request = conversation(random.Random(6))
    prompts.add(request, "Yes.", owner="other")
    changed_request = with_message(request, 1, "Else.")
    assert prompts.difference(changed_request) is None
    prompts.add(with_message(request, 0, "Mine alone."), "No.")
    found = prompts.difference(changed_request)
    assert found is not None
    assert "Mine alone" in found.before
    prompts.recent.clear("me")
    assert prompts.difference(changed_request) is None
    assert prompts.difference(changed_request, owner="other") is not None


def test_recent_prompts_stay_within_their_memory() -> None:
    recent = RecentPrompts()
    for index in range(100):
        recent.add("me", [index] * 250_000, RenderedPrompt(), 0)
    assert sum(prompt.size_bytes for prompt in recent._prompts) <= 32 << 20
    for size in range(1, 5):
        recent.add("you", [1] * 1000 * size, RenderedPrompt(), 0)
    assert sum(prompt.owner == "you" for prompt in recent._prompts) == 1
