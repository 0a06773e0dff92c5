"""LangChain: ChatOpenAI; one answer by ChatAnthropic and ChatOllama each."""

from checks import CALL, COUNT, COUNTED, TALK, get_weather, main
from langchain_anthropic import ChatAnthropic
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI


def model(url, key="unused", **more):
    return ChatOpenAI(model="m", base_url=f"{url}/v1", api_key=key, **more)


def ask(url, key, text):
    answer = model(url, key).invoke(text).text
    others = (
        ChatAnthropic(model="m", base_url=url, api_key=key, max_tokens=100),
        ChatOllama(model="m", base_url=url, client_kwargs={"headers": {"x-api-key": key}}),
    )
    assert [other.invoke(COUNT).text for other in others] == [COUNTED] * 2
    return answer


def stop(url):
    answer = model(url).invoke(COUNT, stop=["5"])
    return answer.text, answer.response_metadata["finish_reason"]


def stream(url):
    for chunk in model(url).stream(COUNT):
        yield chunk.text


def tools(url):
    (call,) = model(url).bind_tools([get_weather]).invoke(CALL).tool_calls
    return call["name"], call["args"]


def abort(url):
    chunks = model(url).stream(TALK)
    next(chunks)
    chunks.close()


main(ask, stop=stop, stream=stream, tools=tools, abort=abort)
