"""A window that checks an answer of any server: paste or open it to see its faults.

Main thread.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from PySide6.QtCore import QMimeData, Qt, QTimer
from PySide6.QtWidgets import (
    QPlainTextEdit,
    QPushButton,
    QSplitter,
    QWidget,
)

from api.conformance.captures.diagnosis import as_text, diagnose, has_faults
from api.conformance.captures.sources import MAX_BYTES, captures_of, decode
from api.conformance.captures.values import Capture, Finding, Severity, WireDialect
from engine.wording import counted, quoted, visible
from ui.inspector.pages import ReadingPage, align
from ui.kit.buttons import push_button
from ui.kit.colors import Colors
from ui.kit.dialogs import choose_file
from ui.kit.fields import FileDrops, TextArea
from ui.kit.html import (
    BREAK,
    Html,
    badge,
    cell,
    code,
    colored,
    joined,
    paragraph,
    strong,
    table,
    visible_lines,
    with_code_spans,
)
from ui.kit.labels import label, show_text
from ui.kit.layouts import column, row
from ui.kit.menus import copied_text, copy_from
from ui.kit.tasks import cancel_tasks, finish_tasks, read_text, start_task
from ui.kit.theme import current_theme, fixed_font, restyle
from ui.kit.windows import OwnWindow
from ui.kit.wire_text import WireHighlighter, wire_html
from ui.words import FileRefused, unescaped

# Each row takes time to lay out, so a long stream shows only both ends and the faulty events.
FIRST_EVENTS, LAST_EVENTS = 24, 16
MAX_FINDINGS = 50
MAX_SHOWN_CHARS = 4_000
_DIALECTS = {WireDialect.CHAT: "Chat Completions"}
_LABELS = {Severity.ERROR: "Fault", Severity.WARNING: "Suspicious", Severity.NOTE: "Note"}
_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}

# A text view takes seconds to lay out megabytes: the field gets only the first part of an answer.
SHOWN_CHARS = 60_000
_LENGTH, _CALL = "Reached the token limit", "Called a tool"
# By a reason in any dialect.
_ENDS = {
    "stop": "Ended by the model or a stop",
    "end_turn": "Ended by the model",
    "completed": "Ended by the model or a stop",
    "stop_sequence": "Stopped by a stop sequence",
    "length": _LENGTH,
    "max_tokens": _LENGTH,
    "max_output_tokens": _LENGTH,
    "tool_calls": _CALL,
    "tool_use": _CALL,
    "content_filter": "Cut by a content filter",
    "refusal": "Refused by the model",
}
_READING = "read a capture"
_HINT = """Paste an answer here, or drop a file:

·  JSON body
·  Server-sent events or NDJSON
·  Output of curl -i or -v
·  HAR of a browser

Where the request comes first, the stops are read from it."""
_PURPOSE = "See why an answer of any server ended, and what is wrong with it."
_EXAMPLE = r"""curl http://127.0.0.1:8080/v1/chat/completions -d '{"model": "example",
  "stream": true, "messages": [{"role": "user", "content": "Name two fruits."}],
  "stop": ["\n\nUser:"]}'

data: {"id": "1", "object": "chat.completion.chunk", "model": "example", "choices":
data:  [{"index": 0, "delta": {"role": "assistant", "content": "Apples "}, "finish_reason": null}]}

data: {"id": "1", "object": "chat.completion.chunk", "model": "example", "choices":
data:  [{"index": 0, "delta": {"content": "and pears.\n\nUser: "}, "finish_reason": null}]}

data: {"id": "1", "object": "chat.completion.chunk", "model": "example", "choices":
data:  [{"index": 0, "delta": {"content": "Thanks"}, "finish_reason": null}]}

data: {"id": "1", "object": "chat.completion.chunk", "model": "example", "choices":
data:  [{"index": 0, "delta": {}, "finish_reason": "stop"}]}

data: [DONE]
"""


@dataclass(frozen=True, slots=True)
class CapturedAnswers:
    """The answers of a captured text: the one to show, and the faults of all."""

    capture: Capture
    number: int = 0
    count: int = 1
    findings: tuple[Finding, ...] = ()
    report: str = ""
    stops: tuple[str, ...] = ()  # requested, as the user entered them

    @property
    def is_answer(self) -> bool:
        return self.capture.dialect is not None

    @property
    def title(self) -> str:
        """The format of the answer, in one line; without one, the first finding has the reason."""
        capture = self.capture
        if capture.dialect is None:
            return "The format was not recognized."
        form = "not streamed"
        if capture.is_streamed:
            form = f"streamed in {counted(len(capture.events), 'event')}"
        name = _DIALECTS.get(capture.dialect, capture.dialect.value.capitalize())
        among = f"Answer {self.number + 1} of {self.count}: " if self.count > 1 else ""
        return f"{among}{name}, {form}"

    @property
    def result(self) -> str:
        """Why the answer ended, and how many faults were found."""
        count = sum(finding.severity is Severity.ERROR for finding in self.findings)
        faults = counted(count, "fault") if count else "no faults"
        return f"{_end_text(self.capture)} · {faults}"


def _end_text(capture: Capture) -> str:
    """Return why an answer ended, as far as it says, with its own word for that."""
    if capture.verdict is not None:
        return capture.verdict
    if capture.reason is None:
        return "No reason given"
    if isinstance(capture.matched, str):
        return f"Stopped by {quoted(capture.matched, 40)} ({capture.reason})"
    return f"{_ENDS.get(capture.reason, 'Ended')} ({capture.reason})"


def read_capture(text: str, stops: Sequence[str] = ()) -> CapturedAnswers:
    """Read captured answers; of several, the first one with an error is shown, or the first one.

    Takes a while for a long text.
    """
    judged = [
        (answer, diagnose(answer, tuple(stops)))
        # ``fullstop inspect`` prints all.
        for answer in islice(captures_of(text), 100)
    ]
    number = next((n for n, (_, findings) in enumerate(judged) if has_faults(findings)), 0)
    findings = tuple(
        replace(
            finding,
            sentence=finding.sentence
            if len(judged) == 1
            else f"Answer {at + 1}: {finding.sentence}",
            event_index=finding.event_index if at == number else None,
        )
        for at, (_, own) in enumerate(judged)
        for finding in sorted(own, key=lambda finding: _ORDER[finding.severity])
    )
    report = "\n".join(as_text(answer, own) for answer, own in judged)
    return CapturedAnswers(judged[number][0], number, len(judged), findings, report, tuple(stops))


def capture_page(view: CapturedAnswers, colors: Colors) -> Html:
    """Return the page of an answer."""
    findings = view.findings[:MAX_FINDINGS]
    if not view.capture.is_streamed:
        findings = tuple(replace(finding, event_index=None) for finding in findings)
    parts = [table((_finding(finding, colors) for finding in findings), cellspacing=0)]
    if len(view.findings) > MAX_FINDINGS:
        more = counted(len(view.findings) - MAX_FINDINGS, "more finding")
        parts.append(paragraph(f"… {more}; the report has them all"))
    if view.is_answer:
        parts.append(_heading("Answer", colors))
    name_style = f"padding:2px 16px 2px 0;color:{colors.muted}"
    facts = (
        (
            cell(name, style=name_style, valign="middle"),
            cell(code(_shortened(value)), valign="middle"),
        )
        for name, value in (_facts(view.capture) if view.is_answer else ())
    )
    parts.append(table(facts, cellspacing=0, cellpadding=0))
    capture = view.capture
    for name, text in (("Thinking", capture.thinking), ("Text", capture.text)):
        if text and view.is_answer:
            parts.append(_heading(name, colors))
            leaked = (*capture.request_stops, *view.stops)
            parts.append(paragraph(code(_marked(text, leaked, colors)), style="margin:0"))
    if capture.events and view.is_answer:
        parts.append(_events(view, colors))
    return joined(*parts)


def _marked(text: str, stops: Sequence[str], colors: Colors) -> Html:
    """Return a text in which stops, which should not be there, are marked."""
    if not (stops := [stop for stop in dict.fromkeys(stops) if stop]):
        return visible_lines(_shortened(text))
    longest_first = sorted(stops, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", _shortened(text))
    return joined(
        *(
            colored(visible_lines(part), colors.fault, colors.fault_soft)
            if number % 2
            else visible_lines(part)
            for number, part in enumerate(parts)
        )
    )


def _facts(capture: Capture) -> list[tuple[str, str]]:
    usage = capture.usage
    facts = [("Reason", capture.reason or "none")]
    if capture.verdict is not None:
        facts.append(("Verdict", capture.verdict))
    if capture.reports_match or capture.matched is not None:
        matched = capture.matched
        named = "null" if matched is None else f"token {matched}"
        if isinstance(matched, str):
            named = quoted(matched, 40)
        facts.append(("Matched stop", named))
    if capture.request_stops:
        facts.append(
            ("Requested stops", "  ".join(quoted(stop, 40) for stop in capture.request_stops))
        )
    if capture.model:
        facts.append(("Model", capture.model))
    if capture.status is not None:
        facts.append(("Status", str(capture.status)))
    if capture.error is not None:
        facts.append(("Error", capture.error))
    given = "unknown" if usage is None or usage.input_tokens is None else f"{usage.input_tokens:,}"
    made = "unknown" if usage is None or usage.output_tokens is None else f"{usage.output_tokens:,}"
    facts.append(("Tokens", f"prompt {given}, answer {made}"))
    facts += [("Tool call", f"{call.name}({call.arguments})") for call in capture.tool_calls]
    facts += [
        (f"Choice {choice.index}", f"{choice.reason or 'no reason'}: {quoted(choice.text, 40)}")
        for choice in capture.choices
    ]
    return facts


def _heading(text: str, colors: Colors) -> Html:
    return paragraph(strong(text), style=f"color:{colors.text};margin:16px 0 4px 0")


def _finding(finding: Finding, colors: Colors) -> tuple[Html, Html]:
    """Return the cells of a finding's row: its badge, and its sentence beside it."""
    color, ground = {
        Severity.ERROR: (colors.fault, colors.fault_soft),
        Severity.WARNING: (colors.limit, colors.limit_soft),
        Severity.NOTE: (colors.quiet, colors.quiet_soft),
    }[finding.severity]
    sentence = _shortened(finding.sentence)
    if finding.event_index is not None:
        sentence = f"{sentence.removesuffix('.')} (event {finding.event_index + 1})."
    excerpt = joined(BREAK, code(visible(_shortened(finding.excerpt)))) if finding.excerpt else ""
    return (
        cell(badge(strong(_LABELS[finding.severity]), color, ground), style="padding:0 8px 8px 0"),
        cell(with_code_spans(sentence), excerpt, style="padding:0 0 8px 0"),
    )


def _events(view: CapturedAnswers, colors: Colors) -> Html:
    events = view.capture.events
    wrong = {finding.event_index for finding in view.findings if finding.severity is Severity.ERROR}
    rows: list[list[Html]] = []
    following = 0
    for index in _shown_events(len(events), wrong):
        if index > following:
            left = counted(index - following, "event")
            rows.append([cell(f"… {left}", style=f"color:{colors.muted}", colspan=2)])
        following = index + 1
        event = events[index]
        ground = f"background:{colors.fault_soft};" if index in wrong else ""
        padding = f"{ground}padding:4px 12px 4px 4px"
        raw = event.raw[:300]
        raw = code(raw if index in wrong else wire_html(raw, colors))
        rows.append(
            [
                cell(f"{index + 1:,}", style=f"{padding};color:{colors.muted}"),
                cell(code(strong(event.name)), BREAK, raw, style=f"{ground}padding:4px 0")
                if event.name
                else cell(raw, style=f"{ground}padding:4px 0"),
            ]
        )
    return joined(_heading("Events", colors), table(rows, cellspacing=0))


def _shown_events(count: int, wrong: set[int | None]) -> list[int]:
    """Return the indexes of the first events, of the last, and of the first faulty ones."""
    parts = sorted(index for index in wrong if index is not None and index < count)[:16]
    first = range(min(count, FIRST_EVENTS))
    last = range(max(0, count - LAST_EVENTS), count)
    return sorted({*first, *last, *parts})


def _shortened(text: str) -> str:
    """Return a text, shortened to what a page can show at once."""
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]} … {counted(len(text) - MAX_SHOWN_CHARS, 'more character')}"


class CaptureSource(QPlainTextEdit):
    """An editor for a text of any length; ``textChanged`` is also the signal of ``capture``."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: str | None = None

    @property
    def capture(self) -> str:
        """The whole text, even if only its beginning is shown."""
        return self.toPlainText() if self._whole is None else self._whole

    def set_capture(self, text: str) -> None:
        """Show a text; a long one cannot be edited here."""
        is_short = len(text) <= SHOWN_CHARS
        self._whole = None if is_short else text
        self.setReadOnly(not is_short)
        if is_short:
            self.setPlainText(text)
            return
        whole = counted(len(text), "character")
        self.setPlainText(f"{text[:SHOWN_CHARS]}\n\n… the beginning of {whole}, which are all read")

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Paste; a long text replaces the present one."""
        text = source.text()
        if len(text) > SHOWN_CHARS:
            self.set_capture(text)
        else:
            super().insertFromMimeData(source)


class CaptureWindow(OwnWindow):
    """The captured text at the left, the answer and its faults at the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Captured Answer", (1080, 720), parent)
        FileDrops(self).files_given.connect(lambda paths: self.open_file(paths[0]))
        self.view: CapturedAnswers | None = None
        self.title = label("", "title", 1.3, is_wrapped=True)
        self.form = label("", "muted", 0.95)
        self.source = CaptureSource()
        self.source.setTabChangesFocus(True)
        self.source.setAccessibleName("The captured answer")
        self.source.setPlaceholderText(_HINT)
        self.source.setFont(fixed_font(self.source.font(), 0.93))
        WireHighlighter(self.source.document())
        self.source.setAcceptDrops(False)
        hint = "One on each line; spaces count, and \\n is a line break"
        self.stops = TextArea("Requested stops", hint, 64)
        self.page = ReadingPage("The answer and its faults")
        align(self.source)
        self.clear = push_button("Clear", "Clear the captured answer")
        self.open = QPushButton("Open File…")
        self.paste = push_button("Paste", kind="primary")
        self.example = QPushButton("Try Example")
        self.copy = QPushButton("Copy Report")
        self._delay = QTimer(self, singleShot=True, interval=250)
        self._lay_out()
        self._delay.timeout.connect(self._read)
        self.source.textChanged.connect(self._delay.start)
        self.stops.textChanged.connect(self._delay.start)
        self.open.clicked.connect(self._choose_file)
        self.paste.clicked.connect(self.paste_capture)
        self.example.clicked.connect(lambda: self.source.set_capture(_EXAMPLE))
        self.copy.clicked.connect(self._copy)
        self.clear.clicked.connect(self._clear)
        current_theme().changed.connect(self._show)
        self._show()
        self.source.setFocus()  # an answer can be pasted as soon as the window opens

    def paste_capture(self) -> None:
        self.source.set_capture(copied_text())

    def _clear(self) -> None:
        self.source.set_capture("")
        self.stops.clear()  # they are of the answer

    def open_file(self, path: Path) -> None:
        start_task(self, self._open(path), "open a capture")

    async def finish(self) -> None:
        self._delay.stop()
        await finish_tasks(self)

    def _lay_out(self) -> None:
        left = QWidget()
        self._requested = QWidget()
        column(label("Requested Stops", "heading"), self.stops, spacing=8, on=self._requested)
        column((self.source, 1), self._requested, spacing=12, on=left)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.addWidget(left)
        splitter.addWidget(self.page)
        splitter.setStretchFactor(0, 1)
        splitter.setStretchFactor(1, 1)
        splitter.setChildrenCollapsible(False)
        splitter.setHandleWidth(12)
        column(
            row(
                (column(self.title, self.form, spacing=2), 1),
                *(self.clear, self.copy, self.example, self.open, self.paste),
                spacing=8,
            ),
            (splitter, 1),
            spacing=12,
            margins=16,
            on=self,
        )

    async def _open(self, path: Path) -> None:
        try:
            text = await read_text(path, MAX_BYTES, decode=decode)
        except FileRefused as refusal:
            self._say(str(refusal))
        else:
            self.source.set_capture(text)

    def _read(self) -> None:
        text = self.source.capture
        cancel_tasks(self, _READING)
        stops = []
        for typed in filter(None, self.stops.toPlainText().split("\n")):
            try:
                stops.append(unescaped(typed))
            except ValueError:
                stops.append(typed)
        if not text.strip():
            self.view = None
            self._show()
            return
        if len(text) > SHOWN_CHARS:
            self._say(f"Reading {counted(len(text), 'character')}…")
        start_task(self, self._judge(text, stops), _READING)

    async def _judge(self, text: str, stops: list[str]) -> None:
        self.view = await asyncio.to_thread(read_capture, text, stops)
        self._show()

    def _show(self) -> None:
        view = self.view
        has_text = bool(self.source.capture.strip())
        self.copy.setVisible(view is not None and view.is_answer)
        self.clear.setVisible(has_text)
        self.example.setVisible(not has_text)
        restyle(self.paste, "kind", "" if has_text else "primary")
        for part in (self._requested, self.page):
            part.setVisible(has_text)
        if view is None:
            self._say("Check Answers of Any Server", _PURPOSE)
            self.page.clear()
            return
        if view.is_answer:
            self._say(view.result, view.title)
        else:
            self._say(view.title)
        self.page.setHtml(capture_page(view, current_theme().colors))

    def _say(self, title: str, form: str = "") -> None:
        self.title.setText(title)
        show_text(self.form, form)

    def _copy(self) -> None:
        if self.view is not None:
            copy_from(self.copy, self.view.report)

    def _choose_file(self) -> None:
        choose_file(self, "Open Captured Answer", self.open_file)
