"""The LM Evaluation Harness: its model class for chat servers."""

import os

from checks import COUNT, main
from lm_eval.api.instance import Instance
from lm_eval.models.api_models import JsonChatStr
from lm_eval.models.openai_completions import LocalChatCompletion


def generate(url, key, text, until=None):
    os.environ["OPENAI_API_KEY"] = key
    model = LocalChatCompletion(
        model="m",
        base_url=f"{url}/v1/chat/completions",
        tokenizer_backend=None,
        max_retries=1,
    )
    messages = f'[{{"role": "user", "content": "{text}"}}]'
    asked = (JsonChatStr(messages), {"until": until or [], "max_gen_toks": 100})
    one = Instance("generate_until", {}, asked, 0)
    (answer,) = model.generate_until([one], disable_tqdm=True)
    if answer is None:
        raise RuntimeError("no answer")
    return answer


def ask(url, key, text):
    return generate(url, key, text)


def stop(url):
    return generate(url, "unused", COUNT, until=["5"]), "no word for why"


main(
    ask,
    stop=stop,
    without={
        "stream": "it asks for whole answers",
        "tools": "it has none",
        "abort": "it asks for whole answers",
    },
)
