"""The text that a model wrote where an answer is selected, to stop there. Main thread."""

import re
from dataclasses import dataclass

from engine.stopping.rules import MAX_STOP_CHARS, StopScope
from engine.wording import visible
from ui.chat.messages.answer_view import AnswerView, RawText
from ui.kit.flow_text import FlowText, selected_text, utf16_length

# Markdown shows a text without these.
_MARKS = frozenset("*_`~#>|\\+-")
_LIST_NUMBER = re.compile(r"^[ \t]*\d{1,9}[.)](?=\s)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StopSelection:
    """A selected text as the model wrote it, or why it cannot be a stop."""

    text: str
    scope: StopScope = StopScope.TEXT
    problem: str = ""


def stop_selection(view: AnswerView) -> StopSelection | None:
    """Return the selection in an answer; None without one."""
    texts = (text for text in view.findChildren(FlowText) if text.isVisible())
    widget = next((text for text in texts if selected_text(text)), None)
    if widget is None:
        return None
    run = view.run
    answer = run.text if run.finished is None else run.text + run.finished.stop.dropped
    if isinstance(widget, RawText):
        cursor = widget.textCursor()
        return _raw_selection(run.thinking, answer, cursor.selectionStart(), cursor.selectionEnd())
    shown = selected_text(widget)
    is_thinking = widget.objectName() == "thinking_text"
    if text := written_for(shown, run.thinking if is_thinking else answer):
        return StopSelection(text, StopScope.TEXT_AND_THINKING if is_thinking else StopScope.TEXT)
    problem = "The model did not write this text as it is shown. Select it in the raw text."
    return StopSelection("", problem=problem)


def written_for(shown: str, source: str) -> str:
    """Return the part of a Markdown source that is shown as a text; empty if there is none."""
    if shown in source or len(shown) > MAX_STOP_CHARS:
        return shown
    (shown_text, _), (text, spans) = _without_marks(shown), _without_marks(source)
    begin = text.find(shown_text) if shown_text.strip() else -1
    return "" if begin < 0 else source[spans[begin][0] : spans[begin + len(shown_text) - 1][1]]


def _without_marks(source: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text with single spaces and without marks, and where each character was."""
    chars, spans = list[str](), list[tuple[int, int]]()
    text = _LIST_NUMBER.sub(lambda number: "*" * len(number[0]), source)
    for index, char in enumerate(text):
        if char.isspace() and chars[-1:] == [" "]:
            spans[-1] = (spans[-1][0], index + 1)
        elif char not in _MARKS:
            chars.append(" " if char.isspace() else char)
            spans.append((index, index + 1))
    return "".join(chars), spans


def source_between(source: str, begin: int, end: int, line_break: str = "⏎") -> str:
    """Return the part of a text whose visible form is between two positions of a document."""
    position, found = 0, list[str]()
    for char in source:
        after = position + _visible_length(char, line_break)
        if position < end and begin < after:
            found.append(char)
        position = after
    return "".join(found)


def _visible_length(text: str, line_break: str) -> int:
    return utf16_length(visible(text).replace("⏎", line_break))


def _raw_selection(thinking: str, answer: str, begin: int, end: int) -> StopSelection:
    """Return the selection in the raw text: thinking, a new block, the answer."""
    line_break = "⏎\u2028"
    start = _visible_length(thinking, line_break) + 1 if thinking else 0
    before = source_between(thinking, begin, end, line_break)
    after = source_between(answer, begin - start, end - start, line_break)
    if before and after:
        problem = "Select text of the thinking or of the answer, not of both."
        return StopSelection("", problem=problem)
    if before:
        return StopSelection(before, StopScope.TEXT_AND_THINKING)
    return StopSelection(after)
