"""Several small models that all answer differently: the demo model and what is left of it."""

from pathlib import Path

from engine.library.local_models import Origin, look_into
from engine.scheduling.model_list import OfferedModel
from tests.support.several.draft_models import write_draft


def write_models(folder: Path, source: Path, count: int = 4) -> list[OfferedModel]:
    """Write up to four models and return them, ready to be offered.

    The first is the source with all its layers; each of the others has one layer less.
    """
    layers = [4, 3, 2, 1][:count]
    return [offered(write_draft(folder / f"owner--model-{left}", source, left)) for left in layers]


def offered(folder: Path, **values: object) -> OfferedModel:
    """Return the model of a folder, ready to be offered under the folder's name."""
    found = look_into(folder, Origin.FOLDER)
    return OfferedModel(found.name, folder, found=found, **values)  # type: ignore[arg-type]
