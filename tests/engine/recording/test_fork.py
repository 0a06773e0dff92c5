"""A fork repeats a run up to a token, then goes on from the chosen one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.errors import EngineError, InvalidRequest
from engine.recording.fork import end_here, fork_request
from engine.recording.replay import replay
from engine.recording.run_trace import RunTrace, trace_for
from engine.recording.saved_run import from_json, to_json
from engine.recording.stored_trace import packed, unpacked
from engine.stopping.record import StopKind
from engine.stopping.repetition import RepetitionDetection
from engine.stopping.rules import StopRules
from engine.values.request import CacheOwner, GenerationRequest, Message, TraceLevel
from tests.support.asking import loaded_engine, request
from tests.support.models.formats import ADD, tool_template
from tests.support.scripted import Stage

COUNT = "Count from 1 to 10, one number per line"
ALPHABET = "Output the whole alphabet from A to Z, then immediately output END"


async def record(
    engine: Engine, asked: GenerationRequest, *, through_file: bool = True
) -> RunTrace:
    """Return the trace of an answer, by default after a way through its file."""
    asked = replace(asked, trace=TraceLevel.STOPS if through_file else asked.trace)
    generation = await engine.generate(asked)
    trace = trace_for(generation)
    async for event in generation.events():
        trace.take(event)
    return from_json(to_json(trace)) if through_file else trace


def ids(run: RunTrace) -> list[int]:
    return [token.token_id for token in run.tokens]


def outcome(run: RunTrace) -> tuple[Any, ...]:
    played = replay(run)
    return (
        run.stop,
        ids(run),
        played.text,
        played.thinking,
        [(c.name, c.arguments) for c in played.calls],
    )


@pytest.mark.parametrize(
    ("asked", "positions"),
    [
        (request(COUNT), (0, 7, 20)),
        (request(ALPHABET, "END"), (0, -3, -2, -1)),
        (request(COUNT, thinking=True, max_tokens=60), (0, 4, -4, -1)),
        (request("Count from 1 to 5", thinking=True, thinking_budget=6), (2, 6, 8, -2)),
        (request(COUNT, max_tokens=12), (3, 11)),
    ],
    ids=["text", "stop over several tokens", "thinking", "budget", "limit"],
)
async def test_fork_with_original_token_gives_original_answer(
    engine: Engine, asked: GenerationRequest, positions: Any
) -> None:
    run = await record(engine, asked)
    for position in positions:
        index = position % len(run.tokens)
        forked = await record(engine, fork_request(run, index, (run.tokens[index].token_id,)))
        assert outcome(forked) == outcome(run), index
        assert forked.fork is not None
        assert (forked.fork.token_index, forked.fork.replaced) == (index, ids(run)[index])


async def test_fork_within_tool_call_gives_original_call(tmp_path: Path) -> None:
    call = '{"name": "add", "arguments": {"a": 1, "b": 22}}'
    script = ["<think>", "plan", "</think>", "so ", "<tool_call>", *call, "</tool_call>"]
    marks = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
    template = tool_template("<tool_call> tool_call.name")
    stage = Stage(tmp_path, {"go": script}, plain=marks, template=template)
    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        run = await record(engine, request("go", tools=(ADD,)))
        assert len(replay(run).calls) == 1
        for index in (0, 1, 2, 3, 4, 9, 40, len(run.tokens) - 2, len(run.tokens) - 1):
            forked = await record(engine, fork_request(run, index, (ids(run)[index],)))
            assert outcome(forked)[1:] == outcome(run)[1:], index


async def test_fork_counts_copies_before_its_token(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["once", *("a", "b", "c") * 30]})
    rules = StopRules(repetition=RepetitionDetection(max_pattern_size=8, min_count=5))
    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        run = await record(engine, request("go", rules=rules))
        assert run.stop is not None
        assert (run.stop.kind, run.stop.token_index) == (StopKind.REPETITION, 15)
        for index in (1, 8, 15):
            forked = await record(engine, fork_request(run, index, (ids(run)[index],)))
            assert outcome(forked) == outcome(run)


async def test_fork_with_other_token_equals_answer_that_has_this_beginning(engine: Engine) -> None:
    run = await record(engine, request(COUNT, max_tokens=30))
    for index in (0, 5, 10):
        chosen = ids(run)[index] + 1
        forked = await record(engine, fork_request(run, index, (chosen,)))
        beginning = (*ids(run)[:index], chosen)
        continued = await record(engine, request(COUNT, begun=beginning, max_tokens=29 - index))
        assert ids(forked) == [*beginning, *ids(continued)]
        assert forked.stop is not None
        assert forked.stop.token_index == len(ids(forked)) - 1


async def test_fork_of_saved_run_is_independent_of_later_template_dates(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["one", " two", " three"]})
    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        run = await record(engine, request("go"))
        assert run.request is not None
        # The messages stand for those that a template renders otherwise on another day.
        run.request = replace(run.request, messages=(Message("user", "x"),))
        run = from_json(to_json(run))
        forked = await record(engine, fork_request(run, 1, (stage.id(" two"),)))
        assert replay(forked).text == "one two three"


async def test_saved_run_keeps_fork_and_no_cache_owner(engine: Engine) -> None:
    run = await record(engine, request(COUNT, max_tokens=8, cache_owner=CacheOwner("holder")))
    forked = await record(engine, fork_request(run, 4, (40, 41)))
    text = to_json(forked)
    assert "holder" not in text
    assert json.loads(text)["fork"] == {
        "token_index": 4,
        "replaced": {"id": run.tokens[4].token_id, "text": "3"},
        "chosen": [40, 41],
    }
    for read in (from_json(text), unpacked(packed(forked))):
        assert read.fork == forked.fork
        assert read.rendered == forked.rendered == run.rendered


async def test_fork_has_likelihoods_of_its_parent(engine: Engine) -> None:
    asked = replace(request(COUNT, max_tokens=8), trace=TraceLevel.FULL, top_logprobs=3)
    run = await record(engine, asked, through_file=False)
    stats = run.tokens[4].stats
    assert stats is not None
    (second, logprob) = stats.top[1]
    forked = await record(engine, fork_request(run, 4, (second, 40)), through_file=False)
    tokens = list(forked.tokens)
    assert [t.stats for t in tokens[:4]] == [t.stats for t in list(run.tokens)[:4]]
    assert tokens[4].stats == replace(stats, logprob=logprob, rank=1)
    assert tokens[5].stats is None
    assert tokens[6].stats is not None
    assert [t.origin for t in tokens[3:7]] == ["sampled", "chosen", "chosen", "sampled"]
    ended, _ = end_here(run, 4)
    assert [t.stats for t in list(ended.tokens)[:4]] == [t.stats for t in tokens[:4]]


async def test_end_here_is_decided_without_model(engine: Engine) -> None:
    run = await record(engine, request(COUNT))
    ended, fork = end_here(run, 7)
    assert ended.stop is not None
    assert (ended.stop.kind, ended.stop.token_index) == (StopKind.EOS, 7)
    assert replay(from_json(to_json(ended))).text == replay(ended).text == "1\n2\n3\n4"
    assert (fork.token_index, fork.replaced_text) == (7, "\n")


async def test_end_here_without_counting_end_token_is_cancelled_there(engine: Engine) -> None:
    rules = StopRules(ignore_eos=True)
    run = await record(engine, request(COUNT, rules=rules, max_tokens=9))
    ended, _ = end_here(run, 3)
    assert ended.stop is not None
    assert (ended.stop.kind, len(ended.tokens)) == (StopKind.CANCELLED, 3)


async def test_fork_refuses_what_it_cannot_repeat(engine: Engine) -> None:
    run = await record(engine, request(COUNT, max_tokens=6))
    with pytest.raises(EngineError, match="no token 7; it has 6 tokens, numbered from 1"):
        fork_request(run, 6, (1,))
    with pytest.raises(EngineError, match=r"no prompt: an earlier version saved it;.*--save-run"):
        fork_request(replace(run, request=None), 2, (1,))
    values = json.loads(to_json(run))
    del values["tokens"][4:]
    with pytest.raises(EngineError, match="tokens of it are missing"):
        fork_request(from_json(json.dumps(values)), 2, (1,))
    with pytest.raises(InvalidRequest, match="outside the vocabulary"):
        await engine.generate(fork_request(run, 2, (1_000_000,)))
