"""The process that reads documents: a hostile document may crash or block the reading process.

Started as ``python -m ui.records.document_process`` by ``engine.helper_process``. Its questions:

    {"path": …, "kind": "pdf" or "zip", "first": n, "max": m}
        → {"pages": [texts of at most m pages from n on], "total": pages that the file has}
        → {"pages": [text], "total": 0}     a Word document, which has no fixed pages
        → {"refused": "encrypted" | "damaged" | "too large" | "memory"}
        → {"refused": "other", "names": [names of the files in a ZIP file]}

Its memory, and its processor time for each answer, are limited; the program's own are not.
"""

import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.helper_process import serve

MAX_MEMORY_BYTES = 160 << 20
# Control characters and surrogates, which cause trouble when text is stored or shown.
_CONTROL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), " ")

# Of a part of a Word document.
MAX_XML_BYTES = 16 << 20
# https://gnome.pages.gitlab.gnome.org/libxml2/html/xmlerror_8h.html
_ERR_NO_MEMORY, _ERR_RESOURCE_LIMIT = 2, 114
_DOCUMENT, _STYLES = "word/document.xml", "word/styles.xml"
# Paragraphs and tables also stand in fields of forms and in tracked insertions.
_BLOCKS = (
    ".//w:p[not(ancestor::w:tbl or ancestor::w:txbxContent)]"
    " | .//w:tbl[not(ancestor::w:tbl or ancestor::w:txbxContent)]"
)
_ROWS, _CELLS = (f".//w:{name}[count(ancestor::w:tbl) = 1]" for name in ("tr", "tc"))
_RUNS = ".//w:r[not(ancestor::w:moveFrom or ancestor::w:txbxContent or ancestor::w:rt)]"

if TYPE_CHECKING:
    from pypdf import PdfReader


class DocumentRefused(Exception):
    """A document cannot be read; ``names`` are those of the files in a ZIP of another kind."""

    def __init__(
        self,
        reason: Literal["damaged", "encrypted", "too large", "other"],
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.names = names


def word_text(path: Path) -> str:
    """Return the paragraphs and tables of a document, in their order.

    Headers, footers, notes, text boxes and pictures are left out. Headings and rows of tables are
    written as in Markdown: with number signs, and with bars between the cells.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if _DOCUMENT not in names:
                raise DocumentRefused("other", names[:1000])
            listed = _parse_part(archive, _STYLES).style_lst if _STYLES in names else []
            styles = {style.styleId: (style.name_val or "").casefold() for style in listed}
            return "\n\n".join(_blocks(_parse_part(archive, _DOCUMENT), styles))
    except (DocumentRefused, MemoryError):
        raise
    except Exception as error:  # a damaged file leads to exceptions of any kind
        raise DocumentRefused("damaged") from error


def _parse_part(archive: zipfile.ZipFile, name: str) -> Any:
    """Return the root of an XML part.

    The part is parsed alone: loading the package would also load its pictures, and fails for
    templates, macros and links that lead nowhere.
    """
    from docx.oxml import parse_xml

    # The archive's figure of the size is a limit: zipfile reads no more than that.
    if archive.getinfo(name).file_size > MAX_XML_BYTES:
        raise DocumentRefused("too large")
    try:
        return parse_xml(archive.read(name))
    except SyntaxError as error:  # lxml's
        if (code := getattr(error, "code", 0)) == _ERR_NO_MEMORY:
            raise MemoryError from error
        if code == _ERR_RESOURCE_LIMIT:  # deep nesting, or a run of 10 MB
            raise DocumentRefused("too large") from error
        raise


def _blocks(document: Any, styles: dict[str, str]) -> Iterator[str]:
    """Yield the text of the paragraphs and tables in the body."""
    for block in document.body.xpath(_BLOCKS):
        if block.tag.endswith("}tbl"):
            yield "\n".join(_row(row) for row in block.xpath(_ROWS))
        elif text := _paragraph(block).strip():
            yield f"{_heading(styles.get(block.style, ''))}{text}"


def _row(row: Any) -> str:
    # A table within a cell gives its words: its bars would seem to be those of the row.
    cells = (" ".join(map(_paragraph, cell.xpath(".//w:p"))) for cell in row.xpath(_CELLS))
    return f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |"


def _paragraph(paragraph: Any) -> str:
    """Return the words of a paragraph as it reads with all tracked changes accepted."""
    return "".join(run.text for run in paragraph.xpath(_RUNS))


def _heading(style: str) -> str:
    level = "1" if style == "title" else style.removeprefix("heading ")
    return f"{'#' * int(level)} " if level in tuple("123456") and level != style else ""


def open_pdf(path: Path) -> "PdfReader":
    """Open a PDF file and find its pages."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

    try:
        reader = PdfReader(path)
        # Many files forbid only changes: everybody can read them, with an empty password.
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentRefused("encrypted")
        len(reader.pages)
        return reader
    except (MemoryError, DocumentRefused):
        raise
    except (FileNotDecryptedError, DependencyError) as error:
        raise DocumentRefused("encrypted") from error
    except LimitReachedError as error:
        raise DocumentRefused("too large") from error
    except Exception as error:  # a damaged file leads to exceptions of any kind
        raise DocumentRefused("damaged") from error


def read_pages(reader: "PdfReader", first: int, max_pages: int, max_s: float) -> list[str]:
    """Return the text of the next pages, at least one; damaged pages are empty."""
    began = time.process_time()
    texts: list[str] = []
    for number in range(first, min(first + max_pages, len(reader.pages))):
        try:
            texts.append(reader.pages[number].extract_text())
        except MemoryError:
            if not texts:
                raise
            break
        except Exception:  # a damaged page makes pypdf raise exceptions of any kind
            texts.append("")
        if time.process_time() - began > max_s:
            break
    return texts


def main() -> None:
    """Answer questions until the program ends."""
    documents: dict[str, Any] = {}
    serve(lambda request: _answer(request, documents), MAX_MEMORY_BYTES)


def _answer(request: dict[str, Any], documents: dict[str, Any]) -> dict[str, Any]:
    path = request["path"]
    try:
        if request["kind"] == "zip":
            return {"pages": [clean(word_text(Path(path)))], "total": 0}
        if path not in documents:
            documents[path] = open_pdf(Path(path))
        # An answer ends after half a second of processor time, and the next request reads on.
        pages = read_pages(documents[path], request["first"], request["max"], 0.5)
        return {"pages": [clean(page) for page in pages], "total": len(documents[path].pages)}
    except MemoryError:
        return {"refused": "memory"}
    except DocumentRefused as refused:
        return {"refused": refused.reason, "names": refused.names}


def clean(text: str) -> str:
    """Return a text without control characters and lone surrogates."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROL).strip()


if __name__ == "__main__":
    main()
