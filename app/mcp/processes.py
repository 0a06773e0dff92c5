"""The processes of tool servers: their groups, which end as a whole, and their logs."""

import asyncio
import atexit
import contextlib
import itertools
import logging
import os
import secrets
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable

import psutil

# The processes of tool servers: ended with their server, and with the program at the latest.
#
# Each server leads a group of its own, and what it starts is usually in it. What leaves the
# group, as ``setsid`` does, is found among its descendants, and by a variable of its environment
# that every process inherits. Where the program itself is killed, only a small guard is left to
# end them: a shell that waits until its input ends.

_GRACE_S = 2.0
_GUARD_LEAVES_WITHIN_S = 5.0
# A process may start another one just before it is killed.
_MOST_ROUNDS = 20
MARK = "MCP_SERVER_OF_FULLSTOP"
"""The variable that every process of a tool server inherits."""
# Its value begins with the program's own part, which no other process on this computer has.
_program = secrets.token_hex(12)
_numbers = itertools.count(1)
# Its input is the mark of this program, then a line for each group that begins or ends. The input
# ends with the program, however that ended; what is still there then is killed.
_GUARD = """
trap '' INT TERM HUP
groups=
read -r mark
while read -r word leader; do
  others=
  for one in $groups; do [ "$one" = "$leader" ] || others="$others $one"; done
  groups=$others
  [ "$word" = begun ] && groups="$groups $leader"
done
[ -n "$groups" ] || exit 0
for one in $groups; do kill -s KILL -- "-$one" 2>/dev/null; done
if [ -d /proc/self ]; then
  grep -laF -e "$mark" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
    kill -s KILL "$pid" 2>/dev/null
  done
else
  ps -Eaxww -o pid=,command= | while read -r pid words; do
    case $words in *"$mark"*) kill -s KILL "$pid" 2>/dev/null ;; esac
  done
fi
"""
_log = logging.getLogger(__name__)
_groups: set[int] = set()
_guard: subprocess.Popen[bytes] | None = None
_guarding = threading.Lock()


def note_group(leader: int) -> None:
    """Remember a group, so that it ends with the program whatever happens."""
    if not _groups:
        atexit.register(kill_all)
    _groups.add(leader)
    _tell_guard("begun", leader)


def new_mark() -> str:
    """Return the value of ``MARK`` for one more server."""
    return f"{_program}.{next(_numbers)}."


async def end_group(
    leader: int, has_left: Callable[[], bool], mark: str, below: Iterable[psutil.Process] = ()
) -> None:
    """End a group, and what has left it: ask the group to end, and kill it if it does not."""
    try:
        if _signal(leader, signal.SIGTERM):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    # No event reports when the last process of a group has ended.
                    while not has_left() or _signal(leader, 0):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
    finally:
        _signal(leader, signal.SIGKILL)
        ending = asyncio.ensure_future(asyncio.to_thread(_kill_marked, mark, below))
        try:
            await asyncio.shield(ending)
        finally:
            _groups.discard(leader)
            _tell_guard("ended", leader)


def kill_all() -> None:
    """End every group at once."""
    if _groups:
        below = [descendant for leader in _groups for descendant in descendants(leader)]
        for leader in _groups:
            _signal(leader, signal.SIGKILL)
        _kill_marked(_program, below)
    for leader in list(_groups):
        _tell_guard("ended", leader)
    _groups.clear()
    _dismiss_guard()


def descendants(leader: int) -> list[psutil.Process]:
    """Return what a process has started, directly or not.

    A process that has cleared its environment is found in no other way, and as long as its parents
    live.
    """
    try:
        return psutil.Process(leader).children(recursive=True)
    except psutil.Error:
        return []


def _kill_marked(mark: str, below: Iterable[psutil.Process]) -> None:
    """Kill some processes, and all whose mark begins like this, until there are none."""
    for process in below:
        with contextlib.suppress(psutil.Error):  # it has ended, or its id is another process's now
            process.kill()
    for _ in range(_MOST_ROUNDS):
        marked = [one for one in psutil.process_iter() if _has_mark(one, mark)]
        for process in marked:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not marked:
            return


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        is_ours = process.uids().real == os.getuid()
        return is_ours and process.environ().get(MARK, "").startswith(mark)
    except (psutil.Error, OSError):  # it has ended, or is not to be looked at
        return False


def _tell_guard(word: str, leader: int) -> None:
    """Tell the guard of a group that began or ended; the first group has it started."""
    global _guard
    with _guarding:
        try:
            if _guard is None and word == "begun":
                _guard = subprocess.Popen(
                    ["/bin/sh", "-c", _GUARD],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                )
                assert _guard.stdin is not None
                _guard.stdin.write(f"{_program}\n".encode())
            if _guard is not None and _guard.stdin is not None:
                _guard.stdin.write(f"{word} {leader}\n".encode())
                _guard.stdin.flush()
        except OSError as error:
            _log.warning("nobody ends tool servers if the program is killed: %s", error)


def _dismiss_guard() -> None:
    """Have the guard leave; there is nothing to guard any more."""
    global _guard
    with _guarding:
        guard, _guard = _guard, None
        if guard is None or guard.stdin is None:
            return
        with contextlib.suppress(OSError):
            guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(_GUARD_LEAVES_WITHIN_S)


def _signal(leader: int, number: int) -> bool:
    """Send a signal to a group; returns whether there is one."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


# The last lines of a tool server's log, within limits. Tool thread.

MOST_LINES = 400
MOST_LINE_CHARS = 1_000


class ServerLog:
    """Keeps the newest lines, without characters that control a terminal or reverse text."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._begun = b""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines, oldest first."""
        return tuple(self._lines)

    def add(self, line: str) -> None:
        self._lines.append(printable(line[: MOST_LINE_CHARS + 1], MOST_LINE_CHARS))

    def add_bytes(self, data: bytes) -> None:
        """Add output as it arrives; an unfinished line waits for its end."""
        *whole, self._begun = (self._begun + data).split(b"\n")
        # Only the last lines are shown, so the rest of a flood is dropped.
        for line in whole[-MOST_LINES:]:
            self.add(line[: 4 * MOST_LINE_CHARS].decode("utf-8", "replace").rstrip("\r"))
        if len(self._begun) > 4 * MOST_LINE_CHARS:
            self.end_line()

    def end_line(self) -> None:
        """Add the unfinished line as it is."""
        if self._begun:
            self.add(self._begun[: 4 * MOST_LINE_CHARS].decode("utf-8", "replace"))
        self._begun = b""


def printable(text: str, most_chars: int) -> str:
    """Return one line of limited length, without invisible characters."""
    short = text if len(text) <= most_chars else text[: most_chars - 1] + "…"
    return "".join(
        one if one.isprintable() else " " if one in "\t\n\r" else "\ufffd" for one in short
    )
