"""Guesses from the text that a request predicts."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.engine import Engine
from engine.inference.speculation.sources import PredictedText, PredictionDrafts
from engine.inference.text import predicted
from engine.values.request import GenerationRequest, Message, Sampling
from engine.values.tokens import TokenOrigin
from tests.support.models.guessing import verify_all_drafts

TEXT = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]


def guesses(text: list[int] = TEXT) -> PredictionDrafts:
    return PredictionDrafts(PredictedText(text))


def test_an_answer_is_expected_to_begin_as_the_text_does() -> None:
    source = guesses()
    assert source.likelihood() > 0.5
    assert list(source.propose(3)) == [10, 11, 12]


def test_the_answer_is_followed_through_the_text() -> None:
    source = guesses()
    source.extend([10, 11])
    source.extend([12])
    assert list(source.propose(2)) == [13, 14]


def test_the_longer_it_agrees_the_likelier_is_the_next_guess() -> None:
    source = guesses()
    source.extend(TEXT[:1])
    before = source.likelihood()
    source.extend(TEXT[1:9])
    assert source.likelihood() > before


@pytest.mark.parametrize(
    ("answer", "following"),
    [
        ([10, 11, 99, 13], [14, 15]),  # one token was replaced
        ([10, 11, 98, 99, 12], [13, 14]),  # two were added
        ([10, 11, 15], [16, 17]),  # three were left out
        ([99, 98, 10], [11, 12]),  # something stands before it, such as reasoning
    ],
)
def test_an_answer_that_leaves_the_predicted_text_is_found_in_it_again(
    answer: list[int], following: list[int]
) -> None:
    source = guesses()
    source.extend(answer)
    assert list(source.propose(2)) == following


def test_a_long_text_is_trusted_as_before_soon_after_an_edit() -> None:
    text = list(range(100, 140))
    source = guesses(text)
    source.extend(text[:20])
    before = source.likelihood()
    source.extend([99])
    assert source.likelihood() == 0
    source.extend([text[21]])
    doubtful = source.likelihood()
    source.extend(text[22:24])
    assert 0 < doubtful < 0.8 * before < source.likelihood()


def test_a_passage_far_away_is_found_by_three_tokens() -> None:
    source = guesses([*range(100, 200), 7, 8, 9, 1, 2])
    source.extend([100, 101, 7, 8, 9])
    assert list(source.propose(2)) == [1, 2]


def test_nothing_is_guessed_after_the_end_of_the_text() -> None:
    source = guesses([1, 2])
    source.extend([1, 2])
    assert source.likelihood() == 0
    source.extend([3, 4, 5])
    assert source.likelihood() == 0


def test_an_unrelated_answer_ends_guessing() -> None:
    source = guesses()
    source.extend(range(500, 600))
    assert source.likelihood() == 0
    assert list(source.propose(4)) == []


# -- with a model ------------------------------------------------------------------------------

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
    assert nearly.prediction_rejected > 0
    assert wrong.prediction_accepted < 5


async def test_a_prediction_longer_than_the_context_is_cut(engine: Engine) -> None:
    generation = await engine.generate(counting("x y z " * 20_000))
    assert (await generation.collect()).text.startswith("1\n2\n")


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
