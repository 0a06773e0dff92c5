"""What a constrained answer needs is prepared where no other answer waits for it."""

from pathlib import Path
from typing import Any

import llguidance
import pytest

from engine.engine import Engine
from engine.grammar import form_compiler
from engine.grammar.compilation import new_matcher
from engine.threads import run_with_stack
from engine.values.request import GenerationRequest, Message, OutputConstraint
from tests.support.asking import run

_ORIGINAL = llguidance.LLMatcher


class Matcher:
    """A matcher of the library that notes its calls."""

    def __init__(self, *given: Any, **more: Any) -> None:
        self._matcher = _ORIGINAL(*given, **more)
        self.asked: list[str] = []
        self.copies: list[Matcher] = []

    def deep_copy(self) -> "Matcher":
        copy = object.__new__(Matcher)
        copy._matcher, copy.asked, copy.copies = self._matcher.deep_copy(), [], []
        self.copies.append(copy)
        return copy

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._matcher, name)

    grammar_from_lark = _ORIGINAL.grammar_from_lark


def compiled(demo_model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Matcher:
    """Return a new matcher of a small grammar, in the demo model's vocabulary."""
    adapters: list[Any] = []
    original = new_matcher

    def noted(adapter: Any, grammar: str) -> Any:
        adapters.append(adapter)
        return original(adapter, grammar)

    with monkeypatch.context() as patch:
        patch.setattr(form_compiler, "new_matcher", noted)
        run(constrained_answer(demo_model_path))
    monkeypatch.setattr(llguidance, "LLMatcher", Matcher)
    found: Matcher = new_matcher(adapters[0], 'start: "yes" | "no"')
    return found


async def constrained_answer(demo_model_path: Path) -> str:
    engine = Engine()
    await engine.load(demo_model_path)
    try:
        request = GenerationRequest(
            messages=(Message("user", "Hi"),),
            max_tokens=20,
            constraint=OutputConstraint(json_schema={"enum": ["yes"]}),
        )
        return (await (await engine.generate(request)).collect()).text
    finally:
        await engine.aclose()


def test_a_matcher_knows_its_first_token_before_an_answer_uses_it(
    demo_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = compiled(demo_model_path, monkeypatch)

    assert "compute_bitmask" in matcher.asked
    # A matcher that was asked what is forced expects it from then on, and an answer that reasons
    # first could write nothing in between.
    assert "compute_ff_bytes" not in matcher.asked
    assert "compute_ff_bytes" in [name for copy in matcher.copies for name in copy.asked]


def test_run_with_stack_raises_error_for_its_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        run_with_stack(lambda: 1 // 0, 1 << 20)
