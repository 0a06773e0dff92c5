"""Conversations for tests."""

from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import Finished, Timing, Usage
from engine.values.request import ToolCall
from engine.values.verdict import verdict_text
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry

FINISHED = Finished(
    StopInfo(
        StopKind.STOP_STRING, "\n6", 30, "6", Channel.TEXT, 9, 11, 1, held="x", dropped="\n6 "
    ),
    Usage(12, 4, 12, 3),
    Timing(0.001, 0.02, 0.03, 0.5, 0.6),
    residue="r",
)

SETTINGS = ConversationSettings(
    "Be brief.",
    temperature=0.5,
    max_tokens=64,
    is_thinking=True,
    top_p=0.9,
    top_k=40,
    min_p=0.05,
    repetition_penalty=1.1,
    seed=7,
)
"""Settings of which each is set."""


def sentence_of_stop(value: str) -> str:
    """Return what the window says about an answer that a stop string ended."""
    stop = StopInfo(StopKind.STOP_STRING, value, text_offset=1)
    return verdict_text(Finished(stop, Usage(), Timing())).sentence


def finished_run(text: str = "1 2 3", **fields: object) -> Run:
    run = Run(
        rules=StopRules.of("END", "\n6"),
        max_tokens=64,
        model_id="demo-model",
        state="finished",
        text=text,
        thinking="hm",
        thinking_s=0.25,
        tool_calls=[ToolCall("c1", "add", '{"a": 1}')],
        prompt_processed=12,
        prompt_total=12,
        prompt_cached=4,
        finished=FINISHED,
        continued_chars=2,
    )
    for name, value in fields.items():
        setattr(run, name, value)
    return run


def conversation(question: str = "Count", answer: str = "1 2 3") -> Conversation:
    return Conversation(
        "Counting",
        [
            ConversationMessage("user", question),
            ConversationMessage("assistant", answer, finished_run(answer)),
        ],
        SETTINGS,
        [StopEntry.of("END"), StopEntry.of("\n6 ", False)],
        draft="what was being wri",
    )
