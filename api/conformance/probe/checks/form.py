"""Checks the form of all answers of a probe, streamed and whole ones separately.

Sends no requests. Pure; any thread.
"""

from collections.abc import Sequence

from api.conformance.captures.values import Severity
from api.conformance.probe.asking.client import Client
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.checks.checking import Check, CheckSetting, Seen, fault, skipped
from api.conformance.probe.judging import Judgement

# Reported by the checks of stops, each with its own evidence.
_JUDGED_ELSEWHERE = frozenset({"reason_missing", "empty"})


def faults_of_form(client: Client, runs: Sequence[Exchange], *, is_streamed: bool) -> Seen:
    """Return each fault of form once, with the first answer that shows it.

    Args:
        client: The client that sent the requests.
        runs: All requests and their answers so far.
        is_streamed: Whether to judge streams, or answers that were sent whole.
    """
    answers = [run for run in runs if run.is_answer and run.is_streamed is is_streamed]
    if not answers:
        return skipped("There were no such answers.")
    found: dict[str, tuple[Exchange, Judgement]] = {}
    for run in answers:
        for verdict in _verdicts(run):
            found.setdefault(verdict.code, (run, verdict))
    faults = tuple(fault(client, run, verdict) for run, verdict in found.values())
    return Seen(f"{len(answers)} answers were read", faults)


def _verdicts(run: Exchange) -> list[Judgement]:
    capture = run.capture
    found = [
        Judgement(finding.code, finding.sentence, got=finding.excerpt)
        for finding in capture.findings
        if finding.severity is not Severity.NOTE and finding.code not in _JUDGED_ELSEWHERE
    ]
    is_uncounted = capture.usage is None or capture.usage.output_tokens is None
    if is_uncounted and all(verdict.code != "usage_missing" for verdict in found):
        found.append(Judgement("usage_missing", "The answer has no count of output tokens."))
    return found


async def _streamed(setting: CheckSetting) -> Seen:
    return faults_of_form(setting.client, setting.client.exchanges, is_streamed=True)


async def _whole(setting: CheckSetting) -> Seen:
    return faults_of_form(setting.client, setting.client.exchanges, is_streamed=False)


FORM_CHECKS = (
    Check("form.streamed", _streamed),
    Check("form.whole", _whole),
)
