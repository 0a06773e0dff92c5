"""A program that is meant to be killed: the window's own state on Qt's loop, answering for ever.

``python -m tests.support.streaming.streaming_process FILE`` prints each piece of the answer before
it is said.
"""

import asyncio
import os
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import qasync
from PySide6.QtCore import QCoreApplication

from app.store.conversation_store import open_store
from engine.values.events import PromptProgress, TextDelta
from tests.ui.driving import ScriptedEngine, eventually, session
from ui.records.conversations import Conversation

PIECES_PER_S = 200


async def answer_for_ever(path: Path) -> None:
    store = await open_store(path)
    engine = ScriptedEngine()
    conversation = Conversation()
    store.save(conversation)
    session(engine, conversation, store).send("Count for ever")
    await eventually(lambda: bool(engine.generations))
    # The request has reached the engine: from here on the question must be in the file.
    print("asked", flush=True)
    engine.say(PromptProgress(1, 1, 0))
    number = 0
    while True:
        number += 1
        print(number, flush=True)
        engine.say(TextDelta(f"{number} "))
        await asyncio.sleep(1 / PIECES_PER_S)


if __name__ == "__main__":
    application = QCoreApplication([])
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner:
        runner.run(answer_for_ever(Path(sys.argv[1])))
