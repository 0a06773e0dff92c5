"""The process groups of tool servers: ended with their server, and with the program at the latest.

Each server leads a group of its own, and so all that it starts is in it. Where the program itself
is killed, only a small guard is left to end them: a shell that waits until its input ends. Any
thread.
"""

import asyncio
import atexit
import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable

_GRACE_S = 2.0
_GUARD_LEAVES_WITHIN_S = 5.0
# Its input is a line for each group that begins or ends. The input ends with the program, however
# that ended; what is still there then is killed.
_GUARD = """
trap '' INT TERM HUP
groups=
while read -r word leader; do
  others=
  for one in $groups; do [ "$one" = "$leader" ] || others="$others $one"; done
  groups=$others
  [ "$word" = begun ] && groups="$groups $leader"
done
for one in $groups; do kill -s KILL -- "-$one" 2>/dev/null; done
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


async def end_group(leader: int, has_left: Callable[[], bool]) -> None:
    """End a group: ask it to end, and kill it if it does not.

    Args:
        leader: The id of its first process, which is that of the group.
        has_left: Whether the first process has ended and was waited for.
    """
    try:
        if _signal(leader, signal.SIGTERM):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    # No event reports when the last process of a group has ended.
                    while not has_left() or _signal(leader, 0):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
    finally:
        _signal(leader, signal.SIGKILL)
        _groups.discard(leader)
        _tell_guard("ended", leader)


def kill_all() -> None:
    """End every group at once."""
    for leader in list(_groups):
        _signal(leader, signal.SIGKILL)
        _tell_guard("ended", leader)
    _groups.clear()
    _dismiss_guard()


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
