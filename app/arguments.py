"""The arguments of a command as values, and the parser, whose errors are one line. Main thread."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from app.exits import USAGE, CommandError, did_you_mean

Argument = tuple[tuple[str, ...], dict[str, Any]]
"""The names and the keywords of ``ArgumentParser.add_argument``."""


def argument(*names: str, **details: Any) -> Argument:
    """Return an argument for a table of them."""
    return names, details


class OneLineParser(argparse.ArgumentParser):
    """A parser that answers a wrong word in one line, with the word that may be meant."""

    def error(self, message: str) -> NoReturn:
        text = message.removeprefix("argument ").rstrip(".")
        raise CommandError(f"{text}. {self._hint()}", USAGE)

    def add_arguments(self, arguments: Iterable[Argument]) -> None:
        for names, details in arguments:
            self.add_argument(*names, **details)

    def parsed(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the values of a command line that has nothing but known arguments."""
        given, unknown = self.parse_known_args(arguments)
        if unknown:
            self.refuse(unknown)
        return given

    def options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings]

    def with_options_behind_command(self, arguments: list[str]) -> list[str]:
        """Move options before a command behind it, which then takes or refuses them."""
        first, moved = 0, []
        while first < len(arguments) and arguments[first].startswith("-"):
            word, first = arguments[first], first + 1
            name, is_joined, _ = word.partition("=")
            action = self._option_string_actions.get(name)
            if action is None or action.dest in ("help", "version", "self_test"):
                return arguments
            if action.nargs is None and not is_joined and first < len(arguments):
                # Joined, for a command without the option would take the value for another word.
                word, first = f"{word}={arguments[first]}", first + 1
            moved.append(word)
        end, commands = first, self._commands()
        while end < len(arguments) and arguments[end] in commands:
            commands = commands[arguments[end]]._commands()
            end += 1
        return [*arguments[first:end], *moved, *arguments[end:]] if end > first else arguments

    def _commands(self) -> dict[str, "OneLineParser"]:
        actions = (each for each in self._actions if isinstance(each, argparse._SubParsersAction))
        return next((dict(action.choices) for action in actions), {})

    def refuse(self, arguments: Sequence[str]) -> NoReturn:
        """Raise ``CommandError`` for arguments that the parser does not know."""
        word = arguments[0].partition("=")[0]
        if not word.startswith("-"):
            raise CommandError(f"{_quoted(arguments[0])} is too much. {self._hint()}", USAGE)
        near = did_you_mean(word, self.options())
        raise CommandError(f"{self._has_no()} option {word}.{near} {self._hint()}", USAGE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the nearest choice, where argparse lists all of them."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            text = f"{self._has_no()} command {_quoted(value)}."
            if " " in value and self.prog == "fullstop":
                text += " To ask a question: fullstop ask PROMPT."
        else:
            where = action.option_strings[0] if action.option_strings else action.metavar
            text = f"{where}: {_quoted(value)} is none of {', '.join(choices)}."
        raise CommandError(f"{text}{did_you_mean(value, choices)} {self._hint()}", USAGE)

    def _has_no(self) -> str:
        command = self.prog.partition(" ")[2]
        return f"{command} has no" if command else "there is no"

    def _hint(self) -> str:
        return f"{self.prog} --help shows what it takes."


def _quoted(word: str) -> str:
    return f"“{word if len(word) <= 60 else f'{word[:60]}…'}”"
