"""The settings that each agent gets, and the lines that a person copies."""

import json
import shlex

import pytest

from app.agents.commands import lines, with_folder
from app.agents.programs import AGENTS, Target

TARGET = Target("http://127.0.0.1:8642", "owner/some model", 65_536, "secret-key")


@pytest.mark.parametrize("name", AGENTS)
def test_agent_setup_has_url_model_key(name: str) -> None:
    setup = AGENTS[name].set_up(TARGET)
    told = json.dumps([setup.variables, setup.arguments, setup.files])
    assert TARGET.url in told
    assert TARGET.model in told
    # Copilot CLI gets it without the room of the longest answer, and OpenHands takes none.
    assert name == "openhands" or "65536" in told or "49152" in told
    assert TARGET.key in setup.variables.values()
    assert all(TARGET.key not in word for word in setup.arguments)


@pytest.mark.parametrize("name", AGENTS)
def test_agent_commands_do_not_contain_key(name: str) -> None:
    written = lines(AGENTS[name], TARGET, ("-p", "it's a test"))
    assert TARGET.key not in written
    assert "$FULLSTOP_API_KEY" in written or "export FULLSTOP_API_KEY" in written
    last = written.splitlines()[-1]
    words = shlex.split(last)
    assert (words[0], words[-2:]) == (AGENTS[name].program, ["-p", "it's a test"])


def test_agent_files_in_temporary_folder() -> None:
    setup = AGENTS["aider"].set_up(TARGET)
    assert with_folder(setup, "/tmp/x").arguments[-1] == "/tmp/x/fullstop-aider.json"
    assert json.loads(setup.files["fullstop-aider.json"])["openai/owner/some model"]
    setup = AGENTS["qwen"].set_up(TARGET)
    place = with_folder(setup, "/tmp/x").variables["QWEN_CODE_SYSTEM_DEFAULTS_PATH"]
    assert place == "/tmp/x/fullstop-qwen.json"
    assert '="${TMPDIR:-/tmp}/fullstop-qwen.json"' in lines(AGENTS["qwen"], TARGET)


def test_claude_code_context_variables() -> None:
    variables = AGENTS["claude"].set_up(TARGET).variables
    assert variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "65536"
    assert variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "16384"
    assert "CLAUDE_CODE_AUTO_COMPACT_WINDOW" not in variables


def test_agent_json_settings_parse() -> None:
    vibe = AGENTS["vibe"].set_up(TARGET).variables
    [model], [provider] = json.loads(vibe["VIBE_MODELS"]), json.loads(vibe["VIBE_PROVIDERS"])
    assert model["alias"] == vibe["VIBE_ACTIVE_MODEL"]
    assert model["provider"] == provider["name"]
    assert provider["api_key_env_var"] in vibe
    kilo = json.loads(AGENTS["kilo"].set_up(TARGET).variables["KILO_CONFIG_CONTENT"])
    opencode = AGENTS["opencode"].set_up(TARGET).variables["OPENCODE_CONFIG_CONTENT"]
    assert kilo == json.loads(opencode)
    [file] = AGENTS["cline"].set_up(TARGET).files.values()
    settings = json.loads(file)["providers"]["openai-compatible"]["settings"]
    assert (settings["contextWindow"], settings["maxTokens"]) == (65_536, 16_384)
    assert "apiKey" not in settings
