"""The models that requests may name: given ones, those of a folder, or all on this computer."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from app import exits, paths
from app.exits import CommandError
from app.settings.serve import ServeOptions
from engine import OfferedModel, Offering
from engine.errors import UnknownModel
from engine.library.local_models import FoundModel, ModelFolders, Origin, discover, look_into


def served_models(
    options: ServeOptions, *, is_shared_out: bool = False
) -> tuple[Path, list[OfferedModel] | None]:
    """Return the default model's folder, and the models to offer; None for any name.

    Raises ``CommandError`` for contradicting options.
    """
    given = [paths.typed_path(text) for text in options.model]
    folders = tuple(paths.typed_path(folder) for folder in options.models_folder)
    has_several = len(given) > 1 or bool(folders)
    if has_several and (options.one_model or is_shared_out):
        why = "--one-model" if options.one_model else "a model on several machines"
        raise CommandError(
            f"{why} does not allow a choice of models; give one --model, and no --models-folder",
            exits.USAGE,
        )
    default = given[0] if given else paths.demo_model()
    is_one = options.one_model or is_shared_out or (len(given) == 1 and not folders)
    offered = [] if is_one else _offered(given, folders)
    own = [one for one in offered if one.found is None or one.found.origin is not Origin.BUNDLED]
    if not has_several and not own:  # the program's own models are no choice of the user's
        return default, None
    return default, _with_names(offered, options, default)


def _offered(given: Sequence[Path], folders: tuple[Path, ...]) -> list[OfferedModel]:
    for folder in folders:
        if not folder.is_dir():
            raise CommandError(f"--models-folder: {folder} is not a folder", exits.USAGE)
    if not given and not folders:
        return offered_models(paths.local_models())
    first = [look_into(folder, Origin.FOLDER) for folder in given]
    for model in first:
        if model.problem:
            raise CommandError(f"--model {model.folder}: {model.problem}")
    if not given:
        first = [look_into(paths.demo_model(), Origin.BUNDLED)]
    return offered_models([*first, *discover(ModelFolders(added=folders))])


def _with_names(
    offered: Sequence[OfferedModel], options: ServeOptions, default: Path
) -> list[OfferedModel]:
    """Return the models with their aliases, pins and the draft model of the default one."""
    offering = Offering(offered)
    aliases: dict[str, list[str]] = {}
    for given_alias in options.alias:
        alias, separator, name = given_alias.partition("=")
        if not (separator and alias and name):
            raise CommandError(
                f"--alias: {given_alias!r} is not NAME=MODEL; write it like "
                "claude-haiku=some-mlx-model",
                exits.USAGE,
            )
        aliases.setdefault(_found("--alias", offering, name).id, []).append(alias)
    pinned = {_found("--pin", offering, name).id for name in options.pin}
    first = offering.of_folder(default)
    return [
        replace(
            model,
            aliases=tuple(aliases.get(model.id, ())),
            is_pinned=model.id in pinned,
            draft=options.draft_model if model == first else None,
        )
        for model in offered
    ]


def _found(option: str, offering: Offering, name: str) -> OfferedModel:
    try:
        return offering.find(name)
    except UnknownModel as error:
        raise CommandError(f"{option}: {error}", exits.USAGE) from error


def offered_models(models: Iterable[FoundModel]) -> list[OfferedModel]:
    """Return the complete models with ids, the id of a second one of a name with its owner."""
    offers: dict[str, OfferedModel] = {}
    for model in models:
        if model.is_partial or model.problem or model.is_gguf:
            continue
        name = model.name
        if name in offers:
            if offers[name].folder.resolve() == model.folder.resolve():
                continue
            name = f"{model.folder.parent.name}/{name}"
        offers.setdefault(name, OfferedModel(name, model.folder, found=model))
    return list(offers.values())
