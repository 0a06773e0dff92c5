"""smolagents: its model class and an agent with a tool."""

from checks import COUNT, TALK, leave_by_interrupt, main
from smolagents import OpenAIServerModel, ToolCallingAgent, tool
from smolagents.models import ChatMessage, MessageRole

FINAL = 'CALL_TOOL {"name": "final_answer", "arguments": {"answer": "All is well."}}'


@tool
def get_weather(city: str) -> str:
    """Return the weather of a city.

    Args:
        city: Name of a city.
    """
    return f"sunny in {city}: {FINAL}"


def model(url, key="unused"):
    return OpenAIServerModel("m", api_base=f"{url}/v1", api_key=key)


def said(text):
    return [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": text}])]


def ask(url, key, text):
    return model(url, key).generate(said(text)).content


def stop(url):
    answer = model(url).generate(said(COUNT), stop_sequences=["5"])
    return answer.content, answer.raw.choices[0].finish_reason


def stream(url):
    for part in model(url).generate_stream(said(COUNT)):
        yield part.content


def tools(url):
    agent = ToolCallingAgent([get_weather], model(url), max_steps=3, verbosity_level=0)
    return str(agent.run(f"Please {FINAL}"))


def talk(url):
    for part in model(url).generate_stream(said(TALK)):
        yield part.content


main(ask, stop=stop, stream=stream, tools=tools, abort=leave_by_interrupt(talk))
