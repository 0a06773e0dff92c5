"""The catalogue of checks as a list for a terminal, as data, and as a table. Pure; any thread."""

from collections.abc import Iterator
from typing import Any

from api.conformance.probe.cases import Case, Level
from api.conformance.probe.catalogue.every_case import CASES
from api.conformance.probe.dialects.drivers import DRIVERS
from api.conformance.probe.reports.as_data import FORMAT


def catalogue_as_text() -> str:
    """Return the checks for a terminal: id, level, rule, and where each vendor states it."""
    return "\n".join(_lines()) + "\n"


def catalogue_as_data() -> dict[str, Any]:
    """Return the checks as an object that ``json`` can write."""
    return {
        "format": FORMAT,
        "checks": [
            {
                "code": case.code,
                "title": case.title,
                "rule": case.rule,
                "level": case.level,
                "dialects": [_in_dialect(case, dialect) for dialect in DRIVERS],
            }
            for case in CASES
        ],
    }


def catalogue_as_table() -> str:
    """Return the checks as a table in Markdown: the list of ``.github/CONFORMANCE.md``."""
    lines = ["| id | level | rule | an extension in |", "| --- | --- | --- | --- |"]
    for case in CASES:
        rule = case.rule.replace("|", "\\|")
        lines.append(f"| `{case.code}` | {case.level} | {rule} | {_extension_in(case)} |")
    return "\n".join(lines)


def references_as_table() -> str:
    """Return the vendors' references as a table in Markdown."""
    found: dict[tuple[str, str], str] = {}
    for dialect in DRIVERS:
        for case in CASES:
            reference = case.reference_in(dialect)
            if reference is not None:
                found[dialect, case.topic] = f"[{reference.sentence}]({reference.address})"
    lines = ["| dialect | about | what its vendor says |", "| --- | --- | --- |"]
    lines += [f"| {dialect} | {topic} | {said} |" for (dialect, topic), said in found.items()]
    return "\n".join(lines)


def _in_dialect(case: Case, dialect: Any) -> dict[str, Any]:
    reference = case.reference_in(dialect)
    return {
        "dialect": dialect,
        "level": case.level_in(dialect),
        "reference": None if reference is None else reference.address,
        "sentence": None if reference is None else reference.sentence,
    }


def _lines() -> Iterator[str]:
    for case in CASES:
        yield f"{case.code}  ({case.level})"
        yield f"    {case.title}: {case.rule}"
        addresses: dict[str, list[str]] = {}
        for dialect in DRIVERS:
            reference = case.reference_in(dialect)
            if reference is not None:
                addresses.setdefault(reference.address, []).append(dialect)
        for address, dialects in addresses.items():
            yield f"    {', '.join(dialects)}: {address}"
        if extensions := _extension_in(case):
            yield f"    an extension in {extensions}"


def _extension_in(case: Case) -> str:
    """Return the dialects in which a rule is an extension."""
    if case.level is not Level.SPECIFICATION:
        return ""
    return ", ".join(one for one in DRIVERS if case.level_in(one) is Level.EXTENSION)
