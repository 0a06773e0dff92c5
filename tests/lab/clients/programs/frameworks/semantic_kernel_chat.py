"""Semantic Kernel: its OpenAI connector, with a function of a plugin."""

import asyncio

from checks import COUNT, TALK, get_weather, main
from openai import AsyncOpenAI
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
)
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function

CALL = 'Please CALL_TOOL {"name": "here-get_weather", "arguments": {"city": "Oslo"}}'


class Here:
    """A plugin."""

    @kernel_function(description="Weather")
    def get_weather(self, city: str) -> str:
        return get_weather(city)


def service(url, key="unused"):
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=key)
    return OpenAIChatCompletion(ai_model_id="m", async_client=client)


def history(text):
    found = ChatHistory()
    found.add_user_message(text)
    return found


def get(url, text, key="unused", kernel=None, **settings):
    wanted = OpenAIChatPromptExecutionSettings(**settings)
    return asyncio.run(
        service(url, key).get_chat_message_content(history(text), wanted, kernel=kernel)
    )


def ask(url, key, text):
    return str(get(url, text, key))


def stop(url):
    answer = get(url, COUNT, stop=["5"])
    return str(answer), answer.finish_reason


async def pieces(url, text, most=None):
    found = []
    chunks = service(url).get_streaming_chat_message_content(
        history(text), OpenAIChatPromptExecutionSettings()
    )
    async for chunk in chunks:
        found.append(str(chunk))
        if most and len(found) >= most:
            break
    await chunks.aclose()
    return found


def stream(url):
    return asyncio.run(pieces(url, COUNT))


def tools(url):
    kernel = Kernel()
    kernel.add_plugin(Here(), "here")
    return str(
        get(url, CALL, kernel=kernel, function_choice_behavior=FunctionChoiceBehavior.Auto())
    )


def abort(url):
    asyncio.run(pieces(url, TALK, most=2))


main(ask, stop=stop, stream=stream, tools=tools, abort=abort)
