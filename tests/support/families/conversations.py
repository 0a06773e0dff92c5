"""Random conversations that vendors' APIs allow, and what must hold of their prompts.

Every text of a conversation has a word of its own, so that what is missing from a prompt shows.
"""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.values.request import Message, ToolCall

# Renders messages without the header of an answer; raises whatever fails.
RenderTurns = Callable[[Sequence[Message]], str]
_NAMES = ("read_file", "search", "run")


@dataclass
class _Words:
    random: random.Random
    numbers: Iterator[int]

    def next(self, kind: str) -> str:
        return f"{kind}{next(self.numbers):03d}word"

    def maybe(self, kind: str, probability: float = 0.7) -> str:
        return self.next(kind) if self.random.random() < probability else ""


def random_conversation(seed: int) -> tuple[Message, ...]:
    """Return a conversation of up to about 20 turns, which the model would answer next."""
    draw = random.Random(seed)
    words = _Words(draw, itertools.count(1))
    turns = [Message("system", words.next("sys")) for _ in range(draw.choice((0, 1, 1, 2)))]
    calls: tuple[ToolCall, ...] = ()
    for _ in range(draw.randint(1, 5)):
        turns += _segment(words, calls)
        for _ in range(draw.choice((1, 1, 1, 1, 2))):
            turns.append(_answer(words))
        calls = turns[-1].tool_calls
    if draw.random() < 0.9:
        turns += _segment(words, calls)
    return tuple(turns)


def _segment(words: _Words, calls: Sequence[ToolCall]) -> list[Message]:
    """Return the turns between two answers."""
    draw = words.random
    results = [
        Message("tool", words.maybe("result", 0.9), tool_call_id=call.id)
        for call in calls
        if draw.random() < 0.9
    ]
    draw.shuffle(results)
    if draw.random() < 0.1:
        results.append(Message("tool", words.next("orphan"), tool_call_id="call_of_trimmed_turn"))
    others = [Message("user", words.maybe("user", 0.95)) for _ in range(draw.choice((0, 1, 1, 2)))]
    if not results and not others:
        others = [Message("user", words.next("user"))]
    if draw.random() < 0.3:
        others.insert(draw.randint(0, len(others)), Message("system", words.next("sys")))
    if others and draw.random() < 0.1:  # as Anthropic's API has text before results
        return [others[0], *results, *others[1:]]
    return [*results, *others]


def _answer(words: _Words) -> Message:
    draw = words.random
    calls = tuple(_call(words) for _ in range(draw.choice((0, 0, 1, 1, 2, 3))))
    thinking = words.maybe("think", 0.4)
    return Message("assistant", words.maybe("answer"), thinking=thinking, tool_calls=calls)


def _call(words: _Words) -> ToolCall:
    draw = words.random
    value = words.next("value")
    whole = json.dumps({"path": value, "count": 3, "all": True, "no": None, "in": {"a": [value]}})
    arguments = draw.choice(
        (
            *(whole,) * 6,
            "{}",
            "",
            whole[: whole.index(value) + len(value)],  # cut by a limit
            json.dumps([value]),
            f"{value} is no JSON",
            json.dumps(value),
        )
    )
    call_id = draw.choice((f"call_{next(words.numbers):020d}", "call_1", "0"))
    return ToolCall(call_id, draw.choice(_NAMES), arguments)


def file_caption(messages: Sequence[Message]) -> Iterator[str]:
    """Yield what a prompt of a conversation must have, thinking excepted."""
    for message in messages:
        yield message.content.strip()  # templates trim
        for call in message.tool_calls:
            yield call.name
            yield from (word for word in _split(call.arguments) if word.endswith("word"))


def _split(text: str) -> Iterator[str]:
    return (
        "".join(group) for is_word, group in itertools.groupby(text, key=str.isalnum) if is_word
    )


def missing_words(messages: Sequence[Message], prompt: str) -> list[str]:
    """Return what was accepted and is not in the prompt."""
    return [word for word in file_caption(messages) if word not in prompt]


def without_thinking(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return a conversation without the thinking, which templates drop from earlier turns."""
    return tuple(replace(message, thinking="") for message in messages)


def unstable_turns(messages: Sequence[Message], render: RenderTurns) -> list[int]:
    """Return the answers whose prompts are no prefixes of that of the whole conversation."""
    whole = render(messages)
    return [
        position
        for position, message in enumerate(messages)
        if message.role == "assistant"
        and position > 0
        and messages[position - 1].role != "assistant"
        and not whole.startswith(render(messages[:position]))
    ]
