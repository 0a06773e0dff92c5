"""CrewAI: its language model, with a tool."""

from checks import CALL, COUNT, SCHEMA, get_weather, main
from crewai import LLM


def model(url, key="unused", **more):
    return LLM(model="openai/m", base_url=f"{url}/v1", api_key=key, **more)


def ask(url, key, text):
    return model(url, key).call(text)


def stop(url):
    return model(url, stop=["5"]).call(COUNT), "no word for why"


def stream(url):
    from crewai.events import LLMStreamChunkEvent, crewai_event_bus

    pieces = []
    with crewai_event_bus.scoped_handlers():

        @crewai_event_bus.on(LLMStreamChunkEvent)
        def hear(_source, event):
            pieces.append(event.chunk)

        model(url, stream=True).call(COUNT)
        crewai_event_bus.flush()
    return pieces


def tools(url):
    function = {"name": "get_weather", "description": "Weather", "parameters": SCHEMA}
    called = []

    def get(city):
        called.append(city)
        return get_weather(city)

    tool = {"type": "function", "function": function}
    model(url).call(CALL, tools=[tool], available_functions={"get_weather": get})
    return "get_weather", {"city": called[0]}


main(ask, stop=stop, stream=stream, tools=tools, without={"abort": "its model answers whole"})
