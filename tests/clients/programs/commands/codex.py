"""Codex: ``codex exec``, with its tool that runs commands."""

import json

from checks import TALK, main
from commands.command import HOME, interrupt, objects, run

CONFIG = """
model = "m"
model_context_window = 200000
model_provider = "here"
approval_policy = "never"
# Its own sandbox needs rights that containers do not have.
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.here]
name = "Fullstop"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "HERE_KEY"
[analytics]
enabled = false
[otel]
exporter = "none"
"""
WORDS = ["codex", "exec", "--skip-git-repo-check", "--json", "-"]


def given(url, key="unused"):
    folder = HOME / "codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(CONFIG.format(url=url))
    return {"CODEX_HOME": str(folder), "HERE_KEY": key}


def items(url, text, key="unused"):
    try:
        lines = objects(run(WORDS, text, **given(url, key)))
    except RuntimeError as error:
        told = [line for line in objects(str(error)) if "error" in line["type"]]
        raise RuntimeError(told[-1] if told else error) from None
    return [line["item"] for line in lines if line["type"] == "item.completed"]


def ask(url, key, text):
    return next(item["text"] for item in items(url, text, key) if item["type"] == "agent_message")


def tools(url):
    call = {"name": "exec_command", "arguments": {"cmd": "cat note.txt"}}
    found = items(url, f"Please CALL_TOOL {json.dumps(call)}")
    assert any("All notes." in str(item.get("aggregated_output")) for item in found)
    return found[-1]["text"]


def abort(url):
    interrupt(url, WORDS, TALK, **given(url))


main(
    ask,
    tools=tools,
    abort=abort,
    without={
        "stop": "a person cannot name a stop",
        "stream": "it asks for streams, but prints whole answers",
    },
)
