"""The rows of a stop list."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from engine.stopping.rules import Stop, StopRules, StopScope


@dataclass(frozen=True, slots=True)
class StopEntry:
    """A row of a stop list: a stop, its text exactly as it was entered, and whether it is used."""

    stop: Stop
    is_enabled: bool = True

    @classmethod
    def of(cls, text: str, is_enabled: bool = True, **options: Any) -> "StopEntry":
        """Return the row of a text, with options of ``Stop``."""
        return cls(Stop(text, **options), is_enabled)

    @property
    def scope(self) -> StopScope:
        """Where it applies."""
        return self.stop.scope or StopScope.TEXT

    def within(self, scope: StopScope) -> "StopEntry":
        """Return the row of the same stop that applies elsewhere."""
        own = None if scope is StopScope.TEXT else scope
        return replace(self, stop=replace(self.stop, scope=own))


def rules_of(entries: Iterable[StopEntry]) -> StopRules:
    """Return the rules of a stop list: the enabled ones, without duplicates and empty ones."""
    counting: dict[str, Stop] = {}
    for entry in entries:
        if entry.is_enabled and entry.stop.text:
            counting.setdefault(entry.stop.text, entry.stop)
    return StopRules(tuple(counting.values()))
