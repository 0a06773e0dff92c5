"""AutoGen: its OpenAI client and an agent with a tool."""

import asyncio
import contextlib

from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from autogen_core.models import ModelInfo, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from checks import CALL, COUNT, TALK, get_weather, main

INFO = ModelInfo(
    vision=False,
    function_calling=True,
    json_output=True,
    structured_output=True,
    family="unknown",
)


def client(url, key="unused", **more):
    return OpenAIChatCompletionClient(
        model="m", base_url=f"{url}/v1", api_key=key, model_info=INFO, **more
    )


def said(text):
    return [UserMessage(content=text, source="user")]


def ask(url, key, text):
    return asyncio.run(client(url, key).create(said(text))).content


def stop(url):
    answer = asyncio.run(client(url, stop=["5"]).create(said(COUNT)))
    return answer.content, answer.finish_reason


def stream(url):
    async def pieces():
        found = client(url).create_stream(said(COUNT))
        return [one async for one in found if isinstance(one, str)]

    return asyncio.run(pieces())


def tools(url):
    agent = AssistantAgent("one", client(url), tools=[get_weather], reflect_on_tool_use=True)
    return asyncio.run(agent.run(task=CALL)).messages[-1].content


def abort(url):
    async def leave():
        token = CancellationToken()
        async for _ in client(url).create_stream(said(TALK), cancellation_token=token):
            token.cancel()

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(leave())


main(ask, stop=stop, stream=stream, tools=tools, abort=abort)
