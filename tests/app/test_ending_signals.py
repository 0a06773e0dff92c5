import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from app import engines
from app.process.process_groups import add_group
from app.process.signals import EndingSignals, end_process, ending_in_order, exit_at_once


@pytest.fixture
def signals() -> Iterator[EndingSignals]:
    with contextlib.closing(EndingSignals()) as caught:
        yield caught


async def delivered(signals: EndingSignals, *, within_s: float = 60, number: int = 0) -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    with signals.delivered(loop, done.set):
        if number:
            os.kill(os.getpid(), number)
        await asyncio.wait_for(done.wait(), within_s)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_is_delivered_on_loop(signals: EndingSignals, number: int) -> None:
    asyncio.run(delivered(signals, number=number))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_before_loop_is_delivered(signals: EndingSignals, number: int) -> None:
    os.kill(os.getpid(), number)
    asyncio.run(delivered(signals))


def test_other_signals_are_not_delivered(signals: EndingSignals) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)
    with pytest.raises(TimeoutError):
        asyncio.run(delivered(signals, within_s=0.05))


def test_second_signal_forces_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[bool] = []
    monkeypatch.setattr("app.process.signals.exit_at_once", lambda: forced.append(True))
    with contextlib.closing(EndingSignals()):
        os.kill(os.getpid(), signal.SIGTERM)
        assert forced == []
        os.kill(os.getpid(), signal.SIGINT)
        assert forced == [True]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ending_in_order_runs_what_follows(number: int) -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(30)
        finally:
            steps.append("ended")

    with pytest.raises(SystemExit, match=str(128 + number)), ending_in_order():
        asyncio.run(work())
    assert steps == ["ended"]


def test_ignored_sighup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with contextlib.closing(EndingSignals()):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signal_handlers_are_restored() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    EndingSignals().close()
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize(
    "leave",
    [lambda: engines.end_if_stuck(0), lambda: end_process(0), exit_at_once],
    ids=["stuck", "rank", "second signal"],
)
def test_exit_without_clean_up_ends_tool_servers(
    leave: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_closed", [SimpleNamespace(is_stuck=True)])
    monkeypatch.setattr("os._exit", lambda _: None)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command, start_new_session=True) as process:
        add_group(process.pid)
        leave()
        assert process.wait(30) == -9
