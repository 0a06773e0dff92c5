"""The pages that the Help menu shows, and what it copies for a report. Main thread."""

import platform
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QWidget

from ui.kit.dialogs import BoxButton, ask, ask_about_link, show_in_files
from ui.kit.layouts import column, scrolling
from ui.kit.markdown.style import markdown_style
from ui.kit.markdown.view import MarkdownView
from ui.kit.menus import copy_text
from ui.kit.theme import current_theme
from ui.kit.windows import OwnWindow


@dataclass(frozen=True, slots=True)
class HelpFiles:
    """Where the pages and the log are; None for what is not on this computer.

    Attributes:
        guide: The guide to the window.
        changes: What is new in each version.
        log_folder: The folder of log files.
    """

    guide: Path | None = None
    changes: Path | None = None
    log_folder: Path | None = None


_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)\n?")
# A link to another page, which is not shown here.
_PAGE_LINK = re.compile(r"\[([^\]]+)\]\((?!#|https?:)[^)]*\)")
_WIDEST_PX = 760


def page_text(path: Path) -> str:
    """Return a page as it is shown: without pictures, links to files, and breaks in paragraphs."""
    # Imported when it is wanted: the search of the hub must not hold up the main window.
    from ui.models.finder import card_text

    text = path.read_text(encoding="utf-8", errors="replace")
    return card_text(_PAGE_LINK.sub(r"\1", _PICTURE.sub("", text)), len(text))[0]


class PageWindow(OwnWindow):
    """Shows one page.

    Args:
        title: The window's title.
        path: The page.
        parent: The window that it belongs to.
    """

    def __init__(self, title: str, path: Path, parent: QWidget) -> None:
        super().__init__(title, (820, 760), parent)
        self.page = MarkdownView(markdown_style(self.font()))
        self.page.setObjectName("answer_text")
        self.page.setAccessibleName(title)
        self.page.link_chosen.connect(partial(ask_about_link, self))
        holder = QWidget()
        holder.setObjectName("scrolled")
        column(self.page, margins=(28, 18, 28, 24), on=holder)
        column((scrolling(holder, title, goes_sideways=False), 1), on=self)
        theme = current_theme()
        theme.follow(self.page, lambda: self.page.setMaximumWidth(theme.px(_WIDEST_PX)))
        theme.changed.connect(self._restyle)
        try:
            self.page.set_markdown(page_text(path))
        except OSError:
            self.page.set_markdown("This page cannot be read.")

    def _restyle(self) -> None:
        self.page.set_style(markdown_style(self.font()))


def report_details(version: str, model: str, verdict: str) -> str:
    """Return what a report of a problem needs: versions, system, model and the last reason."""
    lines = [
        f"- Fullstop {version}, Python {platform.python_version()}",
        f"- {platform.platform()}",
        f"- Model: {model or 'none'}",
    ]
    return "\n".join([*lines, f"- Last answer: {verdict}"] if verdict else lines)


def ask_what_to_report(parent: QWidget, details: str, log_folder: Path | None) -> QWidget:
    """Say how to report a problem; copy the details, or show the log.

    Args:
        parent: The window.
        details: What is copied.
        log_folder: The folder of log files; None if there is none.
    """
    answers = [BoxButton("Copy Details", lambda: copy_text(details))]
    if log_folder is not None and log_folder.is_dir():
        answers.append(BoxButton("Show the Log", lambda: show_in_files(parent, log_folder)))
    return ask(
        parent,
        "How to report a problem",
        "Write what you did, what you expected and what happened instead, to whoever gave you "
        "Fullstop. Copy Details puts this on the clipboard; it has nothing of your conversations "
        f"but why the last answer ended:\n\n{details}",
        answers=answers,
        title="Report a Problem",
    )
