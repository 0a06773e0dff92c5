"""Agno: an agent on its OpenAI-like model."""

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from checks import CALL, COUNT, TALK, get_weather, leave_by_interrupt, main


def agent(url, key="unused", tools=None, **more):
    model = OpenAILike(id="m", base_url=f"{url}/v1", api_key=key, **more)
    return Agent(model=model, tools=tools, telemetry=False)


def ask(url, key, text):
    answer = agent(url, key).run(text)
    if "error" in str(answer.status).lower():
        raise RuntimeError(answer.content)
    return answer.content


def stop(url):
    return agent(url, stop=["5"]).run(COUNT).content, "no word for why"


def pieces(url, text):
    for event in agent(url).run(text, stream=True):
        yield event.content if event.event == "RunContent" else None


def tools(url):
    return agent(url, tools=[get_weather]).run(CALL).content


main(
    ask,
    stop=stop,
    stream=lambda url: pieces(url, COUNT),
    tools=tools,
    abort=leave_by_interrupt(lambda url: pieces(url, TALK)),
)
