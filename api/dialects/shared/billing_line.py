"""Claude Code's billing line, which is no part of the prompt. Pure; any thread, any process.

Claude Code begins its system prompt with ``x-anthropic-billing-header: cc_version=…; cch=…;``. The
values differ between requests, so that the line would end the common prefix of their prompts
before everything that follows it. Routers pass it on as the first line of a system message.
"""

import re

_BILLING_LINE = re.compile(r"\s*x-anthropic-billing-header:[^\n]*\n*")


def without_billing_line(system: str) -> str:
    """Return the text of a system message without the billing line at its beginning."""
    match = _BILLING_LINE.match(system)
    return system if match is None else system[match.end() :]
