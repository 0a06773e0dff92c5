"""Continue's command line, with its tool that reads files."""

import json

from checks import COUNT, LONG, TALK, main
from commands.command import HOME, ONLY_WHOLE, interrupt, run, work_folder

CONFIG = """
name: here
version: 0.0.1
schema: v1
models:
  - name: here
    provider: openai
    model: m
    apiBase: {url}/v1
    apiKey: {key}
    roles: [chat]
"""
QUIET = {"CONTINUE_TELEMETRY_ENABLED": "0"}


def words(url, key="unused"):
    file = HOME / "continue.yaml"
    file.write_text(CONFIG.format(url=url, key=key))
    return ["cn", "-p", "--config", str(file)]


def ask(url, key, text):
    if text == LONG:
        # It does not read that much from its standard input; a rule can be a long file.
        rule = HOME / "rule.md"
        rule.write_text(text)
        said = run([*words(url, key), "--rule", str(rule), "--", COUNT], **QUIET).strip()
    else:
        said = run(words(url, key), text, **QUIET).strip()
    if '"status":"error"' in said:
        raise RuntimeError(said)
    return said


def tools(url):
    call = {"name": "Read", "arguments": {"filepath": str(work_folder() / "note.txt")}}
    return run([*words(url), "--readonly"], f"Please CALL_TOOL {json.dumps(call)}", **QUIET)


def abort(url):
    interrupt(url, words(url), TALK, **QUIET)


main(ask, tools=tools, abort=abort, without=ONLY_WHOLE)
