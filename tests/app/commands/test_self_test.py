import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from api.server.server import ServerThread
from api.transport.config import ServerConfig
from app.cli import main
from app.commands.self_test import (
    COUNT,
    COUNTED,
    CheckFailed,
    CheckLeftOut,
    SelfTest,
    streamed_chat,
)
from engine.inference import mlx_loading
from engine.scheduling.service import Engine
from tests.conftest import QT_PROBLEM, ROOT

pytestmark = pytest.mark.long

LINE = re.compile(r"^(ok|failed|left out) +(.+?)  +\S", re.MULTILINE)


def test_every_part_of_this_installation_passes_and_nothing_is_left_behind(tmp_path: Path) -> None:
    """In a process of its own: the whole command, some three seconds."""
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    hidden = ("FULLSTOP_DATA_DIR", "FULLSTOP_CONFIG_DIR", "QT_QPA_PLATFORM")
    done = subprocess.run(
        [sys.executable, "-m", "app", "--self-test"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in hidden}
        | {"HOME": str(home), "TMPDIR": str(scratch)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = {name: outcome for outcome, name in LINE.findall(done.stdout)}
    assert list(outcomes) == ["MLX", "demo model", "ask", "serve", "window"]
    assert outcomes.pop("window") == ("ok" if QT_PROBLEM is None else "left out")
    assert set(outcomes.values()) == {"ok"}
    assert done.stderr == ""
    assert [*home.rglob("*"), *scratch.rglob("*")] == []


async def fine() -> str:
    return "as it should be"


async def broken() -> str:
    raise RuntimeError("the card gave up")


async def beside_the_point() -> str:
    raise CheckLeftOut("there is no Qt")


@pytest.mark.parametrize(
    ("work", "line", "failures"),
    [
        (fine, "ok        the part            as it should be", []),
        (broken, "failed    the part            the card gave up", ["the part"]),
        (beside_the_point, "left out  the part            there is no Qt", []),
    ],
)
def test_a_check_reports_its_outcome(
    work: Callable[[], Awaitable[str]],
    line: str,
    failures: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    test = SelfTest()
    assert asyncio.run(test.check("the part", work)) is (failures == [])
    assert capsys.readouterr().out.splitlines() == [line]
    assert test.failures == failures


def test_a_damaged_demo_model_fails_the_test_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.paths.demo_model", lambda: tmp_path)
    monkeypatch.setenv("QT_QPA_PLATFORM", "as-it-was")
    assert main(["--self-test"]) == 1
    told = capsys.readouterr()
    assert "failed    demo model" in told.out
    assert told.err == "failed: demo model\n"
    assert os.environ["QT_QPA_PLATFORM"] == "as-it-was", "the environment is restored"


def test_a_check_that_never_ends_fails_and_delays_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    is_over = threading.Event()

    def stuck(*_: Any, **__: Any) -> None:
        is_over.wait(30)
        raise RuntimeError("too late")

    monkeypatch.setattr(mlx_loading, "load", stuck)
    monkeypatch.setattr("app.commands.self_test._CHECK_LIMIT_S", 0.2)
    try:
        assert main(["--self-test"]) == 1
    finally:
        is_over.set()
    assert re.search("failed    demo model +no result within", capsys.readouterr().out)


@pytest.mark.parametrize("words", [["--model", "x"], ["ask", "hello"]])
def test_the_self_test_refuses_other_arguments(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--self-test", *words]) == 2
    assert "--self-test takes no other options" in capsys.readouterr().err


def test_the_client_reads_text_and_reason_and_raises_for_a_refusal(engine: Engine) -> None:
    server = ServerThread(engine, ServerConfig(port=0))
    url = server.start().url
    try:
        assert streamed_chat(url, COUNT, "6") == (COUNTED, "stop")
        assert streamed_chat(url, COUNT, "4") == ("1\n2\n3\n", "stop")
        with pytest.raises(CheckFailed, match="status 400"):
            streamed_chat(url, COUNT, "")
    finally:
        server.stop()


def test_a_wrong_answer_fails_ask_and_serve(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.commands.self_test.COUNTED", "else")
    monkeypatch.setattr("app.commands.self_test.qt_problem", lambda: "not here")
    assert main(["--self-test"]) == 1
    told = capsys.readouterr()
    assert told.err == "failed: ask, serve\n"
    assert "left out  window" in told.out
