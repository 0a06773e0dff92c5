"""The checks of a probe as a page: what each found, and the evidence. Pure; any thread."""

from collections.abc import Iterable

from ui.inspector.run.tools import ProbeFault, ProbeRow
from ui.kit.look.colors import Colors
from ui.kit.text.html import (
    Html,
    badge,
    cell,
    code,
    joined,
    lines,
    paragraph,
    strong,
    table,
    with_code_spans,
)

_WORDS = {
    "held": "Passed",
    "failed": "Failed",
    "undecided": "Unclear",
    "skipped": "Skipped",
    "not asked": "Not asked",
}


def probe_page(rows: Iterable[ProbeRow], colors: Colors) -> Html:
    """Return a table with a row for each check."""
    tones = {
        "held": (colors.done, colors.done_soft),
        "failed": (colors.fault, colors.fault_soft),
        "undecided": (colors.limit, colors.limit_soft),
        "skipped": (colors.quiet, colors.quiet_soft),
        "not asked": (colors.limit, colors.limit_soft),
    }
    return table(
        (
            cell(badge(_WORDS[row.outcome], *tones[row.outcome]), style="padding:3px 10px 3px 0"),
            cell(strong(row.title), style="padding:3px 12px 3px 0"),
            cell(
                with_code_spans(row.sentence),
                *map(_fault, row.faults),
                style=f"padding:3px 0;color:{colors.muted}",
            ),
        )
        for row in rows
    )


def _fault(fault: ProbeFault) -> Html:
    said = paragraph(with_code_spans(fault.sentence), style="margin:4px 0 0 0")
    if not fault.evidence:
        return said
    return joined(said, paragraph(code(lines(fault.evidence)), style="margin:2px 0 0 0"))
