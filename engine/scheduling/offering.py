"""The models that requests may name, and how a name is looked up. Pure values; any thread.

A name is looked up and never used as a path: a request can reach only models that were offered.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UnknownModel
from engine.library.local_models import FoundModel

_MOST_NEAR = 3
_LIKENESS = 0.5


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that requests may name; it is loaded when one does.

    Attributes:
        id: The name under which it is listed, unique among the offered models.
        folder: The folder that contains it.
        aliases: Other names for it, which its owner chose.
        draft: The draft model that is loaded beside it, if there is one.
        is_pinned: Whether it stays in memory when another model needs room.
        found: What is known about it without loading it, if anything.
    """

    id: str
    folder: Path
    aliases: tuple[str, ...] = ()
    draft: Path | None = None
    is_pinned: bool = False
    found: FoundModel | None = None

    @property
    def last_part(self) -> str:
        """The name without its owner: ``name`` of ``owner/name``."""
        return self.id.rpartition("/")[2]


class Offering:
    """The offered models, found by their names.

    Args:
        models: The models in the order of the list. Of models with the same id, the first is kept.
    """

    def __init__(self, models: Iterable[OfferedModel] = ()) -> None:
        self._by_id: dict[str, OfferedModel] = {}
        for model in models:
            self._by_id.setdefault(model.id, model)
        self._by_alias = {
            alias: model for model in reversed(self.models) for alias in model.aliases
        }

    @property
    def models(self) -> Sequence[OfferedModel]:
        """All of them."""
        return tuple(self._by_id.values())

    def find(self, name: str) -> OfferedModel:
        """Return the model that a name means: by its id, an alias, or its id without the owner.

        Each is compared exactly, then without regard to upper and lower case.

        Raises:
            UnknownModel: No model has that name, or several have; the error has the nearest names.
        """
        exact = self._by_id.get(name) or self._by_alias.get(name)
        if exact is not None:
            return exact
        same = [one for one in self.models if one.last_part == name]
        if not same:
            lower = name.lower()
            same = [
                one
                for one in self.models
                if lower in (one.id.lower(), one.last_part.lower(), *map(str.lower, one.aliases))
            ]
        if len(same) == 1:
            return same[0]
        if same:
            raise UnknownModel(name, [one.id for one in same], is_ambiguous=True)
        raise UnknownModel(name, self._nearest(name))

    def of_folder(self, folder: Path) -> OfferedModel | None:
        """Return the model that is in a folder, if it is offered."""
        resolved = folder.resolve()
        same = (one for one in self.models if one.folder == folder)
        return next(same, None) or next(
            (one for one in self.models if one.folder.resolve() == resolved), None
        )

    def _nearest(self, name: str) -> list[str]:
        """Return the ids of the models whose names are most like a name."""
        names = {
            text.lower(): one.id
            for one in reversed(self.models)
            for text in (one.id, one.last_part, *one.aliases)
        }
        asked = name.lower()
        near = [
            *(text for text in names if asked and asked in text),
            *difflib.get_close_matches(asked, names, _MOST_NEAR, _LIKENESS),
        ]
        return list(dict.fromkeys(names[text] for text in near))[:_MOST_NEAR]
