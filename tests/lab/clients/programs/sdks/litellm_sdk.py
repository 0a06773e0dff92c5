"""LiteLLM by its OpenAI and its Anthropic route."""

import json

import litellm
from checks import CALL, COUNT, COUNTED, SCHEMA, TALK, main

litellm.telemetry = False
litellm.suppress_debug_info = True


def complete(url, text, key="unused", **more):
    messages = [{"role": "user", "content": text}]
    return litellm.completion(
        model="openai/m", api_base=f"{url}/v1", api_key=key, messages=messages, **more
    )


def ask(url, key, text):
    answer = complete(url, text, key).choices[0].message.content
    messages = [{"role": "user", "content": COUNT}]
    other = litellm.completion(
        model="anthropic/m", api_base=url, api_key=key, messages=messages, max_tokens=100
    )
    assert other.choices[0].message.content == COUNTED
    return answer


def stop(url):
    choice = complete(url, COUNT, stop=["5"]).choices[0]
    return choice.message.content, choice.finish_reason


def stream(url):
    for chunk in complete(url, COUNT, stream=True):
        yield chunk.choices[0].delta.content


def tools(url):
    function = {"name": "get_weather", "description": "Weather", "parameters": SCHEMA}
    answer = complete(url, CALL, tools=[{"type": "function", "function": function}])
    call = answer.choices[0].message.tool_calls[0].function
    return call.name, json.loads(call.arguments)


def abort(url):
    chunks = complete(url, TALK, stream=True)
    next(iter(chunks))
    chunks.completion_stream.close()


main(ask, stop=stop, stream=stream, tools=tools, abort=abort)
