"""A server that misbehaves in the way that its first argument names. Needs only Python."""

import json
import os
import sys
import time
from typing import Any

how = sys.argv[1]
# What later versions of MCP have in each result.
kept = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if how == "modern" else {}

has_changed: list[bool] = []


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools() -> list[dict[str, Any]]:
    schema: dict[str, Any] = {"type": "object"}
    named = [{"name": "go", "inputSchema": schema}]
    if how == "relists" and has_changed:
        time.sleep(600)
    match how:
        case "thousands":
            return [{"name": f"tool-{n}", "inputSchema": schema} for n in range(5_000)]
        case "tasks":
            task = {"name": "wait", "execution": {"taskSupport": "required"}}
            return [*named, {**task, "inputSchema": schema}]
        case "names":
            bad = ["a\x1b[31mred\x00", "x" * 5_000, "", "two words", "ünï", "go", "go"]
            return [{"name": name, "inputSchema": schema} for name in bad]
        case _:
            return named


def call(request_id: Any) -> None:
    match how:
        case "dies":
            os._exit(7)
        case "hangs":
            time.sleep(600)
        case "large-line":
            text = [{"type": "text", "text": "x" * (17 << 20)}]
            say({"id": request_id, "result": {"content": text, **kept}})
        case "nonsense":
            say({"id": request_id, "result": {"content": "not a list"}})
        case "half-pair":
            cut = [{"type": "text", "text": "cut here: \ud83d"}]
            say({"id": request_id, "result": {"content": cut}})
        case _:
            if how == "relists":
                has_changed.append(True)
                say({"method": "notifications/tools/list_changed"})
            text = [{"type": "text", "text": "fine"}]
            say({"id": request_id, "result": {"content": text, **kept}})


if how == "silent":
    time.sleep(600)
if how == "gone":
    print("there is no such folder", file=sys.stderr)
    sys.exit(2)
if how == "greets":
    print("Welcome to my server!", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    match request["method"]:
        case "server/discover" if how == "modern":
            versions, offers = ["2026-07-28"], {"tools": {}}
            result = {"supportedVersions": versions, "capabilities": offers, **kept}
            say({"id": request["id"], "result": result})
        case "initialize" if how == "modern":
            say({"id": request["id"], "error": {"code": -32601, "message": "unknown"}})
        case "initialize":
            version = request["params"]["protocolVersion"]
            info = {"name": "hostile\x1b[2J", "version": "1"}
            offers = {"tools": {"listChanged": True}}
            say(
                {
                    "id": request["id"],
                    "result": {
                        "protocolVersion": version,
                        "capabilities": offers,
                        "serverInfo": info,
                    },
                }
            )
        case "tools/list":
            say({"id": request["id"], "result": {"tools": tools(), **kept}})
        case "tools/call":
            call(request["id"])
        case _:
            say({"id": request["id"], "error": {"code": -32601, "message": "unknown"}})
