"""Every id of the model's vocabulary has its text, also beyond a gap in the tokenizer's ids."""

from pathlib import Path

import pytest

from engine.errors import InvalidRequest
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest
from tests.support.asking import loaded_engine, scripted_answer
from tests.support.scripted import Stage

FAR, AT = "<|far|>", 300
RAW = "<|start|>user:go<|end|><|go|>"


def stage_with_a_gap(folder: Path) -> Stage:
    return Stage(folder, {"go": ["a", AT, "b"]}, far={FAR: AT})


def test_a_raw_answer_holds_the_text_of_an_id_beyond_a_gap(tmp_path: Path) -> None:
    answer = scripted_answer(stage_with_a_gap(tmp_path), "go", prompt=RAW)
    assert answer.text == f"a{FAR}b"


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
