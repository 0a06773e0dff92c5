"""The progress of a download, and the errors that end it. Pure values; any thread."""

from dataclasses import dataclass
from typing import Literal

from engine.errors import EngineError

DownloadPhase = Literal["asking", "fetching", "verifying"]


class DownloadFailed(EngineError):
    """A model could not be downloaded; the message says why and what would help."""


class DownloadCancelled(DownloadFailed):
    """The download was cancelled on request."""

    def __init__(self) -> None:
        super().__init__("the download was cancelled; the partial download is kept")


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """The progress of a download.

    Attributes:
        phase: Asking the hub, fetching files, verifying them.
        done_bytes: Bytes that are on the disk, or that have been verified.
        total_bytes: Bytes of all files; 0 while they are not known.
        file: The file that is being fetched or verified.
    """

    phase: DownloadPhase
    done_bytes: int = 0
    total_bytes: int = 0
    file: str = ""
