"""Strands Agents: an agent on its OpenAI model."""

import asyncio

from checks import CALL, COUNT, TALK, get_weather, leave_by_interrupt, main
from strands import Agent, tool
from strands.models.openai import OpenAIModel


def agent(url, key="unused", tools=None, **params):
    arguments = {"base_url": f"{url}/v1", "api_key": key}
    model = OpenAIModel(client_args=arguments, model_id="m", params=params)
    return Agent(model=model, tools=tools or [], callback_handler=None)


def ask(url, key, text):
    return str(agent(url, key)(text))


def stop(url):
    answer = agent(url, stop=["5"])(COUNT)
    return str(answer), answer.stop_reason


def pieces(url, text):
    loop = asyncio.new_event_loop()
    events = agent(url).stream_async(text)
    while True:
        try:
            event = loop.run_until_complete(anext(events))
        except StopAsyncIteration:
            return
        yield event.get("data")


def tools(url):
    return str(agent(url, tools=[tool(get_weather)])(CALL))


main(
    ask,
    stop=stop,
    stream=lambda url: pieces(url, COUNT),
    tools=tools,
    abort=leave_by_interrupt(lambda url: pieces(url, TALK)),
)
