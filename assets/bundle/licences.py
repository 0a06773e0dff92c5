"""Gathers the licences of everything inside a bundle into one text. Reads files, writes none."""

import re
from collections.abc import Iterable
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

_LICENCE_NAME = re.compile(r"(licen[cs]e|copying|notice|authors)", re.IGNORECASE)
_LINE = "=" * 78
_HEAD = """\
Fullstop contains the following software. Each part stands under its own licence, which follows
its name. Qt and PySide6 are used under the LGPL, version 3: their libraries are separate files in
this bundle and may be replaced by others.
"""
_NO_TEXT = "\nIt brings no text; those of common licences stand at the end.\n"


def gathered(site_packages: Path, python_licence: Path, common: Iterable[Path] = ()) -> str:
    """Return one text with the licence of Python and of each installed package.

    Args:
        site_packages: Where the packages are.
        python_licence: Python's own licence.
        common: Texts of licences that packages name without bringing them; they come last.
    """
    python = python_licence.read_text(encoding="utf-8", errors="replace")
    parts = [_HEAD, _part("Python", "Python Software Foundation License", [("LICENSE", python)])]
    for folder in sorted(site_packages.glob("*.dist-info"), key=lambda path: path.name.lower()):
        text = (folder / "METADATA").read_text(encoding="utf-8", errors="replace")
        about = HeaderParser().parsestr(text)
        name = f"{about['Name']} {about['Version']}"
        parts.append(_part(name, _stated(about), _texts(folder)))
    for file in sorted(common):
        text = file.read_text(encoding="utf-8")
        parts.append(_part(file.stem, "its text", [(file.name, text)]))
    return "\n".join(parts)


def _part(name: str, stated: str, texts: list[tuple[str, str]]) -> str:
    head = f"{_LINE}\n{name}\nLicence: {stated}\n{_LINE}\n"
    if not texts:
        return head + _NO_TEXT
    return head + "\n".join(f"\n--- {file}\n\n{text.strip()}\n" for file, text in texts)


def _stated(about: Message) -> str:
    """Return the licence that a package's metadata states, in a line."""
    if expression := about.get("License-Expression"):
        return str(expression)
    classified = [
        str(one).rpartition(" :: ")[2]
        for one in about.get_all("Classifier") or []
        if str(one).startswith("License :: ")
    ]
    lines = str(about.get("License") or "").strip().splitlines()
    # Some put the whole text there; its first line names it.
    return "; ".join(classified) or (lines[0].strip() if lines else "not stated")


def _texts(folder: Path) -> list[tuple[str, str]]:
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and (_LICENCE_NAME.search(path.name) or path.relative_to(folder).parts[0] == "licenses")
    ]
    return [
        (path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8", errors="replace"))
        for path in files
    ]
