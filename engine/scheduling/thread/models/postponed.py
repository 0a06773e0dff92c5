"""The commands that wait for a change of a model, or for the model itself, in order.

Knows how many may wait and refuses the rest, but not when they are due. Engine thread, except where
a method says otherwise.
"""

from collections import deque
from collections.abc import Sequence

from engine.errors import EngineError, QueueFull
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.outbox import settle
from engine.scheduling.thread.commands import (
    Command,
    CountTokens,
    Detokenize,
    Embed,
    RenderPrompt,
    Resume,
    Submit,
    Tokenize,
    refuse,
)
from engine.stopping.record import StopKind

_NEEDS_MODEL = (Submit, Resume, CountTokens, RenderPrompt, Tokenize, Detokenize, Embed)


def needs_model(command: Command) -> bool:
    """Whether a command needs the model in memory."""
    return isinstance(command, _NEEDS_MODEL)


class PostponedCommands:
    """The commands that one model still has to carry out."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._commands: deque[Command] = deque()

    def __bool__(self) -> bool:
        return bool(self._commands)

    @property
    def choices(self) -> int:
        """How many answers they ask for."""
        submitted = sum(len(one.generations) for one in self._commands if isinstance(one, Submit))
        return submitted + sum(len(one.rows) for one in self._commands if isinstance(one, Resume))

    @property
    def is_model_next(self) -> bool:
        """Whether the first command needs the model in memory; there must be one."""
        return needs_model(self._commands[0])

    def add(self, command: Command) -> None:
        """Let a command wait behind the others; a request for too many answers is refused."""
        if isinstance(command, Submit):
            most, waiting = self._limits.max_rows + self._limits.max_waiting, 0
            if len(self._commands) + len(command.generations) > most:
                waiting = self.choices
            if waiting + len(command.generations) > most:
                settle(command.generations, QueueFull(waiting, len(command.generations)))
                return
        self._commands.append(command)

    def take_next(self) -> Command:
        """Remove and return the first command."""
        return self._commands.popleft()

    def cancel(self, generations: Sequence[Generation], why: EngineError) -> None:
        """Drop the requests for some answers, each with all its choices."""
        for command in self._commands.copy():
            if isinstance(command, Resume):
                for row in [one for one in command.rows if one.generation in generations]:
                    command.rows.remove(row)
                    row.end_for_reader(StopKind.CANCELLED)
            elif isinstance(command, Submit) and any(
                one in command.generations for one in generations
            ):
                self._commands.remove(command)
                settle(command.generations, why)

    def refuse_model_users(self, why: EngineError) -> None:
        """Refuse the commands that need the model in memory; the others continue to wait."""
        kept = [one for one in self._commands if not needs_model(one)]
        for command in self._commands:
            if needs_model(command):
                refuse(command, why)
        self._commands = deque(kept)

    def take_all(self) -> list[Command]:
        """Remove and return all commands. Any thread, as for ``Lane.refuse_the_rest``."""
        left = list(self._commands)
        self._commands.clear()
        return left
