"""``fullstop completion``: prints the script for a shell, made by shtab. Main thread."""

import argparse
from collections.abc import Iterator
from shlex import quote
from typing import Any

from app import exits
from app.cli import parser
from app.settings.options import LOCAL_MODEL, REMOTE_MODEL

# Functions, because shtab's commands would run when zsh starts, and bash would expand the names.
_LOCAL_MODELS = {
    "bash": "_fullstop_models",
    "zsh": "_fullstop_models",
    "fish": "(fullstop models list --names 2>/dev/null)",
}
_PREAMBLE = {
    "bash": """
_fullstop_models() {
    local name
    fullstop models list --names 2>/dev/null | while IFS= read -r name; do
        if [[ "$name" == "$1"* ]]; then printf '%s\\n' "$name"; fi
    done
}
""",
    "zsh": """
_fullstop_models() {
    local -a names
    names=("${(@f)$(fullstop models list --names 2>/dev/null)}")
    compadd -a names
}
""",
}

# shtab's script registers itself where it is evaluated, and not where a file is sourced.
_ZSH = """\
#compdef fullstop
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
eval {}
"""


def run(options: argparse.Namespace) -> int:
    """Print the script of a shell."""
    import shtab

    from engine.library.suggestions import SUGGESTIONS

    root = parser()
    for action in _actions(root):
        if action.metavar == LOCAL_MODEL:
            action.complete = _LOCAL_MODELS
        elif action.metavar == REMOTE_MODEL:
            action.choices = [suggestion.name for suggestion in SUGGESTIONS]
        elif action.metavar == "FILE":
            action.complete = shtab.FILE
        elif action.metavar == "FOLDER":
            action.complete = shtab.DIRECTORY
    script = shtab.complete(root, shell=options.shell, preamble=_PREAMBLE.get(options.shell, ""))
    print(_ZSH.format(quote(script)) if options.shell == "zsh" else script)
    return exits.OK


def _actions(root: argparse.ArgumentParser) -> Iterator[Any]:
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action
