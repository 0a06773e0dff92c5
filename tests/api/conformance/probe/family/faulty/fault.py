"""A server of the family with a fault; its base class is the correct twin.

Each names what the probe must find: the first check that fails, and its fault.
"""

from typing import ClassVar

from api.conformance.captures.values import WireDialect
from tests.api.conformance.probe.family.server import FamilyServer

ALL = tuple(FamilyServer.DIALECTS)
NAMING = (WireDialect.MESSAGES, WireDialect.GENERATE)
OPENAI = (WireDialect.CHAT, WireDialect.COMPLETIONS)
SSE = tuple(one for one in ALL if one is not WireDialect.OLLAMA)


class Faulty(FamilyServer):
    """A server with a fault.

    Attributes:
        finds: The checks that must fail for a cause of their own, each with its faults.
        shows: Likewise, in the dialects where others fail.
        dialects: The dialects in which the fault exists.
    """

    finds: ClassVar[dict[str, set[str]]]
    shows: ClassVar[dict[WireDialect, dict[str, set[str]]]] = {}
    dialects = ALL
