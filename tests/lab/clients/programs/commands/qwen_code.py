"""Qwen Code: its mode for scripts, with its tool that reads files."""

import json

from checks import COUNT, TALK, main
from commands.command import interrupt, objects, run, work_folder

WORDS = ["qwen", "--auth-type", "openai", "--output-format", "stream-json"]


def given(url, key="unused"):
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key, "OPENAI_MODEL": "m"}


def ask(url, key, text):
    found = objects(run(WORDS, text, **given(url, key)))[-1]
    if found.get("is_error") or "API Error" in str(found.get("result")):
        raise RuntimeError(found.get("result") or found)
    return found["result"]


def stream(url):
    for line in objects(run([*WORDS, "--include-partial-messages"], COUNT, **given(url))):
        if line["type"] == "stream_event" and line["event"]["type"] == "content_block_delta":
            yield line["event"]["delta"].get("text")


def tools(url):
    call = {"name": "read_file", "arguments": {"file_path": str(work_folder() / "note.txt")}}
    lines = objects(run(WORDS, f"Please CALL_TOOL {json.dumps(call)}", **given(url)))
    assert any("All notes." in json.dumps(line) for line in lines if line["type"] == "user")
    return lines[-1]["result"]


def abort(url):
    interrupt(url, WORDS, TALK, **given(url))


main(
    ask,
    stream=stream,
    tools=tools,
    abort=abort,
    without={"stop": "a person cannot name a stop"},
)
