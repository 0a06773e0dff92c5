"""Shell commands that start a coding agent, and what a model lacks for it."""

import shlex
from dataclasses import replace

from app.agents.programs import AGENTS, FOLDER_MARK, NO_KEY, AgentProgram, Setup, Target
from app.paths import demo_model
from engine.library.model_info import ModelInfo
from engine.wording import counted
from ui.preferences import API_KEY_VARIABLE

# Stands for the key, which is never written out; no key has this form.
_KEY_MARK = "\0"
_FOLDER = "${TMPDIR:-/tmp}"


def lacks(agent: AgentProgram, context: int | None, can_call_tools: bool | None) -> str:
    """Return what a model lacks, as the end of a sentence; empty if suitable, or not known."""
    problems = []
    if context is not None and context < agent.min_context:
        problems.append(
            f"its context holds {counted(context, 'token')}, and {agent.title} needs at "
            f"least {agent.min_context:,} for its instructions, its tools and your work"
        )
    if agent.needs_tools and can_call_tools is False:
        problems.append(f"it cannot call tools, which {agent.title} needs for all its work")
    return "; ".join(problems)


def lines(agent: AgentProgram, target: Target, more: tuple[str, ...] = ()) -> str:
    """Return the lines; the key is never written out, but read from a variable."""
    has_key = target.key != NO_KEY
    setup = agent.set_up(replace(target, key=_KEY_MARK) if has_key else target)
    lines: list[str] = []
    if has_key:
        lines.append(f"# {API_KEY_VARIABLE} must hold the API key of the server.")
    for name, value in setup.variables.items():
        if value == _KEY_MARK and name == API_KEY_VARIABLE:
            lines.append(f"export {name}")
        else:
            lines.append(f"export {name}={_written(value)}")
    lines += [
        f"printf '%s' {shlex.quote(text)} > \"{_FOLDER}/{name}\""
        for name, text in setup.files.items()
    ]
    command = (agent.program, *setup.arguments, *more)
    lines.append(" ".join(_written(word) for word in command))
    return "\n".join(lines) + "\n"


def _written(word: str) -> str:
    if word == _KEY_MARK:
        return f'"${API_KEY_VARIABLE}"'
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


class CopiedLines:
    """Every agent that ``fullstop launch`` starts."""

    def titles(self) -> dict[str, str]:
        return {word: agent.title for word, agent in AGENTS.items()}

    def lines(self, agent: str, url: str, model: ModelInfo, *, has_key: bool) -> str:
        key = _KEY_MARK if has_key else NO_KEY
        return lines(AGENTS[agent], Target(url, model.id, model.context_length, key))

    def lacks(self, agent: str, model: ModelInfo) -> str:
        if model.path == demo_model():
            return "the demo model only counts, repeats and explains itself"
        return lacks(AGENTS[agent], model.context_length, model.can_call_tools)
