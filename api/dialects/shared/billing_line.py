"""Claude Code's billing line, which is no part of the prompt. Pure; any thread.

Claude Code begins its system prompt with ``x-anthropic-billing-header: cc_version=…; cch=…;``. The
values differ between requests, so that the line would end the common prefix of their prompts
before everything that follows it. Routers pass it on to other APIs, in their system messages.
"""

import re
from dataclasses import replace

from engine.values.request import GenerationRequest, Message

_BILLING_LINE = re.compile(r"\s*x-anthropic-billing-header:[^\n]*\n*")


def without_billing_line(request: GenerationRequest) -> GenerationRequest:
    """Return a request whose system messages do not begin with the billing line."""
    if not any(_is_billed(message) for message in request.messages):
        return request
    messages = (
        replace(message, content=_BILLING_LINE.sub("", message.content, count=1))
        if _is_billed(message)
        else message
        for message in request.messages
    )
    # A message that was only this line is none.
    kept = (message for message in messages if message.role != "system" or message.content)
    return replace(request, messages=tuple(kept))


def _is_billed(message: Message) -> bool:
    return message.role == "system" and _BILLING_LINE.match(message.content) is not None
