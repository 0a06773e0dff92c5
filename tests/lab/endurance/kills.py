"""Kills a streaming window: ``python -m tests.lab.endurance.kills --kills 100 --full-disk 20``.

Each time, the whole window answers a question in a process of its own and is killed at a random
moment. Then its conversations are read as the program reads them: the database must be whole, and
of the answer at most the last half second may be missing. For ``--full-disk``, the data folder is
a small file system that fills up during the answer; every other time there is room again before
the end. That needs the right to mount one (root on Linux). Prints one line per kill and a summary;
ends with 1 if anything was lost.
"""

import argparse
import asyncio
import contextlib
import errno
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from app.store.conversation_store import open_store

ROOT = Path(__file__).parents[3]
MAY_BE_LOST_S = 0.5
# The window, its log and one answer fit many times.
DISK_BYTES = 8_000_000
PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Kill:
    """The outcome of one kill.

    Attributes:
        kind: ``plain``, ``full`` (killed while the disk was full) or ``freed`` (killed after there
            was room again).
        said: How many numbers the answer had when it counted.
        kept: How many of them are in the file.
        lost_s: The time between the first number that is missing and the moment that counts: the
            kill, or the moment when the disk became full. 0 where nothing is missing.
        faults: What is wrong beside that, in words.
    """

    kind: str
    said: int
    kept: int
    lost_s: float
    faults: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether only text was lost that may be lost."""
        return not self.faults and self.lost_s <= MAY_BE_LOST_S


class Window:
    """A window that answers endlessly, in a process of its own."""

    def __init__(self, data: Path, config: Path) -> None:
        self.spoken: list[tuple[int, float]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.streaming.streaming_window"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "FULLSTOP_DATA_DIR": str(data),
                "FULLSTOP_CONFIG_DIR": str(config),
                "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
            },
        )
        assert self._process.stdout is not None
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,))
        self._listener.start()

    def _listen(self, words: IO[str]) -> None:
        with words:
            for line in words:
                number, _, said_at = line.partition(" ")
                if line.endswith("\n"):
                    self.spoken.append((int(number), float(said_at)))

    def has_said(self, least: int) -> None:
        """Wait until the answer has a number of lines."""
        ends_at = time.monotonic() + PATIENCE_S
        while len(self.spoken) < least:
            if time.monotonic() > ends_at or self._process.poll() is not None:
                self.kill()
                raise RuntimeError("The window does not answer.")
            time.sleep(0.02)

    def kill(self) -> float:
        """Kill it; return when, in seconds of the monotonic clock."""
        killed_at = time.monotonic()
        self._process.kill()
        self._process.wait()
        self._listener.join()
        return killed_at


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a small file system on the folder.

    Raises:
        PermissionError: The person has no permission.
    """
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        raise PermissionError("Only who may mount a small disk (root on Linux) can fill it.")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the file system of a folder; return the file that takes the room."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 9, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as refusal:
                if refusal.errno != errno.ENOSPC:
                    raise
    return filler


def plain_kill(folder: Path, draws: random.Random) -> Kill:
    """Kill a window at a random moment of its answer."""
    window = Window(folder / "data", folder / "config")
    window.has_said(draws.randint(1, 300))
    return left_over(window, folder / "data", "plain", window.kill())


def kill_on_a_full_disk(folder: Path, draws: random.Random, is_freed: bool) -> Kill:
    """Let the disk fill up during an answer, and kill the window while it is full or after."""
    (folder / "data").mkdir(parents=True)
    with small_disk(folder / "data") as data:
        window = Window(data, folder / "config")
        window.has_said(draws.randint(1, 200))
        counts = time.monotonic()
        filler = fill(data)
        window.has_said(len(window.spoken) + draws.randint(20, 200))
        if is_freed:
            filler.unlink()
            # Pending text is written at the next attempt to save.
            window.has_said(len(window.spoken) + 400)
            counts = window.kill()
        else:
            window.kill()
            filler.unlink()
        return left_over(window, data, "freed" if is_freed else "full", counts)


def left_over(window: Window, data: Path, kind: str, counts: float) -> Kill:
    """Compare the file with the text of the answer at a moment."""
    said = [(number, said_at) for number, said_at in window.spoken if said_at <= counts]
    path = data / "conversations.db"
    faults: list[str] = []
    with closing(sqlite3.connect(path)) as file:
        (integrity,) = file.execute("PRAGMA integrity_check").fetchone()
    if integrity != "ok":
        faults.append(f"integrity: {integrity}")
    text = asyncio.run(kept_answer(path, faults))
    kept = len(text.split())
    if text != "".join(f"{number} " for number in range(1, kept + 1)):
        faults.append("the answer has holes")
    missing = [said_at for number, said_at in said if number > kept]
    return Kill(kind, len(said), kept, counts - missing[0] if missing else 0.0, tuple(faults))


async def kept_answer(path: Path, faults: list[str]) -> str:
    """Return the answer's text as the program reads it; add other problems to ``faults``."""
    store = await open_store(path)
    try:
        if store.problem is not None:
            faults.append(store.problem.detail)
        conversations = store.conversations()
        if len(conversations) != 1:
            faults.append(f"{len(conversations)} conversations")
            return ""
        await store.fill(conversations[0])
        messages = conversations[0].messages
        if not messages or messages[0].text != "Count for ever":
            faults.append("the question is missing")
        if len(messages) < 2:
            return ""
        run = messages[1].run
        if run is None or run.state != "interrupted":
            faults.append("the answer is not marked as interrupted")
        return "" if run is None else run.text
    finally:
        await store.aclose()


def killed(kills: int, full_disks: int, seed: int) -> list[Kill]:
    """Kill a number of windows, the last ones on a full disk; print and return each result."""
    draws = random.Random(seed)
    results = []
    for number in range(kills):
        with tempfile.TemporaryDirectory(prefix="fullstop-kills-") as name:
            left = kills - number
            if left <= full_disks:
                result = kill_on_a_full_disk(Path(name), draws, is_freed=bool(left % 2))
            else:
                result = plain_kill(Path(name), draws)
        results.append(result)
        print(
            f"{number + 1:4} {result.kind:6} {result.said:4} said {result.kept:4} kept "
            f"{result.lost_s:.3f} s lost {'; '.join(result.faults)}",
            flush=True,
        )
    return results


def main() -> int:
    """Kill, print, and judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--full-disk", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    results = killed(asked.kills, asked.full_disk, asked.seed)
    wrong = [result for result in results if not result.is_right]
    worst = max((result.lost_s for result in results), default=0.0)
    print(f"{len(results)} kills, {len(wrong)} wrong, at most {worst:.3f} s lost")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
