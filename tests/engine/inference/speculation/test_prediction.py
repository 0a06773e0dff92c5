"""Guesses from the text that a request predicts."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.engine import Engine
from engine.inference.text import predicted
from engine.values.request import GenerationRequest, Message, Sampling
from engine.values.tokens import TokenOrigin
from tests.support.models.guessing import verify_all_drafts

COUNTED = "\n".join(str(n) for n in range(1, 16))


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all guesses checked."""
    verify_all_drafts(monkeypatch, 8)


def counting(prediction: str | None) -> GenerationRequest:
    return GenerationRequest(
        (Message("user", "Count from 1 to 15, one number per line"),),
        sampling=Sampling(temperature=0),
        thinking=False,
        max_tokens=40,
        prediction=prediction,
        drafts=frozenset({TokenOrigin.PREDICTION}),
    )


@pytest.mark.usefixtures("_eager")
async def test_a_prediction_never_changes_the_answer(engine: Engine) -> None:
    predictions = [COUNTED, COUNTED.replace("\n9\n", "\nnine\n"), "Nothing like it at all."]

    requests = [counting(one) for one in (None, *predictions)]
    (plain, *predicted) = [await (await engine.generate(one)).collect() for one in requests]
    for answer in predicted:
        assert answer.text == plain.text
        assert answer.finished.stop == plain.finished.stop
        assert answer.finished.usage.output_tokens == plain.finished.usage.output_tokens
        done = answer.finished.speculation
        assert done.guessed == done.prediction_accepted + done.prediction_rejected
    right, nearly, wrong = [one.finished.speculation for one in predicted]
    assert right.prediction_accepted > 20
    assert right.prediction_rejected == 0
    assert nearly.prediction_accepted > 15
    assert wrong.prediction_accepted < 5


def test_no_more_of_a_prediction_is_tokenised_than_the_context_may_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def encoded(_: object, part: str) -> list[int]:
        read.append(len(part))
        return [0] * len(part)

    monkeypatch.setattr("engine.inference.text.encoded", encoded)
    model: Any = SimpleNamespace(context_length=100, vocabulary_size=300)
    assert len(predicted(None, "x" * 9_000_000, model)) == 100
    assert len(read) == 1
    assert read[0] < 1_000_000
