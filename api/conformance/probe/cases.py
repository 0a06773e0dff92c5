"""The catalogue's values: what a case checks, how binding it is, and its reference.

Pure values; any thread.
"""

from dataclasses import dataclass
from enum import StrEnum

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects.references import Reference, Topic, reference


class Level(StrEnum):
    """How binding a case is.

    A specification is in the reference of the dialect's vendor. An extension is in common use but
    in no vendor's reference. An opinion is what users expect, without any reference.
    """

    SPECIFICATION = "specification"
    EXTENSION = "extension"
    OPINION = "opinion"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that a probe checks.

    Attributes:
        code: A stable id, such as ``stop.one_character``.
        title: What is checked.
        rule: What a server must do, as a sentence.
        topic: The topic of the references that state it.
        level: How binding it is if the dialect's vendor states it.
        weaker_in: Dialects in which it is an opinion.
    """

    code: str
    title: str
    rule: str
    topic: Topic
    level: Level = Level.SPECIFICATION
    weaker_in: frozenset[WireDialect] = frozenset()

    def reference_in(self, dialect: WireDialect) -> Reference | None:
        """Return the reference of the dialect's vendor, or None."""
        return reference(dialect, self.topic)

    def level_in(self, dialect: WireDialect) -> Level:
        """Return the level in a dialect; a rule that its vendor does not state is an extension."""
        if dialect in self.weaker_in:
            return Level.OPINION
        if self.level is Level.SPECIFICATION and self.reference_in(dialect) is None:
            return Level.EXTENSION
        return self.level
