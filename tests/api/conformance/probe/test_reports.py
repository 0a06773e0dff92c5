"""Reports agree as a table, as JSON and as a page, and their commands show each fault."""

import asyncio
import html.parser
import shutil

import pytest

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.recognition import parse
from api.conformance.captures.values import WireDialect
from api.conformance.probe.client import curl_command
from api.conformance.probe.dialects import DRIVERS, Ask
from api.conformance.probe.html_page import suite_as_html
from api.conformance.probe.markdown import as_text
from api.conformance.probe.run import probe
from api.conformance.probe.suite import ProbeSuite
from api.conformance.probe.values import (
    Access,
    CheckOutcome,
    CheckResult,
    Fault,
    ProbeOptions,
    Report,
)
from tests.api.conformance.probe.family.faulty.reasons import NamesNoSequence
from tests.support.asking import run

FAULT = Fault(
    "stop_ignored", 'The stop "|" was ignored.', "a", "a|\n<b>", mode="whole", curl="curl x"
)
REPORT = Report(
    url="http://127.0.0.1:1/v1/messages",
    dialect=WireDialect.MESSAGES,
    model="<m>",
    server="",
    is_deterministic=True,
    results=(
        CheckResult("stop.a", "Stop: a", CheckOutcome.HELD, "'a|b'"),
        CheckResult("stop.b", "Stop: b", CheckOutcome.FAILED, "It was ignored.", (FAULT,)),
        CheckResult("c", "C", CheckOutcome.SKIPPED, "Not here."),
        CheckResult("d", "D", CheckOutcome.UNDECIDED, "x" * 200),
    ),
    requests=12,
    duration_s=1.25,
)


def test_the_table_has_a_row_for_each_check_and_as_many_cells_in_each_row() -> None:
    lines = as_text(REPORT).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(REPORT.results)
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)
    assert rows[2] == "| Stop: b | Failed  | See above. |", "failures come first"
    assert as_text(REPORT).count('The stop `"|"` was ignored.') == 1
    assert "1 of 2 checks failed." in as_text(REPORT)
    assert "curl x" in as_text(REPORT)


class Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_no_other_file_and_escapes_what_servers_send() -> None:
    text = suite_as_html(ProbeSuite(REPORT.url, (REPORT,)))
    page = Page()
    page.feed(text)
    assert page.open == []
    tags = {tag for tag, _ in page.seen}
    assert not tags & {"script", "link", "img", "iframe", "b", "m"}
    assert not [attrs for _, attrs in page.seen if {"src", "onclick"} & attrs.keys()]
    links = [attrs["href"] for tag, attrs in page.seen if tag == "a"]
    assert links == ["#stop.b"]
    assert {"id": "stop.b"} in [attrs for tag, attrs in page.seen if tag == "h2"]


@pytest.mark.parametrize("dialect", DRIVERS)
def test_a_key_is_never_in_a_command(dialect: WireDialect) -> None:
    body = DRIVERS[dialect].body(Ask("it's", stops=("\n",), is_streamed=True), "m")
    line = curl_command("http://127.0.0.1/", dialect, body, Access(api_key="k"))
    header = "authorization: Bearer"
    assert f'"{header} $API_KEY"' in line
    assert "-N" in line


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_a_report_show_the_fault() -> None:
    async def work() -> list[str]:
        async with NamesNoSequence(WireDialect.MESSAGES).listening() as url:
            report = await probe(ProbeOptions(url, WireDialect.MESSAGES, "small"))
            commands = [fault.curl for result in report.failed for fault in result.faults]
            shown = []
            for command in (commands[0], commands[1], commands[-1]):
                process = await asyncio.create_subprocess_shell(
                    command, stdout=asyncio.subprocess.PIPE
                )
                output, _ = await process.communicate()
                capture = parse(f"{command}\n{output.decode()}")
                assert capture.status == 200
                assert capture.request_stops
                shown.extend(finding.code for finding in diagnose(capture))
            return shown

    assert run(work()) == ["sequence_null"] * 3
