"""The counts of guesses are those of the tokens that belong to the answer."""

from engine.values.events import Speculation, VerifiedDrafts, add_pass
from engine.values.tokens import TokenOrigin

SAMPLED, LOOKUP = TokenOrigin.SAMPLED, TokenOrigin.LOOKUP
PREDICTION, FORCED = TokenOrigin.PREDICTION, TokenOrigin.FORCED


def test_accepted_and_rejected_guesses_are_counted_by_their_source() -> None:
    found = VerifiedDrafts((PREDICTION, PREDICTION, LOOKUP), (SAMPLED, PREDICTION))
    assert add_pass(Speculation(passes=2, guessed=4), found) == Speculation(
        passes=3, guessed=7, accepted=1, prediction_accepted=1, prediction_rejected=1
    )


def test_each_source_is_counted_with_what_it_gave() -> None:
    head, draft = TokenOrigin.HEAD, TokenOrigin.DRAFT
    found = add_pass(Speculation(), VerifiedDrafts((head, head, head), (SAMPLED, head, head)))
    found = add_pass(found, VerifiedDrafts((draft,), (SAMPLED, draft)))
    assert add_pass(found, VerifiedDrafts((LOOKUP,), (SAMPLED, LOOKUP))) == Speculation(
        passes=3, guessed=5, accepted=4, lookup_accepted=1, draft_accepted=1, head_accepted=2
    )


def test_forced_tokens_are_no_guesses() -> None:
    found = VerifiedDrafts((FORCED, FORCED), (SAMPLED, FORCED, FORCED))
    assert add_pass(Speculation(), found) == Speculation(passes=1, forced=2)


def test_guesses_beyond_the_end_of_the_answer_are_not_counted() -> None:
    found = VerifiedDrafts((PREDICTION,) * 4, (SAMPLED, PREDICTION, PREDICTION, PREDICTION))
    assert add_pass(Speculation(), found, taken=2) == Speculation(
        passes=1, guessed=1, accepted=1, prediction_accepted=1
    )
    assert add_pass(Speculation(), found, taken=1) == Speculation()
