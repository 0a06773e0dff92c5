"""A model that a hub offers, and what the window says about it. Pure; no Qt. Any thread."""

from dataclasses import dataclass

from engine import counted, size_in_words
from engine.library.hub.hub_model import HubModel
from engine.library.hub.suggestions import SuggestedModel
from engine.library.memory import USUAL_CONTEXT, Fit, Memory, MemoryNeed
from ui.models.model_library import LibraryModel
from ui.models.model_words import fit_words
from ui.words.tones import Tone

# A line breaks after the dot, not before it.
_GAP = "\u00a0\u00a0·  "
_FITS = {
    Fit.FITS: ("Fits", "check", Tone.DONE),
    Fit.TIGHT: ("Tight", "warning", Tone.LIMIT),
    Fit.TOO_LARGE: ("Too large", "fault", Tone.FAULT),
}
_UNKNOWN_FIT = ("Not known", "mark", Tone.QUIET)
_CHECKING = ("Checking…", "spinner", Tone.QUIET)
_CANNOT_LOAD = ("Cannot load", "fault", Tone.FAULT)


@dataclass(frozen=True, slots=True)
class Offer:
    """A model in the list of those that can be downloaded."""

    model: HubModel
    purpose: str = ""
    is_checked: bool = False

    @property
    def name(self) -> str:
        """``owner/name``."""
        return self.model.name

    @property
    def spoken(self) -> str:
        """Its facts as a screen reader reads them."""
        words = (self.purpose, *_facts(self.model), self.model.problem)
        return ", ".join(word for word in words if word)


def suggested(own: SuggestedModel) -> Offer:
    """Return a suggestion with the facts that are known without the hub."""
    return Offer(own.model(), own.purpose, is_checked=True)


def local_offer(one: LibraryModel) -> Offer:
    """Return a model of this computer as an offer, for a list without the hub."""
    found = one.found
    model = HubModel(
        found.name,
        found.size_bytes or None,
        found.bits,
        need=one.need,
        problem=found.obstacle,
    )
    return Offer(model, is_checked=True)


def offer_facts(offer: Offer) -> str:
    """Return the facts about an offer, in one line."""
    return _GAP.join(_facts(offer.model))


def row_words(offer: Offer) -> str:
    """Return the second line of an offer's row: why it cannot be loaded, or its facts."""
    return offer.model.problem or offer_facts(offer)


def _facts(model: HubModel) -> list[str]:
    words = []
    if model.size_bytes is not None:
        words.append(size_in_words(model.size_bytes))
    if model.bits is not None:
        words.append(f"{model.bits} bit")
    if model.downloads:
        words.append(_downloads(model.downloads))
    if model.updated is not None:
        words.append(model.updated.isoformat())
    if model.license:
        words.append(model.license)
    if model.is_gated:
        words.append("gated")
    return words


def _downloads(count: int) -> str:
    """Return a number of downloads in short form: ``97k downloads``."""
    for unit, factor in (("M", 1_000_000), ("k", 1_000)):
        if count >= 10 * factor:
            return f"{count / factor:,.0f}{unit} downloads"
    return counted(count, "download")


def fit_state(offer: Offer, memory: Memory) -> tuple[str, str, Tone]:
    """Return whether an offer can be loaded and fits: in a word, with an icon and a tone."""
    if offer.model.problem:
        return _CANNOT_LOAD
    fit = offer.model.fit(memory)
    if fit is not None:
        return _FITS[fit]
    return _UNKNOWN_FIT if offer.is_checked else _CHECKING


def fit_sentence(offer: Offer, memory: Memory) -> str:
    """Return whether an offer fits into the memory of this computer, with figures."""
    need, fit = offer.model.need, offer.model.fit(memory)
    if need is None:
        if fit is Fit.TOO_LARGE:
            return f"Its weights alone exceed the {size_in_words(memory.usable)} of this computer."
        if offer.is_checked and offer.model.is_gated:
            return "The memory it needs is known once you have accepted its terms."
        if offer.is_checked:
            return "The hub does not say how much memory it needs."
        return "Reading how much memory it needs…"
    assert fit is not None
    return fit_words(need, fit, memory) or _roomy(need, memory)


def _roomy(need: MemoryNeed, memory: Memory) -> str:
    least = "" if need.context >= USUAL_CONTEXT else ", its longest"
    return (
        f"Fits this computer: it needs about {size_in_words(need.total)} with "
        f"{counted(need.context, 'token')} of context{least}; {size_in_words(memory.available)} "
        "are free now."
    )
