import asyncio
import re
import sys
import textwrap
import time
from pathlib import Path

import aiohttp
import psutil
import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.values import CheckOutcome, CheckResult, Report
from api.server.server import ServerThread
from api.transport.config import ServerConfig
from engine.scheduling.service import Engine
from tests.lab.benchmarks.compare import Plan, compare, counter, taking_part
from tests.lab.benchmarks.comparing.asking import Asker, NoAnswer, piece_of
from tests.lab.benchmarks.comparing.configuration import (
    ConfigurationError,
    ServerCommand,
    fullstop,
    read_servers,
    servers_of,
)
from tests.lab.benchmarks.comparing.measures import Correctness, correctness
from tests.lab.benchmarks.comparing.servers import ServerFailed, running
from tests.lab.benchmarks.comparing.table import Comparison, Side, as_markdown, as_text
from tests.lab.benchmarks.reading import Reading

WHOLE = {"name": "other", "command": "other --port {port}"}


def side(name: str, *rounds: dict[str, float], **more: object) -> Side:
    found = Side(ServerCommand(name, (name,)), **more)  # type: ignore[arg-type]
    found.rounds.extend(rounds)
    return found


def plan(model: Path, **more: object) -> Plan:
    given = {
        "rounds": 1,
        "is_probing": False,
        "start_timeout_s": 20.0,
        "answer_timeout_s": 20.0,
        "probe_limit_s": 20.0,
        "server_cores": (),
        "count": len,
    }
    return Plan(model=model, **(given | more))  # type: ignore[arg-type]


def python(code: str) -> tuple[str, ...]:
    return ("{python}", "-c", textwrap.dedent(code), "{port}")


def is_alive(pid: int) -> bool:
    try:  # a zombie has ended; whoever adopted it has not asked yet
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# -- the file of servers ----------------------------------------------------------------------


def test_the_file_that_comes_with_the_program_is_valid() -> None:
    read_servers(Path(__file__).with_name("compare.toml"))


def test_a_server_has_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "servers.toml"
    path.write_text(
        """
        [[server]]
        name = "other"
        command = "other 'two words' {model} --port {port}"
        dialect = "messages"
        ready = "/health"
        model_name = "any"
        environment = { OFFLINE = "1" }
        version = ["other", "--version"]
        """
    )
    assert read_servers(path) == [
        ServerCommand(
            "other",
            ("other", "two words", "{model}", "--port", "{port}"),
            WireDialect.MESSAGES,
            "/health",
            "any",
            {"OFFLINE": "1"},
            ("other", "--version"),
        )
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": None}, "server 1: name is missing"),
        ({"name": " "}, "server 1: name must be"),
        ({"name": "mlx_lm.server"}, "name 'mlx_lm.server' is taken"),
        ({"command": None}, "server 1 (other): command is missing"),
        ({"command": "other"}, "command has no {port}"),
        ({"command": "other {port} {folder}"}, "command: {folder} is not known"),
        ({"command": "other '{port}"}, "command cannot be split"),
        ({"command": [1, "{port}"]}, "command must be a command line or a list"),
        ({"dialect": "ollama"}, 'dialect must be "chat" or "messages"'),
        ({"ready": "health"}, "ready must be a path"),
        ({"model_name": "{name}"}, "model_name: {name} is not known"),
        ({"environment": {"A": 1}}, "environment.A must be a text"),
        ({"environment": "A=1"}, "environment must be a table"),
        ({"version": []}, "version must be a command line"),
        ({"timeout": 3}, "timeout is not known; the fields are name, command"),
    ],
)
def test_a_field_that_will_not_do_is_named(changed: dict[str, object], said: str) -> None:
    table = {name: value for name, value in (WHOLE | changed).items() if value is not None}
    with pytest.raises(ConfigurationError) as raised:
        servers_of({"server": [table]})
    assert said in str(raised.value)


def test_a_single_bracket_and_a_foreign_key_are_explained() -> None:
    with pytest.raises(ConfigurationError, match=r"write \[\[server\]\]"):
        servers_of({"server": WHOLE})
    with pytest.raises(ConfigurationError, match="servers is not known"):
        servers_of({"servers": [WHOLE]})


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "servers.toml"
    with pytest.raises(ConfigurationError, match=r"servers.toml cannot be read: No such file"):
        read_servers(path)
    path.write_text("[[server]\n")
    with pytest.raises(ConfigurationError, match=r"servers.toml is not valid TOML"):
        read_servers(path)


def test_fullstop_comes_first_in_every_dialect_that_is_asked() -> None:
    [other] = servers_of({"server": [WHOLE | {"dialect": "messages"}]})
    assert [one.name for one in taking_part([other])] == [
        "Fullstop",
        "Fullstop (messages)",
        "mlx_lm.server",
        "other",
    ]


# -- starting -----------------------------------------------------------------------------------


def test_a_server_that_is_not_installed_is_named_and_left_out(tmp_path: Path) -> None:
    absent = ServerCommand("absent", ("no-such-program-here", "{port}"))
    found = asyncio.run(compare([absent], plan(tmp_path)))
    assert not found.sides
    assert "absent is left out: no-such-program-here is not installed." in as_text(found)


def test_a_server_that_ends_at_once_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    broken = ServerCommand("broken", python("print('no Metal here'); raise SystemExit(3)"))
    [found] = asyncio.run(compare([broken], plan(tmp_path))).sides
    assert "did not start; its process ended with code 3" in found.problem
    assert found.tail == ("no Metal here",)


def test_a_server_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    # A shell, because Python may take longer to start than the server may.
    hung = ServerCommand("hung", ("sh", "-c", "sleep 600 & echo child $!; wait", "{port}"))
    [found] = asyncio.run(compare([hung], plan(tmp_path, start_timeout_s=2.0))).sides
    assert "it was not ready within 2 s" in found.problem
    child = int(found.tail[-1].split()[1])
    ends_at_s = time.monotonic() + 60
    while is_alive(child) and time.monotonic() < ends_at_s:
        time.sleep(0.01)
    assert not is_alive(child)


def test_a_server_that_answers_errors_does_not_keep_others_from_their_turn(tmp_path: Path) -> None:
    folder = ServerCommand(
        "folder", (sys.executable, "-m", "http.server", "{port}", "--bind", "127.0.0.1")
    )
    broken = ServerCommand("broken", python("print('never')"))
    first, second = asyncio.run(compare([folder, broken], plan(tmp_path))).sides
    assert "start: status 501" in first.problem
    assert second.tail == ("never",)


def test_a_server_that_never_answers_a_question_is_given_up(tmp_path: Path) -> None:
    code = """
        import http.server, sys, time

        class Silent(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                time.sleep(60)

        http.server.test(Silent, port=int(sys.argv[1]), bind="127.0.0.1")
    """
    silent = ServerCommand("silent", python(code))
    [found] = asyncio.run(compare([silent], plan(tmp_path, answer_timeout_s=0.3))).sides
    assert found.problem == "round 1 of 1: start: no whole answer within 0.3 s"
    assert not found.has_results


def test_a_running_server_tells_its_memory_and_gets_its_environment(tmp_path: Path) -> None:
    code = """
        import http.server, os, sys
        print(os.environ["COLOUR"], flush=True)
        http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]))
    """
    command = ServerCommand("plain", python(code), ready="/", environment={"COLOUR": "blue"})

    async def run() -> ServerFailed:
        async with running(command, tmp_path, timeout_s=20) as server:
            assert server.memory_mb > 1
            failed = server.failed("why not")
        assert server.has_ended
        return failed

    assert asyncio.run(run()).tail[0] == "blue"


# -- asking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [WireDialect.CHAT, WireDialect.MESSAGES])
def test_our_own_server_is_read_in_both_dialects(
    engine: Engine, demo_model_path: Path, dialect: WireDialect
) -> None:
    prompt = "Count from 1 to 10, one number per line"

    async def run(url: str) -> tuple[Reading, str, list[Reading]]:
        async with aiohttp.ClientSession() as session:
            asker = Asker(session, url, dialect, "any", counter(demo_model_path), 20)
            reading, text = await asker.turn((), prompt, 64)
            return reading, text, await asker.together([prompt, prompt], 8)

    server = ServerThread(engine, ServerConfig(port=0))
    try:
        reading, text, two = asyncio.run(run(server.start().url))
    finally:
        server.stop()
    assert text.split() == [str(number) for number in range(1, 11)]
    assert 0 < reading.first_s < reading.last_s
    assert reading.tokens > 10
    assert [one.tokens for one in two] == [8, 8]


def test_thinking_counts_as_text_and_what_is_no_text_does_not() -> None:
    chat, messages = WireDialect.CHAT, WireDialect.MESSAGES
    assert piece_of(b'data: {"choices":[{"delta":{"reasoning_content":"Hm"}}]}', chat) == "Hm"
    assert piece_of(b'data: {"delta":{"type":"thinking_delta","thinking":"Hm"}}', messages) == "Hm"
    assert piece_of(b'data: {"delta":{"type":"text_delta","text":"1"}}', messages) == "1"
    for line in (b"", b": ping", b"data: [DONE]", b'data: {"choices":[],"usage":{}}'):
        assert piece_of(line, chat) == ""


def test_an_error_in_the_stream_is_no_text() -> None:
    with pytest.raises(NoAnswer, match="out of memory"):
        piece_of(b'data: {"error":{"message":"out of memory"}}', WireDialect.CHAT)


# -- the table ----------------------------------------------------------------------------------


def test_the_table_has_medians_and_ratios_to_fullstop() -> None:
    ours = side("Fullstop", {"one": 100.0}, {"one": 300.0}, {"one": 200.0}, version="1.0")
    other = side("other", {"one": 100.0, "start": 2.0})
    lines = as_text(Comparison([ours, other], [], {"system": "Linux"})).splitlines()
    assert lines[0].split() == ["Fullstop", "1.0", "other"]
    rows = {cells[0]: cells[1:] for line in lines if (cells := re.split(r"  +", line))}
    assert rows["one stream, tokens/s"] == ["200", "100 (× 0.50)"]
    assert rows["from start to first answer, s"] == ["–", "2.00"]
    assert lines[-1] == "system: Linux"


def test_a_server_is_compared_with_fullstop_in_its_own_dialect() -> None:
    ours = side("Fullstop", {"one": 100.0})
    theirs = Side(fullstop(WireDialect.MESSAGES), rounds=[{"one": 50.0}])
    command = ServerCommand("other", ("other",), WireDialect.MESSAGES)
    other = Side(command, rounds=[{"one": 100.0}])
    shown = as_text(Comparison([ours, theirs, other], [], {}))
    assert "100 (× 2.00)" in shown


def test_the_markdown_names_what_failed_and_what_was_given_up() -> None:
    found = Correctness({CheckOutcome.HELD: 3, CheckOutcome.FAILED: 1}, ("Stop: beyond ASCII",))
    comparison = Comparison(
        [
            side("Fullstop", {"one": 1.0}, correctness=found),
            side("other", problem="probing stops: it did not start", tail=("no Metal",)),
        ],
        [("third", "third-server")],
        {"system": "Linux", "mlx": "1"},
    )
    assert as_markdown(comparison) == textwrap.dedent(
        """\
        |  | Fullstop |
        |---|---:|
        | checks of stops passed | 3 |
        | checks of stops failed | 1 |
        | checks of stops unclear | 0 |
        | checks of stops skipped | 0 |
        | checks of stops not asked | 0 |
        | one stream, tokens/s | 1 |

        - Fullstop fails: Stop: beyond ASCII.
        - other was given up: probing stops: it did not start.

          ```text
          no Metal
          ```

        - third is left out: third-server is not installed.

        system: Linux; mlx: 1.
        """
    )


def test_correctness_counts_and_names_what_the_probe_found() -> None:
    results = (
        CheckResult("a", "First", CheckOutcome.HELD),
        CheckResult("b", "Second", CheckOutcome.FAILED),
        CheckResult("c", "Third", CheckOutcome.SKIPPED),
    )
    report = Report("url", WireDialect.CHAT, "m", "", True, results, 3, 1.0)
    found = correctness(report)
    assert (found.counts[CheckOutcome.HELD], found.counts[CheckOutcome.UNDECIDED]) == (1, 0)
    assert found.failed == ("Second",)
