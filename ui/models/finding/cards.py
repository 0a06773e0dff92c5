"""The model card that the preview shows. Main thread; the hub is asked on another."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, Signal

from engine import UNEXPECTED, as_sentence
from engine.library.hub import searching
from engine.library.hub.asking import Hub
from engine.library.hub_failures import HubCancelled, HubFailed
from ui.kit.background.tasks import Tasks
from ui.models.finding.card_text import card_text

CardStage = Literal["none", "reading", "shown", "missing"]

_MOST_CHARS = 12_000
_MOST_KEPT = 40

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Card:
    """A model card, as the preview shows it."""

    stage: CardStage
    text: str = ""
    is_cut: bool = False


class Cards(QObject):
    """Reads one card at a time, and remembers some.

    Signals:
        changed: ``card`` has changed.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._tasks = Tasks()
        self._hub = Hub()
        self._kept: dict[str, Card] = {}
        self.wanted = ""
        self.card = Card("none")

    def show(self, name: str) -> None:
        """Read the card of a model; an empty name shows none."""
        self._hub.gives_up.set()
        self._hub = Hub()
        # A name without an owner is a folder of this computer; the hub does not know it.
        self.wanted = name if "/" in name else ""
        known = self._kept.get(name)
        self.card = known or Card("reading" if self.wanted else "none")
        self.changed.emit()
        if self.wanted and known is None:
            self._tasks.start(self._read(name, self._hub), "read a model card")

    def try_again(self) -> None:
        """Retry a card that could not be read."""
        if self.card.stage == "missing":
            self.show(self.wanted)

    async def finish(self) -> None:
        """Stop reading."""
        self._hub.gives_up.set()
        await self._tasks.finish()

    async def _read(self, name: str, hub: Hub) -> None:
        try:
            text, is_cut = await asyncio.to_thread(_card, hub, name)
        except HubCancelled:
            return
        except HubFailed as error:
            card = Card("missing", as_sentence(str(error)))
        except Exception:  # a bug must not leave the preview waiting
            _log.exception("a model card could not be read")
            card = Card("missing", as_sentence(UNEXPECTED))
        else:
            card = Card("shown", text, is_cut) if text else Card("missing", "The card is empty.")
            while len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[name] = card
        if hub is self._hub:
            self.card = card
            self.changed.emit()


def _card(hub: Hub, name: str) -> tuple[str, bool]:
    return card_text(searching.card(hub, name), _MOST_CHARS)
