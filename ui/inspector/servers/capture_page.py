"""A captured answer as a page: its faults, its text and its events.

Pure; any thread.
"""

from engine import counted, visible
from ui.inspector.run.tools import CaptureFinding, CaptureView
from ui.kit.look.colors import Colors
from ui.kit.text.html import (
    BREAK,
    SPACE,
    Html,
    badge,
    cell,
    code,
    joined,
    paragraph,
    strong,
    table,
    visible_lines,
    with_code_spans,
)

# Each row takes time to lay out, so a long stream shows only both ends and the faulty events.
FIRST_EVENTS, LAST_EVENTS, MOST_WRONG = 24, 16, 16
MAX_FINDINGS = 50
MAX_SHOWN_CHARS = 4_000
_MAX_EVENT_CHARS = 300
_WORDS = {"error": "Fault", "warning": "Suspicious", "note": "Note"}


def capture_page(view: CaptureView, colors: Colors) -> Html:
    """Return the page of an answer."""
    parts = [_finding(finding, colors) for finding in view.findings[:MAX_FINDINGS]]
    if len(view.findings) > MAX_FINDINGS:
        more = counted(len(view.findings) - MAX_FINDINGS, "more finding")
        parts.append(paragraph(f"… {more}; the report has them all"))
    if view.is_answer and not view.findings:
        said = strong("Nothing is wrong with it.")
        parts.append(paragraph(said, style=f"color:{colors.done}"))
    name_style = f"padding:1px 14px 1px 0;color:{colors.muted}"
    facts = (
        (
            cell(name, style=name_style, valign="middle"),
            cell(code(_shortened(value)), valign="middle"),
        )
        for name, value in view.facts
    )
    parts.append(table(facts, cellspacing=0, cellpadding=0))
    for name, text in (("Thinking", view.thinking), ("Text", view.text)):
        if text:
            parts.append(_heading(name, colors))
            parts.append(paragraph(code(visible_lines(_shortened(text)))))
    if view.events:
        parts.append(_events(view, colors))
    return joined(*parts)


def _heading(words: str, colors: Colors) -> Html:
    return paragraph(words, style=f"color:{colors.muted};margin-bottom:2px")


def _finding(finding: CaptureFinding, colors: Colors) -> Html:
    color, ground = {
        "error": (colors.fault, colors.fault_soft),
        "warning": (colors.limit, colors.limit_soft),
        "note": (colors.quiet, colors.quiet_soft),
    }[finding.severity]
    place = "" if finding.event_index is None else f" (event {finding.event_index + 1})"
    excerpt = joined(BREAK, code(visible(_shortened(finding.excerpt)))) if finding.excerpt else ""
    return paragraph(
        badge(strong(_WORDS[finding.severity]), color, ground),
        SPACE,
        " ",
        with_code_spans(_shortened(finding.sentence)),
        place,
        excerpt,
        style="margin:4px 0",
    )


def _events(view: CaptureView, colors: Colors) -> Html:
    wrong = {one.event_index for one in view.findings if one.severity == "error"}
    rows: list[list[Html]] = []
    following = 0
    for index in _shown_events(len(view.events), wrong):
        if index > following:
            left = counted(index - following, "event")
            rows.append([cell(f"… {left}", style=f"color:{colors.muted}", colspan=3)])
        following = index + 1
        name, raw = view.events[index]
        ground = f"background:{colors.fault_soft};" if index in wrong else ""
        padding = f"{ground}padding:1px 8px 1px 0"
        rows.append(
            [
                cell(f"{index + 1:,}", style=f"{padding};color:{colors.muted}"),
                cell(code(name), style=padding),
                cell(code(raw[:_MAX_EVENT_CHARS]), style=ground),
            ]
        )
    return joined(_heading("Events", colors), table(rows, cellspacing=0))


def _shown_events(count: int, wrong: set[int | None]) -> list[int]:
    """Return the indexes of the first events, of the last, and of the first faulty ones."""
    told = sorted(index for index in wrong if index is not None and index < count)[:MOST_WRONG]
    first = range(min(count, FIRST_EVENTS))
    last = range(max(0, count - LAST_EVENTS), count)
    return sorted({*first, *last, *told})


def _shortened(text: str) -> str:
    """Return a text, shortened to what a page can show at once."""
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]} … {counted(len(text) - MAX_SHOWN_CHARS, 'more character')}"
