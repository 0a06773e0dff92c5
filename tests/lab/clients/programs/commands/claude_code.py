"""Claude Code: print mode, with its tool that reads files."""

import json

from checks import COUNT, TALK, main
from commands.command import interrupt, objects, run, work_folder

STREAMED = ("--output-format", "stream-json", "--include-partial-messages", "--verbose")


def given(url, key="unused"):
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key}


def ask(url, key, text):
    try:
        said = run(["claude", "-p", "--output-format", "json"], text, **given(url, key))
    except RuntimeError as error:
        raise RuntimeError(next(iter(objects(str(error))), {}).get("result", error)) from None
    found = json.loads(said)
    if found["is_error"]:
        raise RuntimeError(found["result"])
    return found["result"]


def stream(url):
    for line in objects(run(["claude", "-p", *STREAMED], COUNT, **given(url))):
        if line["type"] == "stream_event" and line["event"]["type"] == "content_block_delta":
            yield line["event"]["delta"].get("text")


def tools(url):
    call = {"name": "Read", "arguments": {"file_path": str(work_folder() / "note.txt")}}
    words = ["claude", "-p", *STREAMED, "--allowedTools", "Read"]
    lines = objects(run(words, f"Please CALL_TOOL {json.dumps(call)}", **given(url)))
    assert any("All notes." in json.dumps(line) for line in lines if line["type"] == "user")
    return lines[-1]["result"]


def abort(url):
    interrupt(url, ["claude", "-p"], TALK, **given(url))


main(
    ask,
    stream=stream,
    tools=tools,
    abort=abort,
    without={"stop": "a person cannot name a stop"},
)
