"""gptme: its mode without questions."""

from checks import COUNTED, TALK, main
from commands.command import interrupt, run

WORDS = ["gptme", "--non-interactive", "--no-stream", "--tools", "none", "-m", "local/m"]


def given(url, key="unused"):
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key}


def ask(url, key, text):
    said = run(WORDS, text, **given(url, key))
    if COUNTED not in said:
        raise RuntimeError(said[-600:])
    return COUNTED


def abort(url):
    interrupt(url, WORDS, TALK, **given(url))


main(
    ask,
    abort=abort,
    without={
        "stop": "a person cannot name a stop",
        "stream": "it prints whole answers here",
        "tools": "it reads calls out of the answer's text",
    },
)
