"""The runs that a person may open or compare: those of the open conversation, and of others.

Main thread.
"""

from dataclasses import replace

from ui.chat.session.workspace import Workspace
from ui.inspector.run.shown_run import RunSource, ShownRun
from ui.records.runs import Run

_SHORT_CHARS = 40
# More than anybody looks through; each run is a row of the database.
_MOST_RUNS = 200


class KnownRuns:
    """Lists runs, with their traces if these are in memory."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._traces = workspace.traces

    def of_conversation(self, without: Run | None = None) -> list[ShownRun]:
        """Return the runs of the open conversation, newest first."""
        found: list[ShownRun] = []
        for message in self._workspace.current.conversation.tree:
            run = message.run
            if run is None or run is without or run.is_from_elsewhere:
                continue
            question = message.parent.text if message.parent is not None else ""
            name = f"Answer to “{_short(question)}”"
            found.append(ShownRun(run, self._traces.get(run.id), question, RunSource.CHAT, name))
        return found[::-1]

    async def every(self) -> list[ShownRun]:
        """Return the runs of the open conversation, then recent ones of others, newest first."""
        own = self.of_conversation()
        known = {one.run.id for one in own}
        recent = await self._workspace.store.recent_runs(_MOST_RUNS)
        here = self._workspace.current.conversation.id
        others = [
            ShownRun(
                past.run, self._traces.get(past.run.id), past.question, RunSource.PAST, past.title
            )
            for past in recent
            if past.run.id not in known and past.conversation_id != here
        ]
        return own + others

    async def traced(self, shown: ShownRun) -> ShownRun:
        """Look for the trace of a run on disk; return the run with it."""
        trace = shown.trace or await self._traces.find(shown.run.id)
        return replace(shown, trace=trace)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT_CHARS else f"{line[: _SHORT_CHARS - 1]}…"
