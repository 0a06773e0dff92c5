"""The models that requests may name: given ones, those of a folder, or all on this computer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from app import exits, paths
from app.exits import CommandError
from app.settings.serve import ServeOptions
from engine import OfferedModel, Offering
from engine.errors import UnknownModel
from engine.library.adapters import is_adapter
from engine.library.local_models import (
    FoundModel,
    ModelFolders,
    Origin,
    discover,
    look_into,
    with_base,
)
from engine.library.model_files import model_name


def served_models(
    options: ServeOptions, *, is_shared_out: bool = False
) -> tuple[Path, list[OfferedModel] | None]:
    """Return the default model's folder, and the models to offer; None for any name.

    Raises ``CommandError`` for contradicting options.
    """
    given = [paths.typed_path(text) for text in options.model]
    folders = tuple(paths.typed_path(folder) for folder in options.models_folder)
    has_several = len(given) > 1 or bool(folders) or bool(options.lora_modules)
    if has_several and (options.one_model or is_shared_out):
        why = "--one-model" if options.one_model else "a model on several machines"
        raise CommandError(
            f"{why} does not allow a choice of models; give one --model, and neither "
            "--models-folder nor --lora-modules",
            exits.USAGE,
        )
    default = given[0] if given else paths.demo_model()
    is_one = options.one_model or is_shared_out or (len(given) == 1 and not has_several)
    offered = [] if is_one else _offered(given, folders)
    only = given[0] if len(given) == 1 else None
    offered += _lora_modules(options.lora_modules, offered, only)
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
    first = [
        paths.adapter_at(folder) if is_adapter(folder) else look_into(folder, Origin.FOLDER)
        for folder in given
    ]
    for model in first:
        if model.problem:
            raise CommandError(f"--model {model.folder}: {model.problem}")
    if not given:
        first = [look_into(paths.demo_model(), Origin.BUNDLED)]
    return offered_models([*first, *discover(ModelFolders(added=folders))])


def _lora_modules(
    given: Sequence[str], offered: Sequence[OfferedModel], base: Path | None
) -> list[OfferedModel]:
    """Return the models of ``--lora-modules``, each of its named base if ``base`` is None."""
    modules: dict[str, OfferedModel] = {model.id: model for model in offered}
    found = [model.found for model in offered if model.found is not None]
    for text in given:
        name, separator, where = text.partition("=")
        if not (separator and name and where):
            raise CommandError(
                f"--lora-modules: {text!r} is not NAME=ADAPTER; write it like "
                "poems=~/adapters/poems",
                exits.USAGE,
            )
        if name in modules:
            raise CommandError(f"--lora-modules: another model is named {name}", exits.USAGE)
        folder = paths.model_folder(where)
        if not is_adapter(folder):
            why = "has no adapter_config.json, which mlx_lm.lora writes"
            raise CommandError(f"--lora-modules: {folder} {why}", exits.USAGE)
        adapter = with_base(look_into(folder, Origin.FOLDER), found, base)
        if not adapter.can_be_loaded:
            raise CommandError(f"--lora-modules: {folder}: {adapter.trouble}")
        modules[name] = OfferedModel(
            name, folder, (adapter.name,), found=adapter, base=adapter.base
        )
    return [*modules.values()][len(offered) :]


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
            aliases=(*model.aliases, *aliases.get(model.id, ())),
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
        if model.is_adapter and model.base is None:
            continue
        name = model.name
        if name in offers:
            if offers[name].folder.resolve() == model.folder.resolve():
                continue
            name = f"{model.folder.parent.name}/{name}"
        # The adapter's own name is enough where it is the only one.
        aliases = (model_name(model.folder),) if model.is_adapter else ()
        offer = OfferedModel(name, model.folder, aliases, found=model, base=model.base)
        offers.setdefault(name, offer)
    named = Counter(alias for offer in offers.values() for alias in offer.aliases)
    return [
        replace(offer, aliases=tuple(alias for alias in offer.aliases if named[alias] == 1))
        for offer in offers.values()
    ]
