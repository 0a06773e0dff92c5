"""Servers with faults of real reports, listed before the probe was run against them, are found."""

import re

import pytest

from api.conformance.probe.reports import as_text
from api.conformance.probe.values import Verdict
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
)
# What the probe does not see or does not name, and why.
_MISSED: dict[type[HeldBack], str] = {
    held_back_fourth.ThoughtTailInContent: "the text is shown, but not that it is the thinking's",
    held_back_fourth.EmojiInHalves: "the texts are shown, but not what differs in them",
    held_back_fourth.CallsInHistoryRefused: "a refused result of a tool is taken for a limitation",
}


def _marked(make: type[HeldBack]) -> object:
    marks = [] if make in _OFTEN else [pytest.mark.slow]
    if make in _MISSED:
        marks.append(pytest.mark.xfail(reason=_MISSED[make], strict=True))
    return pytest.param(make, marks=marks, id=make.__name__)


@pytest.mark.parametrize("makes", _SETS, ids=["first", "second", "third", "fourth"])
def test_each_set_has_forty_servers_of_six_dialects(makes: tuple[type[HeldBack], ...]) -> None:
    assert len(makes) == 40
    assert len({make.speaks for make in makes}) == 6


def test_no_set_repeats_another() -> None:
    assert len({make.__name__ for make in _ALL}) == len(_ALL)


@pytest.mark.parametrize("make", [_marked(make) for make in _ALL])
def test_the_probe_fails_and_says_why(make: type[HeldBack]) -> None:
    report = report_on(make())
    assert report.verdict is Verdict.FAILED, as_text(report)
    sentences = [fault.sentence for failure in report.failed for fault in failure.faults]
    assert any(re.search(make.words, said) for said in sentences), as_text(report)


def test_of_a_stop_that_is_taken_back_nothing_is_said_but_that() -> None:
    report = report_on(held_back.TakesPartsBack(), only=("stop.*", "stops.long", "form.*"))
    faults = [fault for failure in report.failed for fault in failure.faults]
    assert {fault.code for fault in faults} == {"text_retracted"}
