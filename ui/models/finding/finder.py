"""The models of a hub: suggestions, a search, and details of one of them.

Main thread. Requests to the hub, the import of its library and the reading of memory sizes run on
other threads. A request that is no longer wanted is cancelled there, and its result is ignored.
"""

import asyncio
import logging
import threading
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Literal

from PySide6.QtCore import QObject, QTimer, Signal

from engine import UNEXPECTED, as_sentence, counted
from engine.library.hub import searching
from engine.library.hub.asking import Hub, warm_up
from engine.library.hub.hub_model import HubModel
from engine.library.hub.searching import MOST_RESULTS, USUAL_RESULTS
from engine.library.hub.suggestions import WRITTEN_ON, suggestions
from engine.library.hub_failures import HubCancelled, HubFailed
from engine.library.memory import Memory
from ui.kit.background.tasks import Tasks
from ui.models.finding.asking import found_for
from ui.models.finding.cards import Cards
from ui.models.finding.offers import Offer, local_offer, suggested
from ui.models.model_library import ModelLibrary

FindStage = Literal["idle", "asking", "listed", "failed"]

_SLOW_MS = 3000
# How many configurations are requested at the same time. Each takes a thread, and many threads
# would slow the main one down.
_TOGETHER = 3
_MOST_KNOWN = 1000

_log = logging.getLogger(__name__)


class Finder(QObject):
    """Searches the hub for models, one query at a time; a new query replaces the running one.

    Signals:
        changed: The list or the stage of the query has changed.
        offer_changed: More is known about an offer in the list; carries its index.
    """

    changed = Signal()
    offer_changed = Signal(int)

    def __init__(self, library: ModelLibrary, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._tasks = Tasks()
        self.stage: FindStage = "idle"
        self.query = ""
        self.offers: list[Offer] = []
        self.has_more = False
        self.problem = ""
        self.memory = Memory(0, 0)
        self.is_slow = False
        self.cards = Cards(self)
        self._most = USUAL_RESULTS
        # Whether ``offers`` belongs to the present query; until then the old offers stay.
        self._is_answered = False
        self._known: dict[str, HubModel] = {}
        self._hub = Hub()
        self._size_hub = Hub()
        self._slow = QTimer(self, singleShot=True, interval=_SLOW_MS)
        self._slow.timeout.connect(self._say_slow)

    @property
    def is_offline(self) -> bool:
        """Whether the list has the models of this computer, because the hub was not reached."""
        return self.stage == "failed"

    @property
    def can_show_more(self) -> bool:
        """Whether the hub has more models, and the list may still grow."""
        return self.stage == "listed" and self.has_more and self._most < MOST_RESULTS

    def begin(self) -> None:
        """Show suggestions, if nothing was searched for yet. Needs the running loop."""
        if self.stage == "idle":
            # Importing the hub's library takes half a second, so it begins before a word is typed.
            threading.Thread(target=warm_up, name="import the hub's library", daemon=True).start()
            self.search("")

    def search(self, text: str) -> None:
        """Search for models whose names contain all words; without words, show suggestions."""
        self._most = USUAL_RESULTS
        self._is_answered = False
        self._ask(text.strip())

    def show_more(self) -> None:
        """Ask for more results of the same query."""
        if self.can_show_more:
            self._most = min(self._most + USUAL_RESULTS, MOST_RESULTS)
            self._ask(self.query)

    def try_again(self) -> None:
        """Repeat the query."""
        self._ask(self.query)
        self.cards.try_again()

    def cancel(self) -> None:
        """Cancel the search."""
        if self.stage == "asking":
            self._hub.gives_up.set()
            self._fail("The search was cancelled.")

    def look_at(self, name: str) -> None:
        """Read the card of an offer, and its size if the list has none; "" stops reading."""
        self.cards.show(name)
        self._size_hub.gives_up.set()
        self._size_hub = Hub()
        offer = self.offer(name)
        if offer is not None and offer.model.size_bytes is None:
            self._tasks.start(self._read_size(name, self._size_hub), "ask for a model's size")

    def offer(self, name: str) -> Offer | None:
        """Return the offer with a name."""
        return next((one for one in self.offers if one.name == name), None)

    async def finish(self) -> None:
        """Cancel the requests to the hub, and wait for their end."""
        self._slow.stop()
        self._hub.gives_up.set()
        self._size_hub.gives_up.set()
        await self.cards.finish()
        await self._tasks.finish()

    # -- asking ----------------------------------------------------------------------------

    def _ask(self, text: str) -> None:
        self._hub.gives_up.set()
        hub = self._hub = Hub()
        self.query = text
        self.stage, self.problem, self.is_slow = "asking", "", False
        self._slow.start()
        self.changed.emit()
        work = self._search(hub, text, self._most) if text else self._suggest(hub)
        self._tasks.start(self._guarded(work, hub), "search the hub")

    async def _guarded(self, work: Coroutine[Any, Any, None], hub: Hub) -> None:
        try:
            await work
        except HubCancelled:
            pass
        except HubFailed as error:
            if hub is self._hub:
                self._fail(as_sentence(str(error)))
        except Exception:  # a bug must not leave the list waiting
            _log.exception("a search failed unexpectedly")
            if hub is self._hub:
                self._fail(as_sentence(UNEXPECTED))

    async def _search(self, hub: Hub, text: str, most: int) -> None:
        memory = asyncio.create_task(self._library.memory_now())
        try:
            found = await asyncio.to_thread(found_for, hub, text, most)
        finally:
            self.memory = await memory
        if hub is not self._hub:
            return
        self.has_more = found.has_more
        self._list([self._offer(one) for one in found.models])
        for start in range(0, len(self.offers), _TOGETHER):
            await self._check(hub, start)

    async def _check(self, hub: Hub, start: int) -> None:
        """Read how much memory some offers of the list need."""
        places = range(start, min(start + _TOGETHER, len(self.offers)))
        asked = [place for place in places if not self.offers[place].is_checked]
        models = tuple(self.offers[place].model for place in asked)
        if models:
            answered = await asyncio.to_thread(searching.with_needs, hub, models)
            if hub is self._hub:
                for place, model in zip(asked, answered, strict=True):
                    self._replace(place, model)

    async def _suggest(self, hub: Hub) -> None:
        """Show suggestions at once, then add what the hub says about them."""
        self.memory = await self._library.memory_now()
        if hub is not self._hub:
            return
        chosen = suggestions(self.memory)
        self._list([suggested(one) for one in chosen])
        try:
            said = await asyncio.to_thread(
                searching.look_up_all, hub, tuple(one.name for one in chosen)
            )
        except HubCancelled:
            raise
        except HubFailed as error:
            if hub is self._hub:
                self._fail(as_sentence(str(error)))
            return
        if hub is self._hub:
            for place, model in enumerate(said):
                if model is not None:
                    self._replace(place, model)

    def _offer(self, model: HubModel) -> Offer:
        """Return an offer; it counts as checked if the same revision was checked before."""
        known = self._known.get(model.name)
        if known is not None and known.commit == model.commit:
            model = replace(model, need=known.need, bits=known.bits, size_bytes=known.size_bytes)
        return Offer(model, is_checked=model.need is not None)

    def _replace(self, place: int, model: HubModel) -> None:
        if model.need is not None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[model.name] = model
        self.offers[place] = replace(self.offers[place], model=model, is_checked=True)
        self.offer_changed.emit(place)

    def _list(self, offers: list[Offer]) -> None:
        self._slow.stop()
        self.stage, self.is_slow, self.offers = "listed", False, offers
        self._is_answered = True
        self.changed.emit()

    def _fail(self, problem: str) -> None:
        """Say why the hub did not answer; list what is on this computer if there is no list yet."""
        self._slow.stop()
        self.stage = "listed" if self.query and self._is_answered else "failed"
        if self.is_offline:
            here = self._local()
            names = {one.name for one in here}
            # Suggestions are data of this program, so they are there without a hub.
            known = self.offers if self._is_answered else []
            self.offers = [*here, *(one for one in known if one.name not in names)]
            self.has_more = self._is_answered = False
        self.problem, self.is_slow = problem, False
        self.changed.emit()

    def _local(self) -> list[Offer]:
        """Return the models on this computer whose names have all words of the query."""
        words = self.query.casefold().split()
        return [
            local_offer(one)
            for one in self._library.models
            if all(word in one.found.name.casefold() for word in words)
        ]

    def _say_slow(self) -> None:
        self.is_slow = True
        self.changed.emit()

    async def _read_size(self, name: str, hub: Hub) -> None:
        """Ask for the sizes of the files if the list has no size."""
        try:
            model = await asyncio.to_thread(searching.look_up, hub, name)
        except HubFailed:
            return  # the place of the card says why
        place = next((at for at, one in enumerate(self.offers) if one.name == name), None)
        if place is not None:
            self._replace(place, model)


def list_words(finder: Finder) -> str:
    """Return what the list contains, in a few words."""
    count = len(finder.offers)
    if finder.stage == "asking":
        return "The hub is slow to answer…" if finder.is_slow else "Searching…"
    if finder.is_offline:
        here = sum(not one.purpose for one in finder.offers)
        return f"{counted(here, 'model')} on this computer"
    if not finder.query:
        return f"{counted(count, 'model')} that fit, chosen on {WRITTEN_ON.isoformat()}"
    more = "the first " if finder.has_more else ""
    return f"{more}{counted(count, 'model')}, most downloaded first"
