"""Tells a failure of its own from one that another failure has brought about.

Pure: values in, values out. Any thread.
"""

from collections.abc import Iterable

from api.conformance.probe.values import CheckOutcome, CheckResult


def cause_of(result: CheckResult, earlier: Iterable[CheckResult]) -> str:
    """Return the id of the first check that failed in the same way; empty where none did.

    Checks stand from the simple to the particular: what a simple one shows in all its modes needs
    no second finding, and a fault that only a particular check can show has a code of its own.
    """
    if result.outcome is not CheckOutcome.FAILED:
        return ""
    shown = _ways(result)
    for other in earlier:
        if other.outcome is CheckOutcome.FAILED and not other.cause and shown <= _ways(other):
            return other.code
    return ""


def _ways(result: CheckResult) -> set[tuple[str, str]]:
    return {(fault.code, fault.mode) for fault in result.faults}
