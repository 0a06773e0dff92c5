"""The process that reads exports: a hostile file may take its memory, or end it.

Started as ``python -m ui.records.exchange.export_process``. It reads frames from its standard
input, answers each on its standard output, and ends when its input ends. Each frame is a JSON
object:

    {"path": …, "most_bytes": n, "pictures": folder or null}
        → {"program": …, "listed": [[title, messages, updated_at, origin, folder_id], …],
           "folders": […], "presets": […], "damaged": [words], "left_out": {kind: count},
           "unread": [names], "traces": {run: name}}
    {"path": …, "most_bytes": n, "pictures": …, "numbers": [n, …]}, then {} for each
    further answer
        → {"conversations": […]}            as in our own archive: a few, or a long one
        → {"left_out": {kind: count}}       of these conversations; there are no more
                                            their pictures are copied to the folder, one at a time
    → {"refused": words} or {"errno": n, "cause": words} or {"memory": true} instead of each

Its memory, and its processor time for each answer, are limited; the program's own are not.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from json import dumps, loads
from pathlib import Path
from typing import Any

from engine.files.causes import os_cause
from engine.files.fields import DamagedFile
from engine.processes.frames import read_frame, write_frame
from engine.processes.own_limits import CpuTimer, allow_memory, give_way
from ui.records import codec
from ui.records.conversations import Conversation
from ui.records.exchange.archive import conversation_values
from ui.records.exchange.found import FoundConversations
from ui.records.exchange.reading import ExportReading
from ui.records.presets import preset_values

_MOST_MEMORY_BYTES = 150 << 20
_CPU_S = 120.0
# An answer takes its time on a busy computer, however small it is.
_MOST_BATCH_CHARS, _MESSAGE_CHARS = 1 << 18, 500
# Functions that call each other write nested objects.
_RECURSION = 3000


def main() -> None:
    """Answer frames until the input ends."""
    give_way()
    # The output of a library must not mix with the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.setrecursionlimit(_RECURSION)
    allow_memory(_MOST_MEMORY_BYTES)
    reading: Iterator[dict[str, Any]] = iter(())
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        asked = loads(frame)
        with CpuTimer(_CPU_S):
            try:
                if asked:
                    reading = _answers(asked)
                answer = _encoded(next(reading))
            except OSError as error:
                answer = _encoded({"errno": error.errno, "cause": os_cause(error)})
            except DamagedFile as error:
                answer = _encoded({"refused": str(error)})
            except MemoryError:
                answer = _encoded({"memory": True})
        write_frame(answers, answer)
        del answer


def _encoded(answer: dict[str, Any]) -> bytes:
    # Names of files may have bytes that are no characters.
    return dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _answers(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    folder = asked["pictures"]
    numbers = frozenset(asked["numbers"]) if "numbers" in asked else None
    pictures = None if folder is None else Path(folder)
    with ExportReading(Path(asked["path"]), asked["most_bytes"], pictures, numbers) as reading:
        if numbers is not None:
            yield from _chosen(reading, numbers)
        else:
            yield _contents(reading)


def _contents(reading: ExportReading) -> dict[str, Any]:
    listed = [
        (one.title, len(one.tree), one.updated_at, one.origin, one.placement.folder_id)
        for one in reading.conversations()
    ]
    found = reading.found
    return {
        "program": found.program,
        "listed": listed,
        "folders": [codec.folder_values(one) for one in found.folders],
        "presets": [preset_values(one) for one in found.presets],
        "damaged": found.damaged,
        "left_out": found.left_out,
        "unread": found.unread,
        "traces": dict(found.traces.members),
    }


def _chosen(reading: ExportReading, numbers: frozenset[int]) -> Iterator[dict[str, Any]]:
    """Yield the chosen conversations, then what is left out of them."""
    left_out: Counter[str] = Counter()
    found: FoundConversations = reading.found
    batch: list[dict[str, Any]] = []
    size = 0
    for number, conversation in enumerate(reading.conversations()):
        # What was counted since the last one belongs to this one.
        counted, found.left_out = found.left_out, Counter()
        if number not in numbers:
            continue
        left_out += counted
        more = sum(_MESSAGE_CHARS + len(one.said) for one in conversation.tree)
        if batch and size + more > _MOST_BATCH_CHARS:
            yield {"conversations": batch}
            batch, size = [], 0
        batch.append(_values(conversation))
        size += more
    if batch:
        yield {"conversations": batch}
    yield {"left_out": left_out}


def _values(conversation: Conversation) -> dict[str, Any]:
    """Return a conversation's values, with the ids that its runs have in the archive."""
    values = conversation_values(conversation)
    for message, written in zip(conversation.tree, values["messages"], strict=True):
        if message.run is not None and message.run.copied_from:
            written["run"]["id"] = message.run.copied_from
    return values


if __name__ == "__main__":
    main()
