"""The text of a PDF file's pages, by pypdf. Runs in a helper process: files may be hostile."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

from ui.records.documents.word_text import (
    DamagedDocument,
    DocumentTooLarge,
    EncryptedDocument,
)

_Read = TypeVar("_Read")


class PdfPages:
    """The pages of one file."""

    def __init__(self, path: Path) -> None:
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
