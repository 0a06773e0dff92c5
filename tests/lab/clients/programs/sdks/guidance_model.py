"""guidance: its OpenAI model."""

from checks import main
from guidance import assistant, gen, user
from guidance.models import OpenAI


def ask(url, key, text):
    model = OpenAI("m", api_key=key, base_url=f"{url}/v1", echo=False)
    with user():
        model += text
    with assistant():
        model += gen("answer")
    return model["answer"]


main(
    ask,
    without={
        "stop": "it refuses stops where a server generates",
        "stream": "it hands no stream on",
        "tools": "it has none for such servers",
        "abort": "it hands no stream on",
    },
)
