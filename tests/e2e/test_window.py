import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import qasync
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

import app.desktop.window
from api.service.config import ServerConfig
from app import paths
from app.process.signals import EndingSignals
from app.settings.options import AnswerOptions, ChatOptions
from app.settings.settings_file import StoredPreferences
from engine.inference.batch import RunningBatch
from tests.support.hub import hub
from ui.preferences import NewConversation
from ui.records.tool_choice import ToolsInUse
from ui.records.tool_servers import ToolServerConfig
from ui.window.main_window import MainWindow

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]
COUNT = "Count from 1 to 10, one number per line"
LONG = "Count from 1 to 100"

Steps = Callable[[MainWindow], Awaitable[None]]
Drive = Callable[..., None]


def own_folders(folder: Path) -> dict[str, str]:
    """Return the variables that keep a program's files in a folder of its own."""
    names = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    return dict.fromkeys(names, str(folder))


async def until(is_so: Callable[[], Any], within_s: float = 60) -> None:
    """Let the loop run until a condition holds."""
    deadline_s = time.perf_counter() + within_s
    while not is_so():
        assert time.perf_counter() < deadline_s, "it did not happen in time"
        await asyncio.sleep(0.005)


@pytest.fixture
def drive(qapp: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Drive:
    """Runs the whole program with a window: steps begin when the model is ready, then it closes."""
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        "app.desktop.server.ServerConfig", lambda **given: ServerConfig(**given | {"port": 0})
    )

    def windows() -> list[MainWindow]:
        return [each for each in qapp.topLevelWidgets() if isinstance(each, MainWindow)]

    def run(
        steps: Steps,
        *,
        is_plain: bool = False,
        stops: tuple[str, ...] = (),
        files: tuple[str, ...] = (),
        **answer: Any,
    ) -> None:
        options = ChatOptions(
            paths.demo_model(),
            is_plain=is_plain,
            answer=AnswerOptions(stops, NewConversation(**answer)),
            files=files,
        )

        async def main() -> None:
            # An earlier test that failed may have left its window behind.
            earlier = set(windows())
            stored = StoredPreferences(paths.config_folder())
            coroutine = app.desktop.window.session(qapp, options, signals, stored)
            session = asyncio.create_task(coroutine)
            await until(lambda: set(windows()) - earlier)
            [window] = set(windows()) - earlier
            try:
                await until(lambda: window.workspace.models.stage == "ready")
                await steps(window)
            finally:
                window.close()
                await asyncio.wait_for(session, timeout=60)

        with (
            contextlib.closing(EndingSignals()) as signals,
            asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(qapp)) as runner,
        ):
            runner.run(main())

    return run


def test_files_of_the_command_line_go_with_the_first_question(drive: Drive, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello there")

    async def ask(window: MainWindow) -> None:
        attachments = window.chat.composer.attachments
        await until(lambda: [file.title for file in attachments.files] == ["a.txt"])
        await until(lambda: "no-such.txt" in attachments.refusal.text())

    drive(ask, files=(str(tmp_path / "a.txt"), str(tmp_path / "no-such.txt")))


def test_the_program_ends_although_a_model_hangs_in_a_step(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_held, is_over = threading.Event(), threading.Event()

    def hang(_batch: RunningBatch) -> None:
        is_held.set()
        assert is_over.wait(120)

    async def steps(window: MainWindow) -> None:
        monkeypatch.setattr(RunningBatch, "step", hang)
        assert window.workspace.send(COUNT)
        run = window.workspace.current.run
        assert run is not None
        await until(lambda: is_held.is_set() and run.prompt_total)  # the engine has accepted it

    try:
        drive(steps)  # the end is waited for
    finally:
        is_over.set()


def test_quit_closes_the_window_during_an_answer(drive: Drive, qapp: Any) -> None:
    async def steps(window: MainWindow) -> None:
        assert window.local_server.switch is not None
        window.local_server.switch.turn(True)
        assert window.workspace.send(LONG)
        run = window.workspace.current.run
        assert run is not None
        await until(lambda: run.text)
        qapp.quit()
        await until(lambda: not window.isVisible())

    drive(steps)


# SIGTERM ends it in the test of an MCP server.
def test_ctrl_c_closes_the_window_cleanly(headless: dict[str, str], tmp_path: Path) -> None:
    own = own_folders(tmp_path) | {"QT_QPA_PLATFORM": "offscreen"}
    process = subprocess.Popen(
        [sys.executable, "-m", "app"],
        cwd=REPOSITORY,
        env=headless | own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.perf_counter() + 60
    while not any("is shown" in log.read_text() for log in tmp_path.rglob("fullstop.log")):
        assert process.poll() is None, process.communicate()
        assert time.perf_counter() < deadline_s
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    said = [line for line in err.splitlines() if "This plugin does not support" not in line]
    assert (process.returncode, out, said) == (0, "", [])


def test_a_tool_is_called_and_its_server_ends_with_the_program_at_sigterm(
    drive: Drive, tmp_path: Path
) -> None:
    marker = tmp_path / "child"
    server = REPOSITORY / "tests/app/mcp/servers/weather.py"

    async def steps(window: MainWindow) -> None:
        host, workspace = window.toolbox.host, window.workspace
        arguments = (str(server), str(marker))
        await host.put(ToolServerConfig("weather", sys.executable, arguments, is_on=True))
        assert not marker.exists(), "the server is not started before it is used"
        workspace.change_tools(ToolsInUse(("weather",)))
        session = workspace.current
        assert workspace.send("What is the weather in Paris?")
        shown = workspace.current
        await until(lambda: shown.shown_run is not None and shown.shown_run.live.progress)
        run = shown.shown_run
        assert run is not None
        view = window.chat.column.answer_view(run)
        assert view is not None
        permission = view.calls.cards[run.tool_calls[0].id].permission
        assert permission is not None
        permission.buttons["once"].click()
        await until(lambda: not session.is_running)
        assert run.results[0].text == "It is 18 degrees and sunny in Paris."
        answer = workspace.current.shown_run
        assert answer is not None
        assert "18 degrees" in answer.text
        os.kill(os.getpid(), signal.SIGTERM)

    drive(steps)
    child = int(marker.read_text())

    def is_gone() -> bool:
        try:
            # In a container nobody may collect an orphan.
            return psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    asyncio.run(until(is_gone))


def test_a_model_is_found_downloaded_loaded_asked_and_kept_for_the_next_start(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "makers/demo-model"

    async def steps(window: MainWindow) -> None:
        window.others.find_models()
        models = window.others.models
        QTest.keyClicks(models.field, "demo")
        await until(lambda: [one.name for one in models.finder.results] == [name])
        QTest.keyClick(models.field, Qt.Key.Key_Down)
        QTest.keyClick(models.list, Qt.Key.Key_Down)
        await until(lambda: models.details.card.toPlainText() == "The demo model")
        QTest.keyClick(models.list, Qt.Key.Key_Return)
        answering = window.workspace.model_selection
        await until(lambda: (answering.state.stage, answering.state.name) == ("ready", name))
        await until(window.chat.welcome.isVisible)
        QTest.keyClicks(window.chat.composer.input, "Count from 1 to 3")
        QTest.keyClick(window.chat.composer.input, Qt.Key.Key_Return)
        session = window.workspace.current
        await until(lambda: window.workspace.current.conversation.messages)
        await until(lambda: not session.is_running)
        answer = window.workspace.current.conversation.messages[-1]
        assert answer.text == "1, 2, 3"

    with hub() as site:
        site.add_folder(name, paths.demo_model())
        site.files[name]["README.md"] = b"# The demo model"
        site.facts[name] = {"tags": ["mlx", "license:mit"]}
        monkeypatch.setenv("HF_ENDPOINT", site.url)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        drive(steps)
    kept = StoredPreferences(paths.config_folder()).last_model
    assert kept is not None
    assert kept.is_relative_to(tmp_path / "hub" / "models--makers--demo-model")
