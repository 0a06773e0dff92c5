"""The events of a call while it is written, token by token, and at its end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.inference.backend import BatchLimits
from engine.output.answer import AnswerBuilder, DecodingSetting
from engine.output.channels import Beginning
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules, StopScope
from engine.values.events import (
    Event,
    TextDelta,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from tests.support.asking import request
from tests.support.models.formats import ADD, CALL, FORMATS, HARMONY, tool_template
from tests.support.scripted import END, Stage

OPEN, CLOSE = "<tool_call>", "</tool_call>"
HEAD = '{"name": "add", "arguments": {"b": "'


def words(events: Sequence[Event]) -> list[str]:
    """Return events in short: a call's start, its arguments, its end, and text."""
    return [_word(event) for event in events]


def _word(event: Event) -> str:
    match event:
        case ToolCallStarted():
            return f"start {event.name}"
        case ToolCallArguments():
            return event.text
        case ToolCallAbandoned():
            return "abandoned"
        case ToolCallCompleted():
            return f"call {event.call.name} {event.call.arguments}"
        case TextDelta():
            return f"text {event.text}"
        case _:
            raise AssertionError(event)


class Play:
    """One answer of a scripted model, fed token by token."""

    def __init__(
        self,
        folder: Path,
        script: Sequence[str],
        rules: StopRules | None = None,
        *,
        style: str = "json",
        max_tokens: int | None = None,
        beginning: Beginning | None = None,
        **options: Any,
    ) -> None:
        if style in FORMATS:
            tags, marker, _ = FORMATS[style]
            options = {"special": tags, "template": tool_template(marker)}
        stage = Stage(folder, {"go": script}, **options)
        backend = stage.load(folder, limits=BatchLimits(64, 0, 1))
        asked = request("go", tools=(ADD,))
        self.builder = AnswerBuilder(
            setting=DecodingSetting(
                family=backend.answer_format(asked, backend.render(asked)),
                context_budget=10_000,
                beginning=beginning or Beginning(),
            ),
            rules=rules or StopRules(),
            max_tokens=max_tokens,
            vocabulary=backend.vocabulary,
            detokenizer=backend.detokenizer(backend.vocabulary),
            new_reader=backend.call_readers(asked),
        )
        self.told: list[list[str]] = []
        self.stop: StopInfo | None = None
        for token_id in stage.scripts["go"]:
            self.stop = self.builder.add(token_id)
            self.told.append(words(self.builder.take_events()))
            if self.stop is not None:
                break

    @property
    def all(self) -> list[str]:
        return [word for told in self.told for word in told]


def test_the_name_comes_first_and_strings_grow_token_by_token(tmp_path: Path) -> None:
    play = Play(
        tmp_path,
        ["Sure. ", OPEN, '{"na', 'me": "a', 'dd"', ', "arguments": {', '"a":1', '2,"b"', ': "x\\',
         'n\\u00e', '9y', '"}', "}", CLOSE, END],
    )  # fmt: skip
    assert play.told == [
        ["text Sure. "], [], [], [], [], ["start add", "{"], ['"a": '], ['12, "b"'], [': "x'],
        ["\\n"], ["éy"], ['"'], [], ["}", 'call add {"a": 12, "b": "x\\néy"}'], [],
    ]  # fmt: skip
    assert play.stop is not None
    assert play.stop.kind is StopKind.TOOL_CALL


def test_a_harmony_call_starts_with_its_header_and_goes_on_as_it_is_written(tmp_path: Path) -> None:
    play = Play(tmp_path, [*CALL[2:-1], "<|return|>"], style="", **HARMONY)
    assert play.told[-4:] == [
        [],
        ["start get_weather", '{"city":'],
        ['"Paris"'],
        ["}", 'call get_weather {"city":"Paris"}'],
    ]


def test_a_call_that_the_prompt_began_is_sent_from_its_beginning(tmp_path: Path) -> None:
    beginning = Beginning(Channel.TOOL, call='{"name": "add", "arguments": {"a')
    play = Play(tmp_path, ['": 1', "}}", CLOSE, END], beginning=beginning)
    assert play.all == ["start add", '{"a', '": ', "1", "}", 'call add {"a": 1}']


# -- calls that are none ----------------------------------------------------------------------


def test_a_call_cut_by_the_limit_is_withdrawn_and_its_arguments_stay_incomplete(
    tmp_path: Path,
) -> None:
    play = Play(tmp_path, [OPEN, HEAD, "long ", "text", '"}}', CLOSE], max_tokens=5)
    assert play.all == ["start add", '{"b": "', "long ", "text", '"', "abandoned"]
    assert play.stop is not None
    assert play.stop.kind is StopKind.MAX_TOKENS
    assert play.builder.reader.text.unfinished == f'{HEAD}long text"}}}}'


# -- stops ------------------------------------------------------------------------------------


def test_stop_in_call_arguments_is_held_back(tmp_path: Path) -> None:
    rules = StopRules.of("STOP", scope=StopScope.ALL)
    held = Play(tmp_path / "a", [OPEN, HEAD, "1 ST", "ART", " 2", '"}}', CLOSE, END], rules)
    assert held.told[2:6] == [["1 "], ["START"], [" 2"], ['"']]
    cut = Play(tmp_path / "b", [OPEN, HEAD, "1 ST", "OP", '"}}', CLOSE, END], rules)
    assert cut.told[2:] == [["1 "], ["abandoned"]]
    assert cut.stop is not None
    assert (cut.stop.kind, cut.stop.channel) == (StopKind.STOP_STRING, Channel.TOOL)


@pytest.mark.parametrize("is_whole", [True, False])
def test_no_part_of_a_stop_is_sent_in_a_call_that_may_turn_out_to_be_text(
    tmp_path: Path, is_whole: bool
) -> None:
    script = [OPEN, HEAD, "1 ST", "OP 2", '"}}' if is_whole else "oops", CLOSE, END]
    play = Play(tmp_path, script, StopRules.of("STOP"))
    assert play.told[:4] == [[], ["start add", '{"b": "'], ["1 "], []]
    assert play.stop is not None
    if is_whole:
        assert play.told[5] == ['STOP 2"}', 'call add {"b": "1 STOP 2"}']
        assert play.stop.kind is StopKind.TOOL_CALL
    else:
        assert play.told[5] == ["abandoned", f"text {HEAD}1 "]
        assert play.stop.value == "STOP"
