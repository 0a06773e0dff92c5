"""Holds conversations of several turns through clients that send them in different ways.

``python -m tests.lab.clients.conversations`` installs openai-agents, LangChain and the AI SDK in
environments of their own in a temporary folder, runs ``fullstop serve`` on the demo model, and
prints what came of each. A turn passes where its answer is right, and its prompt is longer than
that of the turn before: the conversation was in it. By hand only: it fetches some 300 MB from PyPI
and npm.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.lab.clients.environments import bare_environment, node_environment, python_environment
from tests.lab.clients.judging import Report
from tests.lab.clients.libraries import PROGRAMS, QUIET
from tests.lab.clients.programs.common import QUESTIONS
from tests.lab.clients.servers import demo_server

PYTHON = {
    "openai_agents_program": ("openai-agents",),
    "langchain_conversation_program": ("langchain-openai",),
}
NODE = {"ai_sdk_program": ("ai", "@ai-sdk/openai")}
ENVIRONMENT = {**QUIET, "OPENAI_AGENTS_DISABLE_TRACING": "1", "OPENAI_API_KEY": "none"}


def main() -> int:
    report = Report()
    with tempfile.TemporaryDirectory() as name, demo_server() as server:
        folder = Path(name)
        for program, packages in PYTHON.items():
            python = python_environment(folder / program, *packages)
            _judge(report, program, [python, PROGRAMS / f"{program}.py", server.url], folder)
        for program, packages in NODE.items():
            node_environment(folder / program, *packages)
            # A module finds its packages beside itself.
            place = shutil.copy(PROGRAMS / f"{program}.mjs", folder / program)
            _judge(report, program, ["node", place, server.url], folder)
    return report.exit_code()


def _judge(report: Report, program: str, command: list[Any], folder: Path) -> None:
    done = subprocess.run(
        command,
        env=bare_environment(folder / "home", **ENVIRONMENT),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith('{"name"')]
    if not found or done.returncode:
        report.add(program, False, done.stderr[-400:])
    for line in found:
        one = json.loads(line)
        wanted = one.get("wanted") or [text.removeprefix("Say: ") for text in QUESTIONS]
        answers = [answer.strip().lower() for answer in one["answers"]]
        tokens = one["input_tokens"]
        has_grown = all(one < other for one, other in pairwise(tokens))
        detail = one.get("error") or f"{answers} of prompts of {tokens} tokens"
        report.add(one["name"], answers == wanted and has_grown, detail)


if __name__ == "__main__":
    sys.exit(main())
