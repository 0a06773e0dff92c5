"""The lists of the README's pages, made from the code.

``python -m tests.support.readme_lists`` writes each list between its two marks into its page;
``tests/conventions/test_readme.py`` compares them. The shortcuts need Qt, the other lists do not.
"""

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import UnionType
from typing import Literal, get_args, get_origin

from api.conformance.probe.catalogue import CASES
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.json_files import extension_in
from api.server.routes import ROUTES
from app.cli import parser
from app.settings.commands import COMMANDS
from app.settings.settings_file import Settings
from tests.support.parameter_lists import PARAMETERS
from tests.support.structure import folders, helper_processes, threads
from ui.preferences import PANES, Declaration, declared

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
OPTIONS = ROOT / ".github" / "OPTIONS.md"
CONFORMANCE = ROOT / ".github" / "CONFORMANCE.md"
ARCHITECTURE = ROOT / ".github" / "ARCHITECTURE.md"
PAGES = (README, *sorted((ROOT / ".github").glob("*.md")))


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def routes() -> str:
    rows = ((route.method, f"`{route.path}`", route.summary) for route in ROUTES)
    return table(("method", "path", "what it is"), rows)


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of every command by its name; the window's is called ``window``."""
    root = parser()
    found = _choices(root)
    nested = {f"models {name}": one for name, one in _choices(found["models"]).items()}
    return {"window": root, **found, **nested}


def _choices(root: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = next(one for one in root._actions if isinstance(one, argparse._SubParsersAction))
    return dict(found.choices)


def options(command: str) -> str:
    """Every option of a command; those of ``serve`` with the variable that says the same."""
    rows = [
        (f"`{_spelling(action)}`", f"`FULLSTOP_{action.dest.upper()}`", str(action.help))
        for action in commands()[command]._actions
        if action.dest != "help"
        and action.help != argparse.SUPPRESS
        and not isinstance(action, argparse._SubParsersAction)
    ]
    if command == "serve":
        return table(("option", "variable", "what it does"), rows)
    return table(("option", "what it does"), ((name, words) for name, _, words in rows))


def _spelling(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar)
    choices = ",".join(action.choices or ())
    value = action.metavar or (f"{{{choices}}}" if choices else "")
    if isinstance(value, tuple):
        value = " ".join(value)
    return f"{action.option_strings[0]} {value}".rstrip()


def settings() -> str:
    """Every setting of the program's own file, and where the window changes it."""
    rows = (
        (
            f"`{one.path}`",
            f"`{json.dumps(one.default)}`",
            _may_be(one),
            one.help,
            _place(one),
        )
        for one in declared(Settings)
    )
    return table(("setting", "default", "value", "what it does", "where to change it"), rows)


def _may_be(one: Declaration) -> str:
    if get_origin(one.kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(one.kind))
    kinds = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    kind, *rest = get_args(one.kind) if isinstance(one.kind, UnionType) else (one.kind,)
    words = kinds.get(kind, "a list")
    if one.maximum is not None:
        words += f" from {one.minimum:g} to {one.maximum:.10g}"
    return f"{words} or nothing" if rest else words


def _place(setting: Declaration) -> str:
    if not setting.section:
        return "kept by Fullstop"
    place = f"Settings, {setting.section}" if setting.section in PANES else setting.section
    return f"{place}: {setting.label}"


def shortcuts() -> str:
    """Every shortcut of the window, read off its menus."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtGui import QKeySequence
    from PySide6.QtWidgets import QApplication

    from app.desktop.window import create_main_window
    from engine.engine import Engine
    from tests.support.kept import preferences_state
    from tests.support.memory_store import MemoryConversationStore
    from ui.kit.theme import Theme
    from ui.window.other_windows import plain, shortcuts_of

    application = QApplication.instance() or QApplication([])
    assert isinstance(application, QApplication)
    engine, loop = Engine(), asyncio.new_event_loop()
    preferences = preferences_state()
    store = MemoryConversationStore()
    window = create_main_window(engine, Theme(application), store, preferences, loop)
    portable = QKeySequence.SequenceFormat.PortableText
    rows = [
        (title, plain(action.text()), " or ".join(f"`{k.toString(portable)}`" for k in keys))
        for title, actions in shortcuts_of(window.menuBar())
        for action in actions
        if (keys := action.shortcuts())
    ]
    window.deleteLater()
    engine.close()
    loop.close()
    return table(("menu", "what it does", "keys"), rows)


# The actions of ``models`` have its options, and other names have those of what they mean.
_WITHOUT_LIST = {"models", *(one.name for one in COMMANDS if one.alias_of)}


def checks_of_the_probe() -> str:
    return table(
        ("id", "level", "rule", "an extension in"),
        (
            (f"`{case.check_id}`", case.level, case.rule.replace("|", "\\|"), extension_in(case))
            for case in CASES
        ),
    )


def references_of_the_probe() -> str:
    found: dict[tuple[str, str], str] = {}
    for dialect in DRIVERS:
        for case in CASES:
            stated = case.reference_in(dialect)
            if stated is not None:
                found[dialect, case.topic] = f"[{stated.sentence}]({stated.address})"
    return table(
        ("dialect", "about", "what its vendor says"),
        ((dialect, topic, said) for (dialect, topic), said in found.items()),
    )


# What each list is made of; a list that keeps words of the page is given the list as it was.
LISTS: dict[str, Callable[[str], str]] = {
    "routes": lambda _: routes(),
    **{
        f"options of {command}": lambda _, command=command: options(command)  # type: ignore[misc]
        for command in commands()
        if command not in _WITHOUT_LIST
    },
    **PARAMETERS,
    "settings": lambda _: settings(),
    "shortcuts": lambda _: shortcuts(),
    "checks of the probe": lambda _: checks_of_the_probe(),
    "references of the probe": lambda _: references_of_the_probe(),
    "folders": lambda _: table(("folder", "what it holds"), folders()),
    "threads": lambda _: table(("thread", "begun in", "what that is for"), threads()),
    "helper processes": lambda _: table(("process", "what it does"), helper_processes()),
}
_OF_THE_CODE = ("folders", "threads", "helper processes")


def written(name: str, page: str) -> str | None:
    """Return a list as it stands in a page; None if its marks are missing."""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n?<!-- /{name} -->", page, re.DOTALL)
    return found[1] if found else None


def page_of(name: str) -> Path:
    if name in _OF_THE_CODE:
        return ARCHITECTURE
    return CONFORMANCE if name.endswith("of the probe") else OPTIONS


def main() -> int:
    for name, make in LISTS.items():
        page = page_of(name)
        text = page.read_text(encoding="utf-8")
        before = written(name, text)
        if before is None:
            print(f"no marks for {name}", file=sys.stderr)
            continue
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        head, _, rest = text.partition(start)
        page.write_text(
            f"{head}{start}{make(before)}\n{end}{rest.partition(end)[2]}", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
