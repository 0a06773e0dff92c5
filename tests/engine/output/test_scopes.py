"""Each stop counts where it is asked to: in the answer, in the thinking as well, or everywhere."""

from pathlib import Path

from engine.recording.replay import replay
from engine.recording.run_trace import trace_for
from engine.recording.saved_run import from_json, to_json
from engine.stopping.rules import Stop, StopRules, StopScope
from engine.values.request import TraceLevel
from tests.support.asking import loaded_engine, request
from tests.support.scripted import Stage

WORDS = ["<think>", "one ", "two ", "</think>", "three ", "one ", "two ", "end"]
BOTH = StopScope.TEXT_AND_THINKING


def stage(folder: Path) -> Stage:
    return Stage(folder, {"go": WORDS}, plain=["<think>", "</think>"])


def rules(*strings: str, **scopes: StopScope) -> StopRules:
    return StopRules(tuple(Stop(string, scopes.get(string)) for string in strings))


async def test_a_replay_and_a_saved_run_keep_where_stops_count(tmp_path: Path) -> None:
    made = stage(tmp_path)
    wanted = rules("one", "two", two=BOTH)

    async with loaded_engine(tmp_path, loader=made.load) as engine:
        generation = await engine.generate(request("go", rules=wanted, trace=TraceLevel.STOPS))
        trace = trace_for(generation)
        async for event in generation.events():
            trace.take(event)
        recording = trace.as_recording()
        again = from_json(to_json(recording))
        assert again.rules == wanted
        assert replay(again).stop == recording.stop
