"""OpenAI's Python SDK: Chat Completions and Embeddings; one answer by the Responses API."""

import openai
from checks import CALL, COUNT, COUNTED, SCHEMA, TALK, main


def client(url, key="unused"):
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key)


def asked(text):
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def ask(url, key, text):
    answer = client(url, key).chat.completions.create(**asked(text)).choices[0].message.content
    assert client(url, key).responses.create(model="m", input=COUNT).output_text == COUNTED
    return answer


def stop(url):
    choice = client(url).chat.completions.create(**asked(COUNT), stop=["5"]).choices[0]
    return choice.message.content, f"{choice.finish_reason} {choice.matched_stop}"


def stream(url):
    for chunk in client(url).chat.completions.create(**asked(COUNT), stream=True):
        if chunk.choices:
            yield chunk.choices[0].delta.content


def tools(url):
    function = {"name": "get_weather", "description": "Weather", "parameters": SCHEMA}
    tool = {"type": "function", "function": function}
    message = client(url).chat.completions.create(**asked(CALL), tools=[tool]).choices[0].message
    call = message.tool_calls[0].function
    return call.name, call.arguments


def abort(url):
    with client(url).chat.completions.create(**asked(TALK), stream=True) as chunks:
        next(iter(chunks))
        next(iter(chunks))


def embed(url, texts):
    create = client(url).embeddings.create
    # Without a format, it asks for base64 and decodes it.
    answers = [
        create(model="m", input=texts),
        create(model="m", input=texts, encoding_format="float"),
    ]
    return [[one.embedding for one in answer.data] for answer in answers]


main(ask, stop=stop, stream=stream, tools=tools, abort=abort, embed=embed)
