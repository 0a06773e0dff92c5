"""The process that reads documents: a hostile document may crash or block the reading process.

Started as ``python -m ui.records.documents.extracting``. It reads frames from its standard input,
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
from json import dumps, loads
from pathlib import Path
from typing import Any

from engine.processes.frames import read_frame, write_frame
from engine.processes.own_limits import CpuTimer, allow_memory, give_way
from ui.records.documents.word_text import (
    DamagedDocument,
    DocumentTooLarge,
    EncryptedDocument,
    OtherZip,
    word_text,
)

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
    give_way()
    # The output of a library must not mix with the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.setrecursionlimit(_RECURSION)
    allow_memory(MOST_MEMORY_BYTES)
    documents: dict[str, Any] = {}
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        asked = loads(frame)
        with CpuTimer(asked["cpu_s"]):
            answer = _answer(asked, documents)
        write_frame(answers, dumps(answer).encode())


def _answer(asked: dict[str, Any], documents: dict[str, Any]) -> dict[str, Any]:
    path = asked["path"]
    try:
        if asked["kind"] == "zip":
            return {"pages": [clean(word_text(Path(path)))], "total": 0}
        if path not in documents:
            from ui.records.documents.pdf_text import PdfPages  # the window does not need it

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
