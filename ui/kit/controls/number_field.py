"""A field for a number that may be unset. Main thread."""

from decimal import Decimal

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QDoubleSpinBox

# More decimals than anybody types; a number with fewer is shown as it is.
_DECIMALS = 12


class NumberField(QDoubleSpinBox):
    """Shows a number with all its digits, and never changes it unless it was edited.

    One step below the least number, the value is unset.

    Args:
        says: The tool tip and the name for screen readers.
        unset: The words for no number.
        least: The least number.
        most: The greatest number that can be typed; a greater one that is shown stays.
        step: The difference that one step up or down makes.
        is_whole: Whether numbers are whole.

    Signals:
        number_edited: A person chose another number; carries it, or None.
    """

    number_edited = Signal(object)

    def __init__(
        self,
        says: str,
        unset: str,
        least: float,
        most: float,
        step: float,
        *,
        is_whole: bool = False,
    ) -> None:
        super().__init__()
        self._is_whole = is_whole
        self._least, self._most = least, most
        self._number: float | int | None = None
        self.setAccessibleName(says)
        self.setToolTip(says)
        self.setDecimals(0 if is_whole else _DECIMALS)
        self.setRange(least - (1 if is_whole else step), most)
        self.setSingleStep(step)
        self.setSpecialValueText(unset)
        self.setKeyboardTracking(False)
        # A styled spin box leaves no room before its text.
        self.lineEdit().setTextMargins(8, 0, 8, 0)
        self.setValue(self.minimum())
        self.valueChanged.connect(self._edit)

    @property
    def number(self) -> float | int | None:
        """The number, exactly as it was shown or typed; None if it is unset."""
        return self._number

    def show_number(self, number: float | int | None) -> None:
        """Show a number without emitting ``number_edited``."""
        with QSignalBlocker(self):
            self.setMaximum(self._most if number is None else max(self._most, number))
            self.setValue(self.minimum() if number is None else number)
        self._number = number

    def textFromValue(self, value: float) -> str:  # noqa: N802 - Qt's name
        """Return a number without trailing zeros."""
        if self._is_whole:
            return str(round(value))
        text = format(Decimal(repr(value)).normalize(), "f")
        return text.replace(".", self.locale().decimalPoint())

    def _edit(self, value: float) -> None:
        number: float | int | None = round(value) if self._is_whole else round(value, _DECIMALS)
        self._number = None if value < self._least else number
        self.number_edited.emit(self._number)
