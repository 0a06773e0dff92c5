import asyncio
import errno

import pytest

from tests.ui.driving import eventually
from ui.kit.tasks import finish_tasks
from ui.server.server_switch import ServerSwitch


class _Control:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def start(self) -> str:
        self.calls.append("start")
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return "http://127.0.0.1:8080"

    async def apply(self) -> str:
        self.calls.append("apply")
        return "http://127.0.0.1:8080"

    async def stop(self) -> None:
        self.calls.append("stop")


async def test_a_change_of_mind_while_starting_ends_in_off() -> None:
    control = _Control()
    control.gate.clear()
    switch = ServerSwitch(control)
    switch.turn(True)
    await eventually(lambda: control.calls == ["start"])
    switch.turn(False)
    control.gate.set()
    await eventually(lambda: switch.stage == "off")
    assert control.calls == ["start", "stop"]


async def test_two_changes_at_once_reach_the_server_once() -> None:
    control = _Control()
    switch = ServerSwitch(control)
    switch.turn(True)
    await eventually(lambda: switch.stage == "on")
    switch.apply()
    switch.apply()
    await finish_tasks(switch)
    assert control.calls == ["start", "apply"]
    assert switch.stage == "on"


async def test_taken_port_is_logged_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    switch = ServerSwitch(_Control(OSError(errno.EADDRINUSE, "Port 8642 is taken.")))
    switch.turn(True)
    await eventually(lambda: switch.stage == "failed")
    (record,) = caplog.records
    assert record.exc_info is None
    assert "using the port" in record.getMessage()
