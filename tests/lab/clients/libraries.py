"""Asks a server through Python's client libraries; each must raise its error for a full context.

``python -m tests.lab.clients.libraries`` makes an environment for each library in a temporary
folder, runs ``fullstop serve`` on the demo model and prints what each client said. By hand only: it
takes a minute and some 500 MB, and fetches from PyPI.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.lab.clients.environments import bare_environment, python_environment
from tests.lab.clients.judging import Report
from tests.lab.clients.servers import demo_server

PROGRAMS = Path(__file__).parent / "programs"
CLIENTS = {
    "litellm_program": ("litellm",),
    "langchain_program": ("langchain-openai", "langchain-anthropic"),
    "pydantic_ai_program": ("pydantic-ai-slim[openai,anthropic]",),
}
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "OTEL_SDK_DISABLED": "true",
    "NO_PROXY": "127.0.0.1,localhost",
}


def main() -> int:
    report = Report()
    with tempfile.TemporaryDirectory() as folder, demo_server() as server:
        for program, packages in CLIENTS.items():
            python = python_environment(Path(folder) / program, *packages)
            done = subprocess.run(
                [python, PROGRAMS / f"{program}.py", server.url],
                env=bare_environment(Path(folder) / "home", **QUIET),
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            found = [line for line in done.stdout.splitlines() if line.startswith('{"name"')]
            if not found:
                report.add(program, False, done.stderr[-400:])
            for line in found:
                one = json.loads(line)
                has_answered = bool(one.get("answer"))
                has_passed = has_answered and one.get("is_context_error", False)
                report.add(one["name"], has_passed, f"{one['error']}: {one.get('message', '')}")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
