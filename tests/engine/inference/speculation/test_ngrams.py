"""Drafts that repeat the prompt, the answer, or a predicted answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.inference.speculation.sources import NgramDrafts
from engine.values.tokens import TokenOrigin

TEXT = list(range(10, 40))


def predicted(text: list[int] = TEXT) -> NgramDrafts:
    return NgramDrafts(text, TokenOrigin.PREDICTION)


def proposed(source: NgramDrafts, count: int = 2) -> list[int]:
    return list(source.propose(count)) if source.likelihood() else []


def test_drafts_at_the_end_of_the_prompt_repeat_the_passage() -> None:
    source = NgramDrafts([7, 8, 9, 7, 8, 9])
    assert proposed(source, 7) == [7, 8, 9, 7, 8, 9, 7]


def test_prediction_is_drafted_from_its_beginning_to_its_end() -> None:
    source = predicted()
    assert source.likelihood() > 0.5
    assert proposed(source) == TEXT[:2]
    source.extend(TEXT[:2])
    assert proposed(source) == TEXT[2:4]
    source.extend(TEXT[2:])
    assert proposed(source) == []


@pytest.mark.parametrize(
    "answer", [[10, 11, 99, 13, 14, 15], [99, 98, 13, 14, 15]], ids=["edit", "text before it"]
)
def test_prediction_is_found_again_by_three_tokens(answer: list[int]) -> None:
    source = predicted()
    source.extend(answer)
    assert proposed(source) == [16, 17]


@given(st.lists(st.integers(0, 300), max_size=80), st.lists(st.integers(0, 3), max_size=40))
def test_draft_follows_a_passage_that_ends_like_the_answer(
    prompt: list[int], answer: list[int]
) -> None:
    source, known = NgramDrafts(prompt), list(prompt)
    for token in answer:
        source.extend([token])
        known.append(token)
        end = len(known)
        followers = [known[at] for at in range(3, end) if known[at - 3 : at] == known[end - 3 :]]
        drafts = proposed(source, 1)
        assert set(drafts) <= set(followers)
        assert bool(drafts) == bool(followers)
