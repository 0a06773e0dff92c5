"""Shell commands equivalent to ``fullstop launch``, to copy or read.

Pure; any thread.
"""

import shlex
from dataclasses import replace

from app.launching.agents import FOLDER_MARK, KEY_VARIABLE, NO_KEY, AgentProgram, Setup, Target

_KEY_REFERENCE = f'"${KEY_VARIABLE}"'
# No key has this form.
_KEY_MARK = "\0"
_FOLDER = "${TMPDIR:-/tmp}"


def lines(agent: AgentProgram, target: Target, more: tuple[str, ...] = ()) -> str:
    """Return the lines; the key is never written out, but read from a variable.

    Args:
        agent: The agent.
        target: The server and model that it uses.
        more: The person's own arguments.
    """
    has_key = target.key != NO_KEY
    setup = agent.set_up(replace(target, key=_KEY_MARK) if has_key else target)
    found: list[str] = []
    if has_key:
        found.append(f"# {KEY_VARIABLE} must hold the API key of the server.")
    for name, value in setup.variables.items():
        if value == _KEY_MARK and name == KEY_VARIABLE:
            found.append(f"export {name}")
        else:
            found.append(f"export {name}={_written(value)}")
    found += [
        f"printf '%s' {shlex.quote(text)} > \"{_FOLDER}/{name}\""
        for name, text in setup.files.items()
    ]
    words = (agent.program, *setup.arguments, *more)
    found.append(" ".join(_written(word) for word in words))
    return "\n".join(found) + "\n"


def _written(word: str) -> str:
    if word == _KEY_MARK:
        return _KEY_REFERENCE
    if word.startswith(FOLDER_MARK):
        return f'"{_FOLDER}{word.removeprefix(FOLDER_MARK)}"'
    return shlex.quote(word)


def with_folder(setup: Setup, folder: str) -> Setup:
    """Return a setup whose files are in a folder."""

    def placed(word: str) -> str:
        has_mark = word.startswith(FOLDER_MARK)
        return f"{folder}{word.removeprefix(FOLDER_MARK)}" if has_mark else word

    return replace(
        setup,
        variables={name: placed(value) for name, value in setup.variables.items()},
        arguments=tuple(map(placed, setup.arguments)),
    )
