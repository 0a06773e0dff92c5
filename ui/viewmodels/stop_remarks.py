"""What is worth saying about a stop sequence before it runs. Pure; any thread."""

from collections.abc import Sequence

from ui.viewmodels.conversations import StopEntry
from ui.visible import quoted


def remarks(entries: Sequence[StopEntry], row: int) -> list[str]:
    """Return what is odd about the sequence of a row, most important first."""
    sequence = entries[row].sequence
    said: list[str] = []
    twin = next((i for i in range(row) if entries[i].sequence == sequence), None)
    if twin is not None:
        said.append(f"The same as row {twin + 1}; it counts once.")
    said.extend(_shadows(entries, row))
    if not sequence.strip():
        said.append("White space only: it will match almost anywhere, and some services refuse it.")
    elif sequence != sequence.strip(" "):
        said.append("Begins or ends with a space, which has to occur exactly so.")
    if any(pair in sequence for pair in ("\\n", "\\t", "\\r")):
        said.append(
            "Holds a backslash and a letter as two characters. For a line break or tab, enter it "
            "“with escapes”."
        )
    return said


def _shadows(entries: Sequence[StopEntry], row: int) -> list[str]:
    """A stop inside another, not at its very end, always completes first."""
    sequence = entries[row].sequence
    for number, other in enumerate(entries, 1):
        if other.is_enabled and other.sequence and other.sequence in sequence[:-1]:
            return [
                f"Can never match: {quoted(other.sequence, 20)} in row {number} is complete first."
            ]
    return []
