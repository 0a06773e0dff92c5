"""Prompt lookup guesses that a passage continues as it did before."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.inference.speculation.sources import _LEAST_LEFT, MOST_INDEXED, PromptLookup

FOX = [10, 11, 12, 13, 14, 15, 16, 17]


def test_what_followed_the_last_tokens_in_the_prompt_is_guessed() -> None:
    lookup = PromptLookup([1, *FOX, 2, 3])
    assert lookup.likelihood() == 0
    lookup.extend(FOX[:3])
    assert list(lookup.propose(4)) == FOX[3:7]
    lookup.extend([FOX[3]])
    assert list(lookup.propose(9)) == [*FOX[4:], 2, 3, *FOX[:3]]


def test_what_followed_in_the_answer_itself_is_guessed() -> None:
    lookup = PromptLookup([1, 2])
    lookup.extend([*FOX, 5, *FOX[:4]])
    assert list(lookup.propose(2)) == FOX[4:6]


def test_the_newest_passage_counts() -> None:
    lookup = PromptLookup([1, 2, 3, 4, 9, 1, 2, 3, 5, 9])
    lookup.extend([1, 2, 3])
    assert list(lookup.propose(1)) == [5]


def test_a_passage_that_repeats_itself_is_guessed_to_continue() -> None:
    lookup = PromptLookup([1])
    lookup.extend([7, 8] * 4)
    assert list(lookup.propose(5)) == [7, 8, 7, 8, 7]


def test_the_end_of_the_prompt_is_looked_up_before_the_first_token() -> None:
    assert list(PromptLookup([*FOX, 1, *FOX[:3]]).propose(2)) == FOX[3:5]


def test_longer_passages_are_trusted_more_and_misses_cost_trust() -> None:
    lookup = PromptLookup(range(100, 140))
    lookup.extend(range(100, 103))
    short = lookup.likelihood()
    lookup.extend(range(103, 120))
    assert lookup.likelihood() > short > 0
    trust = []
    for n in range(5):
        lookup.extend([n, 100, 101, 102])
        trust.append(lookup.likelihood())
    assert trust == sorted(trust, reverse=True)
    assert trust[-1] < trust[0]


def test_a_token_that_was_not_expected_ends_a_short_passage() -> None:
    lookup = PromptLookup([*FOX, 1])
    lookup.extend(FOX[:4])
    lookup.extend([99])
    assert lookup.likelihood() == 0
    assert list(lookup.propose(3)) == []


TEXT = list(range(100, 140))


@pytest.mark.parametrize(
    ("answer", "following"),
    [
        ([99], TEXT[21:24]),  # one token was replaced
        ([99, 98], TEXT[22:25]),  # two were
        ([TEXT[23]], TEXT[24:27]),  # three were left out
        ([99, 98, TEXT[20]], TEXT[21:24]),  # two were added
        ([99, 98, 97, TEXT[21]], TEXT[22:25]),  # one was replaced by three
        ([99, TEXT[23]], TEXT[24:27]),  # three were replaced by one
    ],
)
def test_a_long_passage_is_found_again_behind_tokens_that_differ(
    answer: list[int], following: list[int]
) -> None:
    lookup = PromptLookup([1, *TEXT])
    lookup.extend([*TEXT[:20], *answer])
    assert lookup.likelihood() > 0.3
    assert list(lookup.propose(3)) == following


def test_a_passage_that_is_found_again_is_trusted_as_before_after_two_tokens() -> None:
    lookup = PromptLookup([1, *TEXT])
    lookup.extend(TEXT[:20])
    before = lookup.likelihood()
    lookup.extend([99])
    trust = [lookup.likelihood()]
    for token in TEXT[21:23]:
        lookup.extend([token])
        trust.append(lookup.likelihood())
    assert trust[0] < min(trust[1:])
    assert trust[0] < 0.8 * before < trust[-1]


def test_a_passage_that_does_not_come_back_is_given_up() -> None:
    lookup = PromptLookup([1, *TEXT])
    lookup.extend([*TEXT[:20], *range(200, 212)])
    assert lookup.likelihood() > 0
    lookup.extend([212])
    assert lookup.likelihood() == 0
    lookup.extend([TEXT[21]])
    assert lookup.likelihood() == 0


def test_another_passage_that_agrees_is_preferred_to_the_one_that_was_left() -> None:
    lookup = PromptLookup([7, 8, 9, 10, 1, *TEXT])
    lookup.extend([*TEXT[:20], 7, 8])
    assert list(lookup.propose(1)) == [TEXT[22]]
    lookup.extend([9])
    assert list(lookup.propose(1)) == [10]


def test_a_passage_that_never_comes_back_costs_its_trust() -> None:
    lookup = PromptLookup([1, *TEXT])
    trust = []
    for n in range(6):
        lookup.extend([*TEXT[:20], 200 + n])
        trust.append(lookup.likelihood())
        lookup.extend(range(300 + 40 * n, 320 + 40 * n))
    assert trust == sorted(trust, reverse=True)
    assert trust[-1] < 0.3


def test_the_edits_of_a_page_cost_little() -> None:
    # Of 400 tokens one in 40 is replaced, added, or left out in turn.
    draws = random.Random(4)
    page = [draws.randrange(1000) for _ in range(400)]
    answer: list[int] = []
    for at, token in enumerate(page):
        if at % 40 == 39:
            answer += [[2000 + at], [token, 2000 + at], []][at // 40 % 3]
        else:
            answer.append(token)
    lookup = PromptLookup(page)
    unguessed = 0
    for token in answer:
        unguessed += list(lookup.propose(1)) != [token]
        lookup.extend([token])
    # Each edit costs a token of its own, and one more after some that were added.
    assert unguessed <= 20


def test_a_long_prompt_is_indexed_bit_by_bit_from_its_end() -> None:
    prompt = [n % 9_973 for n in range(3_000)]
    lookup = PromptLookup(prompt)
    lookup.extend([5, 6, 7])  # at the beginning, which is not indexed yet
    assert lookup.likelihood() == 0
    for _ in range(10):
        lookup.extend([8_000])
    lookup.extend([15, 16, 17])
    assert list(lookup.propose(2)) == [18, 19]


def test_of_a_very_long_prompt_only_the_last_tokens_are_kept() -> None:
    lookup = PromptLookup(range(MOST_INDEXED + 500))
    for n in range(200):
        lookup.extend([100_000 + n])
    lookup.extend([100, 101, 102])
    assert lookup.likelihood() == 0
    lookup.extend([600, 601, 602])
    assert list(lookup.propose(1)) == [603]


def followers(tokens: list[int]) -> list[int]:
    """Return, slowly, the tokens that may follow: those after the last three seen before."""
    end = len(tokens)
    return [
        tokens[at] for at in range(3, end) if end >= 3 and tokens[at - 3 : at] == tokens[end - 3 :]
    ]


def agrees(tokens: list[int], most: int) -> bool:
    """Return whether a run of this many tokens occurs twice."""
    runs = [tuple(tokens[at : at + most]) for at in range(len(tokens) - most + 1)]
    return len(set(runs)) < len(runs)


@example([0] * 5, [0, 0, 0, 0, 1])
@given(st.lists(st.integers(0, 2), max_size=60), st.lists(st.integers(0, 2), max_size=30))
def test_a_guess_follows_a_passage_that_ends_like_the_answer(
    prompt: list[int], answer: list[int]
) -> None:
    lookup = PromptLookup(prompt)
    known = list(prompt)
    for token in answer:
        lookup.extend([token])
        known.append(token)
        if agrees(known, _LEAST_LEFT):
            return  # such a passage is searched again where the answer differs from it
        guessed = list(lookup.propose(1))
        assert bool(guessed) == (lookup.likelihood() > 0)
        assert set(guessed) <= set(followers(known))
        assert bool(guessed) == bool(followers(known))


@given(st.lists(st.integers(0, 3), max_size=80), st.lists(st.integers(0, 3), max_size=80))
def test_tokens_told_together_or_one_by_one_give_the_same_guesses(
    prompt: list[int], answer: list[int]
) -> None:
    one, other = PromptLookup(prompt), PromptLookup(prompt)
    one.extend(answer)
    for token in answer:
        other.extend([token])
    assert one.propose(9) == other.propose(9)
    assert one.likelihood() == other.likelihood()
