"""Pydantic AI: Chat Completions; one answer by Responses and Messages each."""

import asyncio
import contextlib

from checks import CALL, COUNT, COUNTED, TALK, get_weather, main
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


def agent(url, key="unused", **more):
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key=key)
    return Agent(OpenAIChatModel("m", provider=provider), **more)


def ask(url, key, text):
    answer = agent(url, key).run_sync(text).output
    others = (
        OpenAIResponsesModel("m", provider=OpenAIProvider(base_url=f"{url}/v1", api_key=key)),
        AnthropicModel("m", provider=AnthropicProvider(base_url=url, api_key=key)),
    )
    assert [Agent(other).run_sync(COUNT).output for other in others] == [COUNTED] * 2
    return answer


def stop(url):
    result = agent(url).run_sync(COUNT, model_settings={"stop_sequences": ["5"]})
    return result.output, result.response.finish_reason


def stream(url):
    async def pieces():
        async with agent(url).run_stream(COUNT) as answer:
            return [piece async for piece in answer.stream_text(delta=True, debounce_by=None)]

    return asyncio.run(pieces())


def tools(url):
    return agent(url, tools=[get_weather]).run_sync(CALL).output


def abort(url):
    async def leave():
        async with agent(url).run_stream(TALK) as answer:
            async for _ in answer.stream_text(delta=True, debounce_by=None):
                raise asyncio.CancelledError

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(leave())


main(ask, stop=stop, stream=stream, tools=tools, abort=abort)
