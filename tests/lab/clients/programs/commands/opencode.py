"""opencode: ``opencode run``, with its tool that reads files."""

import json

from checks import COUNTED, SAID, TALK, main
from commands.command import ONLY_WHOLE, interrupt, run, work_folder

QUIET = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def configure(url, key="unused"):
    options = {"baseURL": f"{url}/v1", "apiKey": key}
    limit = {"context": 200_000, "output": 4000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fullstop",
        "options": options,
        "models": {"m": {"name": "m", "limit": limit}},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "here/m",
        "small_model": "here/m",
        "provider": {"here": provider},
    }
    (work_folder() / "opencode.json").write_text(json.dumps(config))


def ask(url, key, text):
    configure(url, key)
    said = run(["opencode", "run", "--print-logs=false"], text, **QUIET)
    if COUNTED not in said:
        raise RuntimeError(said[-600:])
    return COUNTED


def tools(url):
    configure(url)
    call = {"name": "read", "arguments": {"filePath": str(work_folder() / "note.txt")}}
    said = run(
        ["opencode", "run", "--format", "json"], f"Please CALL_TOOL {json.dumps(call)}", **QUIET
    )
    assert "All notes." in said, said[-600:]
    return SAID if SAID in said else said


def abort(url):
    configure(url)
    interrupt(url, ["opencode", "run"], TALK, **QUIET)


main(ask, tools=tools, abort=abort, without=ONLY_WHOLE)
