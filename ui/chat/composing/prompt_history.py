"""Goes through what was asked before, as a shell does, and keeps what is being written. Pure."""

from collections.abc import Sequence


class PromptHistory:
    """A walk through earlier prompts; the last step of it is the person's own draft.

    What is changed on the way stays as it was left until the walk ends.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._place = 0
        self._recalled: Sequence[str] = ()

    @property
    def is_walking(self) -> bool:
        """Whether an earlier prompt stands where the draft stood."""
        return bool(self._lines) and self._place < len(self._lines) - 1

    def step(self, by: int, text: str, prompts: Sequence[str]) -> str | None:
        """Go to the prompt before (-1) or after (1).

        Args:
            by: The direction.
            text: What stands in the field now.
            prompts: What was asked before, oldest first.

        Returns:
            What is to stand in the field; None at either end.
        """
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
        """Return what a person has written, given what stands in the field.

        An earlier prompt that nobody has changed is not a draft.
        """
        if self.is_walking and text == self._recalled[self._place]:
            return self._lines[-1]
        return text

    def hidden_draft(self, text: str) -> str:
        """Return the earlier draft if a changed prompt is the draft now; the walk would lose it."""
        return self._lines[-1] if self.is_walking and self.draft(text) == text else ""

    def end(self) -> str:
        """End the walk; returns the draft that it began with, empty if there was no walk."""
        draft = self._lines[-1] if self.is_walking else ""
        self._lines, self._recalled, self._place = [], (), 0
        return draft
