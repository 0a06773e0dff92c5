"""All servers of the family with one fault."""

from tests.api.conformance.probe.family.faulty import reasons, requests, streams, texts
from tests.api.conformance.probe.family.faulty.fault import Faulty

FAULTY: tuple[type[Faulty], ...] = tuple(
    one
    for room in (texts, reasons, streams, requests)
    for one in vars(room).values()
    if isinstance(one, type) and issubclass(one, Faulty) and vars(one).get("finds")
)
