"""The file of expected failures: checks that are known to fail, one per line. Pure; any thread."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from api.conformance.probe.catalogue.every_case import CASES
from api.conformance.probe.dialects.drivers import DRIVERS

_DIALECTS = tuple(dialect.value for dialect in DRIVERS)


class ExpectedFileWrong(ValueError):
    """A line names no check or no dialect; the message says which."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected failures.

    Attributes:
        entries: Pairs of a dialect (empty for all) and a pattern of check ids.
    """

    entries: tuple[tuple[str, str], ...] = ()

    def names(self, dialect: str, code: str) -> bool:
        """Whether the failure of a check is expected."""
        return any(
            where in ("", dialect) and fnmatchcase(code, pattern) for where, pattern in self.entries
        )


def read_expected(text: str) -> Expected:
    """Read a file: ``[dialect:]id`` on each line, ``#`` before comments.

    Raises:
        ExpectedFileWrong: A line names no check or no dialect.
    """
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        named = line.partition("#")[0].strip()
        if not named:
            continue
        dialect, colon, pattern = named.rpartition(":")
        if colon and dialect not in _DIALECTS:
            raise ExpectedFileWrong(
                f"line {number}: {dialect!r} is not a dialect ({', '.join(_DIALECTS)})"
            )
        if unknown := unknown_patterns([pattern]):
            raise ExpectedFileWrong(
                f"line {number}: no check has the id {unknown[0]!r}; fullstop probe --list has all"
            )
        entries.append((dialect, pattern))
    return Expected(tuple(entries))


def unknown_patterns(patterns: Iterable[str]) -> list[str]:
    """Return the patterns that match no check."""
    return [
        pattern for pattern in patterns if not any(fnmatchcase(one.code, pattern) for one in CASES)
    ]
