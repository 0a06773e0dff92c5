"""aider: one message, without a repository."""

from checks import COUNTED, TALK, main
from commands.command import HOME, interrupt, run


def words(url, text, key="unused"):
    file = HOME / "message.txt"
    file.write_text(text)
    options = ["--no-git", "--yes-always", "--no-check-update", "--analytics-disable"]
    options += ["--no-show-model-warnings", "--no-pretty", "--edit-format", "ask"]
    options += ["--openai-api-base", f"{url}/v1", "--openai-api-key", key, "--map-tokens", "0"]
    return ["aider", "--model", "openai/m", *options, "--message-file", str(file)]


def ask(url, key, text):
    said = run(words(url, text, key))
    if COUNTED not in said:
        raise RuntimeError(said[-600:])
    return COUNTED


def abort(url):
    interrupt(url, words(url, TALK))


main(
    ask,
    abort=abort,
    without={
        "stop": "a person cannot name a stop",
        "stream": "it asks for streams, but prints whole answers here",
        "tools": "it edits files by what the answer says",
    },
)
