"""Reads an export in a process that may die of it. Blocks; any thread but the window's.

Each file has its own reader, which another thread may close.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from engine.files.json_fields import DamagedFile, Fields
from engine.helper_process import HelperDied, HelperProcess
from ui.records.codec import folder_from, preset_from
from ui.records.conversations import Conversation
from ui.records.exchange.archive import OURS, conversation_from
from ui.records.exchange.contents import FileContents, ListedConversation
from ui.records.facts import fact_from
from ui.records.messages import runs_of

# Named and not imported, because the program itself does not need the module.
_MODULE = "ui.records.exchange.export_process"
_TIMEOUT_S = 600.0
_TOO_SLOW = "it takes too long to read. Export fewer conversations to one file"
_ENDED = "it takes too much memory to read, or is damaged. Export fewer conversations to one file"
_NOT_STARTED = "the process that reads exports does not start"


class ExportReader:
    """Reads one file, archive or folder; ``max_bytes`` limits the text that is read."""

    def __init__(self, path: Path, max_bytes: int, pictures: Path | None = None) -> None:
        self._pictures = pictures
        self._path = path
        self._max_bytes = max_bytes
        self._process = HelperProcess(_MODULE)
        self.is_ours = False

    def contents(self) -> FileContents:
        """Return its contents, with a list of its conversations.

        Raises ``OSError`` (``EFBIG``: too large), ``DamagedFile``, ``HelperClosed`` once closed.
        """
        try:
            raw = self._ask(self._question())
        finally:
            self._process.stop()
        answer = Fields(raw)
        contents = FileContents(answer.take("program", str))
        contents.listed = [
            ListedConversation(number, *values)
            for number, values in enumerate(answer.take("listed", list))
        ]
        contents.folders = [folder_from(item) for item in answer.items("folders")]
        contents.presets = [preset_from(item) for item in answer.items("presets")]
        contents.facts = [fact_from(item) for item in answer.items("facts")]
        contents.damaged = answer.take("damaged", list)
        contents.left_out = Counter(answer.take("left_out", dict))
        contents.unread = answer.take("unread", list)
        self.is_ours = contents.program == OURS
        if self.is_ours:
            contents.traces = answer.take("traces", dict[str, str])
        return contents

    def conversations(
        self, numbers: Iterable[int], left_out: Counter[str]
    ) -> Iterator[Conversation]:
        """Yield some of the conversations; raises as ``contents`` does."""
        question = {**self._question(), "numbers": sorted(numbers)}
        try:
            while "conversation" in (answer := self._ask(question)):
                question = {}
                conversation = conversation_from(Fields(answer).inner("conversation"))
                if not self.is_ours:  # the ids of its runs are as new as the runs
                    for run in runs_of(conversation.tree):
                        run.copied_from = ""
                yield conversation
        finally:
            self._process.stop()
        left_out.update(answer["left_out"])

    def close(self) -> None:
        """End the reading, from any thread."""
        self._process.close()

    def _question(self) -> dict[str, Any]:
        folder = None if self._pictures is None else os.path.abspath(self._pictures)
        path = os.path.abspath(self._path)
        return {"path": path, "max_bytes": self._max_bytes, "pictures": folder}

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._process.ask(question, _TIMEOUT_S, _TIMEOUT_S)
        except HelperDied as death:
            is_slow = death.exceeded_time
            raise DamagedFile(_TOO_SLOW if is_slow else _ENDED) from death
        except OSError as error:
            raise DamagedFile(_NOT_STARTED) from error
        if "errno" in answer:
            raise OSError(answer["errno"], answer["cause"], str(self._path))
        if "refused" in answer:
            raise DamagedFile(answer["refused"])
        return answer
