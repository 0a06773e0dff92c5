"""The whole program under test: window, engine, server and store, in folders of its own.

On Qt's loop, in the main thread, as the application composes it.
"""

import asyncio
import random
import socket
from contextlib import AsyncExitStack
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app import paths
from app.composition import open_engine
from app.desktop.application import collected_on
from app.desktop.window import kept_conversations, server_window
from app.settings.settings_file import StoredPreferences
from engine.stopping.record import StopKind
from engine.values.request import Limits
from tests.lab.endurance.soaking.cases import CASES, Case
from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.preferences_state import PreferencesState
from ui.records.conversations import ConversationSettings, StopEntry

KEPT_KB_PER_CHAT = 8


def free_port() -> int:
    """Return a free port; the settings need a real one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class House:
    """The running program."""

    def __init__(
        self, application: QApplication, models: tuple[Path, Path], limits: Limits | None = None
    ) -> None:
        self.chats = 0
        self.faults: list[str] = []
        self._application = application
        self._models = models
        self._limits = limits
        self._open = AsyncExitStack()

    async def begin(self) -> None:
        """Open everything and wait until it answers."""
        loop = asyncio.get_running_loop()
        self._open.enter_context(collected_on(loop))
        stored = StoredPreferences(paths.config_folder())
        self.preferences = PreferencesState(stored.preferences(), stored)
        # The window changes its model while programs ask: whichever it has answers them.
        self.preferences.change_server(port=18642, is_model_chosen=False)
        self.engine = await self._open.enter_async_context(open_engine(self._limits))
        store = await self._open.enter_async_context(kept_conversations())
        theme = Theme(self._application, self.preferences.now.theme)
        self.window = server_window(self.engine, theme, store, self.preferences, loop)
        self.window.show()
        self.window.start(self._models[0])
        self.workspace = self.window.workspace
        assert self.workspace.server is not None
        self.server = self.workspace.server
        await eventually(lambda: self.workspace.model.stage == "ready")
        self.server.turn(True)
        await eventually(lambda: self.server.stage == "on")

    @property
    def url(self) -> str:
        return self.server.url

    async def chat_until(self, is_over: asyncio.Event, rng: random.Random) -> None:
        """Use the window like a busy person until the time is over."""
        while not is_over.is_set():
            await self._chat(rng.choice(CASES), leaves=rng.random() < 0.2)
            await self._change_something(rng)
            await asyncio.sleep(rng.random() * 0.3)

    async def change_server(self, rng: random.Random) -> None:
        """Give the server other settings, which starts it anew."""
        origins = tuple(rng.sample(("https://a.example", "https://b.example"), rng.randint(0, 2)))
        stages: list[str] = []
        note = self.server.changed.connect(lambda: stages.append(self.server.stage))
        self.preferences.change_server(allowed_origins=origins)
        self.server.restart()
        await eventually(lambda: bool({"on", "failed"} & set(stages)))
        self.server.changed.disconnect(note)
        if self.server.stage != "on":
            raise RuntimeError(f"the server did not start again: {self.server.message}")

    async def end(self) -> None:
        """Close the window and all behind it."""
        self.window.quit()
        await self.window.finish()
        self.window.deleteLater()
        await self._open.aclose()

    async def _chat(self, case: Case, *, leaves: bool) -> None:
        workspace = self.workspace
        before = workspace.current.conversation
        workspace.new_conversation()
        workspace.settings.change(
            ConversationSettings(temperature=0.0, max_tokens=case.max_tokens, is_thinking=False)
        )
        workspace.current.stops.replace_all([StopEntry.of(stop) for stop in case.stops], "a case")
        await eventually(lambda: workspace.model.stage == "ready")
        if not workspace.send(case.prompt):
            self.faults.append("window: nothing was sent")
            return
        session = workspace.current.session
        run = session.run
        assert run is not None
        if leaves:
            await asyncio.sleep(0.05)
            session.cancel()
        await eventually(lambda: run.is_over, 60)
        self.chats += 1
        if before is not workspace.current.conversation and self.chats % 3 == 0:
            workspace.delete(before)
        if run.finished is None:
            self.faults.append(f"window: {run.state} {run.refusal}")
        elif run.finished.stop.kind is StopKind.CANCELLED:
            if not leaves or not _is_left_at(case, run.text):
                self.faults.append(f"window: cancelled with {run.text!r}")
        elif run.text != case.text or run.finished.stop.value != case.matched:
            self.faults.append(f"window: {run.text!r}, {run.finished.stop}")

    async def _change_something(self, rng: random.Random) -> None:
        way = rng.random()
        if way < 0.10:
            self.workspace.model.load(rng.choice(self._models))
        elif way < 0.25:
            self.preferences.change(theme=rng.choice(("light", "dark", "system")))
        elif way < 0.35:
            self.window.others.show_server()
        elif way < 0.45 and self.window.others.server is not None:
            self.window.others.server.close()


def _is_left_at(case: Case, text: str) -> bool:
    """Whether an answer may have this text when it is cancelled: what was held is released."""
    begun = (stop[:length] for stop in case.stops for length in range(len(stop)))
    return case.text.startswith(text) or any(text == case.text + held for held in begun)
