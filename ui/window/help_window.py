"""Help: short topics with pictures, sections of the guide, changes; and About. Main thread."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from PySide6.QtCore import QRectF, QSize, QSizeF, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QFont, QPainter, QPen, QResizeEvent, QTextCursor, QTextDocument
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QTextEdit, QWidget

from ui.kit.buttons import IconBadge, push_button
from ui.kit.dates import format_day
from ui.kit.dialogs import confirm_link
from ui.kit.fields import ListSearchField
from ui.kit.labels import label, show_text
from ui.kit.layouts import STRETCH, column, row
from ui.kit.markdown.document_page import DocumentPage
from ui.kit.markdown.pictures import picture_from
from ui.kit.theme import current_theme
from ui.kit.windows import OwnDialog, OwnWindow

CHANGES, LICENSE = "What’s New in Fullstop", "License"
_HEADING = re.compile(r"^#{2,3} (?=\S)", re.MULTILINE)
_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)\n?")
# A link to another page, which is not shown here.
_PAGE_LINK = re.compile(r"\[([^\]]+)\]\((?!#|https?:)[^)]*\)")
_PURPOSE = (
    "Chat with MLX language models, serve them to other apps, and see exactly why a model stopped."
)
_PICTURE_PX, _PICTURE_HEIGHT_PX = 680, 500
_WHOLE_PICTURE_PX = _PICTURE_PX + 32  # the width of a page with margins and a scroll bar
_FOLD = "fold"  # the scheme of links that show and hide a part of a page
_SHORT = "In Short"
TOPICS = {
    "Models": "Get a model",
    "Stop Inspector": "Inspect an answer",
    "Several Answers": "Inspect an answer",
    "Captured Answer": "Check another server",
    "Probe Server": "Check another server",
    "MCP Servers": "Let a model use tools",
    "Local Server": "Serve other apps",
    "Settings": "Set a conversation up",
    "Compare Answers": "Compare models",
    "Chat Template": "Chat template",
    "Import Conversations": "Keep and export conversations",
}
"""The topic of help for a window, by its title."""


@dataclass(frozen=True, slots=True)
class HelpFiles:
    """Paths of the pages and the log; None for missing ones."""

    topics: Path | None = None
    guide: Path | None = None
    changes: Path | None = None
    license: Path | None = None
    log_folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A page of help; pictures are files of the folder."""

    title: str
    text: str
    folder: Path | None = None


def topics_of(files: HelpFiles) -> Iterator[Topic]:
    """Yield the short topics, the changes, and the sections of the guide; raises ``OSError``."""
    if files.topics is not None:
        yield from _sections(files.topics.read_text(encoding="utf-8"), files.topics.parent)
    if files.changes is not None:
        yield Topic(CHANGES, _changes(files.changes.read_text(encoding="utf-8")))
    if files.guide is not None:
        yield from _sections(_without_pictures(files.guide.read_text(encoding="utf-8")))
    if files.license is not None:
        yield Topic(LICENSE, f"## {LICENSE}\n\n{files.license.read_text(encoding='utf-8')}")


def _sections(page: str, folder: Path | None = None) -> Iterator[Topic]:
    for section in _HEADING.split(page)[1:]:
        title, _, text = section.partition("\n")
        yield Topic(title, f"## {title}\n{text}", folder)


def _changes(text: str) -> str:
    """Return the short points of the newest version, and folds for all others."""
    newest, *older = re.split(r"^## ", _without_pictures(text), flags=re.MULTILINE)[1:]
    heading, _, parts = newest.partition("\n")
    sections = (part.partition("\n") for part in parts.split("\n### ")[1:])
    named = {name: part for name, _, part in sections}
    lines = [f"## {CHANGES}", f"**{_version_title(heading)}**", named.pop(_SHORT, "")]
    if not lines[-1]:
        lines[-1] = parts.partition("\n### ")[0]
    if named:
        lines += ["### In This Version, in Detail", *_folds(named)]
    if older:
        earlier = (each.partition("\n") for each in older)
        folded = {_version_title(name): part for name, _, part in earlier}
        lines += ["### Earlier Versions", *_folds(folded)]
    return "\n\n".join(lines)


def _version_title(heading: str) -> str:
    """Return a version and its day: ``0.2.0 (2026-12-01)`` is ``Version 0.2.0 · 12/1/26``."""
    found = re.fullmatch(r"([\d.]+)(?: \((\d{4}-\d\d-\d\d)\))?", heading.strip())
    if found is None:
        return "Next version · not released yet"
    day = format_day(datetime.fromisoformat(found[2]).timestamp()) if found[2] else ""
    return " · ".join(filter(None, (f"Version {found[1]}", day)))


def _folds(parts: dict[str, str]) -> Iterator[str]:
    for name, part in parts.items():
        yield f"<!--{_FOLD} {name}-->\n\n{part.strip()}\n\n<!--/{_FOLD}-->"


def _unfold(text: str, opened: set[str]) -> str:
    """Replace the folds of a page by links, and the text of opened ones."""

    def shown(fold: re.Match[str]) -> str:
        name, part = fold[1], fold[2]
        address = f"{_FOLD}:{name.replace(' ', '%20')}"
        is_open = name in opened
        link = f"[{'▾' if is_open else '▸'} {name}]({address})"
        return f"{link}\n\n{part}" if is_open else link

    return re.sub(rf"<!--{_FOLD} (.*?)-->(.*?)<!--/{_FOLD}-->", shown, text, flags=re.DOTALL)


def _without_pictures(page: str) -> str:
    return _PAGE_LINK.sub(r"\1", _PICTURE.sub("", page))


class HelpPage(DocumentPage):
    """One topic, with the pictures of its folder."""

    folder: Path | None = None
    _shown: tuple[Topic, set[str], list[str]] | None = None
    _shown_px = 0

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the pictures into a narrower or wider page; not when a scroll bar narrows it.

        That happens inside ``setMarkdown``, which must not be entered again.
        """
        super().resizeEvent(event)
        before, now = self._shown_px, self.width()
        if self._shown is not None and before != now and min(before, now) < _WHOLE_PICTURE_PX:
            bar = self.verticalScrollBar()
            read = bar.value() / max(1, bar.maximum())
            self.show_topic(*self._shown)
            bar.setValue(round(read * bar.maximum()))

    def show_topic(self, topic: Topic, opened: set[str], terms: list[str]) -> None:
        """Show a topic with its opened folds, and mark the words of a search."""
        self.folder, self._shown = topic.folder, (topic, opened, terms)
        self._shown_px = self.width()
        self.document().setIndentWidth(24)
        self.show_markdown(_unfold(topic.text, opened))
        marks = []
        for term in terms:
            cursor = self.document().find(term)
            while not cursor.isNull():
                mark = QTextEdit.ExtraSelection()
                mark.cursor = QTextCursor(cursor)
                mark.format.setBackground(QColor(current_theme().colors.found))
                marks.append(mark)
                cursor = self.document().find(term, cursor)
        self.setExtraSelections(marks)
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def loadResource(self, kind: int, url: QUrl | str) -> object:
        """Load a picture of the topic."""
        name = url if isinstance(url, str) else url.toString()
        if self.folder is not None and kind == QTextDocument.ResourceType.ImageResource.value:
            colors = current_theme().colors
            mode = "-dark." if colors.is_dark else "-light."
            path = self.folder / re.sub(r"-(light|dark)\.", mode, name)
            image = picture_from(
                path,
                QSizeF(_PICTURE_PX + min(0, self.width() - _WHOLE_PICTURE_PX), _PICTURE_HEIGHT_PX),
            )
            if image is not None:
                painter = QPainter(image)  # a frame: a picture has the color of the page
                painter.setPen(QPen(QColor(colors.strong_line), 1))
                size = image.deviceIndependentSize()
                painter.drawRect(QRectF(0.5, 0.5, size.width() - 1, size.height() - 1))
                painter.end()
                return image
        return super().loadResource(kind, url)


class HelpWindow(OwnWindow):
    """Lists topics beside the chosen one."""

    def __init__(self, files: HelpFiles, parent: QWidget) -> None:
        super().__init__("Help", (1020, 760), parent)
        self.search = ListSearchField("Search help", "Clear the search")
        self.search.setPlaceholderText("Search")
        self.topics = QListWidget()
        self.topics.setProperty("kind", "rows")
        self.topics.setAccessibleName("Topics")
        self.topics.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._empty = label("", "muted", 0.95, is_wrapped=True)
        self.page = HelpPage("Help")
        self.page.link_chosen.connect(self._follow)
        self._opened: set[str] = set()  # folds
        side = QWidget()
        side.setFixedWidth(240)
        listed = column(self.search, self._empty, (self.topics, 1), spacing=8, on=side)
        listed.addStretch()  # takes the room of a hidden list
        row(side, (self.page, 1), spacing=16, margins=(16, 16, 16, 16), on=self)
        try:
            self._all = list(topics_of(files))
        except OSError:
            self._all = [Topic("Help", "This page cannot be read.")]
        self.topics.currentItemChanged.connect(self._show)
        current_theme().changed.connect(self._show_again)
        self.search.textChanged.connect(self._fill)
        self.search.step_requested.connect(self._step)
        self.search.chosen.connect(self.page.setFocus)
        self.search.left.connect(self.search.clear)
        self._fill("")

    def choose(self, title: str) -> None:
        """Show a topic."""
        self.search.clear()
        for item in self.topics.findItems(title, Qt.MatchFlag.MatchExactly):
            self.topics.setCurrentItem(item)

    def _fill(self, typed: str) -> None:
        """List the topics that have all the words, those with a word in their title first."""
        terms = typed.casefold().split()
        words = re.compile("|".join(rf"\b{re.escape(term)}" for term in terms) or r"\Z")
        found = [t for t in self._all if all(term in t.text.casefold() for term in terms)]
        found.sort(
            key=lambda topic: (
                not words.search(topic.title.casefold()),
                bool(terms) and topic.title == CHANGES,
                -len(words.findall(topic.text.casefold())) if terms else 0,
            )
        )
        self.topics.clear()
        for topic in found:
            if topic.title == CHANGES and not terms and self.topics.count():
                heading = QListWidgetItem("In Detail", self.topics)
                heading.setFlags(Qt.ItemFlag.NoItemFlags)
                heading.setSizeHint(QSize(0, 40))
                heading.setTextAlignment(Qt.AlignmentFlag.AlignBottom)
                font = self.topics.font()
                font.setWeight(QFont.Weight.DemiBold)
                heading.setFont(font)
            item = QListWidgetItem(topic.title, self.topics)
            item.setData(Qt.ItemDataRole.UserRole, topic)
        show_text(self._empty, "" if found else f"No Results for “{typed.strip()}”")
        self.topics.setVisible(bool(found))
        if not found:
            self.page.show_topic(Topic("", ""), set(), [])
        self.topics.setCurrentRow(0)

    def _step(self, by: int) -> None:
        row = max(0, min(self.topics.currentRow() + by, self.topics.count() - 1))
        if self.topics.count() and not self.topics.item(row).flags():
            row += 1 if by > 0 else -1  # the heading
        self.topics.setCurrentRow(row)

    def _show_again(self) -> None:
        self._show(self.topics.currentItem())

    def _show(self, item: QListWidgetItem | None) -> None:
        if item is not None:
            terms = self.search.text().split()
            self.page.show_topic(item.data(Qt.ItemDataRole.UserRole), self._opened, terms)

    def _follow(self, url: QUrl) -> None:
        """Show or hide a fold; or ask before an address is opened."""
        if url.scheme() != _FOLD:
            confirm_link(self, url)
            return
        self._opened ^= {url.path()}
        bar = self.page.verticalScrollBar()
        before = bar.value()
        self._show_again()
        bar.setValue(before)


class AboutDialog(OwnDialog):
    """Shows icon, version, purpose, license and, if it is known, the address of the project."""

    license_requested = Signal()

    def __init__(self, version: str, address: str, parent: QWidget) -> None:
        super().__init__("About Fullstop", parent)
        center = Qt.AlignmentFlag.AlignHCenter
        icon, about = IconBadge(80), label(_PURPOSE, "muted", 0.95, is_wrapped=True)
        icon.show_icon("stop-match", "match")
        about.setAlignment(center)
        about.setFixedWidth(320)
        name = label("Fullstop", "heading", 1.4)
        license_link = push_button("MIT License", "Show the MIT License", kind="link")
        license_link.clicked.connect(self.license_requested)
        link = push_button("Project Page", f"Open {address}", kind="link")
        link.setVisible(bool(address))
        link.clicked.connect(lambda: confirm_link(self, QUrl(address)))
        column(
            (icon, 0, center),
            (name, 0, center),
            (label(f"Version {version}", "muted", 0.95), 0, center),
            about,
            (label("© 2026 The Fullstop authors", "faint", 0.9), 0, center),
            row(STRETCH, license_link, link, STRETCH, spacing=16),
            spacing=8,
            margins=24,
            on=self,
        )
        self.setFixedSize(self.sizeHint())
        self.setFocus()  # not the first link, which would have a frame
