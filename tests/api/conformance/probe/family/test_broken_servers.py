"""Each fault is found in its check, and nothing else is."""

from collections.abc import Callable

import pytest

from api.conformance.probe.catalogue import CASES
from api.conformance.probe.values import CheckOutcome, Report
from tests.api.conformance.probe.family import broken_servers as servers
from tests.api.conformance.probe.small_server import SmallServer

Probed = Callable[..., Report]


def test_a_correct_server_has_no_fault(probed: Probed) -> None:
    report = probed(SmallServer)
    assert report.failed == ()
    assert report.is_deterministic
    stops = [one for one in report.results if one.code.startswith("stop.")]
    assert len(stops) == sum(case.code.startswith("stop.") for case in CASES)
    assert {one.outcome for one in stops} == {CheckOutcome.HELD}


@pytest.mark.parametrize(
    ("make", "codes"),
    [
        (servers.Leaks, {"prefix_leaked"}),
        (servers.LeaksWhenStreamed, {"prefix_leaked"}),
        (servers.NamesTheWrongReason, {"wrong_reason"}),
        (servers.NamesNoSequence, {"sequence_null"}),
        (servers.OnlyHides, {"stop_only_hidden"}),
        # Text that is cut out at the very end shows only in the reason.
        (servers.CutsOut, {"stop_cut_out", "wrong_reason"}),
        (servers.Ignores, {"stop_ignored"}),
        (servers.Includes, {"stop_included"}),
        (servers.TakesTheFirstListed, {"another_stop_won", "wrong_sequence"}),
        (servers.LosesHeldText, {"held_text_lost"}),
        (servers.ReversesEvents, {"event_order"}),
        (servers.NeverEnds, {"end_marker_missing"}),
        (servers.CountsNothing, {"usage_missing"}),
        (servers.IgnoresLimits, {"limit_ignored"}),
        (servers.AcceptsAnything, {"wrong_type_accepted"}),
        (servers.FiresOnNothing, {"empty_stop_fires"}),
        (servers.Fails, {"server_error"}),
        (servers.SpeaksPlainly, {"error_envelope"}),
    ],
)
def test_each_fault_is_named_and_nothing_else(
    probed: Probed, make: Callable[[], SmallServer], codes: set[str]
) -> None:
    assert probed(make).fault_codes == codes


def test_a_fault_of_streams_is_distinguished_from_one_of_whole_answers(probed: Probed) -> None:
    report = probed(servers.LeaksWhenStreamed)
    assert {fault.mode for result in report.failed for fault in result.faults} == {"streamed"}


def test_a_stop_that_is_trimmed_fails_only_the_checks_of_its_space(probed: Probed) -> None:
    report = probed(servers.TrimsStops)
    assert [one.code for one in report.failed if not one.cause] == [
        "stop.leading_space",
        "stop.trailing_space",
    ]


def test_the_rest_of_the_last_piece_after_a_stop_is_found(probed: Probed) -> None:
    codes = probed(servers.CutsAtPieces).fault_codes
    assert "text_after_stop" in codes
    assert codes <= {"text_after_stop", "stop_included", "stop_ignored"}


def test_streams_that_always_differ_from_whole_answers_are_not_called_random(
    probed: Probed,
) -> None:
    report = probed(servers.StreamsOtherText)
    assert report.is_deterministic
    assert "stream_differs" in report.fault_codes


def test_a_check_that_hangs_is_named_and_the_others_are_run(probed: Probed) -> None:
    report = probed(servers.HangsOnBlank, timeout_s=2.0)
    assert report.fault_codes == {"no_answer"}
    assert [result.code for result in report.failed] == ["stops.blank"]


def test_a_server_that_goes_on_after_a_hang_up_is_found(probed: Probed) -> None:
    report = probed(servers.RunsOnAfterHangUps, patience_s=0.3)
    assert report.fault_codes == {"not_freed"}


def test_a_server_that_never_gives_the_same_answer_is_judged_as_far_as_possible(
    probed: Probed,
) -> None:
    report = probed(servers.Wanders)
    assert not report.is_deterministic
    assert report.failed == ()
    outcomes = {one.code: one.outcome for one in report.results}
    assert outcomes["baseline"] is CheckOutcome.UNDECIDED
    assert outcomes["stop.one_character"] is CheckOutcome.HELD
    assert outcomes["stop.across_newline"] is CheckOutcome.HELD


def test_a_certain_fault_is_found_even_if_every_answer_differs(
    probed: Probed,
) -> None:
    report = probed(servers.WandersAndIgnores)
    assert report.fault_codes == {"stop_ignored"}
