"""The choice between the two palettes. A plain value without Qt, for settings files and tables."""

from typing import Literal

ThemeMode = Literal["system", "light", "dark"]
