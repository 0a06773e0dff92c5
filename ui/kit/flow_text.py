"""Text as high as its content, and the parts of a page that can be searched. Main thread."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, QSizeF, Qt, QUrl
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFragment,
    QTextLine,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QSizePolicy,
    QTextBrowser,
    QTextEdit,
    QWidget,
)

from ui.kit.labels import ElidedLabel
from ui.kit.theme import current_theme
from ui.words import lines_of

# Each highlight follows the text when that changes: thousands of them would be slow.
_MAX_MARKS = 1_000
TextWidget = QLineEdit | QPlainTextEdit | QTextEdit


def line_parts(block: QTextBlock, begin: int, end: int) -> Iterator[tuple[QTextLine, float, float]]:
    """Yield the lines of a part of a block, each with the edges of the part in it."""
    layout = block.layout()
    number = layout.lineForTextPosition(begin).lineNumber()
    while begin < end and number < layout.lineCount():
        line = layout.lineAt(number)
        last = min(end, line.textStart() + line.textLength())
        # The bindings' types lack that the result is a place and a position.
        edges: Any = line.cursorToX(begin), line.cursorToX(last)
        left, right = sorted(edge[0] for edge in edges)
        yield line, left, right
        begin, number = last, number + 1


def link_targets(document: QTextDocument) -> list[str]:
    """Return the targets of a document's links, in their order."""
    forms = (piece.charFormat() for piece in text_fragments(document))
    return [form.anchorHref() for form in forms if form.isAnchor() and form.anchorHref()]


def anchor_position(document: QTextDocument, name: str) -> int | None:
    """Return the position of the anchor with a name; None if there is none."""
    pieces = text_fragments(document)
    return next((p.position() for p in pieces if name in p.charFormat().anchorNames()), None)


def terms_pattern(text: Sequence[str], has_case: bool = False) -> re.Pattern[str]:
    """Return a pattern of any of the words, longest first; white space matches any white space."""
    spelled = (r"\s+".join(re.escape(part) for part in word.split()) for word in text)
    spellings = sorted((spelling for spelling in spelled if spelling), key=len, reverse=True)
    return re.compile("|".join(spellings) or r"(?!)", re.NOFLAG if has_case else re.IGNORECASE)


def find_terms(
    document: QTextDocument, terms: Sequence[str], has_case: bool = False
) -> list[tuple[int, int]]:
    """Return the beginning and end of each occurrence of the words, in order."""
    if not terms:
        return []
    pattern = terms_pattern(terms, has_case)
    positions = []
    for block in _blocks(document):
        text = block.text()
        for match in pattern.finditer(text):
            begin = block.position() + utf16_length(text[: match.start()])
            positions.append((begin, begin + utf16_length(match[0])))
    return positions


def block_texts(document: QTextDocument) -> list[str]:
    """Return the text of each block: paragraphs, lines of code, cells of tables."""
    return [block.text() for block in _blocks(document)]


def _blocks(document: QTextDocument) -> Iterator[QTextBlock]:
    block = document.begin()
    while block.isValid():
        yield block
        block = block.next()


def text_fragments(document: QTextDocument) -> Iterator[QTextFragment]:
    """Yield the runs of text that have one format."""
    for block in _blocks(document):
        fragments = block.begin()
        while not fragments.atEnd():
            yield fragments.fragment()
            fragments += 1


def utf16_length(text: str) -> int:
    """Return the number of document positions of a text."""
    return len(text.encode("utf-16-le")) // 2


@dataclass(frozen=True, slots=True)
class Highlight:
    """Words to highlight, in any case or as written, and the number of the current place."""

    terms: tuple[str, ...] = ()  # an empty list removes all highlights
    has_case: bool = False
    current: int | None = None  # None for none


class FlowText(QTextBrowser):
    """Read-only, selectable text without scroll bars whose height follows its content."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        flags = Qt.TextInteractionFlag
        # The caret, shown while keys move it, selects text to quote or copy.
        self.setCursorWidth(0)
        self.setTextInteractionFlags(flags.TextBrowserInteraction | flags.TextSelectableByKeyboard)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTabChangesFocus(True)
        self.viewport().setAutoFillBackground(False)
        # Only a line that is too long scrolls, never the whole text.
        bar = self.horizontalScrollBar()
        bar.rangeChanged.connect(lambda: bar.setRange(0, 0))
        self._found = Highlight()
        self._spans: Sequence[tuple[int, int]] = ()
        document = self.document()
        document.setDocumentMargin(0)
        document.documentLayout().documentSizeChanged.connect(self._fit)

    def follow_message_font(self) -> None:
        """Have the font of messages, and its zoom."""
        current_theme().changed.connect(self._zoom)
        self._zoom()

    def show_spaces(self) -> None:
        """Show spaces and tabs as marks at which lines wrap."""
        options = self.document().defaultTextOption()
        options.setFlags(QTextOption.Flag.ShowTabsAndSpaces)
        self.document().setDefaultTextOption(options)

    def _zoom(self) -> None:
        self.setFont(current_theme().message_font())

    def sizeHint(self) -> QSize:
        """Have the width of readable lines; a layout that aligns it to the left keeps it."""
        return QSize(current_theme().text_px(), super().sizeHint().height())

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Load nothing: a text must not access files or the network."""
        return None

    def find_matches(self, query: Highlight) -> list[tuple[int, int]]:
        """Return the beginning and end of each occurrence of the words, in order."""
        return find_terms(self.document(), query.terms, query.has_case)

    def highlight(self, query: Highlight) -> QRectF | None:
        """Highlight every occurrence of words; return the place of the current or first one."""
        if not query.terms and not self._found.terms:
            return None
        self._found, self._spans = query, ()
        positions = self.find_matches(query)
        current = query.current or 0
        begin = max(0, min(current - _MAX_MARKS // 2, len(positions) - _MAX_MARKS))
        marks = self._mark(positions[begin : begin + _MAX_MARKS])
        if not marks:
            return None
        shown = marks[min(current - begin, len(marks) - 1)]
        if query.current is not None:
            colors = current_theme().colors
            shown.format.setBackground(QColor(colors.accent))
            shown.format.setForeground(QColor(colors.on_accent))
            self.setExtraSelections(marks)
        cursor = QTextCursor(self.document())
        cursor.setPosition(shown.cursor.selectionStart())
        return QRectF(self.cursorRect(cursor))

    def show_spans(self, spans: Sequence[tuple[int, int]]) -> None:
        """Highlight parts of ``toPlainText``, until other words are highlighted."""
        self._spans = spans
        text, positions, at, position = self.toPlainText(), [], 0, 0
        for begin, end in spans:
            start = position + utf16_length(text[at:begin])
            position = start + utf16_length(text[begin:end])
            at = end
            positions.append((start, position))
        self._mark(positions)

    def _mark(self, positions: Sequence[tuple[int, int]]) -> list[QTextEdit.ExtraSelection]:
        colors, form = current_theme().colors, QTextCharFormat()
        form.setBackground(QColor(colors.found))
        form.setForeground(QColor(colors.text))
        marks: list[QTextEdit.ExtraSelection] = []
        for begin, end in positions:
            mark = QTextEdit.ExtraSelection()
            cursor = QTextCursor(self.document())
            cursor.setPosition(begin)
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            mark.cursor = cursor
            mark.format = form
            marks.append(mark)
        self.setExtraSelections(marks)
        return marks

    def mark_again(self) -> None:
        """Highlight the same places again after the text has been written anew."""
        if self._spans:
            self.show_spans(self._spans)
        else:
            self.highlight(self._found)

    def scroll_to(self, position: int) -> None:
        """Scroll the column around this text until a position is in the upper third."""
        cursor = QTextCursor(self.document())
        cursor.setPosition(position)
        self._ensure_visible(self.cursorRect(cursor), 1 / 3)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move the caret and keep it in sight; the column scrolls by pages."""
        if event.key() in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            event.ignore()
            return
        before = self.textCursor().position()
        super().keyPressEvent(event)
        if self.textCursor().position() != before:
            self.setCursorWidth(1)
            self._ensure_visible(self.cursorRect(), 0)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setCursorWidth(0)
        super().mousePressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.setCursorWidth(0)
        super().focusOutEvent(event)

    def _ensure_visible(self, area: QRect, margin: float) -> None:
        """Scroll the column around this text; ``margin`` is a share of the column's height."""
        parent = self.parentWidget()
        while parent is not None and not isinstance(parent, QScrollArea):
            parent = parent.parentWidget()
        if parent is not None and (inner := parent.widget()) is not None:
            there = self.viewport().mapTo(inner, area.center())
            margin_px = max(area.height(), round(parent.viewport().height() * margin))
            parent.ensureVisible(there.x(), there.y(), 0, margin_px)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave scrolling to the column around this text."""
        event.ignore()

    def _fit(self, size: QSizeF) -> None:
        height = max(ceil(size.height()), self.fontMetrics().height())
        # Its height may be this one by chance, and not fixed yet.
        if height != self.minimumHeight():
            self.setFixedHeight(height)


class SearchedText:
    """A text that may be folded; ``button`` unfolds it, and ``whole`` is all that it shows then."""

    def __init__(
        self,
        view: FlowText | None,
        button: QAbstractButton | None = None,
        *,
        whole: str | None = None,
    ) -> None:
        self._view = view
        self._button = button
        self._whole = whole

    def count(self, query: Highlight) -> int:
        """Return how often the words occur in it, folded or not."""
        if self._whole is None:
            return self._shown(query)
        pattern = terms_pattern(query.terms, query.has_case)
        return sum(len(pattern.findall(line)) for line in lines_of(self._whole))

    def show_match(self, query: Highlight) -> None:
        """Unfold the text if that hides the current place."""
        is_seen = self._view is not None and self._view.isVisibleTo(self._view.window())
        if self._button is not None and not (is_seen and self._has_current(query)):
            self._button.click()

    def mark(self, query: Highlight, page: QWidget) -> int | None:
        """Mark the places; return the distance of the current or first one from the top."""
        view = self._view
        if view is None:
            return None
        if not self._has_current(query):
            query = replace(query, current=None)
        area = view.highlight(query)
        if area is None or not view.isVisibleTo(page):
            return None
        return view.viewport().mapTo(page, area.topLeft().toPoint()).y()

    def _has_current(self, query: Highlight) -> bool:
        return query.current is None or query.current < self._shown(query)

    def _shown(self, query: Highlight) -> int:
        return 0 if self._view is None else len(self._view.find_matches(query))


class SearchedLabel:
    """A label; it is marked as a whole."""

    def __init__(self, label: ElidedLabel) -> None:
        self._label = label

    def count(self, query: Highlight) -> int:
        pattern = terms_pattern(query.terms, query.has_case)
        return len(pattern.findall(self._label.text()))

    def show_match(self, query: Highlight) -> None:
        """Do nothing: a label is never folded."""

    def mark(self, query: Highlight, page: QWidget) -> int | None:
        """Mark the label if it has the words; return its distance from the top."""
        if not self.count(query):
            self._label.show_found("", "")
            return None
        colors = current_theme().colors
        if query.current is None:
            self._label.show_found(colors.found, colors.text)
        else:
            self._label.show_found(colors.accent, colors.on_accent)
        return self._label.mapTo(page, QPoint()).y()


SearchedPart = SearchedText | SearchedLabel


def unfold_match(parts: Sequence[SearchedPart], query: Highlight) -> None:
    """Unfold the part with the current place, if it is folded."""
    for part, own in _divided(parts, query):
        if own.current is not None:
            part.show_match(own)


def mark_parts(parts: Sequence[SearchedPart], query: Highlight, page: QWidget) -> int | None:
    """Mark the matches in all parts; return the current or first one's distance from the top."""
    first: int | None = None
    for part, own in _divided(parts, query):
        down = part.mark(own, page)
        if down is not None and (own.current is not None or first is None):
            first = down
    return first


def _divided(
    parts: Sequence[SearchedPart], query: Highlight
) -> list[tuple[SearchedPart, Highlight]]:
    """Return each part with its own highlight; only one of them has the current place."""
    if query.current is None:
        return [(part, query) for part in parts]
    divided, left, none = [], query.current, replace(query, current=None)
    for part in parts:
        count = part.count(query) if left >= 0 else 0
        is_here = 0 <= left < count
        divided.append((part, replace(query, current=left) if is_here else none))
        left -= count
        if is_here:
            left = -1
    return divided


def selected_text(widget: TextWidget) -> str:
    """Return the selected text as it would be copied; empty for none."""
    if isinstance(widget, QLineEdit):
        return widget.selectedText()
    if not widget.textCursor().hasSelection():
        return ""
    return widget.createMimeDataFromSelection().text()
