"""Our own server passes every check in every dialect.

The dialects are in several files, so that a parallel run of the tests can divide them.
"""

import asyncio
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.reports import as_text
from api.conformance.probe.run import probe
from api.conformance.probe.values import CheckOutcome, ProbeOptions

# Checks that a dialect cannot express, or for which its standard prompts give no occasion.
SKIPPED = {
    WireDialect.MESSAGES: {
        "stops.string",
        "stops.token_ids",
        "choices.stop",
        "logprobs.stop",
        "structured.stop",
    },
    WireDialect.CHAT: set(),
    WireDialect.RESPONSES: {"stops.token_ids", "choices.stop", "logprobs.stop"},
    WireDialect.OLLAMA: {"stops.token_ids", "choices.stop", "logprobs.stop"},
    WireDialect.GENERATE: {
        "thinking.off",
        "thinking.stop",
        "choices.stop",
        "logprobs.stop",
        "tools.stop",
        "structured.stop",
    },
    WireDialect.COMPLETIONS: {
        "thinking.off",
        "thinking.stop",
        "tools.stop",
        "structured.stop",
    },
}


# This check generates hundreds of lines. Every dialect has the same matcher behind it:
# the whole suite runs the check once with messages and once with a raw prompt.
LONGEST = "stops.long"
WITH_LONGEST = frozenset({WireDialect.CHAT, WireDialect.COMPLETIONS})


def check_everything(site: Any, dialect: WireDialect) -> None:
    """Fail unless a server passes every check of a dialect."""
    skip = () if dialect in WITH_LONGEST else (LONGEST,)
    options = ProbeOptions(site.url, dialect, time_limit_s=900, patience_s=10, skip=skip)
    report = asyncio.run(probe(options))
    assert report.failed == (), as_text(report)
    assert report.is_deterministic
    assert report.remarks == (), as_text(report)
    # Whether a long answer is still running when clients leave, and whether a stream takes
    # long enough to show its pace, depends on the machine.
    skipped = {
        one.code
        for one in report.results
        if one.outcome is not CheckOutcome.HELD
        and not one.code.startswith(("hang_up", "stream.pace"))
    }
    assert skipped == SKIPPED[dialect], as_text(report)
