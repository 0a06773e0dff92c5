"""Checks that a model can be the draft model of another. Engine thread."""

from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache

from engine.errors import DraftLoadFailed
from engine.inference.drafting.draft_model import LoadedDraft
from engine.output.vocabulary import Vocabulary

_MOST_SHOWN = 40


def check_draft(draft: LoadedDraft, target: str, vocabulary: Vocabulary) -> None:
    """Make sure that a model can guess for another one."""
    name = draft.info.id
    lead = f"{name} cannot be the draft model of {target}"
    if (difference := _difference(name, draft.vocabulary, target, vocabulary)) is not None:
        raise DraftLoadFailed(
            f"{lead}: their vocabularies differ ({difference}); choose a smaller model of the same "
            "family"
        )
    if not can_trim_prompt_cache(make_prompt_cache(draft.model)):
        raise DraftLoadFailed(
            f"{lead}: its cache cannot be cut back to an earlier token, which wrong guesses "
            "require; choose a model with full attention"
        )


def _difference(name: str, own: Vocabulary, target: str, other: Vocabulary) -> str | None:
    """Return the first token that two vocabularies do not share; None where they are the same."""
    if len(own.text) != len(other.text):
        return f"{name} has {len(own.text):,} tokens, {target} has {len(other.text):,}"
    for token_id in range(len(own.text)):
        one, two = own.bytes_of(token_id), other.bytes_of(token_id)
        if one != two or (token_id in own.special) != (token_id in other.special):
            return (
                f"token {token_id} is {_shown(own, token_id)} in {name} and "
                f"{_shown(other, token_id)} in {target}"
            )
    return None


def _shown(vocabulary: Vocabulary, token_id: int) -> str:
    text = repr(vocabulary.text_of(token_id)[:_MOST_SHOWN])
    return f"the special token {text}" if token_id in vocabulary.special else text
