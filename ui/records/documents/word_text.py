"""The text of a Word document, by python-docx. Runs in a helper process: files may be hostile."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_UNPACKED_BYTES = 300 << 20
_DOCUMENT = "word/document.xml"
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
    """A ZIP file is not a Word document.

    Attributes:
        names: The names of the files in it.
    """

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names


def word_text(path: Path) -> str:
    """Return the paragraphs and tables of a document, in their order.

    Headers, footers, notes and pictures are left out. Headings and rows of tables are written as in
    Markdown: with number signs, and with bars between the cells.

    Raises:
        OtherZip: It is another kind of file.
        DocumentTooLarge: It unpacks to more than ``MOST_UNPACKED_BYTES``.
        DamagedDocument: It cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if _DOCUMENT not in names:
                raise OtherZip(names)
            # The ZIP reader never unpacks more of a file than the size that the archive states.
            if sum(one.file_size for one in archive.infolist()) > MOST_UNPACKED_BYTES:
                raise DocumentTooLarge
        import docx

        return "\n\n".join(_blocks(docx.Document(str(path))))
    except (OtherZip, DocumentTooLarge, MemoryError):
        raise
    except Exception as error:  # a damaged file leads to exceptions of any kind
        raise DamagedDocument from error


def _blocks(document: Any) -> Iterator[str]:
    from docx.text.paragraph import Paragraph

    for block in _inside(document.element.body, "p", "tbl"):
        if block.tag == f"{_W}tbl":
            yield "\n".join(_rows(block))
        elif text := _text(block).strip():
            yield f"{_heading(Paragraph(block, document))}{text}"


def _rows(table: Any) -> Iterator[str]:
    for row in _inside(table, "tr"):
        # A table within a cell gives its words: its bars would seem to be those of the row.
        words = (
            " ".join(" ".join(map(_text, cell.iter(f"{_W}p"))).split())
            for cell in _inside(row, "tc")
        )
        yield f"| {' | '.join(words)} |"


def _inside(element: Any, *kinds: str) -> Iterator[Any]:
    """Yield the elements of some kinds, also those in fields of forms and in tracked insertions."""
    wanted = {f"{_W}{kind}" for kind in kinds}
    for child in element.iterchildren():
        if child.tag in wanted:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _inside(child, *kinds)


def _text(paragraph: Any) -> str:
    """Return the words of a paragraph as it reads with all tracked changes accepted."""
    said = []
    for child in paragraph.iterchildren():
        if child.tag == f"{_W}t":
            said.append(child.text or "")
        elif child.tag in _WRAPPERS:
            said.append(_text(child))
        elif child.tag == f"{_W}br" and child.get(f"{_W}type") in ("page", "column"):
            continue
        else:
            said.append(_MARKS.get(child.tag, ""))
    return "".join(said)


def _heading(paragraph: Any) -> str:
    name = (paragraph.style.name if paragraph.style is not None else "") or ""
    level = name.removeprefix("Heading ")
    if name == "Title":
        return "# "
    return f"{'#' * int(level)} " if level.isdigit() and name != level and int(level) < 7 else ""
