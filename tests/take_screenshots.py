"""Take the pictures of the README and its pages: real runs on the demo model, light and dark.

Run it in the repository's folder with ``python -m tests.take_screenshots [FOLDER]``; it needs no
screen. The folder is ``assets/screenshots`` unless another one is given. With ``--model MODEL`` a
real model answers, such as the one of ``tests.lab.real_models``; then only the pictures with
answers are taken: the window, two answers side by side, the inspector. With the fonts Inter and
JetBrains Mono installed the pictures look the same everywhere.
"""

import argparse
import asyncio
import functools
import os
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import qasync
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontDatabase, QImage
from PySide6.QtWidgets import QApplication, QWidget

from api.server.server import ServerThread
from api.service.config import ServerConfig
from app.inspector.shown_apis import inspector_tools
from app.paths import library_folders
from engine.engine import Engine
from engine.generation import Answer
from engine.values.request import (
    LOCAL_OWNER,
    GenerationRequest,
    Message,
    Sampling,
    Tool,
    TraceLevel,
)
from tests.support.hub import Hub
from tests.support.looks.pictured_models import PIECE_S, begin_downloads, pictured_models
from tests.support.shown import main_window
from ui.inspector.prompt_tab import PromptTab
from ui.kit.theme import Theme
from ui.models.model_entries import Entry
from ui.models.models_window import ModelsWindow
from ui.server.requests import RequestAnswer, RequestEntry
from ui.window.main_window import MainWindow

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "assets" / "demo-model"
SIZE = 1280, 900
POINTS = 10.5
QUESTION = "Count from 1 to 10, one number per line"
ALPHABET = "Output the whole alphabet from A to Z, without spaces, then immediately output END"
# Conversations with the stop list that each question is asked with; the last one is shown.
CONVERSATIONS: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (
    (("Repeat exactly: 1 2 3 hello world 4 5", ("hello world",)),),
    (("What is a stop sequence?", ()),),
    ((QUESTION, ("6",)), (ALPHABET, ("6", "END", "\n\nUser:"))),
)


_CAPITAL = "What is the capital of France?"
_FRUITS = "List three fruits and say what each tastes like"
REAL_CONVERSATIONS: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (
    ((_CAPITAL, ()),),
    ((QUESTION, ("6",)), (_FRUITS, ("3.", "END", "\n\nUser:"))),
)


class StillServer:
    """Stands in for the local server: a picture needs no port."""

    async def start(self) -> str:
        return "http://127.0.0.1:8017"

    async def stop(self) -> None:
        pass


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(900):
        while not is_so():  # noqa: ASYNC110 - what is awaited is the window's look
            await asyncio.sleep(0.02)


async def _take(application: QApplication, folder: Path, model: Path | None = None) -> None:
    with pictured_models(DEMO) as site:
        await _take_from(application, folder, site, model)
    if model is None:
        await take_rereads(application, folder)


async def _take_from(
    application: QApplication, folder: Path, site: Hub, model: Path | None
) -> None:
    engine = Engine()
    theme = Theme(application, "light")
    window = main_window(
        engine,
        theme,
        server=StillServer(),
        tools=lambda: inspector_tools(engine, lambda: ""),
        model_folders=library_folders(),
    )
    window.workspace.traces.level = TraceLevel.FULL
    window.resize(*SIZE)
    window.show()
    window.start(model or DEMO)
    await until(lambda: window.workspace.models.stage != "loading")
    if model is None:
        await save(window, folder / "welcome-light.png")
    for questions in CONVERSATIONS if model is None else REAL_CONVERSATIONS:
        window.workspace.new_conversation()
        current = window.workspace.current
        for question, stops in questions:
            for stop in stops:
                current.stops.ensure(stop)
            window.workspace.send(question)
            await until(lambda: not window.workspace.current.is_running)
    window.pane.open(window.stop_panel)
    window.workspace.current.stops.row_changed.emit(1)
    theme.set_mode("light")
    await save(window, folder / "window-light.png")
    if model is None:
        await take_help(window, folder)
        await take_switcher(window, folder)
    await take_sides(
        window, folder, QUESTION if model is None else _FRUITS, "6" if model is None else "2."
    )
    await _take_inspector(window, folder)
    if model is None:
        await _take_probe(window, engine, folder)
        await _take_models(window, folder, site)
    window.close()
    await window.finish()
    engine.close()


async def take_help(window: MainWindow, folder: Path) -> None:
    """Show the parts of the window that the topics of help explain."""
    window.local_server.switch.turn(True)
    window.others.show_server()
    window.others.show_tool_servers()
    window.others.server.resize(1000, 420)
    window.others.tool_servers.resize(860, 600)
    run = window.workspace.current.shown_run
    assert run is not None
    assert run.finished is not None
    asked = RequestAnswer(_ASKED, run.finished, run.text)
    entries = [
        RequestEntry(
            str(number),
            1_790_000_000 + number * 7,
            "127.0.0.1",
            agent,
            "POST",
            path,
            dialect=dialect,
            model="Fullstop Demo",
            is_stream=True,
            status=200,
            took_s=0.2 + number / 10,
            answers=(asked,),
        )
        for number, (agent, path, dialect) in enumerate(
            (
                ("claude-cli/2.0", "/v1/messages", "anthropic"),
                ("open-webui/0.6", "/v1/chat/completions", "chat"),
                ("python-openai/2.1", "/v1/responses", "responses"),
            )
        )
    ]
    window.local_server.log.take(replace(entry, status=None) for entry in entries)
    window.local_server.log.take(entries)
    # Whether it is on is kept, and kept settings set the theme again.
    await until(lambda: window.local_server.switch.stage == "on")
    await asyncio.sleep(0.4)
    for mode in ("dark", "light"):
        window.theme.set_mode(mode)
        window.resize(900, 600)
        await save(window, folder / f"chat-{mode}.png", max_colors=128)
        window.resize(1180, 620)
        await save(window.chat, folder / f"reason-{mode}.png", max_colors=128)
        for number, name in enumerate(("stops", "settings")):
            window.pane.open(window.pane.pages[number][1])
            await save(window.pane, folder / f"{name}-{mode}.png", max_colors=128)
        await save(window.others.server, folder / f"server-{mode}.png", max_colors=128)
        await save(window.others.tool_servers, folder / f"tools-{mode}.png", max_colors=128)
    window.local_server.switch.turn(False)
    window.local_server.log.clear()
    window.others.server.close()
    window.others.tool_servers.close()
    window.pane.open(window.stop_panel)
    window.resize(*SIZE)


async def take_switcher(window: MainWindow, folder: Path) -> None:
    """Show the list of models."""
    window.theme.set_mode("light")
    window.choosing_model.pop_up()
    await until(lambda: not window.model_library.is_looking)
    await save(window.choosing_model.switcher, folder / "switcher-light.png")
    window.choosing_model.switcher.close()


async def take_sides(window: MainWindow, folder: Path, question: str, stop: str) -> None:
    """Show one question with two answers."""
    shown = window.workspace.current.conversation
    window.workspace.new_conversation()
    window.chat.composer.set_text(question)
    window.comparing.ask()
    dialog = window.comparing.dialog
    assert dialog is not None
    dialog.form.stops.setPlainText(stop)
    dialog.buttons.accepted.emit()
    await until(lambda: "marked" in window.chat.sides.summary.text())
    window.pane.hide()
    window.resize(1040, 660)
    for mode in ("light", "dark"):
        window.theme.set_mode(mode)
        await save(window, folder / f"side-by-side-{mode}.png", max_colors=256)
    window.chat.sides.columns[1].keep.click()
    window.workspace.open(shown)
    window.pane.open(window.stop_panel)
    window.resize(*SIZE)


async def _take_inspector(window: MainWindow, folder: Path) -> None:
    window.others.show_inspector()
    inspector = window.others.inspector
    inspector.resize(860, 700)
    await asyncio.sleep(0.3)
    inspector.tape.choose(12)
    for mode in ("dark", "light"):
        window.theme.set_mode(mode)
        inspector.tape.choose(12)
        await save(inspector, folder / f"inspector-{mode}.png")


async def _take_probe(window: MainWindow, engine: Engine, folder: Path) -> None:
    server = ServerThread(engine, ServerConfig())
    address = server.start()
    window.theme.set_mode("dark")
    window.others.show_probe()
    probe = window.others.probe
    assert probe is not None
    probe.resize(820, 600)
    probe.url.setText(address.url)
    probe.start.click()
    await until(lambda: probe.stage != "running")
    probe.url.setText("http://127.0.0.1:8642")
    probe.servers.hide()
    for mode in ("light", "dark"):
        window.theme.set_mode(mode)
        await save(probe, folder / f"probe-{mode}.png", max_colors=256)
    server.stop()


async def _take_models(window: MainWindow, folder: Path, site: Hub) -> None:
    window.theme.set_mode("light")
    site.piece_s = PIECE_S
    window.others.show_models()
    models, library = window.others.models, window.model_library
    assert models is not None
    assert library is not None
    await until(lambda: bool(library.local))
    models.resize(960, 680)
    begin_downloads(library)
    await until(lambda: library.downloads.items[0].progress.done_bytes > 400_000)
    for mode in ("dark", "light"):
        window.theme.set_mode(mode)
        await save(models, folder / f"models-{mode}.png", max_colors=256)
    library.downloads.cancel_all()
    await take_finding(models)
    await save(models, folder / "finding-light.png")


async def take_finding(models: ModelsWindow) -> None:
    """Search the hub for models, and show one of a middle size with its card."""
    models.field.setText("qwen3")
    await until(lambda: models.finder.query == "qwen3" and models.finder.stage == "listed")
    await until(lambda: all(one.is_checked for one in models.finder.results))
    results = models.finder.results
    chosen = results[len(results) // 2]
    models.list.pick(Entry(chosen.name, hub=chosen))
    await until(lambda: models.finder.card.stage == "shown")


_RULES = "You work in the folder of a project. Answer in one word, and use the tools."
_QUESTION = "Which file of this project has the longest name, and what is in it?"
_ASKED = GenerationRequest(
    messages=(
        Message("system", f"{_RULES}\nTime: 18:04\nBranch: main"),
        Message("user", _QUESTION),
    ),
    tools=tuple(
        Tool(name, f"{does} one file of the project.", {"type": "object"})
        for name, does in (("read_file", "Reads"), ("write_file", "Replaces"))
    ),
    sampling=Sampling(temperature=0),
    max_tokens=300,
)


def _with_system(request: GenerationRequest, old: str, new: str) -> GenerationRequest:
    system = replace(request.messages[0], content=request.messages[0].content.replace(old, new))
    return replace(request, messages=(system, *request.messages[1:]))


def _with_turn(request: GenerationRequest, *turns: Message) -> GenerationRequest:
    return replace(request, messages=(*request.messages, *turns, Message("user", "And then?")))


_ANSWERED = _with_turn(_ASKED, Message("assistant", "It is the file of the tests, of course."))
_THOUGHT = replace(_ASKED, messages=(Message("user", QUESTION),), tools=(), thinking=True)
_DATED = replace(_ASKED, template_options={"date_string": "27 Nov 2026"})
# An agent's turn, and the next one, for each usual cause that a prompt is read again.
REREADS: dict[str, tuple[GenerationRequest, Callable[[Answer], GenerationRequest]]] = {
    "system": (_ASKED, lambda _: _with_system(_ASKED, "18:04", "18:05")),
    "tools": (_ASKED, lambda _: replace(_ASKED, tools=_ASKED.tools[::-1])),
    "date": (_DATED, lambda _: replace(_DATED, template_options={"date_string": "28 Nov 2026"})),
    "thinking": (
        _THOUGHT,
        lambda answer: _with_turn(
            _THOUGHT, Message("assistant", answer.text, thinking=answer.thinking)
        ),
    ),
    "message": (
        _ANSWERED,
        lambda _: replace(
            _ANSWERED,
            messages=(
                _ANSWERED.messages[0],
                Message("user", "(Summary: the files were listed.)"),
                *_ANSWERED.messages[2:],
            ),
        ),
    ),
}


async def take_rereads(application: QApplication, folder: Path) -> None:
    """Show the record of a prompt that was read again, for each usual cause."""
    template = (DEMO / "chat_template.jinja").read_text(encoding="utf-8")
    system = "'<|im_start|>system\\n' + "
    assert system in template
    dated = template.replace(system, f"{system}'Today: ' + (date_string or '') + '\\n' + ")
    engine, theme = Engine(), Theme(application, "light")
    window = main_window(engine, theme)
    window.show()
    window.others.show_inspector()
    inspector = window.others.inspector
    tab = inspector.tab(PromptTab)
    inspector.tabs.setCurrentWidget(tab)
    inspector.resize(860, 780)
    for cause, (first, following) in REREADS.items():
        await engine.load(DEMO, user_template=dated if cause == "date" else None)
        await engine.forget_prompts(LOCAL_OWNER)
        answer = await (await engine.generate(first)).collect()
        second = following(answer)
        again = await (await engine.generate(second)).collect()
        sent = (RequestAnswer(second, again.finished, again.text),)
        inspector.inspector.show_request(
            RequestEntry("r", 0, "127.0.0.1", "agent", "POST", "/v1/messages", answers=sent)
        )
        await until(lambda: "read again" in tab.note.text())
        await save(tab, folder / f"reread-{cause}.png", max_colors=256)
    window.close()
    await window.finish()
    engine.close()


async def save(window: QWidget, path: Path, max_colors: int | None = None) -> None:
    """Write a window's picture, in its most frequent colors where a small file is wanted."""
    await asyncio.sleep(0.4)  # let layouts and the stop panel settle
    picture = window.grab().toImage()
    if max_colors is not None:
        picture = picture.convertToFormat(QImage.Format.Format_RGB32)
        counts = Counter(memoryview(picture.constBits()).cast("I"))
        table = [color for color, _ in counts.most_common(max_colors)]
        picture = picture.convertToFormat(
            QImage.Format.Format_Indexed8, table, Qt.ImageConversionFlag.ThresholdDither
        )
    if not picture.save(str(path)):
        raise OSError(f"{path} could not be written")
    print(path)


def take_all(take: Callable[[QApplication, Path], Coroutine[Any, Any, None]], folder: Path) -> None:
    """Take pictures without a screen, with the fonts of the README's."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ.setdefault("QT_SCALE_FACTOR", "2")  # sharp on a doubled screen
    application = QApplication(sys.argv[:1])
    application.setQuitOnLastWindowClosed(False)
    wanted = "Inter" if "Inter" in QFontDatabase.families() else application.font().family()
    font = QFont(wanted)
    font.setPointSizeF(POINTS)
    application.setFont(font)
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner:
        runner.run(take(application, folder))


def main() -> None:
    """Take all pictures, or those of a real model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "assets" / "screenshots")
    parser.add_argument("--model", type=Path, help="folder of a real model that answers")
    given = parser.parse_args()
    take_all(functools.partial(_take, model=given.model), given.folder)


if __name__ == "__main__":
    main()
