"""The models of a hub: suggestions, a search, and details of one of them.

Main thread. Requests to the hub, the import of its library and the reading of memory sizes run on
other threads. A request that is no longer wanted is cancelled there, and its result is ignored.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, TypeVar

from PySide6.QtCore import QObject, Signal

from engine.library.downloads import repository_of
from engine.library.hub import Hub, HubCancelled, HubFailed
from engine.library.hub_models import (
    MAX_RESULTS,
    USUAL_RESULTS,
    HubModel,
    HubModels,
    card,
    look_up,
    search,
    with_needs,
)
from engine.library.memory_need import USUAL_CONTEXT, Fit, Memory, MemoryNeed
from engine.library.suggestions import suggestions
from engine.values.verdict import UNEXPECTED
from engine.wording import as_sentence, counted, format_size
from ui.kit.dates import format_day
from ui.kit.tasks import cancel_tasks, finish_tasks, restart_task, start_task
from ui.models.model_library import ModelLibrary
from ui.models.model_words import fit_text, matches, readable_card, short_reason
from ui.words import THIS_COMPUTER, Tone

FITS: dict[Fit, tuple[str, str, Tone]] = {
    Fit.FITS: (f"Fits {THIS_COMPUTER}", "check", "done"),
    Fit.TIGHT: ("Fits if you close other apps", "warning", "limit"),
    Fit.TOO_LARGE: (f"Too large for {THIS_COMPUTER}", "fault", "fault"),
}
_UNKNOWN_FIT: tuple[str, str, Tone] = ("Memory need not known", "mark", "quiet")
_CHECKING: tuple[str, str, Tone] = ("Checking if it fits…", "spinner", "quiet")
CardStage = Literal["none", "reading", "shown", "missing"]
_SEARCH, _CARD, _DETAILS = "search the hub", "read a model card", "ask for a model's details"
_MAX_CARD_CHARS = 12_000
T = TypeVar("T")
_log = logging.getLogger(__name__)
# The orders of a list, and what each is called. Of equal ones, the most downloaded stand first.
ORDERS = {
    "fit": "Best Fit",
    "downloads": "Most Downloaded",
    "newest": "Newest",
    "smallest": "Smallest",
    "largest": "Largest",
}
_FIT_RANKS = {Fit.FITS: 0, Fit.TIGHT: 1, None: 2, Fit.TOO_LARGE: 3}
FindStage = Literal["idle", "asking", "listed", "failed"]


@dataclass(frozen=True, slots=True)
class HubResult:
    """A model of the hub in the list."""

    model: HubModel
    purpose: str = ""
    is_checked: bool = False

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Its figures and the facts of the hub, each with its name."""
        model = self.model
        return [
            ("Size", format_size(model.size_bytes) if model.size_bytes else ""),
            ("Quantization", f"{model.bits}-bit" if model.bits else ""),
            ("Downloads", f"{model.downloads:,}" if model.downloads else ""),
            ("Updated", "" if model.updated is None else _day(model.updated)),
            ("License", model.license),
            ("Access", "Gated" if model.is_gated else ""),
        ]

    @property
    def standing(self) -> str:
        """Its use, or how often and since when it is downloaded."""
        model = self.model
        if self.purpose:
            return self.purpose[:1].upper() + self.purpose[1:]
        updated = "" if model.updated is None else _day(model.updated)
        downloads = _downloads(model.downloads) if model.downloads else ""
        return " · ".join(filter(None, (downloads, updated)))


def _day(day: date) -> str:
    return format_day(time.mktime(day.timetuple()))


def _downloads(count: int) -> str:
    """Return a number of downloads in short form: ``97k downloads``."""
    for unit, factor in (("M", 1_000_000), ("k", 1_000)):
        if count >= 10 * factor:
            return f"{count / factor:,.0f}{unit} downloads"
    return counted(count, "download")


def fit_state(result: HubResult, memory: Memory) -> tuple[str, str, Tone]:
    """Return whether a result can be loaded and fits: in words, with an icon and a tone."""
    if result.model.problem:
        return short_reason(result.model.problem), "fault", "fault"
    fit = result.model.fit(memory)
    if fit is not None:
        text, icon, tone = FITS[fit]
        return (f"{text} · gated" if result.model.is_gated else text), icon, tone
    if result.is_checked and result.model.is_gated:
        return "Gated: its terms have to be accepted", "warning", "limit"
    return _UNKNOWN_FIT if result.is_checked else _CHECKING


def fit_sentence(result: HubResult, memory: Memory) -> str:
    """Return whether a result fits into the memory of this computer, with figures."""
    need, fit = result.model.need, result.model.fit(memory)
    if need is None:
        if fit is Fit.TOO_LARGE:
            return f"Its weights alone exceed the {format_size(memory.usable)} of {THIS_COMPUTER}."
        if result.model.is_gated:
            return ""  # its terms have to be accepted first
        if result.is_checked:
            return "The hub does not say how much memory it needs."
        return "Reading how much memory it needs…"
    assert fit is not None
    return fit_text(need, fit, memory) or _roomy(need, memory)


def _roomy(need: MemoryNeed, memory: Memory) -> str:
    minimum = "" if need.context >= USUAL_CONTEXT else ", its longest"
    return (
        f"Fits {THIS_COMPUTER}: it needs about {format_size(need.total)} with "
        f"{counted(need.context, 'token')} of context{minimum}; {format_size(memory.available)} "
        "are free now."
    )


async def ask_hub(ask: Callable[..., T], *values: object) -> T:
    """Call a function that waits for the hub; a cancelled task cancels the request."""
    hub = Hub()
    try:
        return await asyncio.to_thread(ask, hub, *values)
    finally:
        hub.gives_up.set()


# Waits for the hub, so never call it on the main thread.


def found_for(hub: Hub, text: str, limit: int) -> HubModels:
    """Search the hub; the name of a repository finds that one too, even if it lacks the MLX tag."""
    repository = _repository(text)
    if not repository:
        return search(hub, text, limit)
    exact, problem = None, None
    try:
        exact = look_up(hub, repository)
    except HubCancelled:
        raise
    except HubFailed as error:
        problem = error
    others, has_more = search(hub, repository, limit)
    if exact is None:
        if not others and problem is not None:
            raise problem
        return others, has_more
    return (exact, *(model for model in others if model.name != exact.name)), has_more


def _repository(text: str) -> str:
    try:
        return repository_of(text)
    except HubFailed:
        return ""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The beginning of a model card, or why there is none."""

    name: str = ""
    stage: CardStage = "none"
    text: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class SortAndFilter:
    """How the results of a search are listed."""

    order: str = "fit"
    bits: int | None = None
    fits_only: bool = False

    def arranged(self, results: Sequence[HubResult], memory: Memory) -> list[HubResult]:
        kept = [
            result
            for result in results
            if self.bits in (None, result.model.bits or 0)
            and not (self.fits_only and self._rank(result, memory) == _FIT_RANKS[Fit.TOO_LARGE])
        ]
        match self.order:
            case "newest":
                kept.sort(key=lambda result: result.model.updated or date.min, reverse=True)
            case "smallest":
                kept.sort(key=lambda result: result.model.size_bytes or math.inf)
            case "largest":
                kept.sort(key=lambda result: result.model.size_bytes or 0, reverse=True)
            case "fit":
                kept.sort(key=lambda result: self._rank(result, memory))
            case _:
                pass  # as the hub has sorted them
        return kept

    @staticmethod
    def _rank(result: HubResult, memory: Memory) -> int:
        if result.model.problem:
            return _FIT_RANKS[Fit.TOO_LARGE]
        return _FIT_RANKS[result.model.fit(memory)]


class Finder(QObject):
    """Searches the hub for models, one query at a time; a new query replaces the running one."""

    changed = Signal()
    result_changed = Signal()
    card_changed = Signal()

    def __init__(self, library: ModelLibrary, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self.stage: FindStage = "idle"
        self.query = ""
        self.results: list[HubResult] = []
        self.arrangement = SortAndFilter()
        # All results of the query, as the hub has sorted them.
        self._found: list[HubResult] = []
        self.has_more = False
        self.problem = ""
        self.memory = Memory(0, 0)
        self.card = ModelCard()
        self._cards: dict[str, ModelCard] = {}  # those read in this session
        self._limit = USUAL_RESULTS
        # Whether ``results`` belongs to the present query; until then the old results stay.
        self._is_answered = False

    @property
    def is_suggesting(self) -> bool:
        """Whether the results are suggestions: without words, and without an answer of the hub."""
        return not self.query or self.stage == "failed"

    @property
    def can_show_more(self) -> bool:
        return self.stage == "listed" and self.has_more and self._limit < MAX_RESULTS

    def search(self, text: str) -> None:
        """Search for models whose names contain all words; without words, show suggestions."""
        self._limit = USUAL_RESULTS
        self._is_answered = False
        self._ask(text.strip())

    def arrange(self, arrangement: SortAndFilter) -> None:
        if arrangement != self.arrangement:
            self.arrangement = arrangement
            self._arrange()

    @property
    def left_out(self) -> int:
        return 0 if self.is_suggesting else len(self._found) - len(self.results)

    @property
    def bits_found(self) -> list[int]:
        """The bits of a weight that the results have; 0 for weights that are not quantized."""
        return sorted({result.model.bits or 0 for result in self._found})

    def show_more(self) -> None:
        if self.can_show_more:
            self._limit = min(self._limit + USUAL_RESULTS, MAX_RESULTS)
            self._ask(self.query)

    def try_again(self) -> None:
        self._ask(self.query)
        if self.card.stage == "missing":
            self.look_at(self.card.name)

    def cancel(self) -> None:
        if self.stage == "asking":
            cancel_tasks(self, _SEARCH)
            self._fail("The search was cancelled.")

    def look_at(self, name: str) -> None:
        """Read the card of a result, and the facts that its list lacks; "" stops reading."""
        cancel_tasks(self, _CARD)
        cancel_tasks(self, _DETAILS)
        known = self._cards.get(name)
        self._show_card(known or ModelCard(name, "reading" if name else "none"))
        if name and known is None:
            start_task(self, self._read_card(name), _CARD)
        result = next((result for result in self.results if result.name == name), None)
        if result is not None and (result.purpose or result.model.size_bytes is None):
            start_task(self, self._read_details(name), _DETAILS)

    async def finish(self) -> None:
        """Cancel the requests to the hub; later answers are not shown."""
        cancel_tasks(self)
        self.blockSignals(True)  # the list chooses no model any more when it is deleted
        await finish_tasks(self)

    # -- asking ----------------------------------------------------------------------------

    def _ask(self, text: str) -> None:
        self.query = text
        self.stage, self.problem = "asking", ""
        self.changed.emit()
        restart_task(self, self._find(text, self._limit), _SEARCH)

    async def _find(self, text: str, limit: int) -> None:
        try:
            self.memory = await self._library.memory_now()
            if text:
                await self._search(text, limit)
            else:
                self._suggest()
        except HubFailed as error:
            self._fail(as_sentence(str(error)))
        except Exception:  # a bug must not leave the list waiting
            _log.exception("a search failed unexpectedly")
            self._fail(as_sentence(UNEXPECTED))

    async def _search(self, text: str, limit: int) -> None:
        models, self.has_more = await ask_hub(found_for, text, limit)
        self._list([HubResult(model) for model in models])
        unchecked = [result.model for result in self._found if not result.is_checked]
        # A few at a time: each takes a thread, and many threads would slow the main one down.
        for start in range(0, len(unchecked), 3):
            for model in await ask_hub(with_needs, tuple(unchecked[start : start + 3])):
                self._replace(model)
        if unchecked:
            self._arrange()  # only now is it known of each whether it fits

    def _suggest(self) -> None:
        self._list(self._suggestions())

    def _suggestions(self) -> list[HubResult]:
        terms = self.query.casefold().split()
        chosen = (one for one in suggestions(self.memory) if matches(one.name, terms))
        return [HubResult(one.model(), one.purpose, is_checked=True) for one in chosen]

    def _replace(self, model: HubModel) -> None:
        for results in (self._found, self.results):
            for position, result in enumerate(results):
                if result.name == model.name:
                    results[position] = replace(result, model=model, is_checked=True)
                    if results is self.results:
                        self.result_changed.emit()

    def _list(self, results: list[HubResult]) -> None:
        self.stage, self._found = "listed", results
        self._is_answered = True
        self._arrange()

    def _arrange(self) -> None:
        """Apply order and filter to the results; suggestions keep their own order."""
        found = self._found
        self.results = (
            list(found) if self.is_suggesting else self.arrangement.arranged(found, self.memory)
        )
        self.changed.emit()

    def _fail(self, problem: str) -> None:
        """Show a problem of the hub, with the present results or suggestions for the query."""
        self.stage, self.problem = "listed" if self._is_answered else "failed", problem
        if not self._is_answered:
            self._found, self.has_more = self._suggestions(), False
        self._arrange()

    async def _read_card(self, name: str) -> None:
        try:
            text = await ask_hub(card, name)
        except HubFailed as error:
            shown = ModelCard(name, "missing", as_sentence(str(error)))
        except Exception:  # a bug must not leave the preview waiting
            _log.exception("a model card could not be read")
            shown = ModelCard(name, "missing", as_sentence(UNEXPECTED))
        else:
            text = readable_card(text)
            begun = text[:_MAX_CARD_CHARS]
            if is_cut := begun != text:
                begun = begun.rpartition("\n")[0] or begun
            empty = ModelCard(name, "missing", "It has no model card.")
            shown = ModelCard(name, "shown", begun, is_cut) if begun.strip() else empty
            self._cards[name] = shown
        self._show_card(shown)

    def _show_card(self, shown: ModelCard) -> None:
        self.card = shown
        self.card_changed.emit()

    async def _read_details(self, name: str) -> None:
        try:
            model = await ask_hub(look_up, name)
        except HubFailed:
            return  # the place of the card says why
        self._replace(model)


def list_summary(finder: Finder) -> str:
    """Return how many results there are, in short."""
    count = len(finder.results)
    if finder.stage == "asking":
        return "Searching…"
    first = "the first " if finder.has_more else ""
    if finder.left_out:
        return f"{count:,} of {first}{counted(count + finder.left_out, 'model')}"
    return f"{first}{counted(count, 'model')}"
