"""Outlines: its OpenAI model, with an answer of a given form."""

import openai
import outlines
from checks import COUNT, TALK, leave_by_interrupt, main
from pydantic import BaseModel


class Place(BaseModel):
    """The form of an answer."""

    city: str


def model(url, key="unused"):
    return outlines.from_openai(openai.OpenAI(base_url=f"{url}/v1", api_key=key), "m")


def ask(url, key, text):
    if text == COUNT:
        written = model(url, key)('Please WRITE_TEXT {"city": "Oslo"}', Place)
        assert Place.model_validate_json(written) == Place(city="Oslo")
    return model(url, key)(text)


def stop(url):
    return model(url)(COUNT, stop=["5"]), "no word for why"


main(
    ask,
    stop=stop,
    stream=lambda url: model(url).stream(COUNT),
    abort=leave_by_interrupt(lambda url: model(url).stream(TALK)),
    without={"tools": "it has none"},
)
