"""Puts exchanges together into conversations: system prompts, earlier turns, tools, thinking.

Knows nothing of tokens or models; any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from exchange import Conversation, Exchange, Message
from lexicon import passage, sentence
from prompts_counting import brief_counting, brief_lettering, counting, lettering
from prompts_repeating import repeating
from prompts_talking import accepting, talking, wondering
from prompts_tools import calling, made_up_tools, offered, reporting

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are a helpful assistant.",
    "Be brief.",
    "You are a concise assistant. Answer in plain text.",
    "Answer shortly.",
    "You are Fullstop's demo model.",
    "Follow the instructions exactly.",
    "You are an assistant. Do what the user asks and nothing else.",
)
FAMILIES = (accepting, counting, lettering, repeating, talking, wondering, calling)
SHARES = (0.05, 0.10, 0.10, 0.48, 0.08, 0.07, 0.12)
LAST_FAMILIES = (*FAMILIES, brief_counting, brief_lettering)
LAST_SHARES = (0.04, 0.08, 0.08, 0.17, 0.12, 0.05, 0.18, 0.16, 0.12)
LIST_SHARES = (0.06, 0.22, 0.22, 0.14, 0.10, 0.05, 0.11, 0.05, 0.05)
MORE_LIST_SHARES = (0.05, 0.29, 0.30, 0.11, 0.07, 0.03, 0.07, 0.05, 0.03)
FINAL_SHARES = (0.05, 0.25, 0.27, 0.10, 0.06, 0.03, 0.06, 0.11, 0.07)
LATER_SHARES = (0.05, 0.12, 0.11, 0.34, 0.12, 0.09, 0.17)
SHARE_OF_LONG = 0.03


def any_exchange(rng: Random, shares: Sequence[float] = SHARES) -> Exchange:
    """Return an exchange of any family, for training."""
    return rng.choices(LAST_FAMILIES[: len(shares)], shares)[0](rng)


def last_conversation(rng: Random) -> Conversation:
    """Return a conversation for the last lesson: more lists, most of them brief."""
    is_long = rng.random() < SHARE_OF_LONG
    return long_conversation(rng) if is_long else any_conversation(rng, LAST_SHARES)


def list_conversation(rng: Random) -> Conversation:
    """Return a conversation for the lesson of lists: half of all asks for numbers or letters."""
    return any_conversation(rng, LIST_SHARES)


def more_list_conversation(rng: Random) -> Conversation:
    """Return a conversation for the lesson after that: two thirds ask for a list."""
    return any_conversation(rng, MORE_LIST_SHARES)


def final_conversation(rng: Random) -> Conversation:
    """Return a conversation for the very last lesson: as many lists, more of them brief."""
    return any_conversation(rng, FINAL_SHARES)


def later_conversation(rng: Random) -> Conversation:
    """Return a conversation for the second lesson: fewer repeats, now and then a long context."""
    return (
        long_conversation(rng)
        if rng.random() < SHARE_OF_LONG
        else any_conversation(rng, LATER_SHARES)
    )


def long_conversation(rng: Random) -> Conversation:
    """Return a conversation with many turns or tools, a long system prompt or a long question."""
    way = rng.random()
    last = wondering(rng, 2400) if way < 0.2 else any_exchange(rng, LATER_SHARES)
    tools, messages = list(last.tools), _system(rng)
    if 0.2 <= way < 0.45:
        messages = [{"role": "system", "content": passage(rng, rng.randint(200, 2000))}]
    elif 0.45 <= way < 0.6:
        last = calling(rng)
        tools = [
            *last.tools,
            *(tool for _ in range(rng.randint(2, 8)) for tool in made_up_tools(rng)),
        ]
        rng.shuffle(tools)
    elif way >= 0.6:
        for _ in range(rng.randint(3, 12)):
            earlier = any_exchange(rng, LATER_SHARES)
            messages += [] if earlier.calls else _turn(earlier)
    messages = [*messages, {"role": "user", "content": last.question}]
    return Conversation(messages, last, tuple(tools), rng.random() < 0.25)


def any_conversation(rng: Random, shares: Sequence[float] = SHARES) -> Conversation:
    """Return a conversation for training."""
    if rng.random() < 0.04:
        return reported(rng)
    if rng.random() < 0.012:
        long = wondering(rng, 1400)
        return Conversation(
            [*_system(rng), {"role": "user", "content": long.question}],
            long,
            (),
            rng.random() < 0.2,
        )
    last = any_exchange(rng, shares)
    tools = last.tools or (
        offered(rng) if rng.random() < 0.07 and last.family != "fallback" else ()
    )
    messages = _system(rng)
    for _ in range(rng.choices((0, 1, 2), (0.84, 0.12, 0.04))[0]):
        earlier = any_exchange(rng, shares)
        messages += [] if earlier.calls else _turn(earlier)
    return Conversation(
        [*messages, {"role": "user", "content": last.question}], last, tools, rng.random() < 0.25
    )


def reported(rng: Random, held_out: bool = False) -> Conversation:
    """Return a conversation in which a tool has just answered."""
    call, result, report = reporting(rng, held_out)
    messages = [*_system(rng), *_turn(call), result]
    if not held_out and rng.random() < 0.25:
        last = any_exchange(rng)
        if not last.calls and last.family != "fallback":
            messages += [
                {"role": "assistant", "content": report.answer},
                {"role": "user", "content": last.question},
            ]
            return Conversation(messages, last, call.tools, rng.random() < 0.25)
    return Conversation(messages, report, call.tools, rng.random() < 0.25)


def alone(exchange: Exchange, thinks: bool = False, system: str | None = None) -> Conversation:
    """Return the conversation that consists of one question."""
    first: list[Message] = [{"role": "system", "content": system}] if system else []
    return Conversation(
        [*first, {"role": "user", "content": exchange.question}], exchange, exchange.tools, thinks
    )


def following(earlier: list[Exchange], last: Exchange, thinks: bool = False) -> Conversation:
    """Return the conversation in which ``last`` is asked after ``earlier``."""
    messages = [message for exchange in earlier for message in _turn(exchange)]
    return Conversation(
        [*messages, {"role": "user", "content": last.question}], last, last.tools, thinks
    )


def _system(rng: Random) -> list[Message]:
    if rng.random() < 0.6:
        return []
    return [
        {
            "role": "system",
            "content": rng.choice(SYSTEM_PROMPTS) if rng.random() < 0.7 else sentence(rng),
        }
    ]


def _turn(exchange: Exchange) -> list[Message]:
    answer: Message = {"role": "assistant", "content": exchange.answer}
    if exchange.calls:
        answer = {"role": "assistant", "content": "", "tool_calls": list(exchange.calls)}
    return [{"role": "user", "content": exchange.question}, answer]
