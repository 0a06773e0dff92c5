"""The state of a conversation in the terminal, and its slash commands.

Pure: reads and writes no terminal and knows no engine that runs. Main thread.
"""

import dataclasses
from collections.abc import Callable

from app.settings.options import AnswerOptions
from engine import (
    Answer,
    GenerationRequest,
    InvalidRequest,
    Message,
    StopKind,
    checked_strings,
    counted,
    escaped,
    quoted,
)
from ui.words.visible import unescaped

HELP = """\
/stop add S        end answers before S, taken as typed; in double quotes \\n, \\t … are read
/stop remove N     remove stop number N
/stop list         show the stops
/system S          set the system prompt; nothing after it removes it
/thinking on|off   let the model reason before it answers
/new               forget the conversation, keep the settings
/help              show this
/quit              leave (also Ctrl-D)
Ctrl-C ends an answer. A message that begins with a slash is typed with two."""


class ChatSession:
    """A conversation: its turns, and how the next answer is generated."""

    def __init__(self, options: AnswerOptions) -> None:
        self.has_ended = False
        self._options = options
        self._turns: tuple[Message, ...] = ()

    @property
    def options(self) -> AnswerOptions:
        """How the next answer is generated."""
        return self._options

    @property
    def turns(self) -> tuple[Message, ...]:
        """The turns so far."""
        return self._turns

    def question(self, line: str) -> str | None:
        """Return the question in a typed line; None if it is a command or blank."""
        if not line.strip():
            return None
        if line.startswith("/"):
            return line[1:] if line.startswith("//") else None
        return line

    def request(self, question: str) -> GenerationRequest:
        """Return the request that answers a question after the turns so far."""
        return self._options.request((*self._turns, Message("user", question)))

    def record(self, question: str, answer: Answer) -> None:
        """Keep a turn as the person saw it; failed and empty turns are dropped."""
        if answer.finished.stop.kind is StopKind.ERROR or not (answer.text or answer.thinking):
            return
        said = Message("assistant", answer.text, thinking=answer.thinking)
        self._turns = (*self._turns, Message("user", question), said)

    def obey(self, line: str) -> str:
        """Carry out a slash command and return what to tell the person, possibly nothing."""
        if not line.strip():
            return ""
        word, _, rest = line.partition(" ")
        commands: dict[str, Callable[[str], str]] = {
            "/stop": self._stop,
            "/system": self._system,
            "/thinking": self._thinking,
            "/new": self._new,
            "/help": lambda _: HELP,
            "/quit": self._quit,
        }
        command = commands.get(word.strip())
        return command(rest) if command else f"{word} is not a command; /help lists the commands"

    def _stop(self, rest: str) -> str:
        action, _, value = rest.partition(" ")
        stops = self._options.stops
        match action.strip():
            case "add":
                return self._add_stop(value)
            case "remove":
                return self._remove_stop(value)
            case "" | "list":
                # As they are typed: what is listed here can be added again.
                typed = (escaped(stop).replace('"', '\\"') for stop in stops)
                lines = [f'{number}. "{stop}"' for number, stop in enumerate(typed, 1)]
                return "\n".join(lines) if lines else "no stops; /stop add S adds one"
            case unknown:
                return f"/stop {unknown} is not a command; use add, remove or list"

    def _add_stop(self, value: str) -> str:
        try:
            if len(value) >= 2 and value[0] == value[-1] == '"':
                value = unescaped(value[1:-1])
            stops = checked_strings([*self._options.stops, value], "stop")
        except InvalidRequest as error:
            return f"not added: {error.reason}"
        except ValueError as error:
            return f"not added: {error}"
        self._set(stops=stops)
        return f"answers end before {quoted(value)}"

    def _remove_stop(self, value: str) -> str:
        stops = self._options.stops
        if not value.strip().isdecimal() or not 1 <= int(value) <= len(stops):
            return f"/stop remove takes the number of a stop; there are {len(stops)} (/stop list)"
        index = int(value) - 1
        self._set(stops=stops[:index] + stops[index + 1 :])
        return f"removed {quoted(stops[index])}"

    def _system(self, rest: str) -> str:
        self._set(system=rest)
        return "system prompt set" if rest else "system prompt removed"

    def _thinking(self, rest: str) -> str:
        match rest.strip():
            case "":
                self._set(is_thinking=not self._options.is_thinking)
            case "on" | "off" as state:
                self._set(is_thinking=state == "on")
            case unknown:
                return f"/thinking takes on or off, not {unknown}"
        return f"thinking is {'on' if self._options.is_thinking else 'off'}"

    def _new(self, _rest: str) -> str:
        forgotten = counted(len(self._turns), "turn")
        self._turns = ()
        return f"a new conversation ({forgotten} forgotten)"

    def _quit(self, _rest: str) -> str:
        self.has_ended = True
        return ""

    def _set(self, **changes: object) -> None:
        self._options = dataclasses.replace(self._options, **changes)  # type: ignore[arg-type]
