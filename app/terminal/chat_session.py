"""A conversation in the terminal and the slash commands that change it; saved as in the window."""

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app import paths
from app.exits import CommandError, did_you_mean
from app.printer import Printer
from app.settings.options import AnswerOptions
from app.terminal.answers import read_files
from app.terminal.documents import find_in_memory
from engine import Answer, Engine
from engine.errors import InvalidRequest
from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile
from engine.files.safe_files import read_bounded, write_whole
from engine.library.model_info import ModelInfo
from engine.stopping.record import StopKind
from engine.stopping.rules import checked_strings
from engine.values.request import SAMPLING_OPTIONS, GenerationRequest, Picture
from engine.wording import counted, escaped, quoted
from ui.preferences import NewConversation, declared
from ui.records.attachments import Attachment
from ui.records.conversations import ChosenModel, Conversation, ConversationSettings
from ui.records.exchange.archive import archive_end, conversations_from_json, conversations_json
from ui.records.exchange.exported_file import ARCHIVE_SUFFIX, ExportedFile
from ui.records.messages import ConversationMessage
from ui.records.messages import question as made_question
from ui.records.prompt_fit import TokenCounter, cut_message, fitted_prompt, last_left_out
from ui.records.requests import fitted as adapted
from ui.records.requests import (
    new_run,
    prompt_messages,
    request_for,
    sent_messages,
)
from ui.records.runs import NO_CHANGE, LeftOut
from ui.records.stop_entries import StopEntry
from ui.records.titles import UNTITLED, title_of
from ui.words import unescaped

HELP = """\
/stop add S        end answers before S, taken as typed; in double quotes \\n, \\t … are read
/stop remove N     remove stop number N
/stop list         show the stops
/set               show the settings of the next answer
/set NAME VALUE    change one, as in /set temperature 0.5; default takes the model's own
/system S          set the system prompt; nothing after it removes it
/thinking on|off   let the model reason before it answers
/model             list the models on this computer
/model NAME        go on with another model
/tools             list the MCP servers
/tools NAME        let the model use one, or no longer; each call is asked about
/file FILE         add a picture, or a text, PDF or Word file, to the next question
/save FILE         save the conversation; the window imports such files, too
/load FILE         go on with a saved conversation, with its settings and stops
/new               forget the conversation, keep the settings
/help              show this (also /?)
/quit              leave (also /bye, Ctrl-D)
Ctrl-C ends an answer. A message that begins with a slash is typed with two. It goes on in the next
line after Alt-Return, and between \"\"\" and \"\"\"; what is pasted stays one message."""

_OTHER_NAMES = {"/bye": "/quit", "/exit": "/quit", "/clear": "/new", "/?": "/help"}
FILE_COMMANDS = ("/file", "/save", "/load")

# The names of ``/set``: for numbers the minimum, the maximum and whether they are whole, for others
# the field of ``ConversationSettings``.
SETTINGS: dict[str, tuple[float, float, bool] | str] = {
    **{option.name: (option.min, option.max, option.is_whole) for option in SAMPLING_OPTIONS},
    **{
        field.name: (field.minimum, field.maximum, field.kind == int | None)
        for field in declared(NewConversation)
        if field.minimum is not None and field.maximum is not None
    },
    "thinking": "is_thinking",
    "system": "system_prompt",
}
_QUOTES = '"""'
PROMPT = "you> "


class ChatSession:
    """A conversation, and the slash commands that change it."""

    def __init__(self, options: AnswerOptions) -> None:
        self.has_ended = False
        self.model: ModelInfo | None = None
        self.requested_model: Path | None = None
        self.requested_tools: str | None = None
        self.conversation = options.new_conversation()
        self.pictures: dict[str, Picture] = {}
        self._file: Path | None = None
        self._commands: dict[str, Callable[[str], str]] = {
            "/stop": self._stop,
            "/set": self._set,
            "/system": self._system,
            "/thinking": self._thinking,
            "/model": self._model,
            "/tools": self._tools,
            "/file": self._file_added,
            "/save": self._save,
            "/load": self._load,
            "/new": self._new,
            "/help": lambda _: HELP,
            "/quit": self._quit,
        }

    @property
    def stops(self) -> tuple[str, ...]:
        return self.conversation.enabled_stops()

    def question(self, line: str) -> str | None:
        if not line.strip():
            return None
        if line.startswith("//"):
            return line[1:]
        # A path, or another text of several lines, that was pasted is not a command.
        is_command = line.startswith("/") and (
            "\n" not in line or _parts(line)[0] in self._commands
        )
        return None if is_command else unquoted(line)

    def ask(self, question: str) -> tuple[ConversationMessage, GenerationRequest]:
        """Add a question with its files, and return it with the request that answers it."""
        files = self.conversation.attachments
        message = made_question(question, files)
        self.conversation.add(message)
        return message, request_for(self.conversation, self.model, message)

    async def fitted(
        self, turn: ConversationMessage, request: GenerationRequest, engine: Engine
    ) -> tuple[GenerationRequest, LeftOut | None]:
        """Return a request that fits into the context, and the messages omitted from it."""
        conversation, model = self.conversation, self.model
        if model is None:
            return request, None
        path = conversation.tree.path_to(turn)
        settings = conversation.settings
        pictures = self.pictures if model.can_see else {}

        def make(messages: Sequence[ConversationMessage], _first: str) -> GenerationRequest:
            complete = prompt_messages(messages, settings.system_prompt, pictures=pictures)
            return adapted(replace(request, messages=complete), settings, model)

        sent = sent_messages(conversation, turn)
        counter = TokenCounter(engine, model)
        find = find_in_memory if any(message.attached_chars for message in path) else None
        before = last_left_out(path)
        fit = await fitted_prompt(path, sent, make, counter, before=before, find=find)
        if fit.excerpts is not None:
            turn.excerpts = fit.excerpts
        for message in path:
            cut = cut_message(message, fit.cuts)
            message.sent_chars = cut.sent_chars
            if message.run is not None and cut.run is not None:
                message.run.results = cut.run.results
        return fit.request, fit.left_out

    def withdraw(self, turn: ConversationMessage) -> None:
        if turn.run is None:
            self.conversation.tree.remove(turn)

    def record(
        self,
        turn: ConversationMessage,
        request: GenerationRequest,
        given: Answer,
        left_out: LeftOut | None = None,
    ) -> ConversationMessage | None:
        """Record a turn as the user saw it; return its answer, None for a failed or empty one."""
        is_empty = not (given.text or given.thinking or given.tool_calls)
        if given.finished.stop.kind is StopKind.ERROR or is_empty:
            self.withdraw(turn)
            return None
        run = new_run(request, self.model, None, NO_CHANGE)
        run.left_out = left_out
        run.text, run.thinking, run.tool_calls = given.text, given.thinking, [*given.tool_calls]
        run.apply(given.finished)
        answered = ConversationMessage("assistant", given.text, run)
        self.conversation.add(answered)
        self.conversation.attachments = ()
        self.conversation.updated_at = answered.created_at
        if self.conversation.title == UNTITLED:
            self.conversation.title = title_of(turn.typed)
        return answered

    def obey(self, line: str) -> str:
        """Carry out a slash command and return its reply, which may be empty."""
        if not line.strip():
            return ""
        typed, rest = _parts(line)
        command = self._commands.get(typed)
        if command is None:
            near = did_you_mean(typed, (*self._commands, *_OTHER_NAMES))
            return f"{typed} is not a command.{near} /help lists the commands."
        try:
            return command(rest)
        except CommandError as error:
            return str(error)

    # -- stops and settings ----------------------------------------------------------------------

    def _stop(self, rest: str) -> str:
        action, _, value = rest.partition(" ")
        match action.strip():
            case "add":
                return self._add_stop(value)
            case "remove":
                return self._remove_stop(value)
            case "" | "list":
                # In the form in which /stop add takes them.
                typed = (escaped(stop).replace('"', '\\"') for stop in self.stops)
                lines = [f'{number}. "{stop}"' for number, stop in enumerate(typed, 1)]
                return "\n".join(lines) if lines else "no stops; /stop add S adds one"
            case unknown:
                return f"/stop {unknown} is not a command; use add, remove or list"

    def _add_stop(self, value: str) -> str:
        try:
            if len(value) >= 2 and value[0] == value[-1] == '"':
                value = unescaped(value[1:-1])
            checked_strings([*self.stops, value], "stop")
        except InvalidRequest as error:
            return f"not added: {error.reason}"
        except ValueError as error:
            return f"not added: {error}"
        if value not in self.stops:
            self.conversation.stops.append(StopEntry.of(value))
        return f"answers end before {quoted(value)}"

    def _remove_stop(self, value: str) -> str:
        stops = self.stops
        if not value.strip().isdecimal() or not 1 <= int(value) <= len(stops):
            return f"/stop remove takes the number of a stop; there are {len(stops)} (/stop list)"
        removed = stops[int(value) - 1]
        remaining = [entry for entry in self.conversation.stops if entry.stop.text != removed]
        self.conversation.stops = remaining
        return f"removed {quoted(removed)}"

    def _set(self, rest: str) -> str:
        # Ollama's chat has the word between.
        name, _, value = rest.strip().removeprefix("parameter ").strip().partition(" ")
        name, value = name.replace("-", "_"), value.strip()
        if not name:
            return "\n".join(f"{name:<20}{self._shown(name)}" for name in SETTINGS)
        if name == "stop":
            return self._add_stop(value)
        if name not in SETTINGS:
            near = did_you_mean(name, SETTINGS)
            return f"there is no setting {name}.{near} /set lists the settings."
        if value in ("default", "none"):
            self._change(name, getattr(ConversationSettings(), _field(name)))
        elif value:
            self._change(name, _setting_value(name, value))
        return f"{name} is {self._shown(name)}"

    def _shown(self, name: str) -> str:
        value = getattr(self.conversation.settings, _field(name))
        if isinstance(value, bool):
            cannot = value and self.model is not None and not self.model.can_think
            return f"{'on' if value else 'off'}{', which the model cannot do' if cannot else ''}"
        if isinstance(value, str):
            return quoted(value) if value else "none"
        if value is None:
            return "no limit" if "max" in name or "budget" in name else "default"
        return f"{value:g}" if isinstance(value, float) else str(value)

    def _system(self, rest: str) -> str:
        self._change("system", unquoted(rest))
        return f"system is {self._shown('system')}"

    def _thinking(self, rest: str) -> str:
        opposite = "off" if self.conversation.settings.is_thinking else "on"
        return self._set(f"thinking {rest.strip() or opposite}")

    def _change(self, name: str, value: Any) -> None:
        settings = replace(self.conversation.settings, **{_field(name): value})
        self.conversation.settings = settings

    # -- models and files ------------------------------------------------------------------------

    def _model(self, rest: str) -> str:
        name, names = rest.strip(), paths.model_names()
        if not name:
            present = self.model.id if self.model else ""
            current = (present, present.rpartition("/")[2])
            return "\n".join(f"{'*' if model in current else ' '} {model}" for model in names)
        folder = paths.model_folder(name)
        if not os.path.exists(folder):
            near = did_you_mean(name, names)
            return f"there is no model {name} on this computer.{near} /model lists them."
        self.requested_model = folder
        return ""

    def _tools(self, rest: str) -> str:
        if rest.strip() and self.model is not None and not self.model.can_call_tools:
            return f"{self.model.id} cannot call tools"
        self.requested_tools = rest.strip()
        return ""

    def attach(self, files: Iterable[str], printer: Printer | None = None) -> None:
        added, pictures = read_files(files, printer)
        self.conversation.attachments = (*self.conversation.attachments, *added)
        self.pictures.update(pictures)

    def _file_added(self, rest: str) -> str:
        if not rest.strip():
            titles = [file.title for file in self.conversation.attachments]
            return "\n".join(titles) if titles else "/file takes the path of a file"
        self.attach([rest.strip()])
        return self.remark_on(self.conversation.attachments[-1], "next")

    def remark_on(self, file: Attachment, which: str) -> str:
        """Return with which question a file goes, and whether the model sees it."""
        goes = f"{file.title} goes with the {which} question"
        model = self.model
        if model is None or model.can_see or not file.kept_file:
            return goes
        cause = f": {model.vision_problem}" if model.vision_problem else ""
        return f"{goes} as a note: {model.id} reads text only{cause}"

    def _save(self, rest: str) -> str:
        typed = rest.strip()
        if not typed and self._file is None:
            return "/save takes the name of a file"
        file = _saved_file(typed) if typed else self._file
        assert file is not None
        if not self.conversation.has_messages:
            return "not saved: there is no answer yet"
        if file != self._file and os.path.exists(file):
            return f"not saved: {file} exists already; take another name"
        if self.model is not None and self.conversation.model is None:
            self.conversation.model = ChosenModel(self.model.id)
        try:
            self._write(file)
        except OSError as error:
            return f"not saved: {os_cause(error)}"
        self._file = file
        if file.suffix == ARCHIVE_SUFFIX or not any(self.conversation.pictures):
            return f"saved as {file}"
        return f"saved as {file}, without its pictures; as a {ARCHIVE_SUFFIX} file it has them"

    def _write(self, file: Path) -> None:
        if file.suffix != ARCHIVE_SUFFIX:
            write_whole(file, conversations_json([self.conversation]))
            return
        with tempfile.TemporaryDirectory() as folder:
            for name, picture in self.pictures.items():
                Path(folder, name).write_bytes(picture.data)
            archive = ExportedFile(file, archive_end(), Path(folder))
            archive.add(self.conversation)
            archive.close()

    def _load(self, rest: str) -> str:
        if not rest.strip():
            return "/load takes the name of a file"
        file = _saved_file(rest.strip())
        if file.suffix == ARCHIVE_SUFFIX:
            return f"not loaded: {file} is an archive, which the window imports"
        try:
            data = read_bounded(file, 100_000_000)
            conversations = conversations_from_json(data.decode("utf-8-sig"))
        except OSError as error:
            return f"not loaded: {file}: {os_cause(error)}"
        except (DamagedFile, UnicodeDecodeError) as error:
            return f"not loaded: {file} holds no conversations of Fullstop ({error})"
        if len(conversations) != 1:
            count = counted(len(conversations), "conversation")
            return f"not loaded: {file} holds {count}; the window imports such files"
        self.conversation, self._file = conversations[0], file
        lines = [
            f"{PROMPT if message.role == 'user' else ''}{message.text}"
            for message in self.conversation.messages[-2:]
        ]
        messages = counted(len(self.conversation.messages), "message")
        stops = counted(len(self.stops), "stop")
        lines.append(f"“{self.conversation.title}” is loaded: {messages} and {stops}")
        chosen, present = self.conversation.model, self.model
        if chosen is not None and present is not None and chosen.name != present.id:
            lines.append(f"it was with {chosen.name}; /model {chosen.name} goes on with that")
        return "\n".join(lines)

    def _new(self, _rest: str) -> str:
        old = self.conversation
        forgotten = counted(sum(message.role == "user" for message in old.messages), "turn")
        self.conversation = Conversation(settings=old.settings, stops=old.stops)
        self.conversation.tools = replace(old.tools, approved=())
        self._file = None
        return f"a new conversation ({forgotten} forgotten)"

    def _quit(self, _rest: str) -> str:
        self.has_ended = True
        return ""


def _parts(line: str) -> tuple[str, str]:
    word = line.split(maxsplit=1)[0]
    return _OTHER_NAMES.get(word, word), line.lstrip()[len(word) + 1 :]


def is_quote_open(typed: str) -> bool:
    """Return whether Return begins another line of a quoted message, and does not send it."""
    is_quoted = typed.removeprefix("/system").lstrip().startswith(_QUOTES)
    return is_quoted and typed.count(_QUOTES) % 2 == 1


def unquoted(typed: str) -> str:
    """Return a text without the quotes around it, and the line ends beside them."""
    inner = typed.strip()
    if not (inner.startswith(_QUOTES) and inner.endswith(_QUOTES) and len(inner) >= 6):
        return typed
    return inner[3:-3].removeprefix("\n").removesuffix("\n")


def _field(name: str) -> str:
    field = SETTINGS[name]
    return field if isinstance(field, str) else name


def _setting_value(name: str, typed: str) -> Any:
    limits = SETTINGS[name]
    if name == "system":
        return unquoted(typed)
    if isinstance(limits, str):
        if typed not in ("on", "off"):
            raise CommandError(f"{name} takes on or off, not {typed}")
        return typed == "on"
    low, high, is_whole = limits
    try:
        value = int(typed) if is_whole else float(typed)
    except ValueError:
        kind = "a whole number" if is_whole else "a number"
        raise CommandError(f"{name} takes {kind} or default, not {typed}") from None
    if not low <= value <= high:
        raise CommandError(f"{name} is from {low:.17g} to {high:.17g}, not {typed}")
    return value


def _saved_file(typed: str) -> Path:
    file = paths.typed_path(typed).absolute()
    return file if file.suffix else file.with_suffix(".json")
