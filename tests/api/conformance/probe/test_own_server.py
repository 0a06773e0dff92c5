"""Our own server passes every check in every dialect."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

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


@pytest.mark.parametrize("dialect", SKIPPED)
def test_everything_holds(site: Any, dialect: WireDialect) -> None:
    options = ProbeOptions(site.url, dialect, time_limit_s=900, patience_s=10)
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


def test_without_a_dialect_the_first_that_answers_is_probed(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    site = serve(api_key="secret")
    report = asyncio.run(probe(ProbeOptions(site.url, api_key="secret", max_requests=30)))
    assert report.dialect is WireDialect.MESSAGES
    assert set(report.other_dialects) == set(SKIPPED) - {WireDialect.MESSAGES}
    assert report.model == "demo-model"
    assert report.failed == ()
