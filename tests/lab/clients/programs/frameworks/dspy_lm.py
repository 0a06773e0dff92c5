"""DSPy: its language model."""

import dspy
from checks import COUNT, main


def model(url, key="unused"):
    return dspy.LM("openai/m", api_base=f"{url}/v1", api_key=key, cache=False, max_tokens=100)


def text_of(answer):
    return answer[0] if isinstance(answer[0], str) else answer[0]["text"]


def ask(url, key, text):
    return text_of(model(url, key)(text))


def stop(url):
    return text_of(model(url)(COUNT, stop=["5"])), "no word for why"


main(
    ask,
    stop=stop,
    without={
        "stream": "its model answers whole",
        "tools": "it writes tools into its prompts",
        "abort": "its model answers whole",
    },
)
