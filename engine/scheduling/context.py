"""What the models of one engine thread share."""

from dataclasses import dataclass

from engine.inference.loader import Loader
from engine.scheduling.call_queue import CallQueue
from engine.scheduling.model_list import ModelList
from engine.scheduling.outbox import Outbox
from engine.scheduling.preparation import TaskPool
from engine.scheduling.watchdog import Heartbeat
from engine.values.limits import Limits


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What the models of one engine thread share.

    Attributes:
        prompts: Renders short prompts, in the order of arrival.
        long_prompts: Renders long ones, so that no short one waits for them.
        questions: Counts tokens, and tokenises texts for vectors; no answer waits for it.
    """

    limits: Limits
    loader: Loader
    queue: CallQueue
    outbox: Outbox
    statuses: ModelList
    heartbeat: Heartbeat
    prompts: TaskPool
    long_prompts: TaskPool
    questions: TaskPool
