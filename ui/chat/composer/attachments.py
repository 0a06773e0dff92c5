"""Attached files: read, shown as chips, previewed, listed. Main thread."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import shiboken6
from PySide6.QtCore import QObject, QSignalBlocker, QSize, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFont,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPixmap,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QWidget,
)

from engine.helper_process import HelperClosed
from engine.wording import counted
from ui.chat.composer.pictures import (
    PastedPicture,
    fit_picture,
    picture_button,
    rounded,
    show_picture,
    store_picture,
)
from ui.kit import icons
from ui.kit.buttons import Choice, IconButton, push_button
from ui.kit.commands import Command, Entry, context_menu
from ui.kit.dialogs import choose_files, show_file, show_in_files_label
from ui.kit.fields import GrowingInput
from ui.kit.flow_text import FlowText, SearchedLabel, SearchedPart, SearchedText
from ui.kit.labels import ElidedLabel, clear_layout, label, plain_tooltip, rescale, show_text
from ui.kit.layouts import STRETCH, FlowLayout, column, row
from ui.kit.markdown.pictures import picture_from
from ui.kit.menus import copy_text
from ui.kit.tasks import finish_tasks, start_task
from ui.kit.theme import current_theme, fixed_font, restyle
from ui.kit.windows import Popover, pop_up_above
from ui.records.attachments import Attachment, Reading, cut_extent
from ui.records.documents import FileReader
from ui.records.passages import Document, Excerpt
from ui.words import FileRefused, lines_of

_OPENING = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)
_REMOVING = (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)
MAX_SHOWN_CHARS = 100_000
_NAME_PX = 220  # a longer name is shortened
_READINGS = (("", "All, If It Fits"), ("passages", "Passages"), ("all", "All"))


class ReadingFile(QObject):
    """A file that is being read; it has no parent, since its thread may outlive its widget."""

    progressed = Signal(int, int)  # pages read, all pages

    def __init__(self, owner: object, reader: FileReader | PastedPicture) -> None:
        super().__init__()
        self.owner = owner
        self.reader = reader
        self.name = reader.name
        if isinstance(reader, FileReader):
            # Called on the reading thread; the signal crosses to the main thread.
            reader.on_page = self.progressed.emit


def _end_all(reading: list[ReadingFile]) -> None:
    for file in reading:
        file.reader.close()
    reading.clear()


class FileChip(QFrame):
    """A small card with an icon, the name, a few words and one button.

    Attributes:
        entries: Returns the entries of its menu; none for no menu.
    """

    opened = Signal()
    removed = Signal()

    def __init__(
        self, name: str, text: str, icon: str, accessible_name: str, kind: str = "report"
    ) -> None:
        super().__init__()
        self.setObjectName("file_chip")
        self._kind = kind
        self.entries: Callable[[], list[Entry]] = list
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(34)
        self._picture = QLabel()
        self._thumbnail: QPixmap | None = None
        self.name = ElidedLabel(name, mode=Qt.TextElideMode.ElideMiddle)
        self.name.setMinimumWidth(min(self.name.sizeHint().width(), 96))
        self._caption = ElidedLabel("", "faint", 0.92)
        for text_label in (self.name, self._caption):
            text_label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.button = IconButton(icon, accessible_name, size=14)
        self.cut = push_button("Shorten", kind="link")
        self.reading = push_button("Read All", kind="link")
        self.cut.hide()
        self.reading.hide()
        row(
            self._picture,
            self.name,
            (self._caption, 1),
            self.cut,
            self.reading,
            self.button,
            spacing=6,
            margins=(8, 2, 3, 2),
            on=self,
        )
        self.show_caption(text)
        current_theme().changed.connect(self._tint)
        self._tint()

    def show_caption(self, text: str, more: str = "") -> None:
        name = self.name.text()
        self._caption.setText(text)
        self._caption.setMinimumWidth(min(self._caption.sizeHint().width(), 72))
        self.setAccessibleName(f"File {name}, {text}")
        self.setAccessibleDescription(more)
        self.setToolTip(plain_tooltip("\n".join(filter(None, (f"{name}, {text}", more)))))
        self.updateGeometry()

    def offer_cut(self, is_cut: bool) -> None:
        name = self.name.text()
        self.cut.setText("Send All" if is_cut else "Shorten")
        self.cut.setAccessibleName(f"Send all of {name}" if is_cut else f"Shorten {name}")
        self.cut.show()
        self.updateGeometry()

    def offer_reading(self, reading: Reading) -> None:
        """Offer to read the document in another way; nothing if it is empty."""
        name = self.name.text()
        is_all = reading == "all"
        self.reading.setText("Read All" if is_all else "Passages")
        self.reading.setAccessibleName(f"Read {'all' if is_all else 'passages'} of {name}")
        self.reading.setVisible(bool(reading))
        self.updateGeometry()

    def become_caption(self) -> None:
        """Show the name alone, without a card: the caption of a picture."""
        for part in (self._picture, self._caption, self.button):
            part.hide()
        layout = self.layout()
        assert layout is not None
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setAlignment(self.name, Qt.AlignmentFlag.AlignLeft)
        self.setFixedHeight(self.name.sizeHint().height())
        rescale(self.name, 0.92)
        restyle(self.name, "role", "muted")
        restyle(self, "is_flat", True)

    def show_progress(self, done: int, total: int) -> None:
        self.show_caption(f"{done:,} of {total:,} pages" if total else "reading…")

    def show_picture(self, path: Path) -> None:
        """Show a thumbnail in place of the icon, once it is read."""
        start_task(self, self._show_picture(path), "show a thumbnail")

    async def _show_picture(self, path: Path) -> None:
        image = await asyncio.to_thread(picture_from, path, QSizeF(48, 26))
        if image is not None and shiboken6.isValid(self):
            self._thumbnail = rounded(image, 4)
            self._tint()

    def take_keys(self) -> None:
        """Let Tab reach the chip, and a click open it."""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.button.setCursor(Qt.CursorShape.ArrowCursor)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _OPENING:
            self.opened.emit()
        elif event.key() in _REMOVING:
            self.removed.emit()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Show the menu; without entries, leave it to the message around the chip."""
        if entries := self.entries():
            context_menu(self, self.accessibleName(), entries).popup(event.globalPos())
        else:
            event.ignore()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        is_within = self.rect().contains(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and is_within:
            self.opened.emit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Accept the press, so that the chip gets the release."""
        event.accept()

    def _tint(self) -> None:
        theme = current_theme()
        icon = self._thumbnail or icons.pixmap(self._kind, theme.colors.muted, 15)
        self._picture.setPixmap(icon)
        metrics, middle = self.name.fontMetrics(), Qt.TextElideMode.ElideMiddle
        shown = metrics.elidedText(self.name.text(), middle, _NAME_PX)
        self.name.setMaximumWidth(metrics.horizontalAdvance(shown) + 1)  # ends at its last letter
        self.updateGeometry()


def file_entries(parent: QWidget, file: Attachment, folder: Path | None) -> list[Entry]:
    """Return the entries for a file's content: its text, or the stored file."""
    if not file.kept_file:
        return [Command("Copy Text", partial(copy_text, file.text))]
    if folder is None:
        return []
    path = folder / file.kept_file
    return [
        Command(show_in_files_label(), partial(show_file, parent, path)),
        Command("Copy Path", partial(copy_text, str(path))),
    ]


def file_caption(
    file: Attachment, tokens: int | None = None, excerpt: Excerpt | None = None
) -> str:
    """Return the label of a chip: its pages or characters, and its tokens if they are known.

    Of a document that is read by passages, it is their number.
    """
    if excerpt is not None or file.kept_file:
        kind = "sound recording" if file.is_sound else "picture"
        extent = kind if excerpt is None else excerpt.extent
        return extent if tokens is None else f"{extent} · {counted(tokens, 'token')}"
    pages = file.pages
    if pages is None:
        # A message ends each file's text with a line feed.
        extent = counted(len(file.text.removesuffix("\n")), "character")
    elif pages.last - pages.first + 1 == pages.total:
        extent = counted(pages.total, "page")
    else:
        extent = str(pages)
    if file.sent_chars is not None:
        share = max(1, round(file.sent_chars / max(len(file.text), 1) * 100))
        extent = f"first {share}% of {extent}"
    return extent if tokens is None else f"{extent} · {counted(tokens, 'token')}"


def other_reading(file: Attachment, excerpt: Excerpt | None) -> Reading:
    """Return the reading that a chip offers: all instead of passages, or the reverse."""
    if file.reading == "all":
        return "passages"
    return "" if excerpt is None else "all"


def file_remark(file: Attachment, excerpt: Excerpt | None = None) -> str:
    """Return the addition of a chip's tool tip to its caption."""
    if excerpt is not None:
        return f"The model reads {excerpt.extent}, not all of it. {excerpt.remark}".rstrip()
    cut = "" if file.sent_chars is None else f"Sent: {cut_extent(file.text, file.sent_chars)}."
    return "\n".join(filter(None, (file.remark, cut)))


class FilePreview(Popover):
    """A card above the file's chip."""

    chosen = Signal(object)  # Attachment with other pages, or read in another way
    remove_requested = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.file = Attachment("", "")
        self._excerpt: Excerpt | None = None
        self._name = ElidedLabel("", "heading", mode=Qt.TextElideMode.ElideMiddle)
        self.facts = label("", "muted", 0.93, is_wrapped=True)
        self.remark = label("", "muted", 0.93, is_wrapped=True)
        self._pages = QWidget()
        self.first, self.last = _page_field("First page"), _page_field("Last page")
        self._of = QLabel()
        self.reading = Choice("How the document is read", _READINGS)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.remove = QPushButton("Remove")
        self.close_button = QPushButton("Close")
        self._lay_out()
        self.first.valueChanged.connect(self._choose)
        self.last.valueChanged.connect(self._choose)
        self.reading.activated.connect(self._choose_reading)
        self.remove.clicked.connect(self._remove)
        self.close_button.clicked.connect(self.hide)
        self._fit()

    def show_file(
        self, file: Attachment, tokens: int | None, excerpt: Excerpt | None = None
    ) -> None:
        is_same = (file, excerpt) == (self.file, self._excerpt)
        self.file, self._excerpt = file, excerpt
        self.setAccessibleName(f"Preview of {file.name}")
        self._name.setText(file.name)
        self.show_tokens(tokens)
        show_text(self.remark, file_remark(file) if excerpt is None else excerpt.remark)
        self.reading.choose(file.reading)
        self._show_pages(file)
        self.text.setAccessibleName(f"Text of {file.name}, as the model reads it")
        self.remove.setAccessibleName(f"Remove {file.name}")
        if not is_same:
            show_card_text(self.text, file, excerpt)

    def show_tokens(self, tokens: int | None) -> None:
        self.facts.setText(file_caption(self.file, tokens, self._excerpt))

    def pop_up(self, anchor: QWidget) -> None:
        pop_up_above(self, anchor)
        if self._pages.isHidden():
            self.text.setFocus()
        else:
            self.first.setFocus()
            self.first.selectAll()

    def _show_pages(self, file: Attachment) -> None:
        pages, known = file.pages, len(file.all_pages)
        self._pages.setVisible(pages is not None and known > 1)
        if pages is None or known < 2:
            return
        for field, value in ((self.first, pages.first), (self.last, pages.last)):
            with QSignalBlocker(field):
                field.setRange(1, known)
                field.setValue(value)
        self._of.setText(f"of {pages.total:,}")

    def _choose(self) -> None:
        first, last = self.first.value(), self.last.value()
        # The edited field keeps its value, and the other one follows it.
        if first > last:
            first, last = (first, first) if self.sender() is self.first else (last, last)
        chosen = self.file.with_pages(first, last)
        self.show_file(chosen, None)
        self.chosen.emit(chosen)

    def _choose_reading(self) -> None:
        chosen = replace(self.file, reading=self.reading.currentData(), sent_chars=None)
        self.show_file(chosen, None)
        self.chosen.emit(chosen)

    def _remove(self) -> None:
        self.hide()
        self.remove_requested.emit()

    def _lay_out(self) -> None:
        rescale(self._name, 1.05)
        row(QLabel("Pages"), self.first, QLabel("to"), self.last, self._of, STRETCH, on=self._pages)
        column(
            self._name,
            self.facts,
            self.remark,
            self._pages,
            self.text,
            row(self.remove, STRETCH, QLabel("Read"), self.reading, self.close_button, spacing=8),
            spacing=8,
            margins=14,
            on=self,
        )

    def _fit(self) -> None:
        available = self.screen().availableGeometry()
        self.setFixedWidth(min(560, available.width() - 40))
        height = min(300, available.height() // 2)
        self.text.setFixedHeight(height)
        self.text.setFont(fixed_font(self.font(), 0.95))


def _page_field(accessible_name: str) -> QSpinBox:
    field = QSpinBox()
    field.setAccessibleName(accessible_name)
    field.setToolTip(accessible_name)
    field.setKeyboardTracking(False)
    field.setMinimum(1)
    field.lineEdit().setTextMargins(8, 0, 8, 0)
    return field


def file_lines(file: Attachment, excerpt: Excerpt | None = None) -> list[str]:
    """Return the lines in which a sent file is searched."""
    return [file.name, *([] if file.kept_file else lines_of(card_text(file, excerpt)))]


def card_text(file: Attachment, excerpt: Excerpt | None) -> str:
    """Return the text that the card of a file shows: all of it, or the passages."""
    if excerpt is None or file.reading == "all":
        return shown_text(file.text)
    return shown_text(excerpt.as_file().text)


def show_card_text(
    view: QPlainTextEdit | FlowText, file: Attachment, excerpt: Excerpt | None
) -> None:
    """Show the text of a file, or its passages below their pages."""
    view.setPlainText(card_text(file, excerpt))
    labels = {f"[{passage.label}]" for passage in excerpt.passages} if excerpt else set()
    form = QTextCharFormat()
    form.setFontWeight(QFont.Weight.Bold)
    block = view.document().begin()
    while labels and block.isValid():
        if block.text() in labels:
            cursor = QTextCursor(block)
            cursor.select(QTextCursor.SelectionType.BlockUnderCursor)
            cursor.mergeCharFormat(form)
        block = block.next()


def shown_text(text: str) -> str:
    """Return a file's text, shortened to what the card shows."""
    left = len(text) - MAX_SHOWN_CHARS
    if left <= 0:
        return text.rstrip("\n")
    return f"{text[:MAX_SHOWN_CHARS]}\n\n… {left:,} more characters, which the model reads too"


class AttachmentRow(QWidget):
    """One chip for each file, with its size, its tokens, and a button that removes it."""

    changed = Signal()
    read_for_another = Signal(object, object)  # owner that is no longer shown, Attachment
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.owner: object = None  # the conversation of the files
        self.pictures_folder: Path | None = None
        self._tokens: Mapping[Attachment, int] = {}
        self._cuts: Mapping[Attachment, int] = {}
        self._excerpts: Mapping[str, Excerpt] = {}
        self.files: tuple[Attachment, ...] = ()
        reading = self._reading = list[ReadingFile]()
        self.destroyed.connect(lambda: _end_all(reading))
        self._turn = asyncio.Lock()
        self._preview: FilePreview | None = None
        self._chips = QWidget()
        self._flow = FlowLayout(self._chips)
        self._refusals = ""
        self.refusal = label("", "fault", is_wrapped=True)
        self.dismiss = IconButton("close", "Dismiss", size=14)
        self.dismiss.clicked.connect(lambda: self._show_refusal(""))
        self.dismiss.clicked.connect(self.left)
        column(self._chips, row((self.refusal, 1), self.dismiss, spacing=6), spacing=5, on=self)
        self._show()

    @property
    def is_reading(self) -> bool:
        """Whether a file for the message is still being read."""
        return any(file.owner is self.owner for file in self._reading)

    @property
    def preview(self) -> FilePreview:
        if self._preview is None:
            self._preview = FilePreview(self)
            self._preview.chosen.connect(self._choose_pages)
            self._preview.remove_requested.connect(self._remove_shown)
        return self._preview

    def take_from(self, field: GrowingInput) -> None:
        """Attach files, pictures and long texts that are pasted or dropped into a field."""
        field.files_given.connect(self.attach)
        field.picture_given.connect(self.add_picture)
        field.text_given.connect(self.add_pasted)
        self.left.connect(field.setFocus)

    def attach(self, paths: Iterable[Path]) -> None:
        self._show_refusal("")
        store = partial(store_picture, self.pictures_folder)
        self._begin(*(FileReader(path, store_picture=store) for path in paths))

    def _begin(self, *readers: FileReader | PastedPicture) -> None:
        for reader in readers:
            file = ReadingFile(self.owner, reader)
            self._reading.append(file)
            start_task(self, self._read(file), "read an attached file")
        self._on_changed()

    def end_reading(self) -> None:
        _end_all(self._reading)

    async def finish(self) -> None:
        """Stop all reading, and wait for its end."""
        self.end_reading()
        await finish_tasks(self)

    def add(self, file: Attachment) -> None:
        if file not in self.files:
            self.show_files((*self.files, file), self.owner)

    def add_pasted(self, text: str) -> None:
        """Add a long text that was pasted, as a file that can be seen, shortened and removed."""
        self.add(Attachment(self._unused_name("Pasted text"), text.replace("\r\n", "\n")))

    def _unused_name(self, name: str, suffix: str = "") -> str:
        known = {file.name for file in self.files} | {file.name for file in self._reading}
        names = (f"{name}{f' {n}' if n > 1 else ''}{suffix}" for n in range(1, len(known) + 2))
        return next(each for each in names if each not in known)

    def refuse(self, why: str) -> None:
        """Show why a file is not attached, below earlier reasons."""
        self._show_refusal("\n".join(filter(None, (self._refusals, why))))

    def add_picture(self, image: QImage) -> None:
        """Add a picture from the clipboard, such as a screenshot."""
        name = self._unused_name("Picture", ".png")
        self._begin(PastedPicture(name, image, self.pictures_folder))

    def show_files(self, files: Iterable[Attachment], owner: object = None) -> None:
        if owner is not self.owner:
            self._show_refusal("")
        self.files, self.owner = tuple(files), owner
        self._on_changed()

    def show_tokens(
        self, tokens: Mapping[Attachment, int], excerpts: Iterable[Excerpt] = ()
    ) -> None:
        self._tokens = tokens
        self._excerpts = {excerpt.document: excerpt for excerpt in excerpts}
        for number, file in enumerate(self.files):
            if (chip := self.chip(number)) is not None:
                self._show_on(chip, file)
        if self._preview is not None and self._preview.isVisible():
            file = self._preview.file
            self._preview.show_file(file, tokens.get(file), self._excerpt_of(file))

    def _show_on(self, chip: FileChip, file: Attachment) -> None:
        excerpt = self._excerpt_of(file)
        caption = file_caption(file, self._tokens.get(file), excerpt)
        chip.show_caption(caption, file_remark(file, excerpt))
        chip.offer_reading(other_reading(file, excerpt))

    def _excerpt_of(self, file: Attachment) -> Excerpt | None:
        return self._excerpts.get(Document.of(file).id) if self._excerpts else None

    def offer_cuts(self, cuts: Mapping[Attachment, int]) -> None:
        self._cuts = cuts
        for number, file in enumerate(self.files):
            if (chip := self.chip(number)) is None:
                continue
            if file in cuts:
                chip.offer_cut(is_cut=False)
            elif file.sent_chars is None:
                chip.cut.hide()

    def _cut(self, number: int) -> None:
        """Send only the beginning of a file, or all of it again."""
        file = self.files[number]
        self._replace(number, replace(file, sent_chars=self._cuts.get(file)))

    def _read_differently(self, number: int) -> None:
        """Read passages of a document instead of all, or the reverse."""
        file = self.files[number]
        reading = other_reading(file, self._excerpt_of(file))
        self._replace(number, replace(file, reading=reading, sent_chars=None))

    def _replace(self, number: int, file: Attachment) -> None:
        self.files = (*self.files[:number], file, *self.files[number + 1 :])
        self._on_changed()

    def clear(self) -> None:
        self._show_refusal("")
        self.show_files((), self.owner)

    def choose(self) -> None:
        choose_files(self, "Attach Files", self.attach).finished.connect(self.left)

    def chip(self, number: int) -> FileChip | None:
        item = self._flow.itemAt(number)
        widget = None if item is None else item.widget()
        return widget if isinstance(widget, FileChip) else None

    async def _read(self, file: ReadingFile) -> None:
        """Read a file once those before it have been read, unless it is removed until then."""
        attachment, refusal = None, ""
        async with self._turn:
            if file in self._reading:
                try:
                    attachment = await asyncio.to_thread(file.reader.read)
                except FileRefused as error:
                    refusal = str(error)
                except HelperClosed:
                    pass
        if file not in self._reading:
            return
        self._reading.remove(file)
        if attachment is not None and file.owner is not self.owner:
            self.read_for_another.emit(file.owner, attachment)
        elif attachment is not None and attachment not in self.files:
            self.files = (*self.files, attachment)
        elif refusal:
            self.refuse(refusal)
        self._on_changed()

    def _stop_reading(self, file: ReadingFile) -> None:
        file.reader.close()
        self._reading.remove(file)
        self._on_changed()

    def _open(self, number: int) -> None:
        file, chip = self.files[number], self.chip(number)
        if file.kept_file and self.pictures_folder is not None:
            show_picture(self, file.name, self.pictures_folder / file.kept_file)
        elif chip is not None:
            self.preview.show_file(file, self._tokens.get(file), self._excerpt_of(file))
            self.preview.pop_up(chip)

    def _choose_pages(self, chosen: Attachment) -> None:
        self.files = tuple(
            chosen if file.all_pages is chosen.all_pages and file.name == chosen.name else file
            for file in self.files
        )
        self._on_changed()

    def _remove_shown(self) -> None:
        if self.preview.file in self.files:
            self._remove(self.files.index(self.preview.file))

    def _remove(self, number: int) -> None:
        had_focus = self._has_focus()
        self.files = self.files[:number] + self.files[number + 1 :]
        self._on_changed()
        following = self.chip(min(number, len(self.files) - 1)) if self.files else None
        if had_focus and following is not None:
            following.setFocus()

    def _on_changed(self) -> None:
        had_focus = self._has_focus()
        self._show()
        if had_focus and not self._has_focus():
            self.left.emit()  # the chip that had the focus is gone
        self.changed.emit()

    def _has_focus(self) -> bool:
        focused = QApplication.focusWidget()
        return focused is not None and focused.isVisible() and self.isAncestorOf(focused)

    def _show_refusal(self, refusal: str) -> None:
        self._refusals, reasons = refusal, refusal.split("\n")
        names = [reason[: reason.find("”") + 1] for reason in reasons]
        if len(reasons) > 1 and all(names):
            text = f"{', '.join(names[:-1])} and {names[-1]} can’t be attached."
            self.refusal.setText(text)
            self.refusal.setToolTip(plain_tooltip(refusal))
        else:
            self.refusal.setText(refusal)
            self.refusal.setToolTip("")
        self.refusal.setAccessibleName(refusal)
        self._show_rows()

    def _show(self) -> None:
        clear_layout(self._chips.layout())
        for number, file in enumerate(self.files):
            self._flow.addWidget(self._chip_of(number, file))
        for reading in self._reading:
            if reading.owner is self.owner:
                self._flow.addWidget(self._chip_of_reading(reading))
        self._show_rows()

    def _show_rows(self) -> None:
        self._chips.setVisible(self._flow.count() > 0)
        has_refusal = bool(self.refusal.text())
        self.refusal.setVisible(has_refusal)
        self.dismiss.setVisible(has_refusal)
        self.setVisible(self._flow.count() > 0 or has_refusal)

    def _chip_of(self, number: int, file: Attachment) -> FileChip:
        chip = FileChip(file.name, "", "close", f"Remove {file.name}")
        self._show_on(chip, file)
        chip.take_keys()
        if file.kept_file and self.pictures_folder is not None:
            chip.show_picture(self.pictures_folder / file.kept_file)
        if file.sent_chars is not None:
            chip.offer_cut(is_cut=True)
        chip.cut.clicked.connect(lambda: self._cut(number))
        chip.reading.clicked.connect(lambda: self._read_differently(number))
        chip.entries = lambda: [
            Command("Open", partial(self._open, number)),
            *file_entries(self, file, self.pictures_folder),
            *(
                Command(button.text(), button.click)
                for button in (chip.cut, chip.reading)
                if not button.isHidden()
            ),
            None,
            Command("Remove", partial(self._remove, number)),
        ]
        chip.opened.connect(lambda: self._open(number))
        chip.removed.connect(lambda: self._remove(number))
        chip.button.clicked.connect(lambda: self._remove(number))
        return chip

    def _chip_of_reading(self, reading: ReadingFile) -> FileChip:
        chip = FileChip(reading.name, "reading…", "close", f"Stop reading {reading.name}")
        chip.button.clicked.connect(lambda: self._stop_reading(reading))
        reading.progressed.connect(chip.show_progress)
        return chip


class AttachedFile(QWidget):
    """The chip, with the unfolded text below it."""

    unfolded = Signal(bool)  # whether the text is shown
    picture_requested = Signal(object)  # Attachment
    reading_requested = Signal(str, str)  # id of a document, Reading

    def __init__(self, file: Attachment, excerpt: Excerpt | None = None) -> None:
        super().__init__()
        self._file = file
        self._excerpt = excerpt
        self.text_view: FlowText | None = None
        self.picture: QPushButton | None = None
        self._size = QSize()  # of the whole picture
        if file.kept_file:
            icon, accessible_name = "detach", f"Open {file.name}"
        else:
            icon, accessible_name = "chevron-right", f"Show the text of {file.name}"
        kind = "picture" if file.kept_file and not file.is_sound else "report"
        self.chip = FileChip(file.name, "", icon, accessible_name, kind)
        self.show_excerpt(file, excerpt)
        self._column = column((self.chip, 0, Qt.AlignmentFlag.AlignLeft), spacing=5, on=self)
        self.pictures_folder: Path | None = None
        self.chip.entries = lambda: [
            Command("Open" if self._file.kept_file else self._fold_title, self._open),
            *file_entries(self, self._file, self.pictures_folder),
        ]
        self.chip.opened.connect(self._open)
        self.chip.button.clicked.connect(self._open)
        self.chip.reading.clicked.connect(self._read_differently)

    def show_excerpt(self, file: Attachment, excerpt: Excerpt | None) -> None:
        """Show which passages were read of a document; all of it without any."""
        is_other = (file, excerpt) != (self._file, self._excerpt)
        self._file, self._excerpt = file, excerpt
        if excerpt is None:
            self.chip.show_caption(file_caption(file))
        else:
            next_time = "All of it is read from now on." if file.reading == "all" else ""
            self.chip.show_caption(excerpt.sentence, f"{excerpt.remark} {next_time}".strip())
        # A folder's document may be far longer than any context.
        self.chip.offer_reading(other_reading(file, excerpt) if file.text else "")
        if is_other and self.text_view is not None:
            show_card_text(self.text_view, file, excerpt)

    def _read_differently(self) -> None:
        reading = other_reading(self._file, self._excerpt)
        self.reading_requested.emit(Document.of(self._file).id, reading)

    @property
    def is_unfolded(self) -> bool:
        return self.text_view is not None and not self.text_view.isHidden()

    @property
    def _fold_title(self) -> str:
        return "Hide Text" if self.is_unfolded else "Show Text"

    def searched_parts(self) -> list[SearchedPart]:
        """Return the views of ``file_lines``."""
        if self._file.kept_file:
            return [SearchedLabel(self.chip.name)]
        whole = card_text(self._file, self._excerpt)
        text = SearchedText(self.text_view, self.chip.button, whole=whole)
        return [SearchedLabel(self.chip.name), text]

    def show_picture(self, folder: Path) -> None:
        """Show the picture above its name, once it is read; nothing if it cannot be shown."""
        self.pictures_folder = folder
        if self._file.kept_file and not self._file.is_sound:
            start_task(self, self._show_picture(folder / self._file.kept_file), "show a picture")

    async def _show_picture(self, path: Path) -> None:
        line_px = self.fontMetrics().height()
        image = await asyncio.to_thread(picture_from, path, QSizeF(22 * line_px, 16 * line_px))
        if image is None or not shiboken6.isValid(self):
            return
        shown = picture_button(self._file.name, image)
        shown.clicked.connect(self._open)
        self._column.insertWidget(0, shown)
        self.chip.become_caption()
        self.picture, self._size = shown, shown.iconSize()
        self.unfolded.emit(True)

    @property
    def picture_px(self) -> int:
        """The width of the whole picture."""
        return self._size.width() + 2

    def fit(self, width: int) -> None:
        """Take a width; a picture is no wider than that."""
        self.setFixedWidth(width)
        if self.picture is not None:
            available = QSize(min(width - 2, self._size.width()), self._size.height())
            fit_picture(
                self.picture, self._size.scaled(available, Qt.AspectRatioMode.KeepAspectRatio)
            )

    def _open(self) -> None:
        if self._file.kept_file:
            self.picture_requested.emit(self._file)
        else:
            self._toggle()

    def _toggle(self) -> None:
        is_shown = not self.is_unfolded
        if self.text_view is None:
            self.text_view = self._made_view()
        self.text_view.setVisible(is_shown)
        icon, verb = ("chevron-down", "Hide") if is_shown else ("chevron-right", "Show")
        self.chip.button.show_icon(icon, f"{verb} the text of {self._file.name}")
        self.unfolded.emit(is_shown)

    def _made_view(self) -> FlowText:
        view = FlowText()
        view.setFont(fixed_font(self.font(), 0.95))
        show_card_text(view, self._file, self._excerpt)
        view.setAccessibleName(f"Text of {self._file.name}")
        layout = self.layout()
        assert layout is not None
        layout.addWidget(view)
        return view
