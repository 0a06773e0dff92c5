"""MCP servers as in the window, new ones for each test; one real server for each module."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.app.mcp.served import SERVERS, Served
from ui.records.tool_servers import NamedValue, ToolServerConfig


@contextmanager
def _serving(folder: Path) -> Iterator[Served]:
    with asyncio.Runner() as runner:
        served = Served(runner, folder)
        yield served
        runner.run(served.host.finish())


@pytest.fixture(autouse=True)
def no_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.mcp.server.RESTART_PAUSES_S", ())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    folder = tmp_path / "tools"
    folder.mkdir()
    with _serving(folder) as served:
        yield served


@pytest.fixture(scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with _serving(tmp_path_factory.mktemp("tools")) as served:
        config = ToolServerConfig(
            "plain",
            sys.executable,
            (str(SERVERS / "plain.py"),),
            (NamedValue("MY_TOKEN", "hidden", is_secret=True), NamedValue("LEVEL", "3")),
        )
        served.do(served.host.put(config))
        yield served


@pytest.fixture
def plain(_kept: Served) -> Served:
    """The real server, started; started again where another test ended it.

    A file takes either this or ``served``: the program has one host, and the end of a host ends the
    processes of all.
    """
    if _kept.state("plain").stage == "failed":
        _kept.do(_kept.host.switch("plain", False))
    _kept.do(_kept.host.switch("plain", True))
    _kept.do(_kept.host.ensure_ready(["plain"]))
    assert _kept.state("plain").stage == "ready"
    assert _kept.state("plain").problem == ""
    return _kept
