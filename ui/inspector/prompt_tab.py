"""The tab of the prompt: its text, the part of the request that made each piece, and the rest.

Main thread. It reads and renders only while it is visible.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtGui import QColor, QStandardItem, QStandardItemModel, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QListView, QTextEdit

from engine.errors import EngineError
from engine.values.events import CacheMiss, PromptPart, Usage
from engine.values.figures import describe_difference
from engine.values.no_effect import plain_name
from engine.values.request import GenerationRequest
from engine.values.unanswered_prompt import Part, PictureTokens, UnansweredPrompt
from engine.wording import counted
from ui.inspector.inspector import Inspector
from ui.inspector.pages import InspectorTab, align
from ui.inspector.shown_run import ShownRun
from ui.kit.labels import label, plain_tooltip
from ui.kit.layouts import column, row
from ui.kit.markdown.pictures import picture_size
from ui.kit.rows import CONTENT, RowContent, RowDelegate, RowPart
from ui.kit.tasks import start_task
from ui.kit.theme import current_theme, fixed_font
from ui.records.facts import FACTS_BEGIN
from ui.records.passages import marks_of
from ui.words import describe_error

# A text view lays this many tokens out within a frame.
_MAX_TOKENS = 20_000
_LIST_CHARS = 46
_FIELD = re.compile(r"messages\.(\d+)\.(content|reasoning_content|tool_calls\.(\d+))(.*)")
_TOOL = re.compile(r"tools\.(.+?)(\.description)?( \(in part\))?")
_OTHERS = {
    "tools": "Tools",
    "answer_opening": "Opening of the answer",
    "begun": "Beginning of the answer",
}
_IMAGE = " (image)"
_PASSAGE = " (passage)"
_SPOKEN = {_IMAGE: "image placeholder", " (in part)": "{}, in part"}
_DIFFERS = 3
_NO_BAND = (1 << 62, 1 << 62, None)
_PART = Qt.ItemDataRole.UserRole + 1

_MISSES = {
    CacheMiss.NOTHING_STORED: "no earlier prompt was stored",
    CacheMiss.OTHER_BEGINNING: "the stored prompts begin with other tokens",
    CacheMiss.ON_DISK: "the rest was on disk, and was not read from there",
    CacheMiss.NO_SNAPSHOT: "an earlier prompt has more of these tokens, but this model can go on "
    "only from a snapshot, and there is none in between",
    CacheMiss.EVICTED: "an earlier prompt had more of these tokens, but the memory for cached "
    "prompts was needed for others",
    CacheMiss.SCORED: "the model had to read these tokens to score them",
}


def _reused(usage: Usage | None) -> str:
    """Return in words how many tokens came from a cache and from which; if none, why."""
    if usage is None:
        return "."
    text = "."
    if usage.cached_tokens:
        source = "on disk" if usage.disk_tokens else "in memory"
        text = f"; the first {usage.cached_tokens:,}, in gray, came from the cache {source}."
    if usage.cache_miss is not None:
        amount = "Nothing more" if usage.cached_tokens else "Nothing"
        text += f" {amount} came from the cache: {_MISSES[usage.cache_miss]}."
    if (difference := usage.prompt_difference) is not None:
        here, before = (" ".join(part.split()) for part in (difference.here, difference.before))
        text += f" {describe_difference(difference)}, after {difference.token_index:,} tokens"
        text += " that are equal"
        text += f": “{here}” here, “{before}” before." if here or before else "."
    return text


def _left_out(shown: ShownRun | None) -> str:
    """Return as a sentence how many messages a run's prompt was without."""
    left_out = None if shown is None else shown.run.left_out
    if left_out is None:
        return ""
    messages = counted(left_out.messages, "earlier message")
    what = "went as a summary" if left_out.is_summarized else "did not go"
    return f" {messages} {what}: the context holds {counted(left_out.context, 'token')}."


def _tone(part: Part) -> str:
    """Return the name of a part's color in ``Colors``; that of its band is the soft one."""
    match part.kind:
        case PromptPart.SYSTEM:
            return "limit"
        case PromptPart.TOOLS:
            return "tool"
        case PromptPart.THINKING | PromptPart.ANSWER_OPENING:
            return "quiet"
        case _ if part.field.endswith(_IMAGE):
            return "limit"
        case _ if part.field.endswith(_PASSAGE):
            return "tool"
        case _:
            return {"user": "match", "tool": "tool"}.get(part.role, "done")


def _outer_field(part: Part) -> str:
    """Return the field of the message that a picture or a passage is in."""
    return part.field.removesuffix(_IMAGE).removesuffix(_PASSAGE)


@dataclass(frozen=True)
class _Reading:
    """A run's prompt, and the character at which each of its tokens starts."""

    shown: ShownRun
    request: GenerationRequest
    prompt: UnansweredPrompt
    starts: Sequence[int]

    def token_at(self, char: int) -> int:
        return bisect_left(self.starts, char)

    def count(self, part: Part) -> int:
        return self.token_at(part.end) - self.token_at(part.start)

    def name_of(self, field: str) -> str:
        """Return a part of the request in words, such as ``Thinking of message 2``."""
        if field in _OTHERS:
            return _OTHERS[field]
        if (tool := _TOOL.fullmatch(field)) is not None:
            kind = "Description of tool" if tool[2] else "Tool"
            return f"{kind} {tool[1]}{', in part' if tool[3] else ''}"
        found = _FIELD.fullmatch(field)
        if found is None:
            return field
        message, number = self.request.messages[int(found[1])], self._numbers[int(found[1])]
        name = "system text" if message.role == "system" else f"message {number} ({message.role})"
        is_facts = message.role == "system" and message.content.startswith(FACTS_BEGIN)
        if is_facts and self.shown.source not in ("request", "file"):
            name = "kept facts"
        if found[2] == "reasoning_content":
            name = f"thinking of message {number}"
        elif found[3] is not None:
            name = f"call of {message.tool_calls[int(found[3])].name} in message {number}"
        name = _SPOKEN.get(found[4], "{}").format(name)
        return name[0].upper() + name[1:]

    @cached_property
    def _numbers(self) -> list[int]:
        """The number of each message, without those of the system."""
        return list(accumulate(int(turn.role != "system") for turn in self.request.messages))

    @cached_property
    def pictures(self) -> dict[Part, PictureTokens]:
        """A part for each picture, of the message whose placeholders they are."""
        images = [part for part in self.prompt.parts if part.field.endswith(_IMAGE)]
        whole = Part(PromptPart.PICTURE, 0, "", 0, len(self.prompt.text), _IMAGE)
        found: dict[Part, PictureTokens] = {}
        for picture in self.prompt.pictures:
            start = self.starts[picture.first]
            end = self.starts[picture.last] + len(self.prompt.pieces[picture.last])
            about = next((part for part in images if part.start <= start < part.end), whole)
            found[about._replace(start=start, end=end)] = picture
        return found

    @cached_property
    def parts(self) -> Sequence[Part]:
        """The parts in order; a picture comes behind its message."""
        starts = [picture.start for picture in self.pictures]
        others = (
            part
            for part in self.prompt.parts
            if not part.field.endswith(_IMAGE)
            or not any(part.start <= start < part.end for start in starts)
        )
        inner = (*self.pictures, *self.passages)
        return sorted((*others, *inner), key=lambda part: part.start)

    @cached_property
    def passages(self) -> dict[Part, str]:
        """The name of each passage of a document."""
        text = "".join(self.prompt.pieces)
        return {
            part._replace(
                start=part.start + start, end=part.start + end, field=part.field + _PASSAGE
            ): name
            for part in self.prompt.parts
            if part.role == "user"
            for start, end, name in marks_of(text[part.start : part.end])
        }

    def name_of_picture(self, picture: PictureTokens) -> str:
        size = picture_size(self.request.all_pictures[picture.picture].data)
        return f"Picture {size.width():,} × {size.height():,}"

    @property
    def usage(self) -> Usage | None:
        finished = self.shown.run.finished
        return None if finished is None else finished.usage

    @property
    def has_changed(self) -> bool:
        """Whether the request was answered to other tokens than it has now."""
        trace = self.shown.trace
        sent = [] if trace is None else list(trace.rendered)
        return self.prompt.tokens[: len(sent)] != sent

    @property
    def difference(self) -> Part | None:
        """The first token that differs from an earlier prompt; None if nothing was read again."""
        found = None if self.usage is None else self.usage.prompt_difference
        if found is None or self.has_changed or found.token_index >= len(self.starts):
            return None
        start = self.starts[found.token_index]
        end = start + len(self.prompt.pieces[found.token_index])
        return Part(found.part, found.message, found.role, start, end, "difference")

    @property
    def no_effect(self) -> tuple[str, ...]:
        """The parts of the request without effect, as its client spelled them."""
        if self.shown.no_effect is not None:
            return self.shown.no_effect
        finished = self.shown.run.finished
        recorded = () if finished is None else finished.details.no_effect
        return recorded or tuple(map(plain_name, self.prompt.not_applied))


def _location(picture: PictureTokens) -> str:
    """Return in words where a picture is in a prompt."""
    text = f"Indices {picture.first:,}–{picture.last:,}"
    if picture.first == picture.last:
        text = f"Index {picture.first:,}"
    if picture.grid is None or picture.positions is None:
        return text
    rows, columns = picture.grid
    low, high = picture.positions[0][0], max(picture.positions[1])
    return f"{text}, {rows} × {columns} at positions {low:,}–{high:,}"


def _corners(picture: PictureTokens) -> str:
    """Return the positions of a picture's first and last token; empty where they are indices."""
    if picture.positions is None:
        return ""
    first, last = (", ".join(f"{each:,}" for each in at) for at in picture.positions)
    return f": ({first}) to ({last}) in time, height and width"


class PartList(QListView):
    """What of a request is in no part of its prompt, options without effect, and the parts."""

    def __init__(self, choose: Callable[[Part], None]) -> None:
        super().__init__()
        self._choose = choose
        self.rows = QStandardItemModel(self)
        self.setModel(self.rows)
        self.setAccessibleName("Parts of the prompt")
        self.setProperty("kind", "rows")
        self.setItemDelegate(RowDelegate(self))
        self.setEditTriggers(QListView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setFixedWidth(self.fontMetrics().averageCharWidth() * _LIST_CHARS)
        self.selectionModel().currentChanged.connect(self._emit)
        self.clicked.connect(self._emit)

    def show_reading(self, reading: _Reading) -> None:
        colors, prompt = current_theme().colors, reading.prompt
        with QSignalBlocker(self.selectionModel()):
            self.rows.clear()
        if (difference := reading.difference) is not None and reading.usage is not None:
            assert reading.usage.prompt_difference is not None
            again, _, cause = describe_difference(reading.usage.prompt_difference).partition(": ")
            self._add_heading("Read again", "Tokens")
            mark = RowPart(cause[0].upper() + cause[1:], icon="mark", icon_color=colors.fault)
            self._add(mark, again, again.split()[0], difference)
        if prompt.missing:
            self._add_heading("In no part of the prompt")
        for field in prompt.missing:
            name = reading.name_of(field)
            self._add(RowPart(name, icon="warning", icon_color=colors.limit), field)
        if reading.no_effect:
            self._add_heading("No effect")
        for name in reading.no_effect:
            field, _, reason = name.partition(" (")
            mark = RowPart(field, icon="warning", icon_color=colors.limit)
            self._add(mark, reason.removesuffix(")"), reason=reason.removesuffix(")"))
        if reading.parts:
            self._add_heading("Parts of the prompt", "Tokens")
        own, fields = len(prompt.tokens), {part.field for part in prompt.parts}
        for part in reading.parts:
            count = reading.count(part)
            is_inner = _outer_field(part) != part.field and _outer_field(part) in fields
            own -= 0 if is_inner else count
            mark = RowPart(icon="mark", icon_color=getattr(colors, _tone(part)))
            inset_px = 14 * is_inner
            if (picture := reading.pictures.get(part)) is None:
                name = reading.passages.get(part) or reading.name_of(part.field)
                mark = replace(mark, text=name)
                about, reason = counted(count, "token"), ""
            else:
                mark = replace(mark, text=reading.name_of_picture(picture))
                count, reason = picture.tokens, _location(picture)
                corners = _corners(picture)
                about = f"{counted(count, 'token')}, {reason}{corners}"
            self._add(mark, about, f"{count:,}", part, inset_px, reason)
        if prompt.parts:
            finished = reading.shown.run.finished
            is_users = finished is not None and finished.details.has_user_template
            name = f"Text of {'your' if is_users else 'the'} template"
            mark = RowPart(name, colors.muted, "mark", colors.faint)
            self._add(mark, counted(own, "token"), f"{own:,}")
        self.setVisible(bool(self.rows.rowCount()))

    def mark(self, part: Part | None) -> None:
        """Select a part's row without choosing it."""
        for number in range(self.rows.rowCount()):
            index = self.rows.index(number, 0)
            if part is not None and index.data(_PART) == part:
                with QSignalBlocker(self.selectionModel()):
                    self.setCurrentIndex(index)
                self.viewport().update()

    def _add_heading(self, text: str, right: str = "") -> None:
        item = QStandardItem(text)
        item.setFlags(Qt.ItemFlag.NoItemFlags)
        title = RowPart(text, current_theme().colors.muted)
        item.setData(RowContent(title, right=RowPart(right), has_ground=False), CONTENT)
        self.rows.appendRow(item)

    def _add(
        self,
        title: RowPart,
        about: str,
        right: str = "",
        part: Part | None = None,
        inset_px: int = 0,
        reason: str = "",
    ) -> None:
        item = QStandardItem(", ".join(filter(None, (title.text, about))))
        item.setToolTip(plain_tooltip(item.text()))
        content = RowContent(
            title, right=RowPart(right), subtitle=RowPart(reason), inset_px=inset_px
        )
        item.setData(content, CONTENT)
        item.setData(part, _PART)
        self.rows.appendRow(item)

    def _emit(self) -> None:
        part = self.currentIndex().data(_PART)
        if isinstance(part, Part):
            self._choose(part)


class PromptTab(InspectorTab):
    """The rendered template with a band for each part; special tokens marked, cached ones gray."""

    title = "Prompt"
    without_trace = "The prompt of this run was not recorded."

    def __init__(self, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self._reading: _Reading | None = None
        self._first = 0  # the first token on the page
        self._places: dict[Part, tuple[int, int]] = {}  # positions in the document
        self.note = label("", "muted", 0.95, is_wrapped=True)
        self.page = QTextEdit()
        align(self.page)
        self.page.setReadOnly(True)
        self.page.setAccessibleName("The prompt as the model read it")
        self.page.setFont(fixed_font(self.page.font(), 1.0))
        self.list = PartList(self._show_part)
        self.list.hide()
        self.page.cursorPositionChanged.connect(self._mark_part)
        column(
            self.note,
            (row((self.page, 1), self.list, spacing=8), 1),
            spacing=8,
            margins=(0, 12, 0, 0),
            on=self,
        )

    def show_run(self, shown: ShownRun | None) -> None:
        self.page.clear()
        self.list.hide()
        super().show_run(shown)

    def refresh(self) -> None:
        shown = self._inspector.shown
        if shown is None:
            self.note.setText("No answer selected.")
        elif shown.request is None:
            self._reading = None
            self.note.setText(
                "The prompt of this run was not kept: its tokens were not recorded, or have been "
                "forgotten."
            )
        elif self._reading is not None and shown is self._reading.shown:
            self._fill()
        else:
            self.note.setText("Reading the prompt…")
            start_task(self, self._read(shown, shown.request), "read a prompt")

    async def _read(self, shown: ShownRun, request: GenerationRequest) -> None:
        try:
            prompt = await self._inspector.engine.render_prompt(request)
        except EngineError as error:
            if self._inspector.shown is shown:
                self.note.setText(f"It cannot be shown now. {describe_error(error)}")
            return
        if self._inspector.shown is shown:
            starts, length = [], 0
            for piece in prompt.pieces:
                starts.append(length)
                length += len(piece)
            self._reading = _Reading(shown, request, prompt, starts)
            self._first = max(0, len(prompt.tokens) - _MAX_TOKENS)
            self._fill()
            if (difference := self._reading.difference) is not None:
                self._show_part(difference)

    def _fill(self) -> None:
        reading = self._reading
        self.page.clear()
        if reading is None or self._inspector.shown is not reading.shown:
            return
        usage = reading.usage
        count = counted(len(reading.prompt.tokens), "token")
        remarks = (_left_out(reading.shown), _parts_remark(reading))
        self.note.setText(f"{count}, special ones in blue{_reused(usage)}{''.join(remarks)}")
        self.list.show_reading(reading)
        self._write(reading, 0 if usage is None else usage.cached_tokens)

    def _write(self, reading: _Reading, cached: int) -> None:
        """Write as many tokens as a page shows."""
        pieces, first = reading.prompt.pieces, self._first
        last = min(first + _MAX_TOKENS, len(pieces))
        colors = current_theme().colors
        plain, old, special = (QTextCharFormat() for _ in range(3))
        plain.setForeground(QColor(colors.text))
        old.setForeground(QColor(colors.muted))
        special.setForeground(QColor(colors.tool))
        differing = QTextCharFormat()
        differing.setForeground(QColor(colors.fault))
        differing.setFontUnderline(True)
        cursor = QTextCursor(self.page.document())
        cursor.beginEditBlock()
        if first:
            cursor.insertText(f"… {counted(first, 'token')} before these\n", old)
        self._places.clear()
        fields = {part.field: part for part in reading.prompt.parts}
        spans = _spans(reading, first, last, cached)
        for (look, part), group in groupby(spans, key=lambda span: span[:2]):
            form = QTextCharFormat((special, old, plain, differing)[look])
            begin = cursor.position()
            if part is not None:
                form.setBackground(QColor(getattr(colors, f"{_tone(part)}_soft")))
            if look == _DIFFERS:
                form.setBackground(QColor(colors.fault_soft))
            text = "".join(text for _, _, text in group)
            if part is not None and (picture := reading.pictures.get(part)) is not None:
                chip = f"⟦{reading.name_of_picture(picture)}, {counted(picture.tokens, 'token')}⟧"
                text = "" if part in self._places else chip
            cursor.insertText(text, form)
            if look == _DIFFERS and (difference := reading.difference) is not None:
                self._places[difference] = begin, cursor.position()
            outer = None if part is None else fields.get(_outer_field(part))
            for each in dict.fromkeys(
                filter(None, (part, outer))
            ):  # a placeholder is a piece of its message, too
                start = self._places.get(each, (begin, 0))[0]
                self._places[each] = start, cursor.position()
        if last < len(pieces):
            cursor.insertText(f"\n… {counted(len(pieces) - last, 'token')} after these", old)
        cursor.endEditBlock()

    def _show_part(self, part: Part) -> None:
        """Select a part's text and scroll to it."""
        reading = self._reading
        if reading is None:
            return
        begin = reading.token_at(part.start)
        if not self._first <= begin < self._first + _MAX_TOKENS:
            self._first = max(0, min(begin, len(reading.prompt.tokens) - _MAX_TOKENS))
            with QSignalBlocker(self.page):
                self._fill()
            self.list.mark(part)
        if part not in self._places:  # nothing of its text was written
            return
        start, end = self._places[part]
        cursor = self.page.textCursor()
        with QSignalBlocker(self.page):
            cursor.setPosition(end)
            cursor.setPosition(start, QTextCursor.MoveMode.KeepAnchor)
            self.page.setTextCursor(cursor)
        self.page.ensureCursorVisible()

    def _mark_part(self) -> None:
        """Select the row of the part that the text cursor is in."""
        if self.page.hasFocus():
            at = self.page.textCursor().selectionStart()
            inside = [part for part, (start, end) in self._places.items() if start <= at < end]
            self.list.mark(max(inside, key=lambda part: part.start, default=None))


def _parts_remark(reading: _Reading) -> str:
    """Return a sentence about the parts where their list cannot show it."""
    prompt = reading.prompt
    if reading.has_changed:
        return (
            " The answer was given to other tokens: its model, chat template or date was another "
            "one."
        )
    if reading.request.prompt is not None:
        return "" if reading.pictures else " A raw prompt has no parts."
    if not prompt.parts:
        return " Its parts are not known: the chat template refuses the marks that find them."
    return "" if prompt.missing else " Nothing of the request is missing in it."


def _spans(
    reading: _Reading, first: int, last: int, cached: int
) -> Iterator[tuple[int, Part | None, str]]:
    """Yield texts with their look (special, cached, plain, differing) and their part."""
    shown, prompt = reading.shown, reading.prompt
    vocabulary = None if shown.trace is None else shown.trace.vocabulary
    special = {} if vocabulary is None else vocabulary.special
    bands, difference = _bands(reading.parts), reading.difference
    place = 0
    for position in range(first, last):
        text, start = prompt.pieces[position], reading.starts[position]
        look = 0 if prompt.tokens[position] in special else 1 if position < cached else 2
        if difference is not None and difference.start == start and text:
            look = _DIFFERS
        while text:
            while place < len(bands) and bands[place][1] <= start:
                place += 1
            begin, end, part = bands[place] if place < len(bands) else _NO_BAND
            is_inside = begin <= start
            size = min((end if is_inside else begin) - start, len(text))
            yield look, part if is_inside else None, text[:size]
            text, start = text[size:], start + size


def _bands(parts: Sequence[Part]) -> list[tuple[int, int, Part | None]]:
    """Return the bands of parts in order, those of inner ones in place of the outer."""
    bands: list[tuple[int, int, Part | None]] = []
    for part in parts:
        rest: list[tuple[int, int, Part | None]] = []
        if bands and part.start < bands[-1][1]:
            begin, end, outer = bands.pop()
            bands.append((begin, part.start, outer))
            rest = [(part.end, end, outer)]
        bands += [(part.start, part.end, part), *rest]
    return bands
