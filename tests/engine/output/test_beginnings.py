"""An answer that goes on from recorded tokens is the rest of the answer that was recorded."""

from pathlib import Path

import pytest

from engine.inference.backend import BatchLimits
from engine.output.answer import AnswerBuilder, DecodingSetting
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.events import TextDelta
from tests.support.asking import request
from tests.support.scripted import END, Stage

WORDS = ["<think>", "hm", "\n", "</think>", "\n", "\n", "One", "\n", "two", END]


def rest(stage: Stage, count: int, rules: StopRules) -> tuple[str, StopKind]:
    """Return the text behind the first tokens, and why it ends."""
    backend = stage.load(stage.folder, limits=BatchLimits(64, 0, 1))
    asked = request("go", rules=rules, begun=tuple(stage.scripts["go"][:count]))
    builder = AnswerBuilder(
        setting=DecodingSetting(
            family=backend.family, context_budget=100, beginning=backend.render(asked).beginning
        ),
        rules=rules,
        max_tokens=None,
        vocabulary=backend.vocabulary,
        detokenizer=backend.detokenizer(backend.vocabulary),
    )
    for token_id in stage.scripts["go"][count:]:
        if stop := builder.add(token_id):
            texts = [event.text for event in builder.text.events if isinstance(event, TextDelta)]
            return "".join(texts), stop.kind
    raise AssertionError("the answer never ends")


@pytest.mark.parametrize("count", range(7))
def test_white_space_behind_reasoning_is_no_text_wherever_the_answer_goes_on(
    tmp_path: Path, count: int
) -> None:
    stage = Stage(tmp_path, {"go": WORDS}, plain=["<think>", "</think>"])
    assert rest(stage, count, StopRules()) == ("One\ntwo", StopKind.EOS)
    assert rest(stage, count, StopRules.of("\n")) == ("One", StopKind.STOP_STRING)


def test_white_space_inside_an_answer_is_text_where_it_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": WORDS}, plain=["<think>", "</think>"])
    assert rest(stage, 7, StopRules()) == ("\ntwo", StopKind.EOS)
    assert rest(stage, 7, StopRules.of("\n")) == ("", StopKind.STOP_STRING)
