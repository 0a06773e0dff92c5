"""Progress of loading a model, and its weights read into the system's cache ahead of it."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Literal

from engine.errors import ModelLoadFailed

LoadPhase = Literal["checking", "libraries", "weights", "tokenizer"]


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of loading a model.

    Attributes:
        phase: Checking files, importing MLX, reading weights, or reading the tokenizer.
        done_bytes: Bytes of weights in memory.
        total_bytes: Bytes of weights in all; 0 while they are not known.
    """

    phase: LoadPhase
    done_bytes: int = 0
    total_bytes: int = 0


class LoadCancelled(ModelLoadFailed):
    """Loading was cancelled on request."""

    def __init__(self) -> None:
        super().__init__("loading was cancelled")


# Called on the engine thread between two parts of the work; raises ``LoadCancelled`` to cancel.
OnLoadProgress = Callable[[LoadProgress], None]


def unobserved(_progress: LoadProgress) -> None:
    """Ignore the progress."""


# The system keeps what was read in its file cache, so that the weights are then loaded from
# memory; the cache belongs to no process and is freed when memory is needed.

_CHUNK_BYTES = 4 << 20
# More might push the first weights out of the cache again before they are loaded.
_SHARE_OF_MEMORY = 0.25


class ReadingAhead:
    """Reads weight files in the block of a ``with`` statement, or until the weights are loaded.

    Args:
        folder: The model.
        max_bytes: How much is read at most; None for a share of this machine's memory.

    Attributes:
        read_bytes: How much has been read by now.
    """

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self.read_bytes = 0
        self._folder = folder
        self._max_bytes = _share_of_memory() if max_bytes is None else max_bytes
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="fullstop-ahead", daemon=True)

    def __enter__(self) -> "ReadingAhead":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()  # does not wait: a read from a lost network drive may never end

    def until_weights(self, on_progress: OnLoadProgress) -> OnLoadProgress:
        """Return an observer of a load that stops reading ahead when the weights are loaded."""

        def observe(progress: LoadProgress) -> None:
            if progress.phase == "weights":
                self._is_over.set()
            on_progress(progress)

        return observe

    def wait(self, timeout_s: float) -> bool:
        """Wait until reading has ended; return whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _read(self) -> None:
        try:
            for path in sorted(self._folder.glob("*.safetensors")):
                with path.open("rb", buffering=0) as file:
                    while not self._is_over.is_set() and self.read_bytes < self._max_bytes:
                        count = _read_some(file, self._max_bytes - self.read_bytes)
                        if not count:
                            break
                        self.read_bytes += count
        except OSError:
            return  # loading the weights will report the same error


def _read_some(file: FileIO, max_bytes: int) -> int:
    """Let the system read the next bytes of a file; return how many, 0 at the end of the file."""
    count = min(_CHUNK_BYTES, max_bytes)
    if not hasattr(os, "posix_fadvise"):
        return len(file.read(count) or b"")
    # The system reads them into its cache without copying them to us, which costs no processor
    # time.
    begin = file.tell()
    count = min(count, os.fstat(file.fileno()).st_size - begin)
    os.posix_fadvise(file.fileno(), begin, count, os.POSIX_FADV_WILLNEED)
    file.seek(count, os.SEEK_CUR)
    return count


def _share_of_memory() -> int:
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _SHARE_OF_MEMORY)
