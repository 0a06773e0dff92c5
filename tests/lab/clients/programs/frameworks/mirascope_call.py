"""Mirascope: calls by its OpenAI provider."""

from checks import CALL, COUNT, TALK, get_weather, leave_by_interrupt, main
from mirascope import llm


def model(url, key="unused", **more):
    llm.register_provider("openai:completions", scope="openai/", base_url=f"{url}/v1", api_key=key)
    # It drops stops for models whose name it does not know.
    return llm.Model("openai/gpt-4o", **more)


def ask(url, key, text):
    return model(url, key).call(text).text()


def stop(url):
    answer = model(url, stop_sequences=["5"]).call(COUNT)
    return answer.text(), str(answer.finish_reason)


def pieces(url, text):
    return model(url).stream(text).text_stream()


def tools(url):
    (call,) = model(url).call(CALL, tools=[llm.tool(get_weather)]).tool_calls
    return call.name, call.args


main(
    ask,
    stop=stop,
    stream=lambda url: pieces(url, COUNT),
    tools=tools,
    abort=leave_by_interrupt(lambda url: pieces(url, TALK)),
)
