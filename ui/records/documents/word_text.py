"""The text of a Word document, by python-docx. Runs in a helper process: files may be hostile."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_UNPACKED_BYTES = 300 << 20
_DOCUMENT = "word/document.xml"


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


def _blocks(container: Any) -> Iterator[str]:
    from docx.table import Table

    for block in container.iter_inner_content():
        if isinstance(block, Table):
            yield "\n".join(_rows(block))
        elif text := block.text.strip():
            yield f"{_heading(block)}{text}"


def _rows(table: Any) -> Iterator[str]:
    for row in table.rows:
        # A merged cell is listed once for each column that it covers.
        cells = dict.fromkeys(row.cells)
        yield f"| {' | '.join(' '.join(cell.text.split()) for cell in cells)} |"


def _heading(paragraph: Any) -> str:
    name = (paragraph.style.name if paragraph.style is not None else "") or ""
    level = name.removeprefix("Heading ")
    if name == "Title":
        return "# "
    return f"{'#' * int(level)} " if level.isdigit() and name != level and int(level) < 7 else ""
