"""``fullstop probe`` as CI systems call it: files, exit codes, and the files after an interrupt."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.catalogue import CASES
from app import probe_cli
from app.cli import main
from tests.api.conformance.probe.family.faulty.reasons import NamesNoSequence
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query

REPOSITORY = Path(__file__).parents[3]
SCHEMA = json.loads((REPOSITORY / ".github" / "probe-report.schema.json").read_text())
MESSAGES = WireDialect.MESSAGES
ONLY = ("--only", "stop.one_character,limit", "--model", "small")


@contextmanager
def listening(server: FamilyServer) -> Iterator[str]:
    loop = asyncio.new_event_loop()
    began, address = threading.Event(), []
    ended = asyncio.Event()

    async def serve() -> None:
        async with server.listening() as url:
            address.append(url)
            began.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert began.wait(60)
        yield address[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(60)
        loop.close()


@pytest.fixture(scope="module")
def right() -> Iterator[str]:
    with listening(FamilyServer(MESSAGES)) as url:
        yield url


@pytest.fixture(scope="module")
def wrong() -> Iterator[str]:
    with listening(NamesNoSequence(MESSAGES)) as url:
        yield url


@pytest.fixture(params=[main, probe_cli.main], ids=["fullstop probe", "fullstop-probe"])
def program(request: pytest.FixtureRequest) -> Callable[..., int]:
    call = request.param
    before = ["probe"] if call is main else []
    return lambda *words: call([*before, *words])


def data_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    return found


def test_a_correct_server_passes(
    program: Callable[..., int], right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program(right, *ONLY, "--json") == 0
    data = data_of(capsys)
    assert data["verdict"] == "held"
    [report] = data["reports"]
    assert {one["code"] for one in report["results"]} == {"stop.one_character", "limit"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--quik", "http://x"), "no option --quik. Did you mean --quick?"),
        (("http://x", "--level", "opinon"), "“opinon” is none of"),
        (("http://x", "http://y"), "“http://y” is too much."),
    ],
)
def test_a_wrong_word_is_answered_in_one_line(
    program: Callable[..., int],
    words: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert program(*words) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert line.endswith("--help shows what it takes.")


def test_a_faulty_server_fails_in_every_file(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"junit": "p.xml", "sarif": "p.sarif", "markdown": "p.md", "html": "p.html"}
    files = [word for name, file in names.items() for word in (f"--{name}", str(tmp_path / file))]
    assert main(["probe", wrong, *ONLY, *files]) == 1
    assert "### Stop: one character (stop.one_character)" in capsys.readouterr().out
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(written) == set(names.values()), "there is nothing beside the files"
    assert ElementTree.fromstring(written["p.xml"]).get("failures") == "1"
    assert json.loads(written["p.sarif"])["runs"][0]["results"][0]["ruleId"] == "stop.one_character"
    assert "<details>" in written["p.md"]
    assert written["p.html"].startswith("<!doctype html>")


def test_known_failures_pass_new_ones_and_unexpected_passes_fail(
    right: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = tmp_path / "known.txt"
    known.write_text("# known\nmessages:stop.one_character\n")
    option = ("--expected-failures", str(known))
    assert main(["probe", wrong, *ONLY, *option]) == 0
    assert "Expected failures: `messages:stop.one_character`." in capsys.readouterr().out
    assert main(["probe", right, *ONLY, *option]) == 1
    assert "Passed, though expected to fail" in capsys.readouterr().out
    known.write_text("limit\nnone.such\n")
    assert main(["probe", right, *ONLY, *option]) == 2
    assert "line 2: no check has the id 'none.such'" in capsys.readouterr().err


def test_a_probe_that_cannot_begin_reports_it_as_json_and_in_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "probe.xml"
    assert main(["probe", "http://127.0.0.1:9", "--json", "--junit", str(file)]) == 4
    data = data_of(capsys)
    assert (data["verdict"], data["reports"]) == ("unreachable", [])
    assert "does not answer" in data["problem"]
    assert ElementTree.fromstring(file.read_text()).get("errors") == "1"
    assert main(["probe", "http://127.0.0.1:9"]) == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_a_probe_that_runs_out_of_time_is_incomplete(
    right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Slow(FamilyServer):
        piece_s = 0.05

    with listening(Slow(MESSAGES)) as url:
        words = ["probe", url, "--model", "small", "--dialect", "messages", "--time-limit", "1"]
        assert main([*words, "--json"]) == 3
    [report] = data_of(capsys)["reports"]
    assert report["cut_short"]
    assert {one["outcome"] for one in report["results"]} >= {"not asked"}


def test_a_path_that_cannot_be_written_is_named_before_the_first_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none" / "p.xml"
    assert main(["probe", "http://127.0.0.1:9", "--junit", str(path)]) == 2
    assert f"--junit: {path} cannot be written" in capsys.readouterr().err
    assert main(["probe", "http://127.0.0.1:9", "--html", str(tmp_path)]) == 2


class Waits(FamilyServer):
    piece_s = 0.1

    def __init__(self) -> None:
        super().__init__(MESSAGES)
        self.has_begun = threading.Event()

    def script(self, query: Query) -> str:
        if self.asked > 3:
            self.has_begun.set()
        return super().script(query)


def test_ctrl_c_writes_a_whole_report(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("the old report")
    server = Waits()
    with listening(server) as url:
        words = ["probe", url, "--model", "small", "--dialect", "messages", "--json"]
        process = subprocess.Popen(
            [sys.executable, "-m", "app", *words, "--html", str(page)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        try:
            assert server.has_begun.wait(60)
            assert page.read_text() == "the old report"
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert (process.returncode, errors) == (130, "")
    data = json.loads(output)
    jsonschema.validate(data, SCHEMA)
    assert data["verdict"] == "interrupted"
    [report] = data["reports"]
    assert {one["outcome"] for one in report["results"]} == {"not asked"}
    assert "not asked" in page.read_text()
    assert sorted(tmp_path.iterdir()) == [page]


def test_the_catalogue_is_listed_without_an_address(
    program: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert program("--list") == 0
    shown = capsys.readouterr().out
    assert all(case.check_id in shown for case in CASES)


def test_two_reports_are_compared(
    right: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for name, url in (("right", right), ("wrong", wrong)):
        main(["probe", url, *ONLY, "--json"])
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(capsys.readouterr().out)
    good, bad = map(str, files)
    assert main(["probe", "--diff", good, bad]) == 1
    shown = capsys.readouterr().out
    assert shown == "- NEW FAILURE `messages:stop.one_character`: held → failed\n"
    assert main(["probe", "--diff", bad, good]) == 0
    assert capsys.readouterr().out == "- FIXED `messages:stop.one_character`: failed → held\n"
    assert main(["probe", "--diff", good, str(tmp_path / "none")]) == 2
    files[0].write_text("{}")
    assert main(["probe", "--diff", good, bad]) == 2
    assert "it is not a report" in capsys.readouterr().err
