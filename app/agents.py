"""Coding agents: how each is set up to use a server, what it needs, and shell lines for it."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from app.paths import demo_model
from engine import ModelInfo, counted

# Configures each coding agent to use our server, without changing the person's own files.
#
# Each agent is configured by environment variables and options, or, if there is no other way, by
# a file in a temporary folder.

KEY_VARIABLE = "FULLSTOP_API_KEY"
NO_KEY = "unused"
"""The key for a server that requires none: many agents refuse to start without a key."""
FOLDER_MARK = "{folder}"
"""Placeholder in arguments and variables for the temporary folder of the files."""
IMAGES = {"x-fullstop-images": "note"}
"""The header at which an image becomes a note, instead of an error that ends the conversation."""

_PROVIDER = "fullstop"
_NAME = "Fullstop"


@dataclass(frozen=True, slots=True)
class Target:
    """The server and model for an agent.

    Attributes:
        url: The server's address.
        model: The model's id.
        context: Tokens that its context holds; None if not known yet.
        key: The API key, or ``NO_KEY``.
    """

    url: str
    model: str
    context: int | None = None
    key: str = NO_KEY


@dataclass(frozen=True, slots=True)
class Setup:
    """How an agent's program is started."""

    variables: dict[str, str]
    arguments: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """A coding agent.

    Attributes:
        title: Its name.
        program: The name of its executable.
        install: The command that installs it.
        least_context: Tokens that its instructions and tools need, with room to work.
        needs_tools: Whether it depends on tool calls.
        set_up: Returns its setup for a target.
    """

    title: str
    program: str
    install: str
    least_context: int
    needs_tools: bool
    set_up: Callable[[Target], Setup]


def _claude(target: Target) -> Setup:
    # https://docs.anthropic.com/en/docs/claude-code/settings#environment-variables
    kinds = ("OPUS", "SONNET", "HAIKU")
    variables = {
        "ANTHROPIC_BASE_URL": target.url,
        # It does not ask about a token at its start; it would ask to confirm a key.
        "ANTHROPIC_AUTH_TOKEN": target.key,
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_MODEL": target.model,
        **{f"ANTHROPIC_DEFAULT_{kind}_MODEL": target.model for kind in kinds},
        "CLAUDE_CODE_SUBAGENT_MODEL": target.model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # A header that changes each time would prevent the prompt cache from matching.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        # An image becomes a note instead of an error that ends the conversation.
        "CLAUDE_CODE_EXTRA_BODY": json.dumps({"fullstop": {"images": "note"}}),
    }
    if target.context is not None:
        variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(target.context)
    return Setup(variables)


def _codex(target: Target) -> Setup:
    # https://developers.openai.com/codex/config-reference
    provider = f"model_providers.{_PROVIDER}"
    values = {
        "model_provider": _PROVIDER,
        f"{provider}.name": _NAME,
        f"{provider}.base_url": f"{target.url}/v1",
        f"{provider}.wire_api": "responses",
        f"{provider}.env_key": KEY_VARIABLE,
        **{f"{provider}.http_headers.{name}": value for name, value in IMAGES.items()},
    }
    # Values are TOML, whose strings are written like JSON's.
    settings = [f"{name}={json.dumps(value)}" for name, value in values.items()]
    if target.context is not None:
        settings.append(f"model_context_window={target.context}")
    flags = [word for setting in settings for word in ("-c", setting)]
    return Setup({KEY_VARIABLE: target.key}, ("--model", target.model, *flags))


def _opencode(target: Target) -> Setup:
    # https://opencode.ai/docs/config#precedence-order: added to the person's own configuration.
    model: dict[str, object] = {"name": target.model, "tool_call": True}
    if target.context is not None:
        output = min(32_000, target.context // 2)
        model["limit"] = {"context": target.context, "output": output}
    config = {
        "model": f"{_PROVIDER}/{target.model}",
        "small_model": f"{_PROVIDER}/{target.model}",
        "provider": {
            _PROVIDER: {
                "npm": "@ai-sdk/openai-compatible",
                "name": _NAME,
                "options": {
                    "baseURL": f"{target.url}/v1",
                    "apiKey": f"{{env:{KEY_VARIABLE}}}",
                    "headers": IMAGES,
                },
                "models": {target.model: model},
            }
        },
    }
    return Setup({"OPENCODE_CONFIG_CONTENT": json.dumps(config), KEY_VARIABLE: target.key})


def _aider(target: Target) -> Setup:
    # https://aider.chat/docs/llms/openai-compat.html
    name = f"openai/{target.model}"
    variables = {
        "OPENAI_API_BASE": f"{target.url}/v1",
        "OPENAI_API_KEY": target.key,
        # Otherwise its library downloads prices of models.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    arguments = ["--model", name, "--weak-model", name, "--no-show-model-warnings"]
    if target.context is None:
        return Setup(variables, tuple(arguments))
    # https://aider.chat/docs/config/adv-model-settings.html#context-window-size-and-token-costs
    known = {
        "max_input_tokens": target.context,
        "max_tokens": target.context,
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
        "litellm_provider": "openai",
        "mode": "chat",
    }
    file = "fullstop-aider.json"
    arguments += ["--model-metadata-file", f"{FOLDER_MARK}/{file}"]
    return Setup(variables, tuple(arguments), {file: json.dumps({name: known})})


def _goose(target: Target) -> Setup:
    # https://block.github.io/goose/docs/getting-started/providers
    variables = {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": target.model,
        "OPENAI_CUSTOM_HEADERS": ",".join(f"{name}={value}" for name, value in IMAGES.items()),
        "OPENAI_HOST": target.url,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": target.key,
    }
    if target.context is not None:
        variables["GOOSE_CONTEXT_LIMIT"] = str(target.context)
    return Setup(variables)


def _qwen(target: Target) -> Setup:
    # https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings/
    file = "fullstop-qwen.json"
    variables = {
        "OPENAI_BASE_URL": f"{target.url}/v1",
        "OPENAI_API_KEY": target.key,
        "OPENAI_MODEL": target.model,
        # Defaults, which the person's own settings come before.
        "QWEN_CODE_SYSTEM_DEFAULTS_PATH": f"{FOLDER_MARK}/{file}",
    }
    generation: dict[str, object] = {"customHeaders": IMAGES}
    if target.context is not None:
        generation["contextWindowSize"] = target.context
    settings = {"model": {"generationConfig": generation}}
    arguments = ("--auth-type", "openai", "--model", target.model)
    return Setup(variables, arguments, {file: json.dumps(settings)})


AGENTS = {
    "claude": AgentProgram(
        "Claude Code", "claude", "npm install -g @anthropic-ai/claude-code", 32_768, True, _claude
    ),
    "codex": AgentProgram("Codex", "codex", "npm install -g @openai/codex", 24_576, True, _codex),
    "opencode": AgentProgram(
        "opencode", "opencode", "npm install -g opencode-ai", 24_576, True, _opencode
    ),
    "aider": AgentProgram("aider", "aider", "pipx install aider-chat", 8_192, False, _aider),
    "goose": AgentProgram(
        "goose", "goose", "see https://block.github.io/goose/docs/getting-started/installation",
        16_384, True, _goose,
    ),
    "qwen": AgentProgram(
        "Qwen Code", "qwen", "npm install -g @qwen-code/qwen-code", 32_768, True, _qwen
    ),
}  # fmt: skip
"""Every agent, by its name on the command line of ``fullstop launch``."""


# Says what a model lacks for an agent.


def lacks(agent: AgentProgram, context: int | None, can_call_tools: bool | None) -> str:
    """Return what a model lacks, as the end of a sentence; empty if it is suitable.

    Args:
        agent: The agent.
        context: Tokens that the model's context holds; None if not known.
        can_call_tools: Whether it can call tools; None if not known.
    """
    problems = []
    if context is not None and context < agent.least_context:
        problems.append(
            f"its context holds {counted(context, 'token')}, and {agent.title} needs at "
            f"least {agent.least_context:,} for its instructions, its tools and your work"
        )
    if agent.needs_tools and can_call_tools is False:
        problems.append(f"it cannot call tools, which {agent.title} needs for all its work")
    return "; ".join(problems)


# Shell commands equivalent to ``fullstop launch``, to copy or read.

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
    lines: list[str] = []
    if has_key:
        lines.append(f"# {KEY_VARIABLE} must hold the API key of the server.")
    for name, value in setup.variables.items():
        if value == _KEY_MARK and name == KEY_VARIABLE:
            lines.append(f"export {name}")
        else:
            lines.append(f"export {name}={_written(value)}")
    lines += [
        f"printf '%s' {shlex.quote(text)} > \"{_FOLDER}/{name}\""
        for name, text in setup.files.items()
    ]
    words = (agent.program, *setup.arguments, *more)
    lines.append(" ".join(_written(word) for word in words))
    return "\n".join(lines) + "\n"


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


# The shell commands for agents that the window copies.
#
# Fits ``ui.server.server_panel.AgentLines``.

_ANY_KEY = "key"


class CopiedLines:
    """Every agent that ``fullstop launch`` starts."""

    def titles(self) -> dict[str, str]:
        """Return the agents' titles by their names on the command line."""
        return {word: agent.title for word, agent in AGENTS.items()}

    def lines(self, agent: str, url: str, model: ModelInfo, *, has_key: bool) -> str:
        """Return what to paste in a terminal.

        Args:
            agent: The agent's name on the command line.
            url: The server's address.
            model: The model that answers.
            has_key: Whether the server requires a key.
        """
        # The key itself is never written out.
        key = _ANY_KEY if has_key else NO_KEY
        return lines(AGENTS[agent], Target(url, model.id, model.context_length, key))

    def lacks(self, agent: str, model: ModelInfo) -> str:
        """Return what the model lacks for an agent; empty if it is suitable."""
        if model.path == demo_model():
            return "the demo model only counts, repeats and explains itself"
        return lacks(AGENTS[agent], model.context_length, model.can_call_tools)
