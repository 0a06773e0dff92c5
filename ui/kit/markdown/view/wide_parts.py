"""Finds the parts of a text that are wider than the view, and sets the widths of tables.

Main thread.
"""

from collections.abc import Callable, Iterable

from PySide6.QtCore import QRectF
from PySide6.QtGui import QTextTable

from ui.kit.markdown.writing.markdown_style import Decoration, MarkdownStyle
from ui.kit.markdown.writing.table_writer import constraints, shared_room


def fit_table(
    table: QTextTable, decoration: Decoration, width: int, offset: int, style: MarkdownStyle
) -> None:
    """Share the width of the view among the columns of a table."""
    widths = constraints(decoration.columns, width - decoration.left_px, style)
    form = table.format()
    left = decoration.left_px - offset
    if form.columnWidthConstraints() != widths or form.leftMargin() != left:
        form.setColumnWidthConstraints(widths)
        form.setLeftMargin(left)
        table.setFormat(form)


def wide_parts(
    decorations: Iterable[Decoration],
    width: int,
    style: MarkdownStyle,
    area: Callable[[Decoration], QRectF],
) -> list[tuple[Decoration, QRectF, float]]:
    """Return the parts that are wider than the view: each part, its area, and its width."""
    found = []
    for one in decorations:
        needed = one.width_px
        if one.kind == "table":
            needed = sum(shared_room(one.columns, width - one.left_px, style))
        if not needed or one.kind == "quote":
            continue
        inset = style.code_pad_px if one.kind == "code" else 0
        room = width - one.left_px - 2 * inset
        if needed > room:
            place = area(one)
            place.setLeft(one.left_px + inset)
            place.setWidth(room)
            found.append((one, place, needed))
    return found
