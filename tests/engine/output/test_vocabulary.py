"""Every id of the model's vocabulary has its text, also beyond a gap in the tokenizer's ids."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from engine.errors import InvalidRequest
from engine.output.detokenizer import ByteDetokenizer
from engine.output.vocabulary import read_vocabulary
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest
from tests.support.asking import loaded_engine, scripted_answer
from tests.support.scripted import Stage

FAR, AT = "<|far|>", 300
RAW = "<|start|>user:go<|end|><|go|>"


def stage_with_a_gap(folder: Path) -> Stage:
    return Stage(folder, {"go": ["a", AT, "b"]}, far={FAR: AT})


@pytest.mark.parametrize(
    ("rules", "kind", "value"),
    [
        (StopRules.of(FAR), StopKind.STOP_STRING, FAR),
        (StopRules(token_ids=(AT,)), StopKind.STOP_TOKEN, AT),
    ],
)
def test_an_id_beyond_a_gap_is_a_stop(
    tmp_path: Path, rules: StopRules, kind: StopKind, value: str | int
) -> None:
    answer = scripted_answer(stage_with_a_gap(tmp_path), "go", rules=rules)
    assert (answer.text, answer.finished.stop.kind) == ("a", kind)
    assert answer.finished.stop.value == value
    assert answer.finished.stop.token_text == FAR


async def test_a_prompt_may_hold_every_id_of_the_vocabulary_and_no_other(tmp_path: Path) -> None:
    stage = stage_with_a_gap(tmp_path)

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        ids = (AT, *(token_id for token_id, _ in await engine.tokenize(RAW)))
        assert (await (await engine.generate(GenerationRequest((), prompt=ids))).collect()).text
        assert await engine.detokenize((AT,)) == FAR
        for token_id in (AT + 1, -1):
            with pytest.raises(InvalidRequest, match=r"prompt\[1\].* the vocabulary of 301"):
                await engine.generate(GenerationRequest((), prompt=(AT, token_id)))


def spaces_and_bytes() -> Any:
    return decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )


@pytest.mark.parametrize("decoder", [spaces_and_bytes, decoders.Metaspace], ids=["bytes", "spaces"])
def test_runs_of_spaces_that_were_added_to_a_vocabulary_are_spaces(
    tmp_path: Path, decoder: Any
) -> None:
    """Gemma's vocabularies have such tokens; code is indented with them."""
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "def", "\u2581f", "return"]
    fast = Tokenizer(models.BPE({name: at for at, name in enumerate(names)}, [], unk_token="<unk>"))
    fast.decoder = decoder()
    added = ["\u2581" * 2, "\u2581" * 4, "\n\n", "<table>"]
    fast.add_tokens([AddedToken(text, special=False, normalized=False) for text in added])
    fast.save(str(tmp_path / "tokenizer.json"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=fast, unk_token="<unk>")
    vocabulary = read_vocabulary(tmp_path, tokenizer, (), len(tokenizer))
    for text in added:
        ids = tokenizer.convert_tokens_to_ids(["def", text, "return"])
        whole = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        assert "\u2581" not in whole
        assert "".join(map(vocabulary.text_of, ids)) == whole
        if vocabulary.raw is not None:
            detokenizer = ByteDetokenizer(vocabulary)
            assert "".join(map(detokenizer.add, ids)) == whole
