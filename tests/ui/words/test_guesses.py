"""What guessing did, in words."""

import pytest

from engine import acceptance
from engine.values.events import Speculation
from ui.words import guess_words


def test_an_answer_without_guesses_says_so() -> None:
    assert guess_words(Speculation(), 40) == (
        "No tokens were guessed: each of them took a pass of its own."
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            Speculation(passes=1, guessed=3, accepted=0),
            "Guesses were checked in 1 pass: the model confirmed 0 of 3 (0 %).",
        ),
        (
            Speculation(passes=3, guessed=12, accepted=9),
            "Guesses were checked in 3 passes: the model confirmed 9 of 12 (75 %). "
            "9 of 40 tokens took no pass of their own.",
        ),
        (
            Speculation(
                passes=9,
                guessed=40,
                accepted=33,
                lookup_accepted=12,
                draft_accepted=1,
                head_accepted=20,
            ),
            "Guesses were checked in 9 passes: the model confirmed 33 of 40 (82 %). "
            "They came from repetition (12), the draft model (1) and the model’s own draft head "
            "(20). 33 of 40 tokens took no pass of their own.",
        ),
        (
            Speculation(passes=1, forced=1),
            "1 token was forced, because the schema or the call allowed no other. "
            "1 of 40 tokens took no pass of their own.",
        ),
        (
            Speculation(
                passes=2, guessed=5, accepted=3, prediction_accepted=3, prediction_rejected=2
            ),
            "Guesses were checked in 2 passes: the model confirmed 3 of 5 (60 %). "
            "They came from the prediction (3). "
            "Of 5 tokens of the request’s prediction, 3 were confirmed. "
            "3 of 40 tokens took no pass of their own.",
        ),
    ],
)
def test_guesses_are_told_in_words_and_figures(found: Speculation, words: str) -> None:
    assert guess_words(found, 40) == words


def test_acceptance_is_empty_where_nothing_was_guessed() -> None:
    assert acceptance(Speculation(passes=1, forced=4)) == ""
    assert (
        acceptance(Speculation(passes=400, guessed=1200, accepted=1100)) == "1,100 of 1,200 (92 %)"
    )
