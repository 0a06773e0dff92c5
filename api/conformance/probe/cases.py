"""The catalogue's values: what a case checks, how binding that is, and who says so.

Pure values; any thread.
"""

from dataclasses import dataclass
from enum import StrEnum

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects.references import Reference, Topic, reference


class Level(StrEnum):
    """How binding a case is.

    A specification is written down by the dialect's vendor. An extension is in common use but in
    no vendor's reference. An opinion is what users expect where nobody has written anything.
    """

    SPECIFICATION = "specification"
    EXTENSION = "extension"
    OPINION = "opinion"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that a probe checks.

    Attributes:
        code: A stable id for programs, such as ``stop.one_character``.
        title: What is checked.
        rule: What a server must do, in a sentence of ours.
        topic: What the references that state it speak of.
        level: How binding it is where the dialect's vendor states it.
        weaker_in: Dialects in which it is an opinion.
    """

    code: str
    title: str
    rule: str
    topic: Topic
    level: Level = Level.SPECIFICATION
    weaker_in: frozenset[WireDialect] = frozenset()

    def reference_in(self, dialect: WireDialect) -> Reference | None:
        """Return what the dialect's vendor says, or None where it says nothing."""
        return reference(dialect, self.topic)

    def level_in(self, dialect: WireDialect) -> Level:
        """Return the level in a dialect: what its vendor does not state is an extension."""
        if dialect in self.weaker_in:
            return Level.OPINION
        if self.level is Level.SPECIFICATION and self.reference_in(dialect) is None:
            return Level.EXTENSION
        return self.level
