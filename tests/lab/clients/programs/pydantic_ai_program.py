"""Pydantic AI against a server: its error for a full context. Run with the server's address."""

import asyncio
import sys

from common import report
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelContextWindowExceededError
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

URL = sys.argv[1]
OPENAI = {"base_url": f"{URL}/v1", "api_key": "none"}
MODELS = {
    "OpenAIChatModel": lambda: OpenAIChatModel("m", provider=OpenAIProvider(**OPENAI)),
    "OpenAIResponsesModel": lambda: OpenAIResponsesModel("m", provider=OpenAIProvider(**OPENAI)),
    "AnthropicModel": lambda: AnthropicModel(
        "m", provider=AnthropicProvider(base_url=URL, api_key="none")
    ),
}


async def whole(make: object, text: str) -> str:
    return str((await Agent(make()).run(text)).output)


async def streamed(make: object, text: str) -> str:
    async with Agent(make()).run_stream(text) as answer:
        return str(await answer.get_output())


for name, make in MODELS.items():
    for how in (whole, streamed):
        report(
            f"Pydantic AI {name} {how.__name__}",
            lambda text, make=make, how=how: asyncio.run(how(make, text)),
            ModelContextWindowExceededError,
        )
