"""Which of the two palettes is shown. A plain value without Qt, for settings files and tables."""

from typing import Literal

ThemeMode = Literal["system", "light", "dark"]
