"""The README's lists as the code has them.

``python -m tests.support.readme_lists`` writes them between their marks into the README;
``tests/test_readme.py`` compares. The shortcuts need Qt, the rest does not.
"""

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from api.server.routes import ROUTES
from app.command_line.serve_arguments import add_serve
from app.settings.settings_file import Settings

README = Path(__file__).parents[2] / "README.md"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def routes() -> str:
    """Every route of the server."""
    rows = ((route.method, f"`{route.path}`", route.description) for route in ROUTES)
    return table(("method", "path", "what it is"), rows)


def options() -> str:
    """Every option of ``fullstop serve``, with the variable that says the same."""
    parser = argparse.ArgumentParser()
    add_serve(parser.add_subparsers(), lambda _: 0)
    choices: dict[str, argparse.ArgumentParser] = parser._subparsers._group_actions[0].choices  # type: ignore[union-attr,assignment]
    rows = [
        (
            f"`{action.option_strings[0]}{f' {action.metavar}' if action.metavar else ''}`",
            f"`FULLSTOP_{action.dest.upper()}`",
            str(action.help),
        )
        for action in choices["serve"]._actions
        if action.dest != "help"
    ]
    return table(("option", "variable", "what it is"), rows)


def settings() -> str:
    """Every setting of the program's own file, with its default and what it may be."""
    schema = Settings.model_json_schema()
    return table(
        ("setting", "at first", "may be"), _settings(schema, schema, Settings().model_dump(), "")
    )


def _settings(
    part: dict[str, Any], whole: dict[str, Any], values: Any, prefix: str
) -> Iterable[tuple[str, str, str]]:
    for name, field in part["properties"].items():
        reference = field.get("$ref", "").rpartition("/")[2]
        if reference:
            yield from _settings(whole["$defs"][reference], whole, values[name], f"{name}.")
        elif name not in ("version", "window_layout"):
            yield f"`{prefix}{name}`", f"`{json.dumps(values[name])}`", _may_be(field)


def _may_be(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_may_be(one) for one in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    kind = {"integer": "a whole number", "number": "a number", "string": "text", "null": "nothing"}
    words = kind.get(field["type"], "true or false" if field["type"] == "boolean" else "a list")
    if "minimum" in field and "maximum" in field:
        return f"{words} from {field['minimum']:g} to {field['maximum']:.10g}"
    return words


def shortcuts() -> str:
    """Every shortcut of the window, read off its menus."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtGui import QKeySequence
    from PySide6.QtWidgets import QApplication

    from app.desktop.window import server_window
    from engine.scheduling.service import Engine
    from ui.kit.look.theme import Theme
    from ui.preferences.preferences import Preferences, PreferencesState
    from ui.records.storing import MemoryConversationStore
    from ui.window.shortcuts import plain, shortcuts_of

    application = QApplication.instance() or QApplication([])
    assert isinstance(application, QApplication)
    engine, loop = Engine(), asyncio.new_event_loop()
    preferences = PreferencesState(Preferences())
    store = MemoryConversationStore()
    window = server_window(engine, Theme(application), store, preferences, loop)
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


LISTS: dict[str, Callable[[], str]] = {
    "routes": routes,
    "options": options,
    "settings": settings,
    "shortcuts": shortcuts,
}


def written(name: str, readme: str) -> str | None:
    """Return a list as it stands in the README; None if its marks are missing."""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", readme, re.DOTALL)
    return found[1] if found else None


def main() -> int:
    """Write every list that has its marks."""
    text = README.read_text(encoding="utf-8")
    for name, make in LISTS.items():
        before = written(name, text)
        if before is None:
            print(f"no marks for {name}", file=sys.stderr)
            continue
        text = text.replace(f"<!-- {name} -->\n{before}\n", f"<!-- {name} -->\n{make()}\n")
    README.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
