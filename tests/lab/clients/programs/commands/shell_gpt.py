"""ShellGPT."""

from checks import TALK, main
from commands.command import HOME, interrupt, run


def configure(url, key="unused"):
    folder = HOME / ".config" / "shell_gpt"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (
        f"API_BASE_URL={url}/v1",
        f"OPENAI_API_KEY={key}",
        "DEFAULT_MODEL=m",
        "USE_LITELLM=false",
        "OPENAI_USE_FUNCTIONS=false",
        "PRETTIFY_MARKDOWN=false",
    )
    (folder / ".sgptrc").write_text("\n".join(lines) + "\n")


WORDS = ["sgpt", "--no-cache", "--no-md"]


def ask(url, key, text):
    configure(url, key)
    return run(WORDS, text).strip()


def abort(url):
    configure(url)
    interrupt(url, WORDS, TALK)


main(
    ask,
    abort=abort,
    without={
        "stop": "a person cannot name a stop",
        "stream": "what it prints does not show the pieces",
        "tools": "it calls only functions of its own folder",
    },
)
