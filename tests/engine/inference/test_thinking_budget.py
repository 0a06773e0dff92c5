"""A budget ends reasoning at its token, by the end that the model's family writes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.values.events import BudgetEnd, Event, Finished, TokenTrace
from engine.values.limits import Limits
from engine.values.request import Effort, GenerationRequest, Sampling, Tool, ToolChoice, TraceLevel
from engine.values.tokens import TokenOrigin
from tests.engine.grammar.forms import OPENED, POINT, TAGS, held
from tests.engine.grammar.test_harmony_forms import harmony
from tests.support.asking import ask, loaded_engine, request, run, scripted_answer
from tests.support.models.guessing import GuessingStage, timeless
from tests.support.scripted import TEMPLATE, Stage

ANALYSIS = ["<|channel|>", "analysis", "<|message|>"]
THOUGHTS = [f"t{n} " for n in range(30)]
# The script continues at its place, whatever was forced before it.
WORDS = [f"w{n} " for n in range(8)]
SPACED = (
    "{% for m in messages %}<|start|>{{ m.role }}:"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|go|>{% endif %}"
)


def thoughtful(folder: Path, **options: Any) -> Stage:
    """Return a stage whose model would think for 30 tokens."""
    return Stage(folder, {"go": THOUGHTFUL}, plain=TAGS, **options)


LONG_TAG = ["<|open|>", "think", "<|sep|>"]
LONG_TAGS = ["<|open|>", "<|close|>", "<|sep|>", "<|message|>", "<|end_of_msg|>"]
TWICE = ["<think>", "a ", "b ", "</think>", "x ", "<think>", "c ", "d ", "e ", "f "]
THOUGHTFUL = ["<think>", *THOUGHTS, "</think>", *WORDS]


@pytest.mark.parametrize(
    ("script", "options", "asked", "thinking", "text", "end"),
    [
        # The tag of one token is forced in place of the token 6; then the script continues.
        (THOUGHTFUL, {"plain": TAGS}, {"thinking_budget": 5, "max_tokens": 9},
         "t0 t1 t2 t3 t4 ", "t6 t7 ", BudgetEnd(token_index=6, forced=1, budget=5)),
        (TWICE, {"plain": TAGS}, {"thinking_budget": 3}, "a b c ", "x e f ", BudgetEnd(7, 1, 3)),
        (["a ", "b ", "c "], {"plain": TAGS, "template": OPENED}, {"thinking_budget": 0},
         "", "b c ", BudgetEnd(0, 1, 0)),
        ([*LONG_TAG, "a ", "b ", "<|close|>", "other", *WORDS], {"special": LONG_TAGS},
         {"thinking_budget": 2, "max_tokens": 12}, "a b ", None, BudgetEnd(6, 2, 2)),
        (WORDS, {}, {"thinking_budget": 1}, "", "".join(WORDS), None),
    ],
    ids=["after its tokens", "that of the whole answer", "zero where the prompt has opened it",
         "beyond it within the model's own tag", "of a model that cannot reason"],
)  # fmt: skip
def test_a_budget_ends_reasoning(
    tmp_path: Path, script: list[str], options: Any, asked: Any, thinking: str, text: str | None,
    end: BudgetEnd | None,
) -> None:  # fmt: skip
    answer = scripted_answer(Stage(tmp_path, {"go": script}, **options), "go", **asked)
    assert answer.thinking == thinking
    assert answer.finished.details.budget_end == end
    assert text is None or answer.text == text


def test_without_a_budget_left_the_model_cannot_open_reasoning(tmp_path: Path) -> None:
    answer = scripted_answer(thoughtful(tmp_path), "go", thinking_budget=0, max_tokens=6)
    assert (answer.thinking, answer.finished.usage.thinking_tokens) == ("", 0)
    assert answer.finished.details.budget_end is None


NATURAL = [
    (["<think>", "a ", "b ", "</think>", "x "], {"plain": TAGS, "template": SPACED}, 2),
    (["<think>", "a ", "\n", "</think>", "\n\n", "x "], {"plain": TAGS, "template": SPACED}, 2),
    (["<think>", "a ", "b "], {"plain": TAGS, "template": SPACED}, 2),  # and the end of the answer
    (
        [*LONG_TAG, "a ", "b ", "<|close|>", "think", "<|sep|>", "x "],
        {"special": LONG_TAGS},
        2,
    ),
]


@pytest.mark.parametrize(("script", "options", "budget"), NATURAL)
@pytest.mark.parametrize("sampling", [Sampling(temperature=0), Sampling(temperature=0.5, seed=7)])
def test_a_budget_of_exactly_the_natural_length_leaves_no_trace(
    tmp_path: Path, script: list[str], options: dict[str, Any], budget: int, sampling: Sampling
) -> None:
    stage = Stage(tmp_path, {"go": script}, **options)
    asked: dict[str, Any] = {"sampling": sampling, "trace": TraceLevel.FULL}
    found = []
    for thinking_budget in (None, budget):
        events = played(stage, request("go", thinking_budget=thinking_budget, **asked))
        [last] = [one for one in events if isinstance(one, Finished)]
        assert last.details.budget_end is None
        traces = [one for one in events if isinstance(one, TokenTrace)]
        found.append(([(one.token_id, one.origin) for one in traces], last.stop, last.usage))
    assert found[0] == found[1]
    # One token less, and the end is forced.
    less = played(stage, request("go", thinking_budget=budget - 1, **asked))
    [last] = [one for one in less if isinstance(one, Finished)]
    assert last.details.budget_end is not None


def test_the_end_is_written_as_the_template_writes_it(tmp_path: Path) -> None:
    stage = thoughtful(tmp_path, template=SPACED)
    asked: dict[str, Any] = {"thinking_budget": 4, "max_tokens": 12, "trace": TraceLevel.FULL}
    traces = [one for one in played(stage, request("go", **asked)) if isinstance(one, TokenTrace)]
    forced = [one.token_id for one in traces if one.origin is TokenOrigin.BUDGET]
    assert stage.wrapper.decode(forced) == "\n</think>\n\n"
    assert [one.index for one in traces if one.origin is TokenOrigin.BUDGET] == [5, 6, 7, 8]


def played(stage: Stage, *asked: GenerationRequest, plain: bool = True) -> list[Event]:
    """Return the events of the last of some requests that are answered together."""

    async def play() -> list[Event]:
        async def read(handle: Any) -> list[Event]:
            return [event async for event in handle.events()]

        limits = Limits(plain_decoding=plain)
        async with loaded_engine(Path("scripted"), limits, loader=stage.load) as engine:
            handles = [await engine.generate(one) for one in asked]
            return (await asyncio.gather(*map(read, handles)))[-1]

    return run(play())


def test_harmony_with_tools_may_call_one_but_not_reason_again(tmp_path: Path) -> None:
    tool = Tool("add", "", {"type": "object", "properties": {}})
    # Each letter of "assistant" and of the forced header is a token of this tokenizer.
    script = [*ANALYSIS, *THOUGHTS[:2], *["?"] * 4, *ANALYSIS[1:], *WORDS]
    answer = scripted_answer(
        harmony(tmp_path, script), "go", thinking_budget=2, max_tokens=40, tools=(tool,)
    )
    assert answer.thinking == "t0 t1 "
    assert answer.finished.details.budget_end is not None


@pytest.mark.parametrize("forcing", [{"constraint": held(POINT)}, {"tool": True}])
def test_a_grammar_begins_where_the_budget_ends_harmonys_reasoning(
    tmp_path: Path, forcing: dict[str, Any]
) -> None:
    values: dict[str, Any] = dict(forcing)
    if values.pop("tool", False):
        tool = Tool("add", "", {"type": "object", "properties": {}})
        values = {"tools": (tool,), "tool_choice": ToolChoice("required")}
    stage = harmony(tmp_path, [*ANALYSIS, *THOUGHTS])
    answer = scripted_answer(stage, "go", thinking_budget=4, max_tokens=90, **values)
    assert answer.thinking == "t0 t1 t2 t3 "
    if "tools" in values:
        assert [call.name for call in answer.tool_calls] == ["add"]
    else:
        assert answer.text.startswith('{"x":') or answer.text.startswith("{")


def test_a_grammar_begins_after_the_forced_tag(tmp_path: Path) -> None:
    stage = thoughtful(tmp_path, template=SPACED)
    answer = scripted_answer(stage, "go", thinking_budget=4, max_tokens=60, constraint=held(POINT))
    assert answer.thinking.rstrip() == "t0 t1 t2 t3"
    assert answer.text.startswith("{")


@pytest.mark.parametrize(("budget", "wrong"), [(5, (3, 4)), (9, range(60))])
def test_guesses_change_no_token_of_an_answer_with_a_budget(
    tmp_path: Path, wrong: tuple[int, ...], budget: int
) -> None:
    stage = GuessingStage(tmp_path, {"go": THOUGHTFUL}, wrong=wrong, plain=TAGS, template=SPACED)
    sampled = Sampling(temperature=0.7, seed=3)
    for sampling in (Sampling(temperature=0), sampled):
        asked = request(
            "go",
            thinking_budget=budget,
            max_tokens=30,
            trace=TraceLevel.FULL,
            sampling=sampling,
        )
        beside = request("go", max_tokens=30)
        found = []
        for guesses in (False, True):
            stage.guesses = guesses
            warm = [request("warm up", max_tokens=8)]
            events = played(stage, *warm, beside, asked, plain=not guesses)
            # How much of the prompt another row has read is chance.
            found.append([one for one in timeless(events) if isinstance(one, TokenTrace)])
            [last] = [one for one in events if isinstance(one, Finished)]
            assert last.details.budget_end == BudgetEnd(budget + 1, 4, budget)
        assert found[0] == found[1]


async def test_each_answer_of_a_batch_keeps_to_its_own_budget(tmp_path: Path) -> None:
    stage = thoughtful(tmp_path)

    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        asked = [request("go", thinking_budget=most, max_tokens=20) for most in (2, 7, None, 4)]
        handles = await engine.generate_together(asked)
        answers = await asyncio.gather(*(one.collect() for one in handles))
    assert [len(one.thinking.split()) for one in answers] == [2, 7, 19, 4]
    assert [one.finished.details.budget_end for one in answers] == [
        BudgetEnd(3, 1, 2),
        BudgetEnd(8, 1, 7),
        None,
        BudgetEnd(5, 1, 4),
    ]


async def test_an_effort_is_passed_to_a_template_that_knows_efforts(tmp_path: Path) -> None:
    template = (
        "{% if reasoning_effort is defined %}[{{ reasoning_effort }}]{% endif %}"
    ) + TEMPLATE
    stage = Stage(tmp_path, {"go": ["yes"]}, plain=TAGS, template=template)

    asked = (request("go"), request("go", effort=Effort.MEDIUM), request("go", thinking=False))
    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        ends = [(await (await engine.generate(one)).collect()).finished for one in asked]
    assert [one.details.budget_end for one in ends] == [None] * 3
    plain, medium, off = [one.usage.prompt_tokens for one in ends]
    assert (medium, off) == (plain + len("[medium]"), plain + len("[low]"))


def test_an_effort_becomes_a_budget_where_the_template_knows_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["<think>", *["so "] * 1100, "</think>", "yes"]}, plain=TAGS)
    low = scripted_answer(stage, "go", effort=Effort.LOW)
    assert low.finished.details.budget_end == BudgetEnd(1_025, 1, 1_024)
    high = scripted_answer(stage, "go", effort=Effort.HIGH)
    assert high.finished.details.budget_end is None
    explicit = scripted_answer(stage, "go", effort=Effort.LOW, thinking_budget=7)
    assert explicit.finished.details.budget_end == BudgetEnd(8, 1, 7)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (request("go", thinking_budget=-2), "at least 0"),
        (GenerationRequest(prompt="go", thinking_budget=5), "raw prompt"),
    ],
)
async def test_an_impossible_budget_is_refused(
    engine: Engine, asked: GenerationRequest, why: str
) -> None:
    with pytest.raises(InvalidRequest, match=why) as refusal:
        await engine.generate(asked)
    assert refusal.value.field == "thinking_budget"


async def test_a_budget_of_zero_tells_the_template_not_to_reason(engine: Engine) -> None:
    budget = await ask(engine, "Count from 1 to 5", thinking=True, thinking_budget=0)
    assert budget.text == (await ask(engine, "Count from 1 to 5", thinking=False)).text
