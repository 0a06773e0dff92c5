"""chatlas: its chat with an OpenAI-compatible server."""

from chatlas import ChatOpenAICompletions
from checks import CALL, COUNT, TALK, get_weather, leave_by_interrupt, main


def chat(url, key="unused"):
    return ChatOpenAICompletions(model="m", base_url=f"{url}/v1", api_key=key)


def ask(url, key, text):
    return str(chat(url, key).chat(text, echo="none", stream=False))


def stop(url):
    answer = chat(url).chat(COUNT, echo="none", stream=False, kwargs={"stop": ["5"]})
    return str(answer), "no word for why"


def tools(url):
    one = chat(url)
    one.register_tool(get_weather)
    return str(one.chat(CALL, echo="none"))


main(
    ask,
    stop=stop,
    stream=lambda url: chat(url).stream(COUNT),
    tools=tools,
    abort=leave_by_interrupt(lambda url: chat(url).stream(TALK)),
)
