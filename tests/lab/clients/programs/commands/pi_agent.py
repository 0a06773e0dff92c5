"""Pi, a coding agent: print mode, with its tool that reads files."""

import json

from checks import COUNT, TALK, main
from commands.command import HOME, interrupt, objects, run, work_folder

WORDS = ["pi", "--provider", "here", "--model", "m", "-p"]


def configure(url, key="unused"):
    folder = HOME / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    model = {"id": "m", "name": "m", "contextWindow": 1_000_000, "maxTokens": 4000}
    provider = {
        "baseUrl": f"{url}/v1",
        "api": "openai-completions",
        "apiKey": key,
        "models": [model],
    }
    (folder / "models.json").write_text(json.dumps({"providers": {"here": provider}}))


def ask(url, key, text):
    configure(url, key)
    lines = objects(run([*WORDS, "--mode", "json"], text))
    answers = [line["message"] for line in lines if line["type"] == "message_end"]
    last = [message for message in answers if message["role"] == "assistant"][-1]
    # Otherwise it would compact a conversation that does not fit.
    if last.get("errorMessage"):
        raise RuntimeError(last["errorMessage"])
    return "".join(part.get("text", "") for part in last["content"])


def stream(url):
    configure(url)
    for line in objects(run([*WORDS, "--mode", "json"], COUNT)):
        event = line.get("assistantMessageEvent", {})
        yield event.get("delta") if event.get("type") == "text_delta" else None


def tools(url):
    configure(url)
    call = {"name": "read", "arguments": {"path": str(work_folder() / "note.txt")}}
    return run(WORDS, f"Please CALL_TOOL {json.dumps(call)}")


def abort(url):
    configure(url)
    interrupt(url, WORDS, TALK)


main(
    ask,
    stream=stream,
    tools=tools,
    abort=abort,
    without={"stop": "a person cannot name a stop"},
)
