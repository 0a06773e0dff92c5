"""Constrained answers whose grammar fails, or that are cancelled."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.grammar import compilation, grammar_compiler, masks
from engine.grammar.grammar_compiler import new_matcher
from engine.grammar.masks import TokenConstraint
from engine.stopping.record import StopKind
from engine.values.request import OutputConstraint, TextForm
from tests.engine.grammar.forms import POINT, ask_all, held
from tests.support.asking import ask, loaded_engine, request, run
from tests.support.scripted import Stage


@pytest.fixture(scope="module")
def engine(demo_model_path: Path) -> Iterator[Engine]:
    """An engine of these tests alone: on the shared one, windows have offered and loaded models."""
    engine = Engine()
    run(engine.load(demo_model_path))
    yield engine
    engine.close()


async def test_answer_that_leaves_its_grammar_ends_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, {"go": ['{"x":', "7", "}"], "free": ["a", "b", "c", "d", "e"]})
    answered = TokenConstraint.allowed
    asked: list[int] = []

    def allowed(self: TokenConstraint) -> bytes:
        asked.append(1)
        if len(asked) == 2:
            self.advance(stage.id("a"))  # as if the model had sampled it
        return answered(self)

    monkeypatch.setattr(TokenConstraint, "allowed", allowed)

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        bad, free = await ask_all(engine, [request("go", constraint=held(POINT)), request("free")])
        again = await ask(engine, "go", constraint=held(POINT))
    assert bad.finished.stop.kind is StopKind.ERROR
    assert "could not be constrained" in (bad.finished.error or "")
    assert free.text == "abcde"
    assert again.text == '{"x":7}'


# Every token takes more work than the one before it.
AMBIGUOUS = 'start: s\ns: s s s s | s s s | s s | "a"\n'


@pytest.mark.parametrize("bound", ["the time of a step", "the items of a token"])
async def test_too_costly_grammar_ends_its_answer_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    if bound == "the time of a step":
        monkeypatch.setattr(compilation, "_MAX_ROW_ITEMS", 1 << 30)
        monkeypatch.setattr(compilation, "_MAX_STEP_ITEMS", 1 << 30)
    else:
        monkeypatch.setattr(masks, "_MAX_TOKEN_S", math.inf)
    stage = Stage(tmp_path, {"go": ["a"] * 150, "free": ["b"] * 80})
    own = OutputConstraint(text_form=TextForm(grammar=AMBIGUOUS))

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        asked = [request("go", constraint=own)] * 2 + [request("free")]
        *bad, free = await ask_all(engine, asked)
    for answer in bad:
        assert answer.finished.stop.kind is StopKind.ERROR
        assert "the same text in too many ways" in (answer.finished.error or "")
        assert 0 < len(answer.text) < 150
    assert free.text == "b" * 80


class PanicException(BaseException):
    """As Rust's panics reach Python: no ``Exception``."""


class Panicking:
    """A matcher that panics at its second mask, or at its first token."""

    def __init__(self, matcher: Any, at: str) -> None:
        self._matcher = matcher
        self._at = at
        self._masks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)

    def deep_copy(self) -> "Panicking":
        return Panicking(self._matcher.deep_copy(), self._at)

    def compute_bitmask(self) -> bytes:
        self._masks += 1
        if self._at == "mask" and self._masks == 2:
            raise PanicException("index out of bounds")
        found: bytes = self._matcher.compute_bitmask()
        return found

    def consume_token(self, token_id: int) -> bool:
        if self._at == "token":
            raise PanicException("index out of bounds")
        return bool(self._matcher.consume_token(token_id))


@pytest.mark.parametrize("at", ["mask", "token"])
def test_a_panic_of_the_library_ends_its_answer_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    make = new_matcher
    monkeypatch.setattr(grammar_compiler, "new_matcher", lambda *of: Panicking(make(*of), at))
    schema = {"type": "string", "minLength": 5, "maxLength": 9, "description": at}
    answer = run(ask(engine, "Say: x", constraint=held(schema)))
    assert answer.finished.stop.kind is StopKind.ERROR
    assert "the library failed: index out of bounds" in (answer.finished.error or "")
    assert run(ask(engine, "Say: x", max_tokens=2)).finished.usage.output_tokens > 0


def test_a_panic_of_the_compiler_is_a_refusal(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(*_: Any, **__: Any) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr("llguidance.LLMatcher", panic)
    panic.grammar_from_lark = lambda text: text  # type: ignore[attr-defined]
    with pytest.raises(InvalidRequest, match="the compiler failed") as refusal:
        run(ask(engine, "Say: x", constraint=held({"const": "a panic of the compiler"})))
    assert refusal.value.field == "constraint.json_schema"
