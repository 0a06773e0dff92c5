"""Asks a server through every client of the catalogue and writes the table of ``CLIENTS.md``.

``python -m tests.lab.clients.table [NAME …] [--cache FOLDER]`` makes an environment of its own for
each client below the cache folder and runs it against loopback with its telemetry off. What came of
it goes to ``.github/CLIENTS.md`` and, with every client's own words, to ``clients.json`` in the
cache folder. With names, only those clients run, and the others keep what the JSON has. By hand and
in the workflow only: it fetches some 5 GB. The exit code is 1 if a check failed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from tests.lab.clients.catalogue import BY_THEMSELVES, CLIENTS, NOT_RUN, Client
from tests.lab.clients.environments import (
    InstallFailed,
    bare_environment,
    node_environment,
    python_environment,
)
from tests.lab.clients.servers import Server, obedient_servers

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / ".github" / "CLIENTS.md"
PROGRAMS = Path(__file__).parent / "programs"
CHECKS = ("works", "stop", "stream", "tools", "abort", "errors")
# Asked of the clients that have them, and shown in a table of their own.
EMBEDDINGS = "embeddings"
# Each letter of a prompt is a token here, and the agents' prompts are long.
CONTEXT = 200_000
KEY = "right"
TIMEOUT_S = 900
QUIET = {
    "DO_NOT_TRACK": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_PROXY": "127.0.0.1,localhost",
    "OTEL_SDK_DISABLED": "true",
}
_HEAD = """\
# Clients

Made by `python -m tests.lab.clients.table`, which installs every client, unmodified, in an
environment of its own, and runs it against the server on loopback, where a scripted model does as
it is told. Last run: {day}, on Linux.

- **works**: the client returns the whole answer, by each of the APIs that are named.
- **stop**: a stop sequence ends the answer where it should.
- **stream**: the pieces of a stream, more than one, are the answer.
- **tools**: the model's call arrives with its arguments, or the answer that follows its result.
- **abort**: the client leaves, and the server ends the answer.
- **errors**: a prompt that is too long and a wrong key are errors of the client, which say so.

✓ passed · ✗ failed · – not asked of this client; the reason is below

`python -m tests.lab.clients.launched` starts agents by `fullstop launch`, each with a question, and
checks that they ask our server alone and that their own files keep their settings. Last run:
2026-11-28, with Claude Code 2.1.197, Codex 0.171.0, Copilot CLI 1.0.102, Kilo 7.7.9, Cline 3.0.65,
Vibe 3.0.2 and OpenHands 1.16.0; Claude Code's `/context` names the model's own context.
"""
_MARKS = {True: "✓", False: "✗", None: "–"}


@dataclass
class Outcome:
    """What came of one client."""

    name: str
    version: str = ""
    apis: str = ""
    passed: dict[str, bool | None] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    problem: str = ""


def outcome_of(client: Client, cache: Path, servers: tuple[Server, Server]) -> Outcome:
    """Install a client, if it is not installed yet, and run its checks."""
    found = Outcome(client.name, apis=client.apis)
    folder = cache / client.folder
    try:
        command, found.version = _installed(client, folder)
    except InstallFailed as error:
        found.problem = f"cannot be installed: {' '.join(str(error).split())[-300:]}"
        return found
    variables = {
        "PYTHONPATH": str(PROGRAMS),
        "CLIENT_PROGRAMS": str(_programs_of(client, folder)),
        **QUIET,
        **client.variables,
    }
    home = cache / "homes" / client.folder
    shutil.rmtree(home, ignore_errors=True)
    try:
        done = subprocess.run(
            [*command, *(server.url for server in servers)],
            env=bare_environment(home, **variables),
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        lines, errors = done.stdout.splitlines(), done.stderr
    except subprocess.TimeoutExpired as late:
        lines = (late.stdout or b"").decode(errors="replace").splitlines()
        errors = f"it did not end within {TIMEOUT_S} s"
    for line in lines:
        if line.startswith('{"check"'):
            one = json.loads(line)
            found.passed[one["check"]], found.said[one["check"]] = one["passed"], one["said"]
    if not found.passed:
        found.problem = f"does not start: {' '.join(errors.split())[-300:]}"
    for check in CHECKS:
        if not found.problem and check not in found.passed:
            found.passed[check], found.said[check] = False, " ".join(errors.split())[-300:]
    return found


def _installed(client: Client, folder: Path) -> tuple[list[str], str]:
    """Return the command that runs a client's checks, and the client's version."""
    packages = client.packages
    if not any(one.startswith(client.package) for one in packages):
        packages = (client.package, *packages)
    stamp = folder / "installed.json"
    is_there = stamp.is_file() and json.loads(stamp.read_text()) == list(packages)
    is_node = client.kind == "node" or client.registry == "npm"
    if not is_there:
        shutil.rmtree(folder, ignore_errors=True)
        if is_node:
            node_environment(folder, *packages)
        else:
            python_environment(folder, *packages)
        stamp.write_text(json.dumps(list(packages)))
    program = PROGRAMS / client.program
    if client.kind == "node":
        # Node looks for packages beside the program.
        shutil.copytree(program.parent, folder / "programs", dirs_exist_ok=True)
        command = ["node", str(folder / "programs" / program.name)]
    elif client.kind == "command":
        command = [sys.executable, str(program)]
    else:
        command = [str(folder / "bin" / "python"), str(program)]
    return command, _version(client, folder, is_node=is_node)


def _version(client: Client, folder: Path, *, is_node: bool) -> str:
    if is_node:
        package = folder / "node_modules" / client.package / "package.json"
        return str(json.loads(package.read_text())["version"])
    (packages,) = (folder / "lib").glob("python*/site-packages")
    found = distributions(path=[str(packages)], name=client.package)
    return next((one.version for one in found), "")


def _programs_of(client: Client, folder: Path) -> Path:
    return folder / "node_modules" / ".bin" if client.registry == "npm" else folder / "bin"


# -- the page -----------------------------------------------------------------------------------


def page(outcomes: list[Outcome], day: str) -> str:
    """Return the page with the results of the clients."""
    worked = [one for one in outcomes if not one.problem]
    not_run = [(one.name, one.problem) for one in outcomes if one.problem] + list(NOT_RUN)
    notes = [
        f"| {one.name} | {check} | {_MARKS[one.passed[check]]} | {_cell(one.said[check])} |"
        for one in worked
        for check in CHECKS
        if one.passed[check] is not True
    ]
    rows = [
        f"| {one.name} | {one.version} | {one.apis} | "
        + " | ".join(_MARKS[one.passed[check]] for check in CHECKS)
        + " |"
        for one in worked
    ]
    embedding = [
        f"| {one.name} | {one.version} | {_MARKS[one.passed[EMBEDDINGS]]} "
        f"| {_cell(one.said[EMBEDDINGS])} |"
        for one in worked
        if EMBEDDINGS in one.passed
    ]
    return "\n".join(
        (
            _HEAD.format(day=day),
            f"| client | version | API | {' | '.join(CHECKS)} |",
            f"| {' | '.join(['---'] * (3 + len(CHECKS)))} |",
            *rows,
            "",
            "What is not ticked:",
            "",
            "| client | check | | why |",
            "| --- | --- | --- | --- |",
            *notes,
            "",
            "Embeddings: the vectors of several texts are, in each of the client's ways, what the",
            "server answers for each text alone:",
            "",
            "| client | version | embeddings | what was compared |",
            "| --- | --- | --- | --- |",
            *embedding,
            "",
            "Not run here, so that nothing is known of them:",
            "",
            "| client | why |",
            "| --- | --- |",
            *(f"| {name} | {_cell(why)} |" for name, why in not_run),
            "",
            "What clients do by themselves, whatever a server answers:",
            "",
            "| client | version | what was seen |",
            "| --- | --- | --- |",
            *(f"| {name} | {version} | {_cell(seen)} |" for name, version, seen in BY_THEMSELVES),
            "",
        )
    )


def _cell(text: str) -> str:
    """Return a text in a form that fits a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")[:200]


# -- running ------------------------------------------------------------------------------------


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.clients.table", description=__doc__)
    parser.add_argument("names", nargs="*", help="clients to run; all if none is named")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path.home() / ".cache" / "fullstop-clients",
        help="folder of the environments and of clients.json",
    )
    given = parser.parse_args(words)
    known = {client.name for client in CLIENTS}
    unknown = set(given.names) - known
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}")
    given.cache.mkdir(parents=True, exist_ok=True)
    kept = given.cache / "clients.json"
    earlier = {one["name"]: Outcome(**one) for one in _read(kept)}
    with obedient_servers(context=CONTEXT, key=KEY) as servers:
        for client in CLIENTS:
            if given.names and client.name not in given.names:
                continue
            found = earlier[client.name] = outcome_of(client, given.cache, servers)
            marks = " ".join(f"{name} {_MARKS[found.passed[name]]}" for name in found.passed)
            print(f"{client.name} {found.version}: {found.problem or marks}", flush=True)
            outcomes = [earlier[one.name] for one in CLIENTS if one.name in earlier]
            kept.write_text(json.dumps([asdict(one) for one in outcomes], indent=1))
    PAGE.write_text(page(outcomes, datetime.now(UTC).date().isoformat()), encoding="utf-8")
    has_failed = any(False in one.passed.values() for one in outcomes)
    return 1 if has_failed else 0


def _read(file: Path) -> list[dict[str, object]]:
    return json.loads(file.read_text()) if file.is_file() else []


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main(sys.argv[1:]))
