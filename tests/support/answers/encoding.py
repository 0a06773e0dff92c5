"""The output of a stream encoder for an answer, as tests read it."""

import itertools
import json
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from api.transport.answer_text import SseEvent
from engine.values.events import Event

Out = TypeVar("Out", covariant=True)


class Encoder(Protocol[Out]):
    def encode(self, batch: list[Event], /) -> Iterable[Out]: ...


def written(encoder: Encoder[Out], batches: Iterable[list[Event]]) -> list[Out]:
    """Return the whole output of an encoder for the batches of an answer."""
    return list(itertools.chain.from_iterable(encoder.encode(batch) for batch in batches))


def chunks(events: Iterable[SseEvent]) -> list[dict[str, Any]]:
    """Return the objects of a stream, without its end marker."""
    return [json.loads(event.data) for event in events if event.data != "[DONE]"]
