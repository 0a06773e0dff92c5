"""Hostile servers: no key goes to another origin, and every answer is read within a limit."""

import asyncio
import gzip
import json
import resource
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from aiohttp import web

from api.conformance.captures.values import WireDialect
from api.conformance.probe.client import Budget, LimitReached
from api.conformance.probe.html_page import suite_as_html
from api.conformance.probe.json_files import as_data
from api.conformance.probe.markdown import as_text
from api.conformance.probe.run import probe
from api.conformance.probe.suite import ProbeSuite
from api.conformance.probe.values import ProbeFailed, ProbeOptions, Verdict
from api.terminal_text import harmless
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Said
from tests.support.asking import run
from tests.support.random_cases import few_of

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
EVIL = "x\x1b[2J\x9b\u202e\u2066\x07\r\x85\u2028|<b>`"
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
_CHUNKED = _OK + b"transfer-encoding: chunked\r\n\r\n"
_MIB = 1 << 20


@asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[None]] = set()

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(guarded, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def endless(head: bytes, part: bytes, most: int = 400 * _MIB) -> Talk:
    """Send headers, and then the same bytes again and again."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        for _ in range(most // len(part)):
            writer.write(part)
            await writer.drain()

    return talk


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a byte from time to time, for ever."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(_CHUNKED)
    while True:
        writer.write(b"1\r\n \r\n")
        await writer.drain()
        await asyncio.sleep(0.05)


def chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


PACKED = b"content-encoding: gzip\r\n"


@cache
def bomb() -> bytes:
    return gzip.compress(bytes(300 * _MIB), 6)


async def send_bomb(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = _OK + PACKED + f"content-length: {len(bomb())}\r\n\r\n".encode()
    await endless(head, bomb(), len(bomb()))(reader, writer)


DEEP = b"[" * 100_000
TALKS: dict[str, Talk] = {
    "an endless body": endless(_CHUNKED, chunk(b"x" * 65_536)),
    "an endless stream of events": endless(_CHUNKED, chunk(b"data: {}\n\n" * 6_000)),
    "endless blank lines": endless(_CHUNKED, chunk(b"\n" * 65_536)),
    "a list of models without end": endless(
        _OK + b"transfer-encoding: chunked\r\n\r\n" + chunk(b'{"data": ['),
        chunk(b'{"id": 5},' * 6_000),
    ),
    "a header without end": endless(b"HTTP/1.1 200 OK\r\nx: ", b"x" * 65_536),
    "headers without end": endless(b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n" * 8_000),
    "a status line without end": endless(b"HTTP/1.1 200 ", b"x" * 65_536),
    "continues without end": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000),
    "a packed bomb": send_bomb,
    "JSON nested deeply": endless(
        _OK + f"content-length: {len(DEEP)}\r\n\r\n".encode(), DEEP, len(DEEP)
    ),
    "a number of many digits": endless(_OK + b"content-length: 9000\r\n\r\n", b"9" * 9_000, 9_000),
    "bytes that are no HTTP": endless(b"", b"\xff\x00\x1b[2J" * 1_000, _MIB),
    "a chunk of an absurd size": endless(_CHUNKED, b"fffffffffffffffffffff\r\n", _MIB),
    "a negative length": endless(_OK + b"content-length: -5\r\n\r\n", b"x", 10),
    "a body in drips": drip,
}


# With a model's name the server is asked for no list of models.
@pytest.mark.parametrize(
    ("name", "model"),
    [
        *few_of([(name, None if "models" in name else "m") for name in TALKS], 6),
        *(
            pytest.param(name, None, marks=pytest.mark.slow)
            for name in TALKS
            if "models" not in name
        ),
    ],
)
def test_the_probe_ends_with_a_report_whatever_a_server_sends(name: str, model: str | None) -> None:
    async def work() -> str:
        async with talking(TALKS[name]) as url:
            options = ProbeOptions(
                url, WireDialect.CHAT, model, api_key="k", timeout_s=1.0, time_limit_s=20
            )
            try:
                report = await probe(options)
            except ProbeFailed as failed:
                return str(failed)
            assert report.verdict is Verdict.FAILED
            codes = {fault.code for one in report.failed for fault in one.faults}
            assert "field_missing" not in codes, "what is no JSON lacks no fields"
            return as_text(report)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    words = run(work())
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert len(words) < 20_000
    assert grown_mib < 200, f"{grown_mib:.0f} MiB"


class Elsewhere(FamilyServer):
    def __init__(self) -> None:
        super().__init__(WireDialect.MESSAGES)
        self.seen: list[dict[str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(dict(request.headers))
        return await super().handle(request)


@pytest.mark.parametrize("status", [302, 308])
@pytest.mark.parametrize("model", [None, "small"])
def test_no_key_and_no_prompt_follows_a_redirect(status: int, model: str | None) -> None:
    async def work() -> tuple[str, list[dict[str, str]]]:
        other = Elsewhere()
        async with other.listening() as there:

            async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                line = await reader.readline()
                await reader.readuntil(b"\r\n\r\n")
                where = f"{there}/v1/messages" if line.startswith(b"POST") else f"{there}/v1/models"
                head = f"HTTP/1.1 {status} Moved\r\nlocation: {where}\r\ncontent-length: 0\r\n\r\n"
                writer.write(head.encode())
                await writer.drain()

            async with talking(talk) as url:
                options = ProbeOptions(url, WireDialect.MESSAGES, model, api_key="secret")
                with pytest.raises(ProbeFailed) as failed:
                    await probe(options)
                return str(failed.value), other.seen

    words, seen = run(work())
    assert seen == []
    assert f"status {status}, it redirects to http://127.0.0.1:" in words


class Steering(FamilyServer):
    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, text=said.text + EVIL, matched=EVIL)

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return {**super().body(said, query), "model": EVIL}

    def refusal(self, message: str, status: int = 400) -> web.Response:
        return web.json_response({"error": {"message": message + EVIL}}, status=500)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        response = await super().handle(request)
        if not response.prepared:
            response.headers["server"] = "evil\x9b\u202e"
        return response


def test_reports_show_control_characters_and_send_none_to_the_terminal() -> None:
    report = report_on(Steering(WireDialect.MESSAGES))
    assert report.failed
    page = suite_as_html(ProbeSuite(report.url, (report,)))
    for shown in (as_text(report), page):
        assert harmless(shown) == shown
    assert "\\u202e" in as_text(report)
    assert "<b>" not in page.replace("<strong>", "")
    json.dumps(as_data(report)).encode()


def test_the_answers_that_a_probe_keeps_are_bounded() -> None:
    budget = Budget(max_requests=10, ends_at_s=float("inf"))
    budget.spend_request()
    budget.received_bytes += 64 * _MIB
    with pytest.raises(LimitReached, match="64 MiB in all"):
        budget.spend_request()


@pytest.mark.parametrize(
    "listed", [{"data": 5}, {"data": {"id": "m"}}, {"models": "m"}, [1], {"data": [{"id": "\x1b"}]}]
)
def test_a_list_of_models_in_another_form_is_ignored(listed: Any) -> None:
    class Listing(FamilyServer):
        def routes(self, app: web.Application) -> None:
            async def models(request: web.Request) -> web.Response:
                return web.json_response(listed)

            super().routes(app)
            app.router.add_get("/v1/models", models)

    assert report_on(Listing(WireDialect.MESSAGES), max_requests=20).model == "small"
