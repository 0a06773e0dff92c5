"""Text that comes piece by piece must be the text that the tokenizer gives for the whole list."""

import random

import pytest

from engine.output.detokenizer import TokenizerDetokenizer
from tests.engine.contract.writing.vocabularies import KINDS, Model, model


def whole_text(made: Model, ids: list[int]) -> str:
    if made.raw is None:
        return made.decode(ids)
    text = b"".join(made.raw[token] for token in ids).decode("utf-8", "replace")
    return text.removeprefix(" ") if made.kind == "sentence-piece" else text


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_join_to_the_text_of_the_whole_list(kind: str) -> None:
    made = model(kind, "plain")
    rng = random.Random(kind)
    ids = [token for token in made.ids.values() if token not in made.special]
    for _ in range(300):
        script = [rng.choice(ids) for _ in range(rng.randint(1, 30))]
        detokenizer = made.backend.detokenizer(made.backend.vocabulary)
        pieces = []
        for token in script:
            seen = detokenizer.peek(token)
            pieces.append(detokenizer.add(token))
            assert seen == pieces[-1]
        text = "".join(pieces) + detokenizer.finish()
        assert text == whole_text(made, script), script


class ByteTokenizer:
    def decode(self, ids: list[int], **options: object) -> str:
        return bytes(ids).decode("utf-8", "replace")


def test_half_a_character_waits_for_the_rest_and_blocks_nothing() -> None:
    detokenizer = TokenizerDetokenizer(ByteTokenizer(), ())
    given = [*b"a", *"🚀".encode(), *"é".encode()[:1], *b"b", 0xF0]
    assert [detokenizer.add(token) for token in given] == ["a", "", "", "", "🚀", "", "\ufffdb", ""]
    assert detokenizer.finish() == "\ufffd"
    assert detokenizer.finish() == ""


def test_invalid_bytes_are_not_held_back_forever() -> None:
    detokenizer = TokenizerDetokenizer(ByteTokenizer(), ())
    text = "".join(detokenizer.add(0xFF) for _ in range(40))
    assert len(text) == 37
