"""Offers the models of the library to other programs; each is loaded when it is needed.

Requests choose a model by the field ``model``, unless the preferences let the default model answer
all of them. Main thread.
"""

from dataclasses import replace

from app.served_models import offered_models
from engine import Engine, OfferedModel
from engine.library.model_files import model_name
from ui.models.model_choices import ChoicesState
from ui.models.model_library import ModelLibrary


def sync_offers(engine: Engine, library: ModelLibrary) -> None:
    """Offer the library's models and the loaded one, and again when either changes."""
    library.changed.connect(lambda: offer_found(engine, library))

    def offer_loaded() -> None:
        if any(model.is_loaded and model.offered is None for model in engine.models):
            offer_found(engine, library)

    library.models.changed.connect(offer_loaded)


def offer_found(engine: Engine, library: ModelLibrary) -> None:
    """Let requests name the models of the library, and loaded models outside of it."""
    if library.is_looking or not library.has_looked:
        return
    offers = [
        _resolved(offered, library.choices)
        for offered in offered_models(model.found for model in library.local)
    ]
    there = {offer.folder for offer in offers}
    left = [
        model.offered or OfferedModel(model.id, model.folder, base=model.base)
        for model in engine.models
        if model.is_loaded and model.folder not in there
    ]
    names = {offer.id for offer in left}
    engine.offer([*left, *(offer for offer in offers if offer.id not in names)])


def _resolved(model: OfferedModel, choices: ChoicesState) -> OfferedModel:
    """Return a model at the folder that a link leads to, with the choices and names of both."""
    folder = model.folder.resolve()
    own = model_name(folder)
    aliases = model.aliases if own == model.id else (*model.aliases, own)
    draft, template = choices.draft_of(folder), choices.template_of(folder)
    base = model.base and model.base.resolve()
    return replace(
        model, folder=folder, base=base, draft=draft, aliases=aliases, user_template=template
    )
