"""Tokens that a grammar forces are read several at once, which changes no answer."""

import json
import random
from itertools import cycle
from typing import Any

import pytest

from engine.engine import Engine
from engine.grammar.grammar_compiler import GrammarCompiler
from engine.grammar.masks import TokenConstraint
from engine.inference.mlx_backend import MlxBackend
from engine.inference.speculation.sources import GrammarDrafts
from engine.stopping.rules import StopRules
from engine.values.events import Speculation, TokenTrace
from engine.values.limits import Limits
from engine.values.request import (
    GenerationRequest,
    Message,
    OutputConstraint,
    Sampling,
    Tool,
    ToolChoice,
    TraceLevel,
)
from engine.values.tokens import TokenOrigin
from tests.support.asking import run
from tests.support.models.guessing import verify_all_drafts

pytestmark = pytest.mark.long


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


NOTICE = "a long text that nobody can choose"
SCHEMAS = {
    "fixed": closed(kind={"const": NOTICE}, name={"type": "string", "maxLength": 8}),
    "alike": {
        "type": "array",
        "items": closed(width={"enum": [1, 2]}, height={"enum": [3, 4]}),
        "minItems": 3,
        "maxItems": 3,
    },
    "tags": closed(a={"const": "x<|im_end|>y <think> <tool_call>z</tool_call>"}),
    "unicode": closed(**{"naïve ключ 🦊": {"const": "„ja“ 日本 \"\\"}}),
    "patterns": {"type": "string", "pattern": "^[A-Z]{2}-constant-[0-9]{3}$"},
}  # fmt: skip
TOOL = Tool("schedule_watering", "", closed(day={"enum": ["monday", "sunday"]}))


def held(schema: Any, **options: Any) -> GenerationRequest:
    options.setdefault("sampling", Sampling(temperature=0))
    return GenerationRequest(
        (Message("user", "Say: hello"),),
        constraint=OutputConstraint(schema),
        thinking=False,
        max_tokens=400,
        trace=TraceLevel.FULL,
        **options,
    )


def called() -> GenerationRequest:
    return GenerationRequest(
        (Message("user", "Say: hello"),),
        tools=(TOOL,),
        tool_choice=ToolChoice("required"),
        thinking=False,
        sampling=Sampling(temperature=0),
        max_tokens=200,
        trace=TraceLevel.FULL,
    )


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all guesses checked, those of grammars alone."""
    verify_all_drafts(monkeypatch, 8)
    monkeypatch.setattr(MlxBackend, "sources", lambda *_: [])


class Said:
    """What an answer was, token by token."""

    def __init__(self, events: list[Any]) -> None:
        self.traces = [one for one in events if isinstance(one, TokenTrace)]
        self.finished = events[-1]
        self.ids = [one.token_id for one in self.traces]
        self.logprobs = [one.stats.logprob for one in self.traces if one.stats is not None]
        self.text = b"".join(one.raw for one in self.traces).decode("utf-8", "replace")


async def said(engine: Engine, request: GenerationRequest) -> Said:
    generation = await engine.generate(request)
    return Said([event async for batch in generation.batches() for event in batch])


async def both(model: Any, *requests: GenerationRequest) -> list[tuple[Said, Said]]:
    """Return each answer with guesses and without."""
    found: list[list[Said]] = []
    for plain in (False, True):
        engine = Engine(Limits(plain_decoding=plain))
        try:
            await engine.load(model)
            found.append([await said(engine, one) for one in requests])
        finally:
            await engine.aclose()
    return list(zip(*found, strict=True))


# -- what is forced ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def constraints(demo_model_path: Any) -> GrammarCompiler:
    from engine.inference.backend import BatchLimits
    from engine.inference.mlx_loading import load

    backend = load(demo_model_path, limits=BatchLimits(64, 0, 1))
    return backend._forms


def begun(constraints: GrammarCompiler, request: GenerationRequest) -> TokenConstraint:
    form = constraints.prepare(request)
    constraint = constraints.constrain(request, [1], form, thinks=False)
    assert constraint is not None
    return constraint


def guessing(constraints: GrammarCompiler, request: GenerationRequest) -> GrammarDrafts:
    return GrammarDrafts(begun(constraints, request))


def ids_of(bits: bytes) -> list[int]:
    return [i for i in range(len(bits) * 8) if bits[i >> 3] >> (i & 7) & 1]


@pytest.mark.parametrize("name", SCHEMAS)
def test_forced_tokens_are_allowed_by_the_grammar(constraints: GrammarCompiler, name: str) -> None:
    rng = random.Random(name)
    for _ in range(5):
        constraint = begun(constraints, held(SCHEMAS[name]))
        free = constraint._matcher.deep_copy()
        forced = 0
        for _ in range(400):
            allowed = ids_of(constraint.allowed())
            assert constraint.failure is None
            if (only := constraint.only()) is not None:
                assert allowed == [only]
                assert only in ids_of(free.compute_bitmask())
                forced += 1
            token = rng.choice(allowed)
            constraint.advance(token)
            if token in constraint._tokens.eos:
                break
            assert free.consume_token(token)
        assert forced > 3


def test_forced_text_is_written_in_the_tokens_of_the_tokenizer(
    constraints: GrammarCompiler,
) -> None:
    constraint = begun(constraints, held({"const": NOTICE}))
    found = []
    while (only := constraint.only()) is not None:
        found.append(only)
        constraint.advance(only)
    # All but the last, which depends on what follows, is what the tokenizer makes of the text.
    whole = constraints.tokens.encode(json.dumps(NOTICE))
    assert found[:-1] == whole[: len(found) - 1]
    assert len(found) >= len(whole) - 1


def test_a_forced_call_is_expected_up_to_its_first_choice(constraints: GrammarCompiler) -> None:
    source = guessing(constraints, called())
    assert source.likelihood() > 0.9
    texts = [constraints._vocabulary.text_of(one) for one in source.propose(64)]
    assert "".join(texts) == '<tool_call>\n{"name": "schedule_watering", "arguments": {'


# -- answers -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("_eager")
def test_answers_are_the_same_token_for_token(demo_model_path: Any) -> None:
    samplings = [Sampling(temperature=0), Sampling(temperature=1, seed=3)]
    requests = [held(one, sampling=each) for one, each in zip(SCHEMAS.values(), cycle(samplings))]
    requests += [
        called(),
        held(SCHEMAS["fixed"], stops=StopRules.of("nobody")),
        held(SCHEMAS["fixed"], stops=StopRules.of("nobody", min_tokens=200)),
        held(SCHEMAS["fixed"], sampling=Sampling(temperature=0, frequency_penalty=1.5)),
        held(SCHEMAS["fixed"], sampling=Sampling(temperature=0, logit_bias=((10, -5.0),))),
    ]
    for ours, plain in run(both(demo_model_path, *requests)):
        assert ours.ids == plain.ids
        assert ours.finished.stop == plain.finished.stop
        assert ours.finished.usage.output_tokens == plain.finished.usage.output_tokens
        assert ours.logprobs == pytest.approx(plain.logprobs, abs=1e-4)
        assert plain.finished.speculation == Speculation()
        assert ours.finished.speculation.forced > 0


@pytest.mark.usefixtures("_eager")
def test_forced_tokens_are_marked_and_certain(engine: Engine) -> None:
    found = run(said(engine, held(SCHEMAS["alike"])))
    origins = [one.origin for one in found.traces]
    forced = [one for one in found.traces if one.origin is TokenOrigin.FORCED]
    assert found.finished.speculation.forced == len(forced) > 10
    assert all(one.stats is not None and one.stats.logprob == 0 for one in forced)
    assert origins.count(TokenOrigin.LOOKUP) == found.finished.speculation.lookup_accepted == 0
    assert {"width", "height"} == set(json.loads(found.text.removesuffix("<|im_end|>"))[0])
