"""What constrained answers need is made for the first of them, beside the engine thread."""

from pathlib import Path
from typing import Any

import pytest
from llguidance import LLTokenizer
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from engine.errors import InvalidRequest
from engine.grammar import masks
from engine.grammar.masks import ConstraintTokens
from engine.output.families import PLAIN
from engine.output.vocabulary import read_vocabulary
from engine.values.request import OutputConstraint
from tests.support.asking import ask, loaded_engine
from tests.support.scripted import Stage

ROOT = Path(__file__).parents[3]
EMPTY = OutputConstraint({"type": "object", "properties": {}})


def test_grammar_vocabulary_is_that_of_the_tokenizer(demo_model_path: Path, tmp_path: Path) -> None:
    for folder in (demo_model_path, sentence_pieces(tmp_path)):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        size = len(tokenizer) + 40
        vocabulary = read_vocabulary(folder, tokenizer, {0}, size)
        own = LLTokenizer(tokenizer.backend_tokenizer.to_str(), n_vocab=size, eos_token=[0])
        told = ConstraintTokens(tokenizer, vocabulary, PLAIN).tokenizer
        assert (told.vocab_size, told.eos_tokens, told.is_canonical) == (size, [0], True)
        for token_id in range(size):
            assert told.is_special_token(token_id) == own.is_special_token(token_id)
            assert told.decode_bytes([token_id]) == own.decode_bytes([token_id])
        for text in ('{"name": "x"}', " hello world", "é👋\n", '{"a":\n  1.5}', "<|im_end|>", ""):
            ids = told.tokenize_bytes(text.encode())
            assert b"".join(vocabulary.bytes_of(one) for one in ids) == text.encode()
            if folder is demo_model_path:
                assert ids == own.tokenize_bytes(text.encode())


def sentence_pieces(folder: Path) -> Path:
    """Write a tokenizer of pieces and single bytes, which begins each text with a space."""
    pieces = ["</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a", "he", "l", "lo"]
    tokenizer = Tokenizer(
        models.BPE({piece: n for n, piece in enumerate(pieces)}, [], byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.add_tokens(["<plain>", "[CALL]"])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(folder)
    return folder


async def test_constrained_request_with_unusable_tokenizer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unusable(*_: Any) -> Any:
        raise ValueError("no such kind")

    monkeypatch.setattr(masks, "new_tokenizer", unusable)
    stage = Stage(tmp_path, {"{}": ["{", "}"]})

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        for _ in range(2):
            with pytest.raises(InvalidRequest, match="constrained to a form: no such kind"):
                await ask(engine, "{}", constraint=EMPTY)
        assert (await ask(engine, "{}")).text == "{}"
