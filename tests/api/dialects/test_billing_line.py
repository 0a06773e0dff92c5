"""Claude Code's billing line, which changes with every request, is in no prompt."""

from typing import Any

import pytest

from api.dialects.shared.parameters import ReadContext
from api.dialects.shared.requests import read_generations
from engine.values.request import Message
from tests.api.dialects.asking import ROUTES, params

LINE = "x-anthropic-billing-header: cc_version=2.1.1; cc_entrypoint=cli; cch=0a1b2;"
RULE = "You are an agent."
USER = {"role": "user", "content": "Hi"}
# Where a system prompt is, in each API.
SENT: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"system": f"{LINE}\n\n{RULE}"}),
    ("messages", {"system": [{"type": "text", "text": text} for text in (LINE, RULE)]}),
    ("messages", {"messages": [{"role": "system", "content": f"{LINE}\n{RULE}"}, USER]}),
    ("chat", {"messages": [{"role": "system", "content": f"{LINE}\n{RULE}"}, USER]}),
    ("responses", {"instructions": f"{LINE}\n{RULE}"}),
    ("responses", {"input": [{"role": "developer", "content": f"{LINE}\n{RULE}"}, USER]}),
    ("ollama_chat", {"messages": [{"role": "system", "content": f"{LINE}\n{RULE}"}, USER]}),
    ("ollama_generate", {"system": f"{LINE}\n{RULE}", "prompt": "Hi"}),
]


def _messages(api: str, **fields: Any) -> tuple[Message, ...]:
    [generation] = read_generations(params(api, **fields), ReadContext(), ROUTES[api].read)
    return generation.messages


@pytest.mark.parametrize(("api", "fields"), SENT)
def test_billing_line_is_left_out_of_the_prompt(api: str, fields: dict[str, Any]) -> None:
    assert _messages(api, **fields) == (Message("system", RULE), Message("user", "Hi"))


def test_text_that_only_mentions_the_billing_line_is_kept() -> None:
    text = "Never send x-anthropic-billing-header: it is private."

    assert _messages("messages", system=text)[0] == Message("system", text)
    assert _messages("chat", messages=[{"role": "user", "content": LINE}])[0].content == LINE
