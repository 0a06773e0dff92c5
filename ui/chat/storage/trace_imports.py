"""Brings the recorded tokens of answers over from an archive. Main thread."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine import counted
from engine.files.causes import os_cause
from engine.files.fields import DamagedFile
from engine.recording.kept_trace import KeptTrace
from ui.chat.storage.trace_archive import TraceArchive
from ui.chat.storage.transfers import Transfer
from ui.records.exchange.zipped import ZippedTrace, ZippedTraces


@dataclass(slots=True)
class TakenTraces:
    """What came of the traces of an archive.

    Attributes:
        came: Traces that are kept now.
        damaged: Traces that cannot be read.
        left_out: Traces for which the preferences leave no room.
        cause: Why the rest did not come, as the end of a sentence; empty where all was tried.
    """

    came: int = 0
    damaged: int = 0
    left_out: int = 0
    cause: str = ""

    @property
    def words(self) -> str:
        """What a person should know, as sentences; empty where there were none."""
        said = []
        if self.came:
            said.append(f"The recorded tokens of {counted(self.came, 'answer')} came with them.")
        if self.damaged:
            verb = "is" if self.damaged == 1 else "are"
            said.append(
                f"Those of {counted(self.damaged, 'answer')} {verb} damaged and left out."
                if self.came
                else f"The recorded tokens of {counted(self.damaged, 'answer')} {verb} damaged "
                "and left out."
            )
        if self.left_out:
            said.append(
                f"Preferences \u25b8 Storage leaves no room for the recorded tokens of "
                f"{counted(self.left_out, 'answer')}."
            )
        if self.cause:
            said.append(f"The other recorded tokens could not be brought over: {self.cause}.")
        return " ".join(said)


async def take_traces(
    archive: ZippedTraces,
    runs: Mapping[str, str],
    traces: TraceArchive,
    present: Collection[str],
    transfer: Transfer,
) -> TakenTraces:
    """Keep the traces of answers that were just imported; one after the other.

    Args:
        archive: The traces of the archive.
        runs: The ids of the conversations that were imported, by the ids of their runs.
        traces: Keeps them.
        present: The ids of all conversations that are here.
        transfer: Told the progress, and asked whether to end early; what came stays.
    """
    taken = TakenTraces()
    here = frozenset(present)
    total = sum(run_id in runs for run_id in archive.members)
    reading = archive.read(runs)
    try:
        while not transfer.is_cancelled:
            transfer.advance(taken.came + taken.damaged + taken.left_out, total)
            found: ZippedTrace | None = await asyncio.to_thread(next, reading, None)
            if found is None:
                break
            try:
                is_kept = found.content is not None and await traces.take_in(
                    KeptTrace(found.run_id, runs[found.run_id], found.written_at),
                    found.content,
                    here,
                )
            except DamagedFile:
                taken.damaged += 1
                continue
            if found.content is None:
                taken.damaged += 1
            elif is_kept:
                taken.came += 1
            else:
                taken.left_out += 1
    except OSError as error:
        taken.cause = os_cause(error)
    except DamagedFile as error:
        taken.cause = str(error)
    finally:
        await asyncio.to_thread(reading.close)
    return taken
