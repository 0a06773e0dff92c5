"""Messages for a person when conversations cannot be read or saved. Pure; any thread."""

from pathlib import Path

from ui.records.store import StoreProblem

_UNSAVED = "Your conversations are not being saved."


class StoreUnavailable(Exception):
    """The file can be neither read nor created; ``problem`` says why, for a person."""

    def __init__(self, problem: StoreProblem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def unusable(path: Path, cause: str) -> StoreProblem:
    """Return the problem of a file that is not retried."""
    detail = f"{path} cannot be used: {cause}. New text is kept only until you close the window."
    return StoreProblem(_UNSAVED, detail, path.parent)


def not_yet_usable(path: Path, cause: str) -> StoreProblem:
    """Return the problem of a file that could not be opened and is retried."""
    return StoreProblem(
        _UNSAVED,
        f"{path} cannot be used: {cause}. What you write is kept in memory, and the file is tried "
        "again until it works. Earlier conversations appear then.",
        path.parent,
    )


def not_written(path: Path, cause: str) -> StoreProblem:
    """Return the problem of changes that cannot be written now."""
    return StoreProblem(
        _UNSAVED,
        f"{path.name}: {cause}. Everything is kept in memory, and saving is tried again until it "
        "works. Export what matters before you quit.",
        path.parent,
    )


def refused(path: Path) -> StoreProblem:
    """Return the problem of a change that can never be written."""
    return StoreProblem(
        "A change could not be saved.",
        f"{path.name} refused this change; everything else is saved. Export the conversation to "
        "keep it. The log has the cause.",
        path.parent,
    )


def unreadable(path: Path, cause: str) -> StoreProblem:
    """Return the problem of conversations that cannot be read."""
    return StoreProblem(
        "Your conversations could not be read.",
        f"{path.name}: {cause}. Nothing in the file was changed.",
        path.parent,
    )
