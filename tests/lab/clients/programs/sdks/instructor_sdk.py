"""instructor over OpenAI's SDK: structured answers."""

import json

import instructor
import openai
from checks import COUNT, COUNTED, main
from pydantic import BaseModel


class Counted(BaseModel):
    """The form of the answers."""

    numbers: str


def client(url, key="unused"):
    plain = openai.OpenAI(base_url=f"{url}/v1", api_key=key)
    return instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)


def asked(text):
    if text == COUNT:
        text = f"Please WRITE_TEXT {json.dumps({'numbers': COUNTED})}"
    return {"model": "m", "messages": [{"role": "user", "content": text}], "max_retries": 0}


def ask(url, key, text):
    return client(url, key).create(**asked(text), response_model=Counted).numbers


def stream(url):
    so_far = ""
    for part in client(url).create_partial(**asked(COUNT), response_model=Counted):
        yield (part.numbers or "").removeprefix(so_far)
        so_far = part.numbers or ""


main(
    ask,
    stream=stream,
    without={
        "stop": "its answers are JSON",
        "tools": "its answers are JSON",
        "abort": "as OpenAI's SDK, which it uses",
    },
)
