"""A trace holds what a saved run says, so that both replay alike."""

import json
import zlib
from dataclasses import replace

from engine.output.answer import DecodingSetting
from engine.recording.replay import with_replayed_tokens
from engine.recording.run_trace import RunTrace
from engine.recording.saved_run import from_json, to_json
from engine.recording.stored_trace import packed, unpacked
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import Stop, StopRules, StopScope
from engine.values.events import (
    BudgetEnd,
    EndDetails,
    Finished,
    Timing,
    TokenTrace,
    ToolCallCompleted,
    Usage,
)
from engine.values.request import GenerationRequest, LimitSource, ToolCall

CALL = '{"name": "look", "arguments": {}}'
DETAILS = EndDetails(LimitSource.SERVER, BudgetEnd(token_index=1, forced=1, budget=1))


def token(index: int) -> TokenTrace:
    return TokenTrace(index, 5, "a", b"a", Channel.TEXT, 0.1, 1, "", ())


def ended() -> RunTrace:
    """A run that called the same tool twice, with the same text."""
    trace = RunTrace(DecodingSetting("m"), StopRules(), 9)
    for index in range(2):
        trace.take(token(index))
        trace.take(
            ToolCallCompleted(index, ToolCall(f"call_{index}", "look", "{}"), CALL, index + 1)
        )
    stop = StopInfo(StopKind.EOS)
    end = Finished(stop, Usage(1, 0, 2, 1), Timing(), details=DETAILS)
    trace.take(end)
    return trace


def test_details_of_an_end_are_kept_packed_and_saved() -> None:
    for kept in (unpacked(packed(ended())), with_replayed_tokens(from_json(to_json(ended())))):
        assert kept.details == DETAILS


def test_a_trace_of_an_earlier_version_opens_with_its_calls_and_scopes() -> None:
    trace = ended()
    trace.rules = StopRules((Stop("a", StopScope.ALL), Stop("b")), token_ids=(5,))
    trace.request = GenerationRequest(prompt="go", stops=trace.rules)
    values = json.loads(zlib.decompress(packed(trace)))
    earlier = {"strings": ["a", "b"], "token_ids": [5], "scopes": [["a", "all"]]}
    for holder, name in ((values, "rules"), (values["request"], "stops")):
        del holder[name]["stops"]
        holder[name] |= earlier
    values["calls"] = {CALL: values["calls"][0]["calls"]}

    opened = unpacked(zlib.compress(json.dumps(values).encode()))

    assert opened.rules == trace.rules
    assert opened.request == trace.request
    assert opened.calls == [replace(trace.calls[0], number=0)]
