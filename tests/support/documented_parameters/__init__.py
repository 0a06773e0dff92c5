"""The documented parameters of each API, and what becomes of them here."""

from typing import Any, Literal

# Honoured: the answer follows it. Refused: 400 that names it. Named: the header
# x-fullstop-not-applied has it. Neutral: no value of it changes an answer.
Treatment = Literal["honoured", "refused", "named", "neutral"]
# By their names, dotted inside objects: a value that asks for something, and the treatment.
Documented = dict[str, tuple[Any, Treatment]]
