"""A text to find in the messages of a conversation. Pure; main thread."""

import re
from dataclasses import dataclass

from ui.kit.look.colors import Colors
from ui.kit.text.flow_text import Highlight
from ui.kit.text.places import words_pattern


@dataclass(frozen=True, slots=True)
class Query:
    """A text to find."""

    text: str
    has_case: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern that matches the text."""
        return words_pattern((self.text,), self.has_case)

    def highlight(self, colors: Colors, current: int | None = None) -> Highlight:
        """Return the highlight of its places; ``current`` is the number of the current one."""
        return Highlight(
            (self.text,),
            colors.found,
            colors.text,
            self.has_case,
            current,
            colors.accent,
            colors.on_accent,
        )
