"""Steps through earlier prompts, as a shell does, and keeps the draft. Pure."""

from collections.abc import Sequence


class PromptHistory:
    """Steps through earlier prompts; the last step is the person's own draft.

    Prompts that a person edits on the way keep their changes until the walk ends.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._place = 0
        self._recalled: Sequence[str] = ()

    @property
    def is_walking(self) -> bool:
        """Whether the field shows an earlier prompt instead of the draft."""
        return bool(self._lines) and self._place < len(self._lines) - 1

    def step(self, by: int, text: str, prompts: Sequence[str]) -> str | None:
        """Go to the previous (-1) or next (1) prompt."""
        if not self._lines:
            self._recalled = list(prompts)
            self._lines = [*self._recalled, text]
            self._place = len(self._lines) - 1
        place = self._place + by
        if not 0 <= place < len(self._lines):
            return None
        self._lines[self._place] = text
        self._place = place
        return self._lines[place]

    def draft(self, text: str) -> str:
        """Return the person's draft, given the present text of the field.

        An unchanged earlier prompt is not a draft.
        """
        if self.is_walking and text == self._recalled[self._place]:
            return self._lines[-1]
        return text

    def hidden_draft(self, text: str) -> str:
        """Return the earlier draft, which would be lost, if an edited prompt is the draft now."""
        return self._lines[-1] if self.is_walking and self.draft(text) == text else ""

    def end(self) -> str:
        """End the walk; return the draft at its beginning, empty if there was no walk."""
        draft = self._lines[-1] if self.is_walking else ""
        self._lines, self._recalled, self._place = [], (), 0
        return draft
