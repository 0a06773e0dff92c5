"""Guesses change how long an answer takes and nothing else: every rule, at every token."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.engine import Engine
from engine.inference.cache.index import PrefixIndex
from engine.stopping.rules import StopRules, StopScope
from engine.values.events import Event, Finished, TextDelta
from engine.values.limits import Limits
from engine.values.request import GenerationRequest, Sampling, Tool, TraceLevel
from tests.support.asking import ask, loaded_engine, request, run
from tests.support.models.guessing import GuessingStage, timeless
from tests.support.random_cases import cases
from tests.support.scripted import END

WORDS = tuple(f"w{n} " for n in range(40))


async def played(stage: GuessingStage, asked: Sequence[GenerationRequest]) -> list[list[Event]]:
    engine = Engine(loader=stage.load, limits=Limits(plain_decoding=not stage.guesses))
    await engine.load(Path("scripted"))
    for _ in range(2):  # the first passes are only compared with the plain loop's
        await ask(engine, "warm up", max_tokens=8)
    found = []
    for one in asked:
        generation = await engine.generate(one)
        found.append([event async for event in generation.events()])
    await engine.aclose()
    return found


def same_with_guesses(stage: GuessingStage, *asked: GenerationRequest) -> list[Finished]:
    """Ask without and with guesses, expect the same, and return the ends of the latter."""
    both = []
    for stage.guesses in (False, True):
        both.append(run(played(stage, asked)))
    ends = []
    for one, plain, guessed in zip(asked, *both, strict=True):
        assert timeless(guessed) == timeless(plain), one
        last = guessed[-1]
        assert isinstance(last, Finished)
        ends.append(last)
    return ends


def asking(text: str = "go", **values: Any) -> GenerationRequest:
    values.setdefault("trace", TraceLevel.FULL)
    return request(text, **values)


def test_right_guesses_give_several_tokens_for_each_pass(tmp_path: Path) -> None:
    [last] = same_with_guesses(GuessingStage(tmp_path, {"go": WORDS}), asking())
    assert last.usage.output_tokens == 41
    assert last.speculation.accepted >= 30
    assert last.speculation.passes <= 7


@pytest.mark.parametrize("kind", ["id", "eos", "limit"])
def test_every_end_is_found_at_any_token_of_a_run(tmp_path: Path, kind: str) -> None:
    last = END if kind == "eos" else "stop"
    scripts = {f"{n}": [*WORDS[:n], last, *WORDS[n:]] for n in range(1, 18)}
    stage = GuessingStage(tmp_path, scripts, pieces=[*WORDS, "stop"])
    rules = StopRules(token_ids=(stage.id("stop"),)) if kind == "id" else StopRules()
    ends = same_with_guesses(
        stage,
        *(
            asking(f"{n}", rules=rules, max_tokens=n + 1 if kind == "limit" else None)
            for n in range(1, 18)
        ),
    )
    assert [end.usage.output_tokens for end in ends] == [n + 1 for n in range(1, 18)]
    assert [end.stop.token_index for end in ends] == [*range(1, 18)]


def test_a_tool_call_inside_a_run_ends_it(tmp_path: Path) -> None:
    call = '{"name": "look", "arguments": {"a": 1}}'
    script = ["so ", "<tool_call>", *call, "</tool_call>", END, *WORDS]
    stage = GuessingStage(
        tmp_path, {"go": script}, plain=["<tool_call>", "</tool_call>"], pieces=[*WORDS, "so "],
        template=(
            "{# <tool_call> tool_call.name #}{% for m in messages %}<|start|>{{ m.role }}:"
            "{{ m.content }}<|end|>{% endfor %}<|go|>"
        ),
    )  # fmt: skip
    tool = Tool("look", parameters={"type": "object"})
    [last] = same_with_guesses(stage, asking(tools=(tool,)))
    assert last.speculation.accepted > 5


def test_the_kept_cache_ends_where_the_answer_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*WORDS[:10], "END", *WORDS[10:]]
    stage = GuessingStage(tmp_path, {"go": words}, width=32)
    kept: list[tuple[list[int], list[float]]] = []
    store = PrefixIndex.store

    def noted(self: PrefixIndex, owner: str, tokens: Sequence[int], cache: Sequence[Any]) -> int:
        held: Any = cache[0].keys_and_values()[0][0, 0, :, 0].tolist()
        kept.append((list(tokens), held))
        return store(self, owner, tokens, cache)

    monkeypatch.setattr(PrefixIndex, "store", noted)
    for text in ("END", "w7 "):
        [last] = same_with_guesses(stage, asking(rules=StopRules.of(text)))
        assert last.speculation.accepted > 0
        ids = [stage.id(piece) for piece in words[: words.index(text) + 1]]
        tokens, held = kept[-1]
        # The model of the stage keeps ids as its keys.
        assert tokens == held
        assert tokens[-len(ids) :] == ids


async def test_a_cancelled_row_ends_between_two_passes_and_the_next_answer_is_right(
    tmp_path: Path,
) -> None:
    stage, is_cancelled = GuessingStage(tmp_path, {"go": WORDS * 10}), threading.Event()
    stage.slow_until(is_cancelled, 0.1)

    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        for _ in range(3):
            is_cancelled.clear()
            generation = await engine.generate(asking())
            text = ""
            async for event in generation.events():
                if isinstance(event, TextDelta):
                    text += event.text
                    if len(text) > 30:
                        generation.cancel()
                        is_cancelled.set()
            assert "".join(WORDS * 10).startswith(text)
            assert len(text) < 1000
        whole = await (await engine.generate(asking(max_tokens=50))).collect()
        assert whole.text == "".join((WORDS * 10)[:50])


PIECES = ("a", "b", "ab", "EN", "D", "END", " ", "é", "🚀", "<think>", "</think>")


@settings(max_examples=cases(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    script=st.lists(st.sampled_from(PIECES), min_size=1, max_size=30),
    wrong=st.sets(st.integers(0, 40)),
    stops=st.lists(st.text("abEND é🚀", min_size=1, max_size=4), max_size=3, unique=True),
    scope=st.sampled_from(StopScope),
    most=st.none() | st.integers(1, 40),
    least=st.integers(0, 12),
    penalty=st.sampled_from([None, 0.5]),
    seed=st.none() | st.integers(0, 9),
    width=st.sampled_from([2, 4, 8, 32]),
)
def test_any_answer_is_the_same_with_guesses(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[str],
    wrong: set[int],
    stops: list[str],
    scope: StopScope,
    most: int | None,
    least: int,
    penalty: float | None,
    seed: int | None,
    width: int,
) -> None:
    stage = GuessingStage(
        tmp_path_factory.mktemp("stage"),
        {"go": script},
        wrong=sorted(wrong),
        width=width,
        plain=["<think>", "</think>"],
        pieces=["a", "b", "ab", "EN", "D", "END", " "],
    )
    same_with_guesses(
        stage,
        asking(
            rules=StopRules.of(*stops, scope=scope, min_tokens=least),
            max_tokens=most,
            sampling=Sampling(
                temperature=0 if seed is None else 1,
                seed=seed,
                presence_penalty=penalty,
                logit_bias=((stage.id("a"), 1.0),) if least % 2 else (),
            ),
        ),
    )
