"""Separates independent failures from those caused by another failure.

Pure: values in, values out. Any thread.
"""

from collections.abc import Iterable

from api.conformance.probe.values import CheckOutcome, CheckResult

# A stop that affects later requests cuts all their answers.
_HIDING = ("stop_sticks",)
# Cases that are not judged by the text of one answer.
_UNHIDDEN = ("errors.", "form.", "stream.", "hang_up.")


def cause_of(result: CheckResult, earlier: Iterable[CheckResult]) -> str:
    """Return the id of the first check that failed in the same way; empty if none did.

    Checks are ordered from simple to special. A fault that a simple check shows in all modes needs
    no second finding, and a fault that only a special check can show has a code of its own.
    """
    if result.outcome is not CheckOutcome.FAILED:
        return ""
    shown = _ways(result)
    for other in earlier:
        if _hides(other) and not result.code.startswith(_UNHIDDEN):
            return other.code
        if other.outcome is CheckOutcome.FAILED and not other.cause and shown <= _ways(other):
            return other.code
    return ""


def _hides(result: CheckResult) -> bool:
    """Return whether a fault makes later answers useless as evidence."""
    return not result.cause and any(fault.code in _HIDING for fault in result.faults)


def _ways(result: CheckResult) -> set[tuple[str, str]]:
    return {(fault.code, fault.mode) for fault in result.faults}
