"""Starts coding agents by ``fullstop launch`` and checks that they ask our server.

``python -m tests.lab.clients.launched [claude] [codex] …`` installs each
from npm or PyPI in a temporary folder (or takes it from ``--programs FOLDER``, a folder of
executables) and asks it one question on loopback. The model is scripted. By hand only: it fetches
some 900 MB.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab.clients.environments import bare_environment, node_environment, python_environment
from tests.lab.clients.servers import REPOSITORY, SAID, Server, scripted_server

_CONTEXT = 400_000
_KEY = "a-key-of-ours"


@dataclass(frozen=True)
class Launched:
    """How to ask an agent one question."""

    package: str
    arguments: tuple[str, ...]
    route: str
    own_file: tuple[str, str]
    is_python: bool = False


AGENTS = {
    "claude": Launched(
        "@anthropic-ai/claude-code", ("-p", "Hi"), "/v1/messages",
        (".claude/settings.json", '{"model": "opus"}\n'),
    ),
    "codex": Launched(
        "@openai/codex", ("exec", "--skip-git-repo-check", "Hi"), "/v1/responses",
        (".codex/config.toml", 'model = "gpt-5"\n'),
    ),
    "opencode": Launched(
        "opencode-ai", ("run", "Hi"), "/v1/chat/completions",
        (".config/opencode/opencode.json", '{"share": "disabled"}\n'),
    ),
    "aider": Launched(
        "aider-chat",
        ("--no-git", "--yes-always", "--no-check-update", "--analytics-disable", "--message", "Hi"),
        "/v1/chat/completions", (".aider.conf.yml", "model: gpt-4o\n"), is_python=True,
    ),
    "qwen": Launched(
        "@qwen-code/qwen-code", ("-p", "Hi"), "/v1/chat/completions",
        (".qwen/settings.json", '{"hideTips": true}\n'),
    ),
    "copilot": Launched(
        "@github/copilot", ("-p", "Hi"), "/v1/chat/completions",
        (".copilot/config.json", '{"banner": "never"}\n'),
    ),
    "kilo": Launched(
        "@kilocode/cli", ("run", "Hi"), "/v1/chat/completions",
        (".config/kilo/kilo.json", '{"share": "disabled"}\n'),
    ),
    "cline": Launched(
        "cline", ("Say hi",), "/v1/chat/completions",
        (".cline/data/settings/providers.json", '{"version": 1, "providers": {}}\n'),
    ),
    # These two need Python 3.12.
    "vibe": Launched(
        "mistral-vibe", ("--trust", "-p", "Hi"), "/v1/chat/completions",
        (".vibe/config.toml", 'default_agent = "ask"\n'), is_python=True,
    ),
    "openhands": Launched(
        "openhands", ("--headless", "-t", "Hi"), "/v1/chat/completions",
        (".openhands/settings.json", "{}\n"), is_python=True,
    ),
}  # fmt: skip


def judge(name: str, programs: Path, folder: Path) -> Iterator[tuple[str, bool, str]]:
    """Ask through an agent; yield each check with what the client said."""
    agent = AGENTS[name]
    home, work = folder / "home", folder / "work"
    own, text = home / agent.own_file[0], agent.own_file[1]
    own.parent.mkdir(parents=True)
    own.write_text(text)
    work.mkdir()
    variables = bare_environment(home, FULLSTOP_API_KEY=_KEY)
    variables["PATH"] = os.pathsep.join((str(programs), variables["PATH"]))
    # The agent works in its own folder, where it finds no module of ours.
    variables["PYTHONPATH"] = str(REPOSITORY)
    variables["FULLSTOP_CONFIG_DIR"] = str(folder / "config")
    with scripted_server(context=_CONTEXT, key=_KEY) as server:
        words = [sys.executable, "-P", "-m", "app", "launch", name, "--url", server.url, "--anyway"]
        done = subprocess.run(
            [*words, "--", *agent.arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=work, env=variables,
            timeout=300, check=False,
        )  # fmt: skip
        asked = _asked(server, agent.route)
    said = f"exit code {done.returncode}; {done.stdout[-200:]!r} {done.stderr[-300:]!r}"
    yield f"{name} answers with our model", SAID in done.stdout, said
    yield f"{name} asks our server alone", asked > 0, f"{asked} answers of {agent.route}"
    yield f"{name} ends with its own code", done.returncode == 0, said
    kept = own.read_text()
    is_clean = not any(word in kept for word in (server.url, "fullstop", _KEY))
    yield f"{name} keeps our server out of the user's file", is_clean, kept


def _asked(server: Server, route: str) -> int:
    return sum(
        n for (path, status), n in server.asked().items() if route in path and status == "200"
    )


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=Path, help="a folder of executables")
    parser.add_argument("agents", nargs="*", choices=[*AGENTS, []])
    given = parser.parse_args(words)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in given.agents or AGENTS:
            place = Path(folder) / name
            programs = given.programs or _installed(name, place / "prefix")
            for what, has_passed, shown in judge(name, programs, place):
                failed += not has_passed
                print(f"{'passed' if has_passed else 'FAILED'}  {what}\n        {shown[:160]}")
    return 1 if failed else 0


def _installed(name: str, folder: Path) -> Path:
    agent = AGENTS[name]
    if agent.is_python:
        return python_environment(folder, agent.package).parent
    return node_environment(folder, agent.package)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
