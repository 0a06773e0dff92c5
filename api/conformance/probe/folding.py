"""Tells a failure of its own from one that another failure has brought about.

Pure: values in, values out. Any thread.
"""

from collections.abc import Iterable

from api.conformance.probe.values import CheckOutcome, CheckResult

# A stop that sticks to later requests cuts their answers, whatever they ask.
_HIDING = ("stop_sticks",)
# What is judged by other things than the text of one answer.
_UNHIDDEN = ("errors.", "form.", "stream.", "hang_up.")


def cause_of(result: CheckResult, earlier: Iterable[CheckResult]) -> str:
    """Return the id of the first check that failed in the same way; empty where none did.

    Checks stand from the simple to the particular: what a simple one shows in all its modes needs
    no second finding, and a fault that only a particular check can show has a code of its own.
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
    """Return whether a fault makes what later answers say worthless."""
    return not result.cause and any(fault.code in _HIDING for fault in result.faults)


def _ways(result: CheckResult) -> set[tuple[str, str]]:
    return {(fault.code, fault.mode) for fault in result.faults}
