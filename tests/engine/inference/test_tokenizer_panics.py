"""A tokenizer whose library panics at a text refuses that text, and the model is named."""

from typing import Any

import pytest

from engine.errors import InvalidRequest
from engine.inference import mlx_backend
from engine.scheduling.service import Engine
from tests.support.asking import ask, run


class PanicException(BaseException):
    """As Rust's panics reach Python: no ``Exception``."""


def test_a_text_at_which_the_tokenizer_panics_is_refused_and_the_model_is_named(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(*_: Any) -> None:
        raise PanicException("called `Result::unwrap()` on an `Err` value: StackOverflow")

    with monkeypatch.context() as patch:
        patch.setattr(mlx_backend, "render", panic)
        with pytest.raises(InvalidRequest, match=r"the tokenizer of .+ cannot read") as refusal:
            run(ask(engine, "Hi"))
    assert refusal.value.field == "messages"
    assert engine.model is not None
    assert engine.model.id in refusal.value.reason
    assert run(ask(engine, "Hi", max_tokens=2)).finished.usage.output_tokens > 0
