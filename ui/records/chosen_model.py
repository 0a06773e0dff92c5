"""Which model answers a conversation. Pure; any thread."""

from dataclasses import dataclass
from pathlib import Path

from engine.library.models import model_name


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The model that a conversation remembers.

    Attributes:
        name: Its name, which identifies it on another computer, too.
        folder: Its folder; None if only the name is known, as in an imported conversation.
    """

    name: str
    folder: Path | None = None

    @staticmethod
    def of(folder: Path) -> "ChosenModel":
        """Return the choice of the model in a folder."""
        return ChosenModel(model_name(folder), folder.resolve())
