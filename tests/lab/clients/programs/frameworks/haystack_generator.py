"""Haystack: OpenAIChatGenerator."""

import threading
from queue import SimpleQueue

from checks import CALL, COUNT, TALK, get_weather, leave_by_interrupt, main
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret


def run(url, text, key="unused", **more):
    one = OpenAIChatGenerator(
        model="m", api_base_url=f"{url}/v1", api_key=Secret.from_token(key), **more
    )
    return one.run([ChatMessage.from_user(text)])["replies"][0]


def ask(url, key, text):
    return run(url, text, key).text


def stop(url):
    reply = run(url, COUNT, generation_kwargs={"stop": ["5"]})
    return reply.text, reply.meta["finish_reason"]


def stream(url):
    pieces = []
    run(url, COUNT, streaming_callback=lambda chunk: pieces.append(chunk.content))
    return pieces


def tools(url):
    (call,) = run(url, CALL, tools=[create_tool_from_function(get_weather)]).tool_calls
    return call.tool_name, call.arguments


def talk(url):
    pieces = SimpleQueue()
    wanted = {"streaming_callback": lambda chunk: pieces.put(chunk.content)}
    threading.Thread(target=run, args=(url, TALK), kwargs=wanted, daemon=True).start()
    return iter(pieces.get, None)


main(ask, stop=stop, stream=stream, tools=tools, abort=leave_by_interrupt(talk))
