"""A replay gives what a real run would have given, and a saved run is read as it was written."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.files.json_fields import DamagedFile
from engine.generation import Generation
from engine.recording.replay import Replayed, replay
from engine.recording.run_trace import RunTrace, trace_for
from engine.recording.saved_run import from_json, to_json
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules, StopScope
from engine.values.events import Speculation
from engine.values.request import GenerationRequest, TraceLevel
from engine.values.tokens import TokenOrigin
from tests.support.asking import loaded_engine, request
from tests.support.models.formats import ADD
from tests.support.scripted import END, Stage


async def recorded(engine: Engine, asked: GenerationRequest) -> RunTrace:
    asked = dataclasses.replace(asked, trace=TraceLevel.STOPS)
    generation: Generation = await engine.generate(asked)
    trace = trace_for(generation)
    async for event in generation.events():
        trace.take(event)
    return trace


async def test_other_stops_on_a_recording_give_what_a_real_run_gives(tmp_path: Path) -> None:
    script: list[str | int] = ["<think>", "x END", "</think>", "one ", "EN", "D two", " 🚀 three"]
    stage = Stage(tmp_path, {"go": script}, plain=["<think>", "</think>"], pieces=["x END"])
    lists: list[StopRules] = [
        StopRules(),
        StopRules.of("END"),
        StopRules.of("🚀", "two"),
        StopRules.of("never"),
        StopRules.of("END", scope=StopScope.ALL),
        StopRules.of("END", include_stop=True),
        StopRules.of("END", min_tokens=9),
        StopRules(token_ids=(stage.id("e"),)),
        StopRules.of(END),
    ]

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        whole = await recorded(engine, request("go"))
        for rules in lists:
            generation = await engine.generate(request("go", rules=rules))
            real = await generation.collect()
            again = replay(whole, rules)
            assert again.stop == real.finished.stop, rules
            assert (again.text, again.thinking) == (real.text, real.thinking)
            assert again.output_tokens == real.finished.usage.output_tokens


async def test_tools_called_with_the_same_arguments_keep_their_names_in_a_replay(
    tmp_path: Path,
) -> None:
    markers = ["<|channel|>", "<|message|>", "<|call|>", "<|constrain|>"]
    script = [
        piece
        for name in ("functions.add", "functions.mul")
        for piece in ("<|start|>", f"assistant to={name}", "<|message|>", '{"a": 1}', "<|end|>")
    ]
    stage = Stage(tmp_path, {"go": script}, special=markers, eos="<|return|>")
    assert [call.name for call in (await replayed(stage)).calls] == ["add", "mul"]


async def replayed(stage: Stage) -> Replayed:
    async with loaded_engine(stage.folder, loader=stage.load) as engine:
        return replay(await recorded(engine, request("go", tools=(ADD,))))


def saved() -> dict[str, object]:
    from engine.output.answer import DecodingSetting
    from engine.stopping.record import StopInfo

    recording = RunTrace(DecodingSetting(), StopRules.of("a"), stop=StopInfo(StopKind.EOS))
    values: dict[str, object] = json.loads(to_json(recording))
    return values


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fullstop_run": 3}, "fullstop_run: this version reads 2"),
        ({"tokens": [{"id": "x"}]}, r"tokens\[0\]\.hex: is missing"),
        ({"stop": {"kind": "odd"}}, "stop.kind"),
        ({"setting": {"channels": {"harmony": {"<a>": math.inf}}}}, r"harmony\.<a>: must be a"),
        ({"setting": {"channels": {}}}, r"setting\.context_room: is missing"),
        ({"rules": {"strings": ["a"], "scopes": [[["a"], "all"]]}}, "stops: unhashable"),
        ({"setting": {"family": {"tags": {"9" * 5_000: "<a>"}}}}, "'9{40}' is not a whole number"),
        ({"setting": {"family": {"parts": {"5": "\ud800"}}}}, "contains half of a character"),
        ({"rules": {"repetition": {"max_pattern_size": 0}}}, r"repetition: .*max_pattern_size"),
    ],
)
def test_a_damaged_run_names_the_place(change: dict[str, object], message: str) -> None:
    with pytest.raises(DamagedFile, match=message):
        from_json(json.dumps({**saved(), **change}))


def test_stops_in_a_file_are_checked_like_any_others() -> None:
    values = saved()
    values["rules"]["stops"] = [{"text": ""}]  # type: ignore[index]
    with pytest.raises(DamagedFile, match=r"rules\.stops\[0\]"):
        from_json(json.dumps(values))


async def test_a_saved_run_keeps_which_tokens_were_guessed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["one", " two"]})

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        plain = await recorded(engine, request("go"))
    first, *others = plain.tokens
    guessed = dataclasses.replace(
        plain,
        tokens=[first, *(dataclasses.replace(one, origin=TokenOrigin.LOOKUP) for one in others)],
        speculation=Speculation(passes=1, guessed=3, accepted=2),
    )
    saved = to_json(guessed)
    assert to_json(from_json(saved)) == saved
    later = saved.replace('"lookup"', '"a source of a later version"')
    assert {one.origin for one in from_json(later).tokens} == {TokenOrigin.SAMPLED}
