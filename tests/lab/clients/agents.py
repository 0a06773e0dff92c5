"""Asks a server through coding agents: a full context is compacted, a wrong key not sent again.

``python -m tests.lab.clients.agents [claude] [codex] [opencode] [qwen]`` installs Claude Code,
Codex, opencode and Qwen Code from npm in a temporary folder, runs them against loopback with their
telemetry off, and prints what each said and how often it asked. The model is scripted: its context
holds as much as the case needs. By hand only: it fetches some 700 MB.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.lab.clients.environments import bare_environment, node_environment
from tests.lab.clients.judging import Report
from tests.lab.clients.servers import SAID, Server, scripted_server

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


@dataclass(frozen=True)
class Agent:
    """A program that is installed, and a folder of its own for each case."""

    program: Path
    folder: Path

    def run(
        self, *words: str, case: str, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it once in the folder of a case, with its own home folder there."""
        work = self.folder / case / "work"
        work.mkdir(parents=True, exist_ok=True)
        return subprocess.run(
            [self.program, *words],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=work,
            env=bare_environment(self.folder / case / "home", **variables),
            timeout=180,
            check=False,
        )


def words(letters: int) -> str:
    """Return a text of some length: in the scripted model each letter is a token."""
    return ("word " * (letters // 5 + 1))[:letters]


def asked(server: Server, path: str, act: Callable[[], object]) -> tuple[object, Counter[str]]:
    """Return the result of an action, and how often a route answered with each status meanwhile."""
    before = server.asked()
    result = act()
    new = server.asked() - before
    return result, Counter({status: n for (route, status), n in new.items() if path in route})


# -- Claude Code ------------------------------------------------------------------------------


def judge_claude(agent: Agent, report: Report) -> None:
    """Claude Code says that the prompt is too long, compacts, and asks once with a wrong key."""
    quiet = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ANTHROPIC_MODEL": "m",
    }

    def ask(
        server: Server, text: str, *more: str, case: str, **variables: str
    ) -> dict[str, object]:
        given = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none"}
        done = agent.run(
            "-p", text, "--output-format", "json", *more, case=case, **quiet | given | variables
        )
        try:
            found: dict[str, object] = json.loads(done.stdout)
        except ValueError:
            found = {"result": done.stdout + done.stderr}
        return found

    path = "/v1/messages"
    with scripted_server(context=40_000) as server:
        found, statuses = asked(server, path, lambda: ask(server, words(60_000), case="long"))
        said = f"{found.get('result')} ({found.get('terminal_reason')}); statuses {dict(statuses)}"
        is_told = found.get("terminal_reason") == "prompt_too_long"
        report.add("Claude Code says that a prompt is too long", is_told, said)
        report.add("Claude Code does not try it again", statuses == {"400": 1}, said)

        for number in range(4):
            more = ("--continue",) if number else ()
            ask(server, words(6000), *more, case="compact")
        found, statuses = asked(
            server, path, lambda: ask(server, words(5000), "--continue", case="compact")
        )
        said = f"{found.get('result')}; statuses {dict(statuses)}"
        has_compacted = statuses["400"] == 1 and statuses["200"] >= 2
        report.add(
            "Claude Code compacts a full conversation and goes on",
            found.get("result") == SAID and has_compacted,
            said,
        )

        image = _image_message()
        wanted = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        given = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none"}
        for name, extra, expected in (
            ("shows why an image is refused", {}, "this model reads text only"),
            (
                "goes on with a note in an image's place",
                {"CLAUDE_CODE_EXTRA_BODY": '{"fullstop": {"images": "note"}}'},
                SAID,
            ),
        ):
            done = agent.run("-p", *wanted, case=name, stdin=image, **quiet | given | extra)
            last = [line for line in done.stdout.splitlines() if '"type":"result"' in line]
            result = str(json.loads(last[-1]).get("result")) if last else done.stderr
            report.add(f"Claude Code {name}", expected in result, result)

    with scripted_server(context=40_000, key="right") as server:
        found, statuses = asked(
            server, path, lambda: ask(server, "Hi", case="key", ANTHROPIC_API_KEY="wrong")
        )
        said = f"{found.get('result')}; statuses {dict(statuses)}"
        report.add("Claude Code asks once with a wrong key", statuses == {"401": 1}, said)


def _image_message() -> str:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"


# -- Codex ------------------------------------------------------------------------------------

CODEX_CONFIG = """
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


def judge_codex(agent: Agent, report: Report) -> None:
    """Codex reports a full context, compacts by the server's counts, and shows a key's error."""

    def ask(server: Server, text: str, *more: str, case: str, **variables: str) -> str:
        home = agent.folder / case / "codex"
        home.mkdir(parents=True, exist_ok=True)
        key = 'env_key = "HERE_KEY"' if variables else ""
        (home / "config.toml").write_text(CODEX_CONFIG.format(url=server.url, key=key))
        given = {"CODEX_HOME": str(home), **variables}
        done = agent.run("exec", "--skip-git-repo-check", *more, text, case=case, **given)
        lines = (done.stdout + done.stderr).splitlines()
        return "\n".join(line for line in lines if "word word" not in line)

    path = "/v1/responses"
    with scripted_server(context=40_000) as server:
        said, statuses = asked(server, path, lambda: ask(server, words(60_000), case="long"))
        shown = f"{_errors(said)}; statuses {dict(statuses)}"
        is_told = "ran out of room in the model's context window" in str(said)
        report.add("Codex says that the context is full", is_told, shown)
        report.add("Codex does not try it again", statuses == {"400": 1}, shown)

        ask(server, words(8000), case="compact")
        ask(server, words(9500), "resume", "--last", case="compact")
        said, statuses = asked(
            server, path, lambda: ask(server, "Go on", "resume", "--last", case="compact")
        )
        shown = f"{str(said)[-60:]}; statuses {dict(statuses)}"
        # One request to summarise the conversation, one to answer.
        has_compacted = statuses == {"200": 2} and SAID in str(said)
        report.add("Codex compacts by the tokens that were reported", has_compacted, shown)

    with scripted_server(context=40_000, key="right") as server:
        said, statuses = asked(
            server, path, lambda: ask(server, "Hi", case="key", HERE_KEY="wrong")
        )
        # It tries again whatever a server answers, the vendor's own included.
        shown = f"{_errors(said)}; statuses {dict(statuses)}"
        report.add("Codex shows why a key is refused", "the API key is wrong" in shown, shown)


def _errors(said: object) -> str:
    lines = [line for line in str(said).splitlines() if line.startswith("ERROR")]
    return lines[-1] if lines else str(said)[-100:]


# -- opencode ---------------------------------------------------------------------------------


def judge_opencode(agent: Agent, report: Report) -> None:
    """Opencode says that the context is full, compacts and goes on."""
    quiet = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def ask(server: Server, text: str, *more: str, case: str) -> str:
        config = {
            "autoupdate": False,
            "share": "disabled",
            "model": "here/m",
            "small_model": "here/m",
            "provider": {
                "here": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Fullstop",
                    "options": {"baseURL": f"{server.url}/v1", "apiKey": "wrong"},
                    "models": {"m": {"name": "m"}},
                }
            },
        }
        work = agent.folder / case / "work"
        work.mkdir(parents=True, exist_ok=True)
        (work / "opencode.json").write_text(json.dumps(config))
        done = agent.run("run", *more, text, case=case, **quiet)
        return done.stdout + done.stderr

    path = "/v1/chat/completions"
    with scripted_server(context=40_000) as server:
        for number in range(4):
            ask(server, words(7000), *(("--continue",) if number else ()), case="compact")
        said, statuses = asked(
            server, path, lambda: ask(server, words(9000), "--continue", case="compact")
        )
        shown = f"{said}; statuses {dict(statuses)}"
        is_told = "This model's maximum context length is" in str(said)
        report.add("opencode says that the context is full", is_told, shown)
        has_compacted = statuses["400"] == 1 and statuses["200"] >= 2 and SAID in str(said)
        report.add("opencode compacts and goes on", has_compacted, shown)

    with scripted_server(context=40_000, key="right") as server:
        said, statuses = asked(server, path, lambda: ask(server, "Hi", case="key"))
        # A separate request asks for a title.
        shown = f"{said}; statuses {dict(statuses)}"
        has_asked_once = statuses.keys() == {"401"} and statuses["401"] <= 2
        report.add("opencode asks once with a wrong key", has_asked_once, shown)


# -- Qwen Code --------------------------------------------------------------------------------


def judge_qwen(agent: Agent, report: Report) -> None:
    """Qwen Code compresses a conversation when it is told to, and goes on."""

    def ask(server: Server, text: str, *more: str) -> str:
        given = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_MODEL": "m"}
        done = agent.run(
            "--auth-type", "openai", "-p", text, *more,
            case="compress", OPENAI_API_KEY="none", **given,
        )  # fmt: skip
        return done.stdout

    path = "/v1/chat/completions"
    with scripted_server(context=200_000) as server:
        ask(server, "Hi")
        ask(server, "Hi again", "--continue")
        said, statuses = asked(server, path, lambda: ask(server, "/compress", "--continue"))
        shown = f"{said}; statuses {dict(statuses)}"
        has_compressed = "Context compressed" in str(said) and statuses.keys() == {"200"}
        report.add("Qwen Code compresses a conversation", has_compressed, shown)
        said, statuses = asked(server, path, lambda: ask(server, "Go on", "--continue"))
        has_gone_on = SAID in str(said) and statuses.keys() == {"200"}
        report.add("Qwen Code goes on after it", has_gone_on, f"{said}; {dict(statuses)}")


AGENTS = {
    "claude": ("@anthropic-ai/claude-code", judge_claude),
    "codex": ("@openai/codex", judge_codex),
    "opencode": ("opencode-ai", judge_opencode),
    "qwen": ("@qwen-code/qwen-code@latest", judge_qwen),
}


def main(chosen: list[str]) -> int:
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen or AGENTS:
            package, judge = AGENTS[name]
            programs = node_environment(Path(folder) / name / "prefix", package)
            agent = Agent(programs / name, Path(folder) / name)
            version = agent.run("--version", case="version")
            if version.returncode:
                report.add(f"{name} starts", False, version.stdout + version.stderr)
                continue
            print(f"{name} {version.stdout.strip()}")
            judge(agent, report)
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
