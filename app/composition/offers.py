"""Which models requests may name: those on this computer that can be loaded, each by one id.

Reads no files. Any thread.
"""

from collections.abc import Iterable, Mapping

from engine import OfferedModel
from engine.library.found import FoundModel


def offered_models(
    found: Iterable[FoundModel], aliases: Mapping[str, str] | None = None
) -> list[OfferedModel]:
    """Return the complete models of some that were found, ready to be offered to an engine.

    Of two models with the same name, the second is called after the folder around it as well.

    Args:
        found: The models, those that take precedence first.
        aliases: Other names to the ids of models; those of models that are not there are ignored.
    """
    names_of: dict[str, list[str]] = {}
    for alias, model_id in (aliases or {}).items():
        names_of.setdefault(model_id, []).append(alias)
    offers: dict[str, OfferedModel] = {}
    for model in found:
        if model.is_partial or model.problem:
            continue
        name = model.name
        if name in offers:
            if offers[name].folder.resolve() == model.folder.resolve():
                continue
            name = f"{model.folder.parent.name}/{name}"
        names = tuple(names_of.get(name, ()))
        offers.setdefault(name, OfferedModel(name, model.folder, names, found=model))
    return list(offers.values())
