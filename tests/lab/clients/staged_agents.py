"""Coding agents, five turns with tools each, on scripted models behind real chat templates.

``python -m tests.lab.clients.staged_agents FOLDER [--agents claude,codex] [--families qwen38,…]
[--programs BIN]`` runs Claude Code, Codex, opencode and Qwen Code against loopback, with their
telemetry off. FOLDER holds templates and tokenizers (``tests.lab.real_families``). BIN is a
folder of installed programs; without it they are installed from npm, some 700 MB.

Each question holds a plan: the model calls the agent's shell as often as the plan asks, waits for
each result in its prompt, and then says that it is done. Prints a row for each pair: the turns that
ran to their end, the statuses, and how much of the second turn's prompt came from the cache.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.server.server import ServerThread
from api.service.config import ServerConfig
from engine.engine import Engine
from engine.generation import Generation
from engine.values.limits import Limits
from engine.values.request import GenerationRequest
from tests.lab.clients.environments import Agent, node_environment
from tests.lab.clients.servers import SAID, Server
from tests.lab.real_families import real_stage
from tests.support.families.stage import FamilyStage
from tests.support.families.writers import FAMILIES

FAMILIES_OF_AGENTS = ("qwen38", "qwen3coder", "gptoss", "gemma4", "mistral")
TURNS = 5
_CALLS = 2
_CONTEXT = 131_072
_CODEX_CONFIG = """
model = "m"
model_context_window = 40000
model_provider = "here"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[model_providers.here]
name = "Fullstop"
base_url = "{url}/v1"
wire_api = "responses"
{key}
[analytics]
enabled = false
[otel]
exporter = "none"
"""
_PLAN = re.compile(r"@@PLAN:(\w+):(\d+):(\w+):(\w+)@@")


def follow_plan(family: str) -> Callable[[str], str]:
    """Return what a family's model answers to a prompt: the next step of the last plan in it."""

    def answer(prompt: str) -> str:
        plans = _PLAN.findall(prompt)
        if not plans:
            return FAMILIES[family].write(prompt, "Nothing to do.", SAID, ())
        nonce, count, tool, argument = plans[-1]
        done = sum(f"RESULT-{nonce}-{number}-" in prompt for number in range(1, int(count) + 1))
        write = FAMILIES[family].write
        if done == int(count):
            return write(prompt, "All results are there.", f"Done {nonce}.", ())
        command = f"echo RESULT-{nonce}-$(({done + 1}))-"
        arguments: dict[str, Any] = {argument: command}
        if argument == "command":
            arguments["description"] = "Print a line"
        if tool == "run_shell_command":
            arguments["is_background"] = False
        return write(prompt, "I need the shell.", f"Step {done + 1}.", [(tool, arguments)])

    return answer


class _RecordingEngine(Engine):
    """Keeps the generations that it has started."""

    def __init__(self, stage: FamilyStage) -> None:
        super().__init__(Limits(plain_decoding=True), loader=stage.load)
        self.started: list[Generation] = []

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        started = await super().generate_together(requests)
        self.started += started
        return started


@contextmanager
def _serve(lab: Path, family: str) -> Iterator[tuple[Server, _RecordingEngine, FamilyStage]]:
    with tempfile.TemporaryDirectory() as folder:
        stage = real_stage(lab, family, Path(folder), follow_plan(family), context=_CONTEXT)
        engine = _RecordingEngine(stage)
        try:
            asyncio.run(engine.load(Path(folder)))
            thread = ServerThread(engine, ServerConfig(images="note"))
            try:
                yield Server(thread.start().url), engine, stage
            finally:
                thread.stop()
        finally:
            engine.close()


@dataclass(frozen=True)
class _Shell:
    """An agent's shell tool, and how a turn is run.

    Attributes:
        tool: The name of the tool.
        argument: The argument that holds the command.
        run: (agent, server, text, number of the turn) → everything that the agent printed.
    """

    tool: str
    argument: str
    run: Callable[[Agent, Server, str, int], str]


def _run_claude(agent: Agent, server: Server, text: str, turn: int) -> str:
    done = agent.run(
        "-p", text, "--output-format", "json", "--allowedTools", "Bash",
        *(("--continue",) if turn else ()),
        case="turns",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_TELEMETRY="1",
        DISABLE_ERROR_REPORTING="1", DISABLE_AUTOUPDATER="1", ANTHROPIC_MODEL="m",
        ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="none",
    )  # fmt: skip
    return done.stdout + done.stderr


def _run_codex(agent: Agent, server: Server, text: str, turn: int) -> str:
    home = agent.folder / "turns" / "codex"
    home.mkdir(parents=True, exist_ok=True)
    config = _CODEX_CONFIG.format(url=server.url, key="").replace("40000", str(_CONTEXT))
    (home / "config.toml").write_text(config.replace("read-only", "danger-full-access"))
    more = ("resume", "--last") if turn else ()
    done = agent.run(
        "exec", "--skip-git-repo-check", *more, text, case="turns", CODEX_HOME=str(home)
    )
    return done.stdout + done.stderr


def _run_opencode(agent: Agent, server: Server, text: str, turn: int) -> str:
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "here/m",
        "small_model": "here/m",
        "permission": {"bash": "allow"},
        "provider": {
            "here": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Fullstop",
                "options": {"baseURL": f"{server.url}/v1", "apiKey": "none"},
                "models": {"m": {"name": "m", "limit": {"context": _CONTEXT, "output": 4096}}},
            }
        },
    }
    work = agent.folder / "turns" / "work"
    work.mkdir(parents=True, exist_ok=True)
    (work / "opencode.json").write_text(json.dumps(config))
    done = agent.run(
        "run", *(("--continue",) if turn else ()), text,
        case="turns", OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1",
    )  # fmt: skip
    return done.stdout + done.stderr


def _run_qwen(agent: Agent, server: Server, text: str, turn: int) -> str:
    done = agent.run(
        "--auth-type", "openai", "--approval-mode", "yolo", "-p", text,
        *(("--continue",) if turn else ()),
        case="turns",
        OPENAI_API_KEY="none", OPENAI_BASE_URL=f"{server.url}/v1", OPENAI_MODEL="m",
    )  # fmt: skip
    return done.stdout + done.stderr


SHELLS = {
    "claude": ("@anthropic-ai/claude-code", _Shell("Bash", "command", _run_claude)),
    "codex": ("@openai/codex", _Shell("exec_command", "cmd", _run_codex)),
    "opencode": ("opencode-ai", _Shell("bash", "command", _run_opencode)),
    "qwen": (
        "@qwen-code/qwen-code@latest",
        _Shell("run_shell_command", "command", _run_qwen),
    ),
}


def run_pair(lab: Path, name: str, program: Path, family: str, folder: Path, verbose: bool) -> bool:
    """Run five turns of an agent on a family's model; print a row and return whether all ended."""
    shell = SHELLS[name][1]
    agent = Agent(program, folder)
    with _serve(lab, family) as (server, engine, stage):
        ended, cached = 0, 0.0
        for turn in range(TURNS):
            nonce = f"{name}{family}{turn}"
            plan = f"@@PLAN:{nonce}:{_CALLS}:{shell.tool}:{shell.argument}@@"
            first = len(engine.started)
            said = shell.run(agent, server, f"Follow this plan: {plan}", turn)
            is_done = f"Done {nonce}." in said
            ended += is_done
            if verbose and not is_done:
                print(said[-3000:])
            if turn == 1 and len(engine.started) > first:
                cached = _cached_share(engine.started[first:], f"@@PLAN:{nonce}:")
        statuses = {f"{route} {status}": n for (route, status), n in server.asked().items()}
        not_applied = sorted({part for g in engine.started for part in g.not_applied})
        if verbose:
            (folder / "prompt.txt").write_text(stage.prompts[-1] if stage.prompts else "")
    is_right = ended == TURNS and cached >= 0.95
    print(
        f"{'ok  ' if is_right else 'FAIL'} {name:9} {family:11} turns {ended}/{TURNS}, second turn "
        f"{cached:.1%} cached, {statuses}, not applied {not_applied}",
        flush=True,
    )
    return is_right


def _cached_share(started: Sequence[Generation], plan: str) -> float:
    """Return how much of the first prompt that holds a plan came from the cache."""
    for generation in started:
        if generation.finished is not None and plan in _text_of(generation.request):
            usage = generation.finished.usage
            return usage.cached_tokens / usage.prompt_tokens
    return 0.0


def _text_of(request: GenerationRequest) -> str:
    return " ".join(message.content for message in request.messages)


def main() -> int:
    """Run the pairs that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("lab", type=Path)
    parser.add_argument("--agents", default=",".join(SHELLS))
    parser.add_argument("--families", default=",".join(FAMILIES_OF_AGENTS))
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.agents.split(","):
            programs = options.programs or node_environment(
                Path(folder) / name / "prefix", SHELLS[name][0]
            )
            for family in options.families.split(","):
                scratch = Path(folder) / name / family
                failed += not run_pair(
                    options.lab, name, programs / name, family, scratch, options.verbose
                )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
