"""magentic: its OpenAI model and a prompt function."""

from checks import CALL, COUNT, TALK, get_weather, leave_by_interrupt, main
from magentic import Chat, FunctionCall, OpenaiChatModel, StreamedStr, UserMessage


def chat(url, text, key="unused", **more):
    model = OpenaiChatModel("m", base_url=f"{url}/v1", api_key=key)
    return Chat(messages=[UserMessage(text)], model=model, **more)


def ask(url, key, text):
    return chat(url, text, key).submit().last_message.content


def stop(url):
    model = OpenaiChatModel("m", base_url=f"{url}/v1", api_key="unused")
    return model.complete([UserMessage(COUNT)], stop=["5"]).content, "no word for why"


def stream(url):
    return chat(url, COUNT, output_types=[StreamedStr]).submit().last_message.content


def talk(url):
    return chat(url, TALK, output_types=[StreamedStr]).submit().last_message.content


def tools(url):
    one = chat(url, CALL, functions=[get_weather], output_types=[FunctionCall])
    call = one.submit().last_message.content
    return call.function.__name__, call.arguments


main(ask, stop=stop, stream=stream, tools=tools, abort=leave_by_interrupt(talk))
