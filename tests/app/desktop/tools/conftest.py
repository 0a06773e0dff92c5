"""Tool servers as the window has them, on a loop that lives as long as a file of tests."""

import asyncio
import sys
from collections.abc import Iterator

import pytest

from tests.app.desktop.tools.served import SERVERS, Served
from ui.records.tooling.servers import NamedValue, ToolServerConfig


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Servers on a runner of their own."""
    folder = tmp_path_factory.mktemp("tools")
    with asyncio.Runner() as runner:
        served = Served(runner, folder)
        yield served
        runner.run(served.host.finish())


@pytest.fixture(scope="module")
def plain(served: Served) -> Served:
    """The same with the real server, started."""
    config = ToolServerConfig(
        "plain",
        sys.executable,
        (str(SERVERS / "plain.py"),),
        (NamedValue("MY_TOKEN", "hidden", is_secret=True), NamedValue("LEVEL", "3")),
        is_on=True,
    )
    served.do(served.host.put(config))
    served.do(served.host.ready(["plain"]))
    assert served.state("plain").problem == ""
    return served
