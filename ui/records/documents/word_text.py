"""The text of a Word document. Runs in a helper process: files may be hostile."""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

MOST_UNPACKED_BYTES = 300 << 20
# Of one paragraph or table; each takes some 300 bytes.
MOST_ELEMENTS = 200_000
# The functions here call themselves for each level.
_DEEPEST = 1_000
_PIECE_BYTES = 1 << 16
_DOCUMENT, _STYLES = "word/document.xml", "word/styles.xml"
# https://ecma-international.org/publications-and-standards/standards/ecma-376/
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# What stands around words without being words. Deleted text has an element of its own.
_WRAPPERS = frozenset(
    f"{_W}{name}"
    for name in (
        "r", "hyperlink", "ins", "moveTo", "sdt", "sdtContent", "smartTag", "customXml",
        "fldSimple", "dir", "bdo",
    )
)  # fmt: skip
_MARKS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}


class DamagedDocument(Exception):
    """A file cannot be read, or is not of the kind that it seems to be."""


class EncryptedDocument(Exception):
    """A file needs a password."""


class DocumentTooLarge(Exception):
    """A file is too large when it is unpacked."""


class OtherZip(Exception):
    """A ZIP file is not a Word document."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names


def word_text(path: Path) -> str:
    """Return the paragraphs and tables of a document, in their order.

    Headers, footers, notes and pictures are left out. Headings and rows of tables are written as in
    Markdown: with number signs, and with bars between the cells. A paragraph or table is read at a
    time, so that a document takes the memory of the largest of them.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if _DOCUMENT not in names:
                raise OtherZip(names)
            styles = _styles(archive) if _STYLES in names else {}
            return "\n\n".join(_blocks(archive, styles))
    except (OtherZip, DocumentTooLarge, MemoryError):
        raise
    except Exception as error:  # a damaged file leads to exceptions of any kind
        raise DamagedDocument from error


def _blocks(archive: zipfile.ZipFile, styles: Mapping[str, str]) -> Iterator[str]:
    """Yield the text of the paragraphs and tables in the body."""
    for child in _children(archive, _DOCUMENT, f"{_W}body"):
        whole = ElementTree.Element(f"{_W}body")
        whole.append(child)
        for block in _inside(whole, "p", "tbl"):
            if block.tag == f"{_W}tbl":
                yield "\n".join(_rows(block))
            elif text := _text(block).strip():
                yield f"{_heading(block, styles)}{text}"


def _styles(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the names of the paragraph styles, in lower case, by their ids."""
    names: dict[str, str] = {}
    for style in _children(archive, _STYLES, f"{_W}styles"):
        name = style.find(f"{_W}name")
        if style.tag == f"{_W}style" and name is not None:
            names[style.get(f"{_W}styleId", "")] = name.get(f"{_W}val", "").casefold()
    return names


def _children(archive: zipfile.ZipFile, name: str, holder: str) -> Iterator[ElementTree.Element]:
    """Yield the children of an element of a file one by one; each is released afterwards."""
    with archive.open(name) as packed:
        file = _Counted(packed)
        open_elements: list[ElementTree.Element] = []
        for event, element in ElementTree.iterparse(file, ("start", "end")):
            if event == "start":
                file.elements += 1
                if file.elements > MOST_ELEMENTS or len(open_elements) > _DEEPEST:
                    raise DocumentTooLarge
                open_elements.append(element)
                continue
            open_elements.pop()
            if open_elements and open_elements[-1].tag == holder:
                yield element
                open_elements[-1].remove(element)
                file.elements = 0


class _Counted:
    """A file that is read up to a limit, whatever the archive says of its size."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._left = MOST_UNPACKED_BYTES
        self.elements = 0

    def read(self, size: int = _PIECE_BYTES, /) -> bytes:
        piece = self._file.read(min(size, _PIECE_BYTES))
        self._left -= len(piece)
        if self._left < 0:
            raise DocumentTooLarge
        return piece


def _rows(table: ElementTree.Element) -> Iterator[str]:
    for row in _inside(table, "tr"):
        # A table within a cell gives its words: its bars would seem to be those of the row.
        words = (
            " ".join(" ".join(map(_text, cell.iter(f"{_W}p"))).split())
            for cell in _inside(row, "tc")
        )
        yield f"| {' | '.join(words)} |"


def _inside(element: ElementTree.Element, *kinds: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of some kinds, also those in fields of forms and in tracked insertions."""
    wanted = {f"{_W}{kind}" for kind in kinds}
    for child in element:
        if child.tag in wanted:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _inside(child, *kinds)


def _text(paragraph: ElementTree.Element) -> str:
    """Return the words of a paragraph as it reads with all tracked changes accepted."""
    said = []
    for child in paragraph:
        if child.tag == f"{_W}t":
            said.append(child.text or "")
        elif child.tag in _WRAPPERS:
            said.append(_text(child))
        elif child.tag == f"{_W}br" and child.get(f"{_W}type") in ("page", "column"):
            continue
        else:
            said.append(_MARKS.get(child.tag, ""))
    return "".join(said)


def _heading(paragraph: ElementTree.Element, styles: Mapping[str, str]) -> str:
    named = paragraph.find(f"{_W}pPr/{_W}pStyle")
    name = "" if named is None else styles.get(named.get(f"{_W}val", ""), "")
    level = name.removeprefix("heading ")
    if name == "title":
        return "# "
    return f"{'#' * int(level)} " if level.isdecimal() and name != level and int(level) < 7 else ""
