"""``fullstop completion``: completes words of the command line for a shell.

Each shell's script calls this. The candidates come from the parser, so new options are completed
without further work; the names of models are read when they are needed. Main thread.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence

from api.terminal_text import harmless
from app import exits, paths
from app.cli import parser
from app.settings.options import LOCAL_MODEL, REMOTE_MODEL, CompletionOptions

Names = Callable[[], Iterable[str]]

_SCRIPTS = {
    # complete: https://www.gnu.org/software/bash/manual/bash.html#Programmable-Completion
    # macOS has bash 3.2, which has no mapfile.
    "bash": """\
_fullstop() {
    local IFS=$'\\n'
    COMPREPLY=($("$1" completion bash -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
}
complete -o default -F _fullstop fullstop
""",
    # compadd: https://zsh.sourceforge.io/Doc/Release/Completion-Widgets.html
    "zsh": """\
#compdef fullstop
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_fullstop() {
    local -a found
    found=("${(@f)$("${words[1]}" completion zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _fullstop fullstop
""",
    # complete: https://fishshell.com/docs/current/cmds/complete.html
    "fish": """\
complete -c fullstop -a \
'(fullstop completion fish -- (commandline -opc) "$(commandline -ct)" 2>/dev/null)'
""",
}


def run(options: CompletionOptions) -> int:
    """Print the script of a shell, or the candidates for the last word of its line."""
    line = options.line[1:] if options.line[:1] == ("--",) else options.line
    if not line:
        print(_SCRIPTS[options.shell], end="")
        return exits.OK
    offered = _candidates(parser(), line, paths.model_names, _suggested)
    print("".join(f"{word}\n" for word in offered if harmless(word) == word), end="")
    return exits.OK


def _suggested() -> list[str]:
    from engine.library.hub_models import SUGGESTIONS

    return [suggestion.name for suggestion in SUGGESTIONS]


def _candidates(
    root: argparse.ArgumentParser, line: Sequence[str], local: Names, remote: Names
) -> list[str]:
    """Return the candidates for the last word of a line; empty if any word is possible."""
    *before, begun = line[1:] or [""]
    parser, positions, option = root, 0, None
    for word in before:
        if option is not None:
            option = None
        elif word.startswith("-"):
            option = _valued(parser, word)
        elif word in (commands := _commands(parser)):
            parser, positions = commands[word], 0
        else:
            positions += 1
    if option is not None:
        offered = _values(option, local, remote)
    elif begun.startswith("-"):
        offered = [name for action in parser._actions for name in action.option_strings]
    else:
        places = [
            action
            for action in parser._actions
            if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
        ]
        here = places[positions : positions + 1]
        offered = [
            *_commands(parser),
            *(word for kind in here for word in _values(kind, local, remote)),
        ]
    return [word for word in offered if word.startswith(begun)]


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _valued(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    """Return the option whose value is the next word."""
    named = (
        action for action in parser._actions if word in action.option_strings and action.nargs != 0
    )
    return next(named, None)


def _values(action: argparse.Action, local: Names, remote: Names) -> list[str]:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.metavar == LOCAL_MODEL:
        return list(local())
    return list(remote()) if action.metavar == REMOTE_MODEL else []
