"""What is carried while a row of the stop list is dragged. Main thread."""

from PySide6.QtCore import QMimeData

ROW_MIME = "application/x-fullstop-stop-row"


def carried(row: int) -> QMimeData:
    """Return what stands for a dragged row."""
    data = QMimeData()
    data.setData(ROW_MIME, str(row).encode())
    return data


def carried_row(data: QMimeData) -> int | None:
    """Return the number of the dragged row; None if something else is dragged."""
    return int(bytes(data.data(ROW_MIME).data())) if data.hasFormat(ROW_MIME) else None
