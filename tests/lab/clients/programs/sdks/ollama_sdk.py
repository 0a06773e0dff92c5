"""Ollama's Python client."""

import ollama
from checks import CALL, COUNT, TALK, get_weather, main


def client(url, key="unused"):
    return ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"})


def asked(text):
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def ask(url, key, text):
    return client(url, key).chat(**asked(text)).message.content


def stop(url):
    answer = client(url).chat(**asked(COUNT), options={"stop": ["5"]})
    return answer.message.content, answer.done_reason


def stream(url):
    for part in client(url).chat(**asked(COUNT), stream=True):
        yield part.message.content


def tools(url):
    call = client(url).chat(**asked(CALL), tools=[get_weather]).message.tool_calls[0].function
    return call.name, call.arguments


def abort(url):
    parts = client(url).chat(**asked(TALK), stream=True)
    next(parts)
    parts.close()


def embed(url, texts):
    own = client(url)
    older = [own.embeddings(model="m", prompt=text).embedding for text in texts]
    return [own.embed(model="m", input=texts).embeddings, older]


main(ask, stop=stop, stream=stream, tools=tools, abort=abort, embed=embed)
