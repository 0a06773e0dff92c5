"""Codex: ``codex exec``, with its tools: commands, an MCP server, patches and pictures."""

import base64
import json
import sys

from checks import TALK, main
from commands.command import HOME, ONLY_WHOLE, interrupt, objects, run, work_folder

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
[mcp_servers.ev]
command = "{python}"
args = ["{server}"]
"""
# A tool server with one tool.
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    results = {
        "initialize": {
            "protocolVersion": (asked.get("params") or {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "ev", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "An echo."}]},
    }
    if "id" in asked:
        result = results.get(asked["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
# A model's name for which it offers its patch tool.
PATCHING = "gpt-5.5"
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+Made.\n*** End Patch"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
WORDS = ["codex", "exec", "--skip-git-repo-check", "--json", "-"]


def given(url, key="unused"):
    folder = HOME / "codex"
    folder.mkdir(exist_ok=True)
    server = folder / "ev.py"
    server.write_text(SERVER)
    config = CONFIG.format(url=url, python=sys.executable, server=server)
    (folder / "config.toml").write_text(config)
    return {"CODEX_HOME": str(folder), "HERE_KEY": key}


def items(url, text, key="unused", *more):
    try:
        lines = objects(run([*WORDS[:-1], *more, "-"], text, **given(url, key)))
    except RuntimeError as error:
        told = [line for line in objects(str(error)) if "error" in line["type"]]
        raise RuntimeError(told[-1] if told else error) from None
    return [line["item"] for line in lines if line["type"] == "item.completed"]


def ask(url, key, text):
    return next(item["text"] for item in items(url, text, key) if item["type"] == "agent_message")


def called(url, name, arguments, *more):
    call = {"name": name, "arguments": arguments}
    return items(url, f"Please CALL_TOOL {json.dumps(call)}", "unused", *more)


def tools(url):
    # A function of a namespace, a custom tool, and a picture that a tool returns.
    found = called(url, "mcp__ev__echo", {"text": "Hi"})
    assert any("An echo." in json.dumps(item.get("result")) for item in found), found
    called(url, "apply_patch", {"input": PATCH}, "-m", PATCHING)
    assert (work_folder() / "made.txt").read_text() == "Made.\n"
    (work_folder() / "a.png").write_bytes(base64.b64decode(PIXEL))
    assert called(url, "view_image", {"path": str(work_folder() / "a.png")})[-1]["text"]
    found = called(url, "exec_command", {"cmd": "cat note.txt"})
    assert any("All notes." in str(item.get("aggregated_output")) for item in found)
    return found[-1]["text"]


def abort(url):
    interrupt(url, WORDS, TALK, **given(url))


main(ask, tools=tools, abort=abort, without=ONLY_WHOLE)
