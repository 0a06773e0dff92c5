"""OpenAI's Agents SDK by the Responses API."""

import asyncio

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from checks import CALL, COUNT, SAID, TALK, get_weather, main
from openai import AsyncOpenAI

set_tracing_disabled(True)


def agent(url, key="unused", kind=OpenAIResponsesModel, **more):
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=key)
    return Agent(name="one", model=kind("m", client), **more)


def ask(url, key, text):
    one = agent(url, key)
    answer = Runner.run_sync(one, text).final_output
    session = SQLiteSession("a")
    for _ in range(2):
        assert Runner.run_sync(one, "Hello", session=session).final_output == SAID
    return answer


def stop(url):
    settings = ModelSettings(extra_body={"stop": ["5"]})
    one = agent(url, kind=OpenAIChatCompletionsModel, model_settings=settings)
    return Runner.run_sync(one, COUNT).final_output, "no word for why"


async def pieces_of(url, text, most=None):
    result = Runner.run_streamed(agent(url), text)
    found = []
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            found.append(event.data.delta)
            if len(found) == most:
                result.cancel()
    return found


def stream(url):
    return asyncio.run(pieces_of(url, COUNT))


def tools(url):
    return Runner.run_sync(agent(url, tools=[function_tool(get_weather)]), CALL).final_output


def abort(url):
    asyncio.run(pieces_of(url, TALK, most=1))


main(ask, stop=stop, stream=stream, tools=tools, abort=abort)
