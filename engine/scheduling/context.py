"""What the models of one engine thread share."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from engine.inference.cache.disk import DiskCache
from engine.inference.loader import Loader
from engine.scheduling.call_queue import CallQueue
from engine.scheduling.model_list import ModelList
from engine.scheduling.outbox import Outbox
from engine.values.limits import Limits


class ThreadAbandoned(BaseException):
    """Ends an engine thread that was abandoned, once it returns from where it hung."""


class Heartbeat:
    """Progress of the engine thread. The thread writes it; any thread may stop it."""

    def __init__(self) -> None:
        self.count = 0
        self.model: object | None = None
        self.is_busy = self.is_stopped = False

    def beat(self, model: object | None = None) -> None:
        """Note that a piece of work begins; raises ``ThreadAbandoned`` in an abandoned thread."""
        if self.is_stopped:
            raise ThreadAbandoned
        self.count += 1
        self.model, self.is_busy = model, True

    def pause(self) -> None:
        self.is_busy = False


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What the models of one engine thread share.

    ``prompt_pool`` renders prompts; ``slow_prompt_pool`` those with pictures, and those of
    constrained answers, whose grammars it compiles. ``question_pool`` counts tokens and tokenises
    other texts.
    """

    limits: Limits
    loader: Loader
    disk: DiskCache | None
    queue: CallQueue
    outbox: Outbox
    statuses: ModelList
    heartbeat: Heartbeat
    prompt_pool: ThreadPoolExecutor
    slow_prompt_pool: ThreadPoolExecutor
    question_pool: ThreadPoolExecutor
