"""A client sees the faults of the fourth set of servers."""

import re
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from tests.api.conformance.probe.family import held_back_fourth as fourth
from tests.api.conformance.probe.family.held_back import HeldBack
from tests.api.conformance.probe.family.server import FamilyServer
from tests.support.asking import run

Body = dict[str, Any]
PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}}
NOTE = {"name": "note", "parameters": PARAMETERS}
CALL = "Call the tool"


def chat(prompt: str, **more: Any) -> Body:
    """Return a request of Chat Completions."""
    return {"messages": [{"role": "user", "content": prompt}], "max_tokens": 90, **more}


def thinking(prompt: str, **more: Any) -> Body:
    """Return the same with thinking."""
    return chat(prompt, chat_template_kwargs={"enable_thinking": True}, **more)


def calling(**more: Any) -> Body:
    """Return a request that gets a call."""
    return chat(CALL, tools=[{"type": "function", "function": NOTE}], **more)


def messages(prompt: str, **more: Any) -> Body:
    """Return a request of Messages that wants a stream."""
    return chat(prompt, **{"stream": True, **more})


def using(**more: Any) -> Body:
    """Return a request of Messages that gets a call."""
    return messages(CALL, tools=[{"name": "note", "input_schema": PARAMETERS}], **more)


def completions(prompt: str, **more: Any) -> Body:
    """Return a request of Completions."""
    return {"prompt": prompt, "max_tokens": 90, **more}


def responses(**more: Any) -> Body:
    """Return a request of Responses."""
    return {"input": "Repeat exactly: red green blue", "max_output_tokens": 90, **more}


def generate(stop: str, limit: int, **more: Any) -> Body:
    """Return a request of /generate."""
    sampling = {"stop": [stop], "max_new_tokens": limit}
    return {"text": "Repeat exactly: red green blue pink", "sampling_params": sampling, **more}


def ollama(prompt: str, **more: Any) -> Body:
    """Return a request of /api/chat."""
    return {**chat(prompt, **more), "options": {"num_predict": 90}}


@dataclass(frozen=True)
class Sign:
    """What a client sees of a fault.

    Attributes:
        body: What it asks.
        pattern: What it sees.
        is_lost: Whether the fault is that it does not.
    """

    body: Body
    pattern: str
    is_lost: bool = False


HISTORY = [
    {"role": "user", "content": CALL},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t", "name": "note", "input": {}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
]
COLORS = "Repeat exactly: red green blue"
SIGNS: dict[type[HeldBack], Sign] = {
    fourth.CutCallNamedWhole: Sign(
        calling(stream=True, max_tokens=4), '"finish_reason": "tool_calls"'
    ),
    fourth.EndsOnFirstChoice: Sign(
        chat(COLORS, stream=True, n=2), '"index": 1, "delta": {}', is_lost=True
    ),
    fourth.NaturalEndUnsaid: Sign(
        chat(COLORS, stream=True), '"finish_reason": "stop"', is_lost=True
    ),
    fourth.ThoughtTailInContent: Sign(
        thinking(COLORS, stream=True, stop=["blue"]), '"content": "nac"'
    ),
    fourth.LogprobsPastStop: Sign(chat(COLORS, stop=["green"], logprobs=True), '"token": "een"'),
    fourth.ErrorNamedAsReason: Sign(chat(COLORS, stop=5), '^200 .*"finish_reason": "error"'),
    fourth.StopBeforeCall: Sign(calling(stream=True), '(?s)"stop".*"tool_calls": \\['),
    fourth.MoreThoughtThanTokens: Sign(
        thinking(COLORS, max_tokens=7), '"completion_tokens": 7,.*"reasoning_tokens": 10'
    ),
    fourth.StopUnreadInJson: Sign(
        chat(COLORS, stop=["shape"], response_format={"type": "json_object"}), "circle"
    ),
    fourth.EmojiInHalves: Sign(
        chat("Repeat exactly: red \U0001f600 blue", stream=True), "\\\\ufffd\\\\ufffd"
    ),
    fourth.NewLimitUnread: Sign(
        {"messages": [{"content": COLORS}], "max_completion_tokens": 4}, "blue"
    ),
    fourth.CutCallDropsConnection: Sign(calling(max_tokens=4), "^closed"),
    fourth.StreamedCallEndsTurn: Sign(using(), '"stop_reason": "end_turn"'),
    fourth.ThinkingInTextBlock: Sign(
        messages(COLORS, thinking={"type": "enabled"}),
        '(?s)"content_block": {"type": "text", "text": ""}.*thinking_delta',
    ),
    fourth.FirstDeltaLost: Sign(messages(COLORS), '"text": "red"', is_lost=True),
    fourth.NothingReadInStream: Sign(messages(COLORS), '"input_tokens": 0'),
    fourth.StreamedCallAsText: Sign(using(), "input_json_delta", is_lost=True),
    fourth.ToolsLoseCount: Sign(using(), '"output_tokens": 0'),
    fourth.WholeCutEndsTurn: Sign(
        messages(COLORS, stream=False, max_tokens=2), '"stop_reason": "end_turn"'
    ),
    fourth.CallsInHistoryRefused: Sign({**using(), "messages": HISTORY}, "^400 "),
    fourth.FreshIdEachChunk: Sign(completions(COLORS, stream=True), r'(?s)("id": "\w+").*\1', True),
    fourth.OffsetsBehind: Sign(completions(COLORS, stream=True, logprobs=1), r"(?s)\[0\].*\[0\]"),
    fourth.TailAfterStop: Sign(completions(COLORS, stop=["green"]), " blu"),
    fourth.ChoicesUncounted: Sign(completions(COLORS, n=2), '"index": 1', is_lost=True),
    fourth.LongStreamLosesPiece: Sign(
        completions("Count from 1 to 99", stream=True), '"text": "52\\\\n"', is_lost=True
    ),
    fourth.CutItemCompleted: Sign(responses(max_output_tokens=2), '"status": "completed"'),
    fourth.CutStreamCompleted: Sign(
        responses(max_output_tokens=2, stream=True), "event: response.completed"
    ),
    fourth.NumberedOnce: Sign(
        responses(stream=True), '"response.output_item.done", "sequence_number": 1,'
    ),
    fourth.IndexesSwapped: Sign(
        responses(stream=True, reasoning={"effort": "low"}), '"item_id": "m1", "output_index": 0'
    ),
    fourth.EndWithoutOutput: Sign(responses(stream=True), '"output": \\[{', is_lost=True),
    fourth.NothingReadUnstreamed: Sign(responses(), '"input_tokens": 0'),
    fourth.LimitHidesStop: Sign(generate("green", 5), '"type": "length"'),
    fourth.EndWithoutCounts: Sign(
        generate("green", 50, stream=True),
        '"finish_reason": {"type": "stop", "matched": "green"}, "prompt_tokens"',
        is_lost=True,
    ),
    fourth.StopBegunInStream: Sign(generate("green", 50, stream=True), '"red gree"'),
    fourth.CountsToLimit: Sign(generate("green", 5), '"completion_tokens": 5'),
    fourth.TwoThoughts: Sign(ollama(COLORS, think=True), '"thinking": "h n"', is_lost=True),
    fourth.ArgumentsAsText: Sign(
        ollama(CALL, tools=[{"type": "function", "function": NOTE}]), '"arguments": "'
    ),
    fourth.LastLineLosesCall: Sign(
        ollama(CALL, tools=[{"type": "function", "function": NOTE}]), "tool_calls", is_lost=True
    ),
    fourth.StreamUncounted: Sign(ollama(COLORS), '"eval_count"', is_lost=True),
}


def answer_of(server: FamilyServer, body: Body) -> str:
    """Return the status and the text that a client gets."""

    async def asking() -> str:
        async with server.listening() as url, aiohttp.ClientSession() as session:
            try:
                async with session.post(url + server.wire.path, json=body) as response:
                    return f"{response.status} {await response.text()}"
            except aiohttp.ClientError:
                return "closed"

    return run(asking())


@pytest.mark.parametrize("make", fourth.FOURTH_HELD_BACK)
def test_each_server_shows_its_fault_to_a_client(make: type[HeldBack]) -> None:
    """Its answer has the sign of the fault, that of the server without one does not."""
    sign = SIGNS[make]
    faulty = answer_of(make(), sign.body)
    healthy = answer_of(FamilyServer(make.speaks), sign.body)
    assert healthy.startswith(("200 ", "400 "))
    assert (re.search(sign.pattern, faulty) is None) == sign.is_lost, faulty
    assert (re.search(sign.pattern, healthy) is None) != sign.is_lost, healthy
