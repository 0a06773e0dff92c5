"""Imports the recorded tokens of answers from an archive. Main thread."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine import counted
from engine.files.causes import os_cause
from engine.files.fields import DamagedFile
from engine.recording.kept_trace import KeptTrace
from ui.chat.storage.trace_archive import TraceArchive
from ui.chat.storage.transfers import Transfer
from ui.records.exchange.contents import ArchivedTrace, ArchivedTraces


class Owner(NamedTuple):
    """A run that was imported: its id here, and that of its conversation."""

    run_id: str
    conversation_id: str


@dataclass(slots=True)
class TakenTraces:
    """The result of importing the traces of an archive."""

    came: int = 0
    damaged: int = 0
    left_out: int = 0
    cause: str = ""

    @property
    def words(self) -> str:
        """The result for the person, as sentences; empty if there were no traces."""
        said = []
        if self.came:
            said.append(f"The recorded tokens of {counted(self.came, 'answer')} were imported too.")
        if self.damaged:
            what = "Those" if self.came else "The recorded tokens"
            of = counted(self.damaged, "answer")
            said.append(f"{what} of {of} are damaged and left out.")
        if self.left_out:
            said.append(
                f"Preferences \u25b8 Storage leaves no room for the recorded tokens of "
                f"{counted(self.left_out, 'answer')}."
            )
        if self.cause:
            said.append(f"The other recorded tokens could not be imported: {self.cause}.")
        return " ".join(said)


async def take_traces(
    archive: ArchivedTraces,
    wanted: Mapping[str, Sequence[Owner]],
    traces: TraceArchive,
    transfer: Transfer,
) -> TakenTraces:
    """Import the traces of the imported answers, one after the other."""
    taken = TakenTraces()
    total = sum(run_id in wanted for run_id in archive.members)
    reading = archive.read(wanted)
    try:
        while not transfer.is_cancelled:
            transfer.advance(taken.came + taken.damaged + taken.left_out, total)
            found: ArchivedTrace | None = await asyncio.to_thread(next, reading, None)
            if found is None:
                break
            if found.content is None:
                taken.damaged += 1
                continue
            for run_id, conversation_id in wanted[found.run_id]:
                kept = KeptTrace(run_id, conversation_id, found.written_at)
                try:
                    is_kept = await traces.take_in(kept, found.content)
                except DamagedFile:
                    taken.damaged += 1
                    break
                taken.came += is_kept
                taken.left_out += not is_kept
    except OSError as error:
        taken.cause = os_cause(error)
    except DamagedFile as error:
        taken.cause = str(error)
    finally:
        await asyncio.to_thread(reading.close)
    return taken
