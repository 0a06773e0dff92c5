"""Cline's command line, with its tool that reads files."""

import json

from checks import TALK, main
from commands.command import ONLY_WHOLE, interrupt, objects, run, work_folder

WORDS = ["cline", "--json", "--retries", "1"]


def configure(url, key="unused"):
    run(["cline", "auth", "-p", "openai", "-k", key, "-m", "m", "-b", f"{url}/v1"])


def lines_of(text):
    # It does not read what a parent process writes to its standard input; one argument cannot hold
    # a prompt that is too long.
    half = 125_000
    more = ["-s", text[half:]] if len(text) > half else []
    try:
        return objects(run([*WORDS, *more, text[:half]]))
    except RuntimeError as error:
        told = [line for line in objects(str(error)) if line.get("type") == "error"]
        raise RuntimeError(told[-1]["message"] if told else error) from None


def ask(url, key, text):
    configure(url, key)
    last = [line for line in lines_of(text) if line.get("type") in ("run_result", "error")][-1]
    if last["type"] == "error":
        raise RuntimeError(last["message"])
    return last["text"]


def tools(url):
    configure(url)
    wanted = {"files": [{"path": str(work_folder() / "note.txt")}]}
    call = {"name": "read_files", "arguments": wanted}
    lines = lines_of(f"Please CALL_TOOL {json.dumps(call)}")
    assert "All notes." in json.dumps(lines)
    return next(line["text"] for line in lines if line.get("type") == "run_result")


def abort(url):
    configure(url)
    interrupt(url, [*WORDS, TALK])


main(ask, tools=tools, abort=abort, without=ONLY_WHOLE)
