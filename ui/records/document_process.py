"""The process that reads documents: a hostile document may crash or block the reading process.

Started as ``python -m ui.records.document_process``. It reads frames from its standard input,
answers each on its standard output, and ends when its input ends. Each frame is a JSON object:

    {"path": …, "kind": "pdf" or "zip", "first": n, "most": m, "cpu_s": s}
        → {"pages": [texts of at most m pages from n on], "total": pages that the file has}
        → {"pages": [text], "total": 0}     a Word document, which has no fixed pages
        → {"refused": "encrypted" | "damaged" | "too large" | "memory"}
        → {"refused": "other", "names": [names of the files in a ZIP file]}

Its memory, and its processor time for each answer, are limited; the program's own are not.
"""

import os
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from json import dumps, loads
from pathlib import Path
from typing import IO, Any, TypeVar
from xml.etree import ElementTree

from engine.processes import CpuTimer, allow_memory, give_way, read_frame, write_frame

# Word documents.

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


# PDF files, by pypdf, which is imported when the first of them is read.

_Read = TypeVar("_Read")


class PdfPages:
    """The pages of one file."""

    def __init__(self, path: Path) -> None:
        from pypdf import PdfReader

        def opened() -> PdfReader:
            reader = PdfReader(path)
            # Many files forbid only changes: everybody can read them, with an empty password.
            if reader.is_encrypted and not reader.decrypt(""):
                raise EncryptedDocument
            return reader

        self._reader = _told(opened)
        self.count = _told(lambda: len(self._reader.pages))

    def read(self, first: int, most_pages: int, most_s: float) -> list[str]:
        """Return the text of the next pages, at least one."""
        began = time.process_time()
        texts: list[str] = []
        for number in range(first, min(first + most_pages, self.count)):
            try:
                texts.append(self._text(number))
            except MemoryError:
                if not texts:
                    raise
                break
            if time.process_time() - began > most_s:
                break
        return texts

    def _text(self, number: int) -> str:
        """Return the text of a page; empty if the page is damaged."""
        try:
            return self._reader.pages[number].extract_text()
        except MemoryError:
            raise
        except Exception:  # a damaged page makes pypdf raise exceptions of any kind
            return ""


def _told(read: Callable[[], _Read]) -> _Read:
    """Call a function that reads, and raise its errors as our own ones."""
    from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

    try:
        return read()
    except (MemoryError, EncryptedDocument):
        raise
    except (FileNotDecryptedError, DependencyError) as error:
        raise EncryptedDocument from error
    except LimitReachedError as error:
        raise DocumentTooLarge from error
    except Exception as error:  # a damaged file leads to exceptions of any kind
        raise DamagedDocument from error


MOST_MEMORY_BYTES = 160 << 20
# After this processor time it answers with the pages so far, and is asked for the next ones.
_ANSWER_CPU_S = 0.5
_MOST_NAMES = 1000
# Functions that call each other read nested objects.
_RECURSION = 3000
# Control characters and surrogates, which cause trouble when text is stored or shown.
_CONTROL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), " ")


def main() -> None:
    """Answer frames until the input ends."""
    documents: dict[str, Any] = {}
    serve(lambda asked: _answer(asked, documents))


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer each frame of the input, with limits of memory and of processor time.

    ``exchange/export_process.py`` reads exports in the same loop.

    Args:
        answer: Returns the answer to a frame; each has its limit as ``cpu_s``.
    """
    give_way()
    # The output of a library must not mix with the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.setrecursionlimit(_RECURSION)
    allow_memory(MOST_MEMORY_BYTES)
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        asked = loads(frame)
        with CpuTimer(asked["cpu_s"]):
            written = dumps(answer(asked)).encode()
        write_frame(answers, written)
        del written


def _answer(asked: dict[str, Any], documents: dict[str, Any]) -> dict[str, Any]:
    path = asked["path"]
    try:
        if asked["kind"] == "zip":
            return {"pages": [clean(word_text(Path(path)))], "total": 0}
        if path not in documents:
            # the window does not need it

            documents[path] = PdfPages(Path(path))
        pages = documents[path].read(asked["first"], asked["most"], _ANSWER_CPU_S)
        return {"pages": [clean(page) for page in pages], "total": documents[path].count}
    except EncryptedDocument:
        return {"refused": "encrypted"}
    except DocumentTooLarge:
        return {"refused": "too large"}
    except MemoryError:
        return {"refused": "memory"}
    except OtherZip as other:
        return {"refused": "other", "names": other.names[:_MOST_NAMES]}
    except DamagedDocument:
        return {"refused": "damaged"}


def clean(text: str) -> str:
    """Return a text without control characters and lone surrogates."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROL).strip()


if __name__ == "__main__":
    main()
