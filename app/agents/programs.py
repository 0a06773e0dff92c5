"""Configures coding agents by variables, options or a temporary file; none of their own files."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from api.service.config import IMAGES_HEADER
from ui.preferences import API_KEY_VARIABLE

NO_KEY = "unused"
"""The key for a server that requires none: many agents refuse to start without a key."""
FOLDER_MARK = "{folder}"
"""Placeholder in arguments and variables for the temporary folder of the files."""
IMAGES = {IMAGES_HEADER: "note"}
"""The header at which an image becomes a note, instead of an error that ends the conversation."""

_PROVIDER = "fullstop"
_NAME = "Fullstop"


@dataclass(frozen=True, slots=True)
class Target:
    """The server and model for an agent."""

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
    """A coding agent; ``min_context`` is in tokens, with room to work."""

    title: str
    program: str
    install: str
    min_context: int
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
        # ``CLAUDE_CODE_AUTO_COMPACT_WINDOW`` alone would count as 100,000 at least, and without
        # either it would not compact before 200,000. It keeps room for the longest answer.
        variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(target.context)
        variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(_output_tokens(target.context))
    return Setup(variables)


def _codex(target: Target) -> Setup:
    # https://developers.openai.com/codex/config-reference
    provider = f"model_providers.{_PROVIDER}"
    values = {
        "model_provider": _PROVIDER,
        f"{provider}.name": _NAME,
        f"{provider}.base_url": f"{target.url}/v1",
        f"{provider}.wire_api": "responses",
        f"{provider}.env_key": API_KEY_VARIABLE,
        # A long prompt takes minutes on a small computer.
        f"{provider}.stream_idle_timeout_ms": 1_800_000,
        **{f"{provider}.http_headers.{name}": value for name, value in IMAGES.items()},
    }
    # Values are TOML, whose strings are written like JSON's.
    settings = [f"{name}={json.dumps(value)}" for name, value in values.items()]
    if target.context is not None:
        settings.append(f"model_context_window={target.context}")
    flags = [word for setting in settings for word in ("-c", setting)]
    return Setup({API_KEY_VARIABLE: target.key}, ("--model", target.model, *flags))


def _opencode(target: Target) -> Setup:
    # https://opencode.ai/docs/config#precedence-order: added to the user's own configuration.
    return Setup(
        {"OPENCODE_CONFIG_CONTENT": _opencode_config(target), API_KEY_VARIABLE: target.key}
    )


def _kilo(target: Target) -> Setup:
    # https://kilo.ai/docs/cli: a fork of opencode with its configuration.
    return Setup({"KILO_CONFIG_CONTENT": _opencode_config(target), API_KEY_VARIABLE: target.key})


def _opencode_config(target: Target) -> str:
    model: dict[str, object] = {"name": target.model, "tool_call": True}
    if target.context is not None:
        model["limit"] = {"context": target.context, "output": _output_tokens(target.context)}
    config = {
        "model": f"{_PROVIDER}/{target.model}",
        "small_model": f"{_PROVIDER}/{target.model}",
        "provider": {
            _PROVIDER: {
                "npm": "@ai-sdk/openai-compatible",
                "name": _NAME,
                "options": {
                    "baseURL": f"{target.url}/v1",
                    "apiKey": f"{{env:{API_KEY_VARIABLE}}}",
                    "headers": IMAGES,
                },
                "models": {target.model: model},
            }
        },
    }
    return json.dumps(config)


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
        # Defaults; the user's own settings take precedence.
        "QWEN_CODE_SYSTEM_DEFAULTS_PATH": f"{FOLDER_MARK}/{file}",
    }
    generation: dict[str, object] = {"customHeaders": IMAGES}
    if target.context is not None:
        generation["contextWindowSize"] = target.context
    settings = {"model": {"generationConfig": generation}}
    arguments = ("--auth-type", "openai", "--model", target.model)
    return Setup(variables, arguments, {file: json.dumps(settings)})


def _copilot(target: Target) -> Setup:
    # https://docs.github.com/en/copilot/how-tos/copilot-cli (``copilot help providers``)
    variables = {
        "COPILOT_PROVIDER_BASE_URL": f"{target.url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_WIRE_API": "completions",
        "COPILOT_PROVIDER_API_KEY": target.key,
        "COPILOT_PROVIDER_HEADERS": "\n".join(f"{name}: {it}" for name, it in IMAGES.items()),
        "COPILOT_MODEL": target.model,
        # It needs no account then, and asks no other server.
        "COPILOT_OFFLINE": "true",
    }
    if target.context is not None:
        output = _output_tokens(target.context)
        variables["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"] = str(target.context - output)
        variables["COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"] = str(output)
    return Setup(variables)


def _vibe(target: Target) -> Setup:
    # https://docs.mistral.ai/mistral-vibe/introduction/configuration: ``VIBE_`` and a setting.
    provider = {
        "name": _PROVIDER,
        "api_base": f"{target.url}/v1",
        "api_key_env_var": API_KEY_VARIABLE,
        "extra_headers": IMAGES,
    }
    model: dict[str, object] = {
        "name": target.model,
        "provider": _PROVIDER,
        "alias": _PROVIDER,
    }
    if target.context is not None:
        model["max_context_length"] = target.context
    return Setup(
        {
            "VIBE_ACTIVE_MODEL": _PROVIDER,
            "VIBE_PROVIDERS": json.dumps([provider]),
            "VIBE_MODELS": json.dumps([model]),
            API_KEY_VARIABLE: target.key,
        }
    )


def _cline(target: Target) -> Setup:
    # https://docs.cline.bot/cline-cli: the file that ``cline auth`` writes, in another place.
    file, provider = "fullstop-cline.json", "openai-compatible"
    settings: dict[str, object] = {
        "provider": provider,
        "model": target.model,
        "baseUrl": f"{target.url}/v1",
        "headers": IMAGES,
    }
    if target.context is not None:
        settings["contextWindow"] = target.context
        settings["maxTokens"] = _output_tokens(target.context)
    entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": provider, "providers": {provider: entry}}
    variables = {
        "CLINE_PROVIDER_SETTINGS_PATH": f"{FOLDER_MARK}/{file}",
        "OPENAI_API_KEY": target.key,
    }
    return Setup(variables, files={file: json.dumps(providers)})


def _openhands(target: Target) -> Setup:
    # https://docs.openhands.dev/openhands/usage/cli: three variables, and none for the context. It
    # condenses the conversation when the server answers that it is too long.
    variables = {
        "LLM_MODEL": f"openai/{target.model}",
        "LLM_BASE_URL": f"{target.url}/v1",
        "LLM_API_KEY": target.key,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    return Setup(variables, ("--override-with-envs",))


def _output_tokens(context: int) -> int:
    """Return the tokens of the longest answer, for which an agent keeps room in the context."""
    return min(32_000, context // 4)


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
    "copilot": AgentProgram(
        "Copilot CLI", "copilot", "npm install -g @github/copilot", 24_576, True, _copilot
    ),
    "vibe": AgentProgram("Vibe", "vibe", "pipx install mistral-vibe", 16_384, True, _vibe),
    "kilo": AgentProgram("Kilo", "kilo", "npm install -g @kilocode/cli", 24_576, True, _kilo),
    "cline": AgentProgram("Cline", "cline", "npm install -g cline", 16_384, True, _cline),
    "openhands": AgentProgram(
        "OpenHands", "openhands", "pipx install openhands", 24_576, True, _openhands
    ),
}  # fmt: skip
"""Every agent, by its name on the command line of ``fullstop launch``."""
