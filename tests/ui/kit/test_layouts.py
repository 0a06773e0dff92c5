"""Columns, rows and forms have their items in order, with spacing and margins."""

import pytest
from PySide6.QtCore import QMargins, Qt
from PySide6.QtWidgets import QLabel, QLayout, QWidget

from ui.kit.layouts import STRETCH, Stretch, column, form, row

pytestmark = pytest.mark.usefixtures("theme")


def test_a_column_holds_widgets_layouts_gaps_and_stretches_in_their_order() -> None:
    outer, first, grows, inner = QWidget(), QLabel("a"), QLabel("b"), QLabel("c")
    aligned = QLabel("d")
    layout = column(
        first,
        (grows, 2),
        7,
        row(inner, spacing=3),
        (aligned, 0, Qt.AlignmentFlag.AlignRight),
        Stretch(4),
        STRETCH,
        spacing=5,
        margins=(1, 2, 3, 4),
        on=outer,
    )
    assert outer.layout() is layout
    assert [one.parent() for one in (first, grows, inner, aligned)] == [outer] * 4
    assert [layout.stretch(place) for place in range(layout.count())] == [0, 2, 0, 0, 0, 4, 1]
    gap, inside = layout.itemAt(2), layout.itemAt(3)
    assert gap is not None
    assert gap.sizeHint().height() == 7
    assert isinstance(inside, QLayout)
    assert inside.spacing() == 3
    assert inside.contentsMargins() == QMargins()
    assert layout.itemAt(4).alignment() == Qt.AlignmentFlag.AlignRight  # type: ignore[union-attr]
    assert layout.spacing() == 5
    assert layout.contentsMargins() == QMargins(1, 2, 3, 4)


def test_a_form_has_labels_beside_fields_and_rows_as_wide_as_both() -> None:
    outer, field, wide = QWidget(), QLabel("field"), QLabel("wide")
    layout = form(("Name", field), wide, spacing=6, on=outer)
    label = layout.labelForField(field)
    assert isinstance(label, QLabel)
    assert label.text() == "Name"
    assert layout.rowCount() == 2
    assert (layout.horizontalSpacing(), layout.verticalSpacing()) == (6, 6)
