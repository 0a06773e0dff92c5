"""Servers with faults of real reports, listed before the probe was run against them, are found."""

import re

import pytest

from api.conformance.probe.reports import as_text
from api.conformance.probe.values import CheckOutcome, Verdict
from tests.api.conformance.probe.family import (
    held_back,
    held_back_fourth,
    held_back_third,
    second_held_back,
)
from tests.api.conformance.probe.family.held_back import HELD_BACK, HeldBack
from tests.api.conformance.probe.family.held_back_fourth import FOURTH_HELD_BACK
from tests.api.conformance.probe.family.held_back_third import THIRD_HELD_BACK
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.second_held_back import SECOND_HELD_BACK
from tests.api.conformance.probe.family.talk import Query

_SETS = (HELD_BACK, SECOND_HELD_BACK, THIRD_HELD_BACK, FOURTH_HELD_BACK)
_ALL = [make for makes in _SETS for make in makes]
# One for each way of finding them; all others are tried where there is time.
_OFTEN = (
    held_back.RepeatsTheName,
    held_back.RestartsItsOffsets,
    held_back.CompletesCutItems,
    held_back.PrefersTheLimitToStops,
    held_back.LosesATokenToTheLimit,
    second_held_back.ListsTheFirstAlternatives,
    second_held_back.ListsAsChatDoes,
    second_held_back.LeaksTheLastThought,
    second_held_back.RefusesWithSuccess,
    second_held_back.ForgetsThePromptOfRepeats,
    held_back_third.CountsOneOfSeveral,
    held_back_third.IgnoresRequiredTools,
    held_back_third.ChangesCallIds,
    held_back_third.CountsNothingAtTheEnd,
    held_back_third.LosesTheOnlyPiece,
    held_back_third.StreamsAnswersAsThoughts,
    held_back_third.CountsMoreThoughtsThanTokens,
    held_back_third.TakesZeroForNone,
    held_back_third.IgnoresFormatWithoutThinking,
    second_held_back.StreamsByDefault,
    second_held_back.LeavesPartsOfOverlappingStops,
    second_held_back.StreamsTheThinkingBehind,
    held_back_fourth.StopBeforeCall,
    held_back_fourth.StopUnreadInJson,
    held_back_fourth.NewLimitUnread,
    held_back_fourth.ThinkingInTextBlock,
    held_back_fourth.NumberedOnce,
    held_back_fourth.CallsInHistoryRefused,
    held_back_fourth.ThoughtTailInContent,
    held_back_fourth.EmojiInHalves,
)


def _marked(make: type[HeldBack]) -> object:
    marks = [] if make in _OFTEN else [pytest.mark.slow]
    return pytest.param(make, marks=marks, id=make.__name__)


@pytest.mark.parametrize("makes", _SETS, ids=["first", "second", "third", "fourth"])
def test_each_set_has_servers_of_six_dialects(makes: tuple[type[HeldBack], ...]) -> None:
    assert len({make.speaks for make in makes}) == 6


def test_no_set_repeats_another() -> None:
    assert len({make.__name__ for make in _ALL}) == len(_ALL)


@pytest.mark.parametrize("make", [_marked(make) for make in _ALL])
def test_the_probe_fails_and_says_why(make: type[HeldBack]) -> None:
    report = report_on(make())
    assert report.verdict is Verdict.FAILED, as_text(report)
    sentences = [fault.sentence for failure in report.failed for fault in failure.faults]
    assert any(re.search(make.words, said) for said in sentences), as_text(report)


@pytest.mark.parametrize(
    ("make", "only", "codes"),
    [
        (held_back_fourth.FirstDeltaLost, ("baseline", "stop.*"), {"stream_differs"}),
        (held_back_fourth.TailAfterStop, ("stop.*", "stops.blank"), {"stop_cut_out"}),
        (held_back_fourth.TwoThoughts, ("thinking.*", "form.same"), {"thinking_differs"}),
        (held_back_fourth.ThoughtTailInContent, ("thinking.*", "form.*"), {"thinking_in_text"}),
    ],
)
def test_beside_a_fault_nothing_is_said_that_is_not_so(
    make: type[HeldBack], only: tuple[str, ...], codes: set[str]
) -> None:
    report = report_on(make(), only=only)
    faults = {fault.code for failure in report.failed for fault in failure.faults}
    assert faults == codes, as_text(report)


def test_what_a_limit_does_in_every_request_is_said_of_the_limit_alone() -> None:
    only = ("stops.system", "stops.turn", "stops.short", "limit", "thinking.off", "form.same")
    report = report_on(held_back_fourth.WholeCutEndsTurn(), only=only)
    assert [failure.code for failure in report.failed] == ["limit"], as_text(report)


def test_from_which_token_on_a_stream_loses_text_is_not_claimed() -> None:
    report = report_on(held_back_fourth.LongStreamLosesPiece(), only=("stops.l*",))
    sentences = {fault.sentence for failure in report.failed for fault in failure.faults}
    assert sentences == {
        "The stream of a long answer differs from the whole one, each time: "
        "'4\\n5' is missing after '0\\n51\\n52\\n53\\n5'."
    }


class RefusesCallsInHistory(held_back_fourth.CallsInHistoryRefused):
    """Refuses results of tools, and has none itself."""

    def calls_tool(self, query: Query) -> bool:
        """Call no tool."""
        return False


def test_who_has_no_tools_may_refuse_their_results() -> None:
    report = report_on(RefusesCallsInHistory(), only=("stop.one_character", "stops.result"))
    assert {result.code: result.outcome for result in report.results} == {
        "stop.one_character": CheckOutcome.HELD,
        "stops.result": CheckOutcome.SKIPPED,
    }


def test_of_a_stop_that_is_taken_back_nothing_is_said_but_that() -> None:
    report = report_on(held_back.TakesPartsBack(), only=("stop.*", "stops.long", "form.*"))
    faults = [fault for failure in report.failed for fault in failure.faults]
    assert {fault.code for fault in faults} == {"text_retracted"}
