"""Take the tour: every main state of the windows, light and dark, as pictures for the eye.

    python -m tests.take_tour FOLDER [--text PERCENT] [--contrast] [--part PART]

With ``--text 200`` every state is shown with text of twice the usual size, with ``--contrast`` in
high contrast. It needs no screen.
Models of a download, and those too large for this machine, are sparse files.
"""

import argparse
import asyncio
import json
import os
import tempfile
import urllib.request
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QApplication, QWidget

from app.desktop.window import create_main_window
from engine.engine import Engine
from engine.stopping.rules import StopScope
from engine.values.request import TraceLevel
from tests.support.answers.said import finished_run
from tests.support.hub import Hub
from tests.support.kept import preferences_state
from tests.support.looks.model_states import DEMO, ModelStates
from tests.support.looks.pictured_chat import DailyWork, daily_host
from tests.support.looks.pictured_models import pictured_models
from tests.support.looks.pictured_runs import LastingRuns
from tests.support.memory_store import MemoryConversationStore
from tests.support.outside.documents import pdf
from tests.support.shown import main_window, shown
from tests.take_screenshots import ROOT, SIZE, save, take_all, until
from ui.kit.theme import Theme
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.records.stop_entries import StopEntry
from ui.window.other_windows import ShortcutsDialog
from ui.window.preferences_dialog import PreferencesDialog

SCREEN = {
    "name": "desk", "x": 0, "y": 0, "width": 2880, "height": 1800,
    "logicalDpi": 96, "logicalBaseDpi": 96, "dpr": 1,
}  # fmt: skip
PARTS = ("all", "chat", "daily_work", "runs")
COUNT = "Count from 1 to 10, one number per line"
RICH = '''## A table, a sum and some code

| kind | cut | reason |
| --- | --- | --- |
| `END` | yes | stop sequence |
| 256 tokens | no | limit |

The mean of $n$ numbers is $\\frac{1}{n}\\sum_{i=1}^{n} x_i$.

```python
def stops(text: str, stop: str) -> str:
    """Return the text before a stop."""
    return text.partition(stop)[0]  # nothing after it
```

1. Tokens are not characters.
2. A stop may span several of them.
'''


class Tour:
    """Walks a window through its states."""

    def __init__(self, application: QApplication, folder: Path, site: Hub, contrast: bool) -> None:
        self.folder = folder
        self.engine = Engine()
        self.theme = Theme(application, "light")
        self.preferences = preferences_state()
        self.preferences.change(has_high_contrast=contrast)
        self.window = create_main_window(
            self.engine,
            self.theme,
            MemoryConversationStore(),
            self.preferences,
            asyncio.get_running_loop(),
        )
        self.window.resize(*SIZE)
        self.window.workspace.traces.level = TraceLevel.FULL
        self._site = site
        self._number = 0

    async def show(self, name: str, shown: QWidget | None = None) -> None:
        """Take a state's two pictures."""
        self._number += 1
        for mode in ("light", "dark"):
            self.theme.set_mode(mode)
            await save(shown or self.window, self.folder / f"{self._number:02}-{name}-{mode}.png")

    async def ask(self, question: str, *stops: str, **settings: object) -> None:
        """Ask in a conversation of its own and wait for the end."""
        self.begin(*stops, **settings)
        self.window.workspace.send(question)
        await until(lambda: not self.window.workspace.current.is_running)

    def begin(self, *stops: str, **settings: object) -> None:
        """Open a new conversation."""
        workspace = self.window.workspace
        workspace.new_conversation()
        workspace.change_settings(ConversationSettings(**settings))  # type: ignore[arg-type]
        workspace.current.stops.replace_all([StopEntry.of(stop) for stop in stops], "set")

    async def chat(self) -> None:
        """The chat, from the first start to every kind of end."""
        window, workspace = self.window, self.window.workspace
        window.show()
        await self.show("no-model")
        window.start(DEMO)
        await until(lambda: workspace.models.stage == "ready")
        await self.show("welcome")
        await self.ask(COUNT, "6")
        await self.show("stop-sequence")
        await self.ask(COUNT)
        await self.show("ended-by-itself")
        await self.ask(COUNT, max_tokens=7)
        await self.show("token-limit")
        await self.ask("Count from 1 to 5", is_thinking=True)
        await self.show("thinking")
        self.begin()
        workspace.send("Count from 1 to 300, one number per line")
        await until(lambda: len(workspace.current.conversation.messages[-1].text) > 60)
        workspace.current.cancel()
        await until(lambda: not workspace.current.is_running)
        await self.show("cancelled")
        said = [
            ConversationMessage("user", "Show me what you can write"),
            ConversationMessage("assistant", run=finished_run(RICH, thinking="")),
        ]
        workspace.take_in(Conversation("Rich text", said))
        await self.show("rich-text-and-tools")

    async def files(self) -> None:
        """Files of the message: being read, read, in the preview, refused."""
        row = self.window.chat.composer.attachments
        with tempfile.TemporaryDirectory() as folder:
            pages = [f"Page {n} of a report on stop sequences." for n in range(1, 31)]
            row.attach([pdf(Path(folder) / "report.pdf", pages), ROOT / "pyproject.toml"])
            await self.show("attachments-being-read")
            await until(lambda: not row.is_reading)
            chip = row.chip(0)
            await until(lambda: chip is not None and "tokens" in chip.accessibleName())
            await self.show("attachments")
            if chip is not None:
                chip.opened.emit()
            await self.show("attachment-preview", row.preview)
            row.preview.hide()
        row.attach([ROOT])
        await until(lambda: not row.is_reading)
        await self.show("attachment-refused")

    async def panel(self) -> None:
        """Stop list, remarks, attachments, refusals, sizes."""
        window, workspace = self.window, self.window.workspace
        self.begin()
        entries = [
            StopEntry.of("6"),
            StopEntry.of(" 6 "),
            StopEntry.of("\\n\\nUser:"),
            StopEntry.of("\n\nUser:", scope=StopScope.TEXT_AND_THINKING),
            StopEntry.of("old", is_enabled=False),
        ]
        workspace.current.stops.replace_all(entries, "set")
        workspace.send(COUNT)
        await until(lambda: not workspace.current.is_running)
        window.stop_panel.editor.table.selectRow(2)
        await self.show("stop-list-with-remarks")
        await self.files()
        self.preferences.change(text_percent=150)
        await self.show("zoomed-text")
        self.preferences.change(text_percent=100, has_high_contrast=True)
        await self.show("high-contrast")
        self.preferences.change(has_high_contrast=False)
        window.resize(760, 620)
        await self.show("small-window")
        window.resize(*SIZE)

    async def inspector(self) -> None:
        """The inspector's tabs."""
        await self.ask(COUNT, "6", "12")
        window = self.window
        window.others.show_inspector()
        inspector = window.others.inspector
        await asyncio.sleep(0.4)
        inspector.tape.choose(9)
        tabs = inspector.tabs
        for index in range(tabs.count()):
            tabs.setCurrentIndex(index)
            name = tabs.tabText(index).replace("&", "").lower().replace(" ", "-")
            await self.show(f"inspector-{name}", inspector)
        window.others.show_capture()
        await self.show("captured-answer", window.others.capture)

    async def models(self) -> None:
        """The window of models, and a model that cannot be loaded."""
        await ModelStates(self.window, self._site, self.show, until).walk()

    async def server(self) -> None:
        """The server's window with requests of another program."""
        switch = self.window.local_server.switch
        assert switch is not None
        switch.turn(True)
        await until(lambda: switch.stage == "on")
        for path, field in (("/v1/messages", "stop_sequences"), ("/v1/chat/completions", "stop")):
            body = {"model": "demo-model", "max_tokens": 40, field: ["6"]}
            body["messages"] = [{"role": "user", "content": COUNT}]
            await asyncio.to_thread(_post, f"{switch.url}{path}", body)
        self.window.others.show_server()
        server = self.window.others.server
        assert server is not None
        await until(lambda: server.log.view.model().rowCount() > 1)
        server.log.view.selectRow(0)
        await self.show("server", server)

    async def dialogs(self) -> None:
        """Preferences and shortcuts."""
        for name, dialog in (
            ("preferences", PreferencesDialog(self.preferences, self.window)),
            ("shortcuts", ShortcutsDialog(self.window.menuBar(), self.window)),
        ):
            dialog.show()
            await self.show(name, dialog)
            dialog.close()

    async def daily_work(self) -> None:
        """Reading, tools, order and import, in a window with MCP servers."""
        host = daily_host()
        window = main_window(self.engine, self.theme, preferences=self.preferences, tool_host=host)
        window.resize(*SIZE)
        async with shown(window):
            await DailyWork(window, host, self.show, until).walk()

    async def runs(self) -> None:
        """Runs that last; tools in *Side by Side*; the lines for agents."""
        if self.window.workspace.models.stage != "ready":
            self.window.show()
            self.window.start(DEMO)
            await until(lambda: self.window.workspace.models.stage == "ready")
        await LastingRuns(self.window, self.show, until).walk()

    async def end(self) -> None:
        """Close everything."""
        self.window.quit()
        await self.window.finish()
        await self.engine.aclose()


def _post(url: str, body: dict[str, object]) -> None:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=30).read()


async def _take(application: QApplication, folder: Path, contrast: bool, part: str) -> None:
    with pictured_models(DEMO) as site:
        tour = Tour(application, folder, site, contrast)
        steps: list[Callable[[], Coroutine[Any, Any, None]]] = [
            tour.chat,
            tour.panel,
            tour.inspector,
            tour.models,
            tour.server,
            tour.dialogs,
            tour.daily_work,
            tour.runs,
        ]
        for step in steps:
            if part in ("all", step.__name__):
                await step()
        await tour.end()


def main() -> None:
    """Take the tour."""
    parser = argparse.ArgumentParser(description="Take pictures of every main state.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--contrast", action="store_true")
    parser.add_argument("--part", default="all", choices=PARTS)
    given = parser.parse_args()
    chosen = {"contrast": given.contrast, "part": given.part}
    with tempfile.TemporaryDirectory() as scratch:
        # Without this the screen has 800 pixels, and windows are squeezed as on no computer.
        screens = Path(scratch) / "screens.json"
        screens.write_text(json.dumps({"screens": [SCREEN]}))
        os.environ.setdefault("QT_QPA_PLATFORM", f"offscreen:configfile={screens}")
        take_all(partial(_take, **chosen), given.folder)


if __name__ == "__main__":
    main()
