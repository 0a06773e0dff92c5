"""Simon Willison's llm, by its Python interface."""

import llm
from checks import CALL, COUNT, TALK, get_weather, leave_by_interrupt, main
from llm.default_plugins.openai_models import Chat


def model(url, key="unused"):
    found = Chat("m", model_name="m", api_base=f"{url}/v1", can_stream=True, supports_tools=True)
    found.key = key
    return found


def ask(url, key, text):
    return model(url, key).prompt(text, stream=False, key=key).text()


def stop(url):
    return model(url).prompt(COUNT, stream=False, stop="5").text(), "no word for why"


def stream(url):
    yield from model(url).prompt(COUNT)


def tools(url):
    return model(url).chain(CALL, tools=[llm.Tool.function(get_weather)]).text()


main(
    ask,
    stop=stop,
    stream=stream,
    tools=tools,
    abort=leave_by_interrupt(lambda url: model(url).prompt(TALK)),
)
