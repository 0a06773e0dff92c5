"""The models that requests may name: those on this computer that can be loaded, each with one id.

Lists folders and reads their configurations, but no weights. Any thread.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.folders import paths
from app.process import exits
from app.process.exits import CommandError
from app.settings.serve_options import ServeOptions
from engine import OfferedModel, Offering, UnknownModel
from engine.library.discovery import ModelFolders, discover
from engine.library.found import FoundModel, Origin, look_into


@dataclass(frozen=True, slots=True)
class ServedModels:
    """The models that a server serves.

    Attributes:
        default: The folder of the model that answers requests that name none.
        offered: The models that requests may name; None if one model answers all requests.
    """

    default: Path
    offered: Sequence[OfferedModel] | None = None


def served_models(options: ServeOptions, *, is_shared_out: bool = False) -> ServedModels:
    """Return the models that a server should serve.

    Args:
        options: The server's options.
        is_shared_out: Whether several processes share one model.

    Raises:
        CommandError: The options contradict each other, or name a model that does not exist.
    """
    given = [Path(one).expanduser() for one in options.model]
    folders = tuple(Path(one).expanduser() for one in options.models_folder)
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
    if not has_several and len(offered) < 2:
        return ServedModels(default)
    named = _with_names(offered, options, default)
    return ServedModels(default, named)


def _offered(given: Sequence[Path], folders: tuple[Path, ...]) -> list[OfferedModel]:
    """Return the given models and those of given folders; without either, all local models."""
    for folder in folders:
        if not folder.is_dir():
            raise CommandError(f"--models-folder: {folder} is not a folder", exits.USAGE)
    if not given and not folders:
        return offered_models(paths.local_models())
    first = [look_into(one, Origin.FOLDER) for one in given]
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
    for said in options.alias:
        alias, separator, name = said.partition("=")
        if not (separator and alias and name):
            raise CommandError(
                f"--alias: {said!r} is not NAME=MODEL; write it like claude-haiku=some-mlx-model",
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


def offered_models(found: Iterable[FoundModel]) -> list[OfferedModel]:
    """Return the complete ones among the found models, with ids to offer them by.

    Those that take precedence come first. If two models have the same name, the id of the second
    includes the folder around it.
    """
    offers: dict[str, OfferedModel] = {}
    for model in found:
        if model.is_partial or model.problem:
            continue
        name = model.name
        if name in offers:
            if offers[name].folder.resolve() == model.folder.resolve():
                continue
            name = f"{model.folder.parent.name}/{name}"
        offers.setdefault(name, OfferedModel(name, model.folder, found=model))
    return list(offers.values())
