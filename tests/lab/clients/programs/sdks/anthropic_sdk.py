"""Anthropic's Python SDK."""

import anthropic
from checks import CALL, COUNT, SCHEMA, TALK, main


def client(url, key="unused"):
    return anthropic.Anthropic(base_url=url, api_key=key)


def asked(text):
    return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": text}]}


def ask(url, key, text):
    return client(url, key).messages.create(**asked(text)).content[0].text


def stop(url):
    message = client(url).messages.create(**asked(COUNT), stop_sequences=["5"])
    return message.content[0].text, f"{message.stop_reason} {message.stop_sequence}"


def stream(url):
    with client(url).messages.stream(**asked(COUNT)) as events:
        yield from events.text_stream


def tools(url):
    tool = {"name": "get_weather", "description": "Weather", "input_schema": SCHEMA}
    message = client(url).messages.create(**asked(CALL), tools=[tool])
    (call,) = [block for block in message.content if block.type == "tool_use"]
    return call.name, call.input


def abort(url):
    with client(url).messages.stream(**{**asked(TALK), "max_tokens": 4000}) as events:
        next(iter(events.text_stream))


main(ask, stop=stop, stream=stream, tools=tools, abort=abort)
