"""LlamaIndex: OpenAILike."""

from checks import CALL, COUNT, TALK, get_weather, leave_by_interrupt, main
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike


def model(url, key="unused", **more):
    return OpenAILike(
        model="m",
        api_base=f"{url}/v1",
        api_key=key,
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=200_000,
        **more,
    )


def said(text):
    return [ChatMessage(role="user", content=text)]


def ask(url, key, text):
    return model(url, key).chat(said(text)).message.content


def stop(url):
    answer = model(url).chat(said(COUNT), stop=["5"])
    return answer.message.content, answer.raw.choices[0].finish_reason


def stream(url):
    for part in model(url).stream_chat(said(COUNT)):
        yield part.delta


def tools(url):
    one = model(url)
    answer = one.chat_with_tools([FunctionTool.from_defaults(get_weather)], user_msg=CALL)
    (call,) = one.get_tool_calls_from_response(answer)
    return call.tool_name, call.tool_kwargs


def talk(url):
    for part in model(url).stream_chat(said(TALK)):
        yield part.delta


main(ask, stop=stop, stream=stream, tools=tools, abort=leave_by_interrupt(talk))
