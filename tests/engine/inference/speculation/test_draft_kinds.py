"""Draft models of every kind of cache go on right after guesses that were wrong."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from engine.inference.speculation.draft_model import DraftModel, LoadedDraft
from tests.support.models.architectures import VOCABULARY, WINDOW
from tests.support.models.random_batches import PlainLoop
from tests.support.models.tiny_models import KINDS, tiny_model

# Longer than the window, which is then full.
_PROMPT = [n * 7 % 61 + 1 for n in range(WINDOW + 9)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_model_guesses_what_it_would_write_after_the_answer_so_far(kind: str) -> None:
    model: Any = tiny_model(kind)
    vocabulary: Any = SimpleNamespace(size=VOCABULARY)
    info: Any = None
    draft = DraftModel(LoadedDraft(model, info, vocabulary), 1 << 20)
    guesses = draft.drafts("person", _PROMPT)
    assert guesses is not None
    guesses.read_on(9)
    assert guesses._read == 9
    guesses.read_on(512)
    draws = random.Random(4)
    known, plain, compared = [*_PROMPT], PlainLoop(model), 0
    for _ in range(12):
        # The answer takes some of the guesses, and then another token.
        proposed = list(guesses.propose(4))
        if proposed:
            assert proposed == plain.answer(known, len(proposed))[0]
            compared += 1
        taken = [*proposed[: draws.randint(0, 4)], draws.randrange(1, VOCABULARY)]
        guesses.extend(taken)
        known += taken
    assert compared > 8
    guesses.finish()
    # The next turn begins with what the draft model has read of the answer.
    again = draft.drafts("person", [*known, 5])
    assert again is not None
    again.read_on(512)
    assert list(again.propose(3)) == plain.answer([*known, 5], 3)[0]
