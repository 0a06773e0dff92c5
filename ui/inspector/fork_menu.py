"""The menu of a token: other tokens in its place, another text, or the end. Main thread."""

import math
import re
from functools import partial

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QMenu, QWidget
from shiboken6 import isValid

from engine.recording.run_trace import RunTrace
from engine.values.events import TokenTrace
from engine.wording import percent, quoted
from ui.inspector.forks import Forks
from ui.inspector.shown_run import chip_text, token_name
from ui.kit.commands import Command, Entry, context_menu, fill_menu
from ui.kit.dialogs import prompt_text, show_error
from ui.kit.menus import escape_mnemonics
from ui.words import unescaped

_TITLE = "Fork at Token"


def show_fork_menu(parent: QWidget, forks: Forks, token: TokenTrace, position: QPoint) -> QMenu:
    """Offer the likeliest tokens in a token's place, another text, and the end of the answer."""
    number, obstacle = f"{token.index + 1:,}", forks.obstacle
    entries: list[Entry] = [_note(f"Fork at Token {number}, {_name(token)}")]
    trace = None if forks.inspector.shown is None else forks.inspector.shown.trace
    known = [] if trace is None else _alternatives(forks, trace, token)
    if obstacle:
        entries += map(_note, re.split(r"(?<=\.) ", obstacle))  # entries do not wrap
    else:
        entries += [None, *(known or [_note("Looking for Alternatives…")])]
    entries += [
        None,
        Command("Other Text…", lambda: _type_text(parent, forks, token), enabled=not obstacle),
        Command(
            "End Here",
            lambda: forks.end_at(token.index),
            enabled=not forks.end_obstacle,
        ),
    ]
    menu = context_menu(parent, f"Fork at token {number}", entries)
    menu.popup(position)
    if not obstacle and not known:
        forks.look_up(token.index, partial(_fill_in, menu, forks, token.index))
    return menu


def _fill_in(menu: QMenu, forks: Forks, token_index: int, trace: RunTrace | None) -> None:
    """Replace the note of an open menu by the alternatives that were looked up."""
    if not isValid(menu):
        return
    note, following = menu.actions()[2:4]
    if trace is None:
        note.setText("Alternatives not recorded")
        return
    found = QMenu(menu)
    fill_menu(found, _alternatives(forks, trace, trace.tokens[token_index]))
    menu.insertActions(following, found.actions())
    note.setVisible(False)


def _alternatives(forks: Forks, trace: RunTrace, token: TokenTrace) -> list[Entry]:
    if (stats := token.stats) is None or not stats.top:
        return []
    listed: list[tuple[int, float | None]] = list(stats.top)
    if token.token_id not in dict(stats.top):
        listed.append((token.token_id, stats.logprob if stats.rank >= len(stats.top) else None))
    return [
        Command(
            escape_mnemonics(
                f"{quoted(token_name(token_id, trace.vocabulary), 24)}\t"
                f"{'' if logprob is None else percent(math.exp(logprob))}"
            ),
            partial(forks.fork, token.index, (token_id,), trace),
            checked=token_id == token.token_id,
        )
        for token_id, logprob in listed
    ]


def _note(text: str) -> Command:
    return Command(escape_mnemonics(text), lambda: None, enabled=False)


def _name(token: TokenTrace) -> str:
    return quoted(token.piece, 20) if token.piece else chip_text(token)


def _type_text(parent: QWidget, forks: Forks, token: TokenTrace) -> None:
    def take(typed: str) -> None:
        try:
            text = unescaped(typed)
        except ValueError as error:
            show_error(parent, f"{error}", title=_TITLE)
            return
        forks.fork(token.index, text)

    question = f"Text in place of {_name(token)}. Spaces count; \\n is a line break."
    prompt_text(parent, _TITLE, question, take, done="Fork", keeps_spaces=True)
