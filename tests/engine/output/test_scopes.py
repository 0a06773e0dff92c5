"""Each stop counts where it is asked to: in the answer, in the thinking as well, or everywhere."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.recording.replay import replay
from engine.recording.run_trace import trace_for
from engine.recording.saved_run import from_json, to_json
from engine.stopping.record import Channel
from engine.stopping.rules import Stop, StopRules, StopScope
from engine.values.events import TokenTrace
from engine.values.request import TraceLevel
from tests.support.asking import events_of, loaded_engine, request
from tests.support.scripted import Stage

WORDS = ["<think>", "one ", "two ", "</think>", "three ", "one ", "two ", "end"]
BOTH = StopScope.TEXT_AND_THINKING


def stage(folder: Path) -> Stage:
    return Stage(folder, {"go": WORDS}, plain=["<think>", "</think>"])


def rules(*strings: str, **scopes: StopScope) -> StopRules:
    return StopRules(tuple(Stop(string, scopes.get(string)) for string in strings))


async def test_the_trace_tells_the_progress_of_each_under_its_own_number(tmp_path: Path) -> None:
    made = stage(tmp_path)
    wanted = rules("onex", "two x", onex=BOTH)
    async with loaded_engine(tmp_path, loader=made.load) as engine:
        events = await events_of(engine, "go", rules=wanted, trace=TraceLevel.STOPS)
    tokens = [event for event in events if isinstance(event, TokenTrace)]
    assert all(len(token.progress) == 2 for token in tokens)
    # While it thinks, only the first is looked for.
    assert not any(token.progress[1] for token in tokens if token.channel is Channel.THINKING)
    assert any(token.progress[1] == 4 for token in tokens if token.channel is Channel.TEXT)


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


@given(st.lists(st.sampled_from(["a", "b", "ab"]), unique=True, max_size=3), st.data())
@settings(deadline=None)
def test_what_counts_in_a_channel_is_what_its_scope_says(
    strings: list[str], data: st.DataObject
) -> None:
    scopes = {string: data.draw(st.sampled_from(list(StopScope))) for string in strings}
    made = StopRules(tuple(Stop(string, scope) for string, scope in scopes.items()))
    for channel in Channel:
        counting = [strings[number] for number in made.counting_in(channel)]
        assert counting == [one for one in strings if channel in scopes[one].channels]
