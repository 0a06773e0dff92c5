"""Downloads a model in the terminal, with a progress bar; Ctrl-C keeps the partial download.

Main thread; the download itself runs on a thread of its own.
"""

import os
import sys
import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path

from app.process.terminals import columns_of, takes_controls
from app.terminal.printer import Printer
from engine.library.download_progress import DownloadCancelled, DownloadProgress
from engine.library.downloads import download
from ui.models.model_words import download_words, percent

_SHOWN_EACH_S = 0.2
_BAR_CHARS = 24
# A stalled transfer does not notice that it was cancelled.
_CANCELLING_LIMIT_S = 2.0


def fetch(repository: str, cache: Path, printer: Printer) -> Path:
    """Download a model and show its progress; return its folder.

    Args:
        repository: ``owner/name``.
        cache: The folder of Hugging Face's cache.
        printer: Shows the progress on a terminal; otherwise only a line at the beginning.

    Raises:
        DownloadCancelled: Ctrl-C was typed; the partial download is kept.
        DownloadFailed: The message says why and gives a remedy.
    """
    latest, gives_up = [DownloadProgress("asking")], threading.Event()
    outcome: Future[Path] = Future()

    def work() -> None:
        try:
            folder = download(
                repository,
                cache,
                on_progress=lambda progress: latest.__setitem__(0, progress),
                gives_up=gives_up,
                endpoint=os.environ.get("HF_ENDPOINT"),
            )
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(folder)

    if not takes_controls(sys.stderr):
        printer.remark(f"downloading {repository} …")
    meter = _Meter()
    threading.Thread(target=work, name=f"download {repository}", daemon=True).start()
    try:
        while not outcome.done():
            printer.status(meter.line(latest[0]))
            wait([outcome], _SHOWN_EACH_S)
    except KeyboardInterrupt:
        gives_up.set()
        wait([outcome], _CANCELLING_LIMIT_S)
        raise DownloadCancelled from None
    finally:
        printer.status("")
    return outcome.result()


class _Meter:
    """Makes the progress line; the rate is the average since the transfer began."""

    def __init__(self) -> None:
        self._begun: tuple[float, int] | None = None

    def line(self, progress: DownloadProgress) -> str:
        rate, left = 0.0, None
        if progress.phase == "fetching":
            if self._begun is None:
                self._begun = time.monotonic(), progress.done_bytes
            passed_s = time.monotonic() - self._begun[0]
            arrived = progress.done_bytes - self._begun[1]
            if passed_s >= 1 and arrived > 0:
                rate = arrived / passed_s
                left = (progress.total_bytes - progress.done_bytes) / rate
        words = download_words(progress, rate, left)
        if progress.total_bytes:
            done = percent(progress.done_bytes, progress.total_bytes)
            full = _BAR_CHARS * done // 100
            words = f"[{'#' * full}{'.' * (_BAR_CHARS - full)}] {done:3} %  {words}"
        return words[: columns_of(sys.stderr) - 1]
