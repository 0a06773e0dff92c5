"""A fault that shows under one condition only is found, whatever condition and fault are."""

from dataclasses import dataclass

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.run import probe
from api.conformance.probe.values import (
    COUNTING,
    CheckOutcome,
    ProbeFailed,
    ProbeOptions,
    Progress,
)
from tests.api.conformance.probe.family.conditional import (
    CONDITIONS,
    EFFECTS,
    UNJUDGED,
    Condition,
    Conditional,
    Effect,
)
from tests.support.asking import run

_CONDITIONS = {condition.name: condition for condition in CONDITIONS}
_EFFECTS = {effect.name: effect for effect in EFFECTS}


class _Seen(Exception):
    """A failure that counts has been reported."""


@dataclass
class _Cell:
    """What a probe makes of a server with one fault under one condition.

    Attributes:
        is_visible: Whether the probe asked something to which the answer was wrong.
        sentence: The first finding; empty if there is none.
    """

    is_visible: bool
    sentence: str


def tried(dialect: WireDialect, condition: Condition, effect: Effect) -> _Cell:
    """Probe a server up to its first failure."""
    server, sentences = Conditional(dialect, condition, effect), [""]

    def told(progress: Progress) -> None:
        result = progress.result
        is_failed = result is not None and result.outcome is CheckOutcome.FAILED
        if result is not None and is_failed and result.level in COUNTING:
            sentences.insert(0, result.faults[0].sentence)
            raise _Seen

    async def probing() -> None:
        async with server.listening() as url:
            # Only a server that hangs is waited for.
            timeout_s = 1.0 if effect.status == -1 else 30.0
            options = ProbeOptions(
                url, dialect, longest_wait_s=0.01, grace_s=30.0, patience_s=30.0, recovery_s=0.5,
                timeout_s=timeout_s,
            )  # fmt: skip
            try:
                report = await probe(options, told)
            except (_Seen, ProbeFailed) as ended:
                sentences.insert(len(sentences) - 1, str(ended))
            else:
                faults = (fault for failure in report.failed for fault in failure.faults)
                sentences.insert(0, next((fault.sentence for fault in faults), ""))

    run(probing(), timeout_s=300)
    return _Cell(server.changes > 0, next(filter(None, sentences), ""))


@pytest.mark.parametrize(
    ("dialect", "condition", "effect", "words"),
    [
        (WireDialect.CHAT, "tools offered", "stop ignored", "With tools"),
        (
            WireDialect.OLLAMA,
            "after a tool result",
            "last token lost",
            "After the result of a tool",
        ),
        (WireDialect.MESSAGES, "system, streamed", "counts one more", "With a system message"),
        (WireDialect.COMPLETIONS, "second choice", "stop ignored", "Choice 1"),
        (WireDialect.CHAT, "logprobs, streamed", "stop kept", "Only when streamed: With logprobs"),
        (WireDialect.CHAT, "always", "fewer top logprobs", "fewer are listed"),
        (WireDialect.RESPONSES, "temperature", "stop ignored", "At a temperature"),
        (WireDialect.GENERATE, "list with duplicates", "stop ignored", "listed twice"),
        (WireDialect.GENERATE, "limit 1", "limit ignored", "limit"),
        (WireDialect.GENERATE, "stop of an emoji", "cut a character early", "before the stop"),
        (WireDialect.OLLAMA, "connection used again", "says limit", "reason"),
        (WireDialect.MESSAGES, "every 8th request", "cut a token early", "now and then"),
        (WireDialect.CHAT, "at the same time", "answer of another", "another request"),
        (WireDialect.CHAT, "tool_choice none", "choice ignored", "rules calls out"),
        (WireDialect.COMPLETIONS, "no counts asked for", "stop ignored", "Without counts"),
    ],
)
def test_a_fault_under_a_condition_is_found_and_named(
    dialect: WireDialect, condition: str, effect: str, words: str
) -> None:
    cell = tried(dialect, _CONDITIONS[condition], _EFFECTS[effect])
    assert cell.is_visible
    assert words in cell.sentence


def _why_unjudged(condition: Condition, effect: Effect) -> str:
    """Return why a probe cannot see a fault under a condition; empty if it can."""
    reasons = (
        reason
        for conditions, effects, reason in UNJUDGED
        if effect.name in effects and (not conditions or condition.name in conditions)
    )
    return next(reasons, "")


# Each condition is tried with every seventh fault, in one of its dialects.
_EVERY = 7
_SHARE = 0.9


@pytest.mark.slow
def test_nine_of_ten_faults_under_a_condition_are_found() -> None:
    missed, visible = [], 0
    for place, condition in enumerate(CONDITIONS):
        for number, effect in enumerate(EFFECTS):
            dialects = [one for one in condition.dialects if one in effect.dialects]
            if not dialects or (place + number) % _EVERY or _why_unjudged(condition, effect):
                continue
            dialect = dialects[(number + place) % len(dialects)]
            cell = tried(dialect, condition, effect)
            visible += cell.is_visible
            if cell.is_visible and not cell.sentence:
                missed.append(f"{condition.name}: {effect.name} in {dialect}")
    assert len(missed) <= (1 - _SHARE) * visible, missed
