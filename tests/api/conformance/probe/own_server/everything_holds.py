"""Our own server passes every check in every dialect.

The dialects are in several files, so that a parallel run of the tests can divide them.
"""

import asyncio
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.markdown import as_text
from api.conformance.probe.run import probe
from api.conformance.probe.values import CheckOutcome, ProbeOptions

# Checks that a dialect cannot express, or for which its standard prompts give no occasion.
_ONE_CHOICE = {"choices.count", "choices.stop", "logprobs.stop", "usage.chunk"}
_ONE_LIMIT = {"limit.completion_tokens"}
_PROMPT_ONLY = {
    *("thinking.off", "thinking.streamed", "thinking.answer", "thinking.stop", "thinking.both"),
    *("tools.call", "tools.limit", "tools.stop", "stops.system", "stops.turn", "stops.tools"),
    *("tools.choice", "stops.result", "limit.thinking", "structured.stop"),
    # The demo model repeats no joined emoji without its template.
    "stop.joined",
}
SKIPPED = {
    WireDialect.MESSAGES: {
        *("stops.string", "stops.token_ids", "structured.stop"),
        *(_ONE_CHOICE | _ONE_LIMIT),
    },
    WireDialect.CHAT: set(),
    WireDialect.RESPONSES: {"stops.token_ids"} | _ONE_CHOICE | _ONE_LIMIT,
    WireDialect.OLLAMA: {"stops.token_ids", "tools.choice"} | _ONE_CHOICE | _ONE_LIMIT,
    WireDialect.GENERATE: _PROMPT_ONLY | _ONE_CHOICE | _ONE_LIMIT,
    WireDialect.COMPLETIONS: _PROMPT_ONLY | _ONE_LIMIT,
}


# These checks generate hundreds of lines. Every dialect has the same matcher behind it, so that the
# whole suite runs them where it has time.
LONGEST = ("stops.long", "stops.late")


def check_everything(site: Any, dialect: WireDialect) -> None:
    options = ProbeOptions(site.url, dialect, time_limit_s=900, patience_s=10, skip=LONGEST)
    report = asyncio.run(probe(options))
    assert report.failed == (), as_text(report)
    assert report.is_deterministic
    assert report.remarks == (), as_text(report)
    # Whether a long answer is still running when clients leave, and whether a stream takes
    # long enough to show its pace, depends on the machine.
    skipped = {
        one.check_id
        for one in report.results
        if one.outcome is not CheckOutcome.HELD
        and not one.check_id.startswith(("hang_up", "stream.pace"))
    }
    assert skipped == SKIPPED[dialect], as_text(report)
