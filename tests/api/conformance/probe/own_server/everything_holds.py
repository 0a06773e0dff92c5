"""Our own server passes every check in every dialect.

The dialects stand in several files, so that the run of tests can divide them among its processes.
"""

import asyncio
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.reports.as_text import as_text
from api.conformance.probe.running import probe
from api.conformance.probe.values import CheckOutcome, ProbeOptions

# What a dialect has no words for, or what its standard prompts give no occasion for.
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


# This check writes hundreds of lines. The matcher that it tries is the same behind every dialect:
# the whole run has it once with messages and once with a plain prompt.
LONGEST = "stops.long"
WITH_LONGEST = frozenset({WireDialect.CHAT, WireDialect.COMPLETIONS})


def check_everything(site: Any, dialect: WireDialect) -> None:
    """Fail unless every check of a dialect holds on a server."""
    skip = () if dialect in WITH_LONGEST else (LONGEST,)
    options = ProbeOptions(site.url, dialect, time_limit_s=900, patience_s=10, skip=skip)
    report = asyncio.run(probe(options))
    assert report.failed == (), as_text(report)
    assert report.is_deterministic
    assert report.remarks == (), as_text(report)
    # Whether a long answer is still under way when clients leave, and whether a stream takes
    # long enough to show its pace, is the machine's business.
    skipped = {
        one.code
        for one in report.results
        if one.outcome is not CheckOutcome.HELD
        and not one.code.startswith(("hang_up", "stream.pace"))
    }
    assert skipped == SKIPPED[dialect], as_text(report)
