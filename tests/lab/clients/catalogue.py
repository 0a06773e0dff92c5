"""The clients of the table: the packages of each, and the program that runs its checks."""

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["python", "node", "command"]


@dataclass(frozen=True)
class Client:
    """A client program or library."""

    name: str
    package: str
    kind: Kind
    program: str
    packages: tuple[str, ...] = ()
    apis: str = "Chat"
    variables: dict[str, str] = field(default_factory=dict)
    registry: Literal["PyPI", "npm"] = "PyPI"

    @property
    def folder(self) -> str:
        safe = self.package.replace("@", "").replace("/", "-").replace("[", "-").strip("]")
        older = "".join(one for one in self.packages if one.startswith(f"{self.package}<"))
        return f"{self.kind}-{safe}{'-older' if older else ''}"


def _agent(name: str, package: str, program: str, apis: str = "Chat", **variables: str) -> Client:
    path = f"commands/{program}.py"
    return Client(name, package, "command", path, (), apis, variables, registry="npm")


CLIENTS: tuple[Client, ...] = (
    Client("Anthropic SDK", "anthropic", "python", "sdks/anthropic_sdk.py", (), "Messages"),
    Client(
        "Anthropic SDK before 1.0",
        "anthropic",
        "python",
        "sdks/anthropic_sdk.py",
        ("anthropic<1",),
        "Messages",
    ),
    Client(
        "Anthropic SDK for Node",
        "@anthropic-ai/sdk",
        "node",
        "node/anthropic.mjs",
        (),
        "Messages",
    ),
    Client("OpenAI SDK", "openai", "python", "sdks/openai_sdk.py", (), "Chat, Responses"),
    Client(
        "OpenAI SDK before 2.0",
        "openai",
        "python",
        "sdks/openai_sdk.py",
        ("openai<2",),
        "Chat, Responses",
    ),
    Client("OpenAI SDK for Node", "openai", "node", "node/openai.mjs", (), "Chat, Responses"),
    Client("Ollama", "ollama", "python", "sdks/ollama_sdk.py", (), "Ollama"),
    Client("Ollama for Node", "ollama", "node", "node/ollama.mjs", (), "Ollama"),
    Client("LiteLLM", "litellm", "python", "sdks/litellm_sdk.py", ("mcp",), "Chat, Messages"),
    Client("instructor", "instructor", "python", "sdks/instructor_sdk.py"),
    Client("Outlines", "outlines", "python", "sdks/outlines_model.py", ("openai",)),
    Client("guidance", "guidance", "python", "sdks/guidance_model.py", ("openai",)),
    Client(
        "LM Evaluation Harness", "lm-eval", "python", "sdks/lm_eval_model.py", ("lm-eval[api]",)
    ),
    Client("llm (Simon Willison)", "llm", "python", "sdks/llm_sdk.py"),
    Client(
        "AI SDK",
        "ai",
        "node",
        "node/ai_sdk.mjs",
        ("@ai-sdk/openai", "@ai-sdk/anthropic", "@ai-sdk/openai-compatible"),
        "Chat, Responses, Messages",
    ),
    Client(
        "LangChain",
        "langchain-openai",
        "python",
        "frameworks/langchain.py",
        ("langchain-anthropic", "langchain-ollama"),
        "Chat, Messages, Ollama",
    ),
    Client(
        "LangChain for Node",
        "@langchain/openai",
        "node",
        "node/langchain.mjs",
        ("@langchain/anthropic", "@langchain/core"),
        "Chat, Messages",
    ),
    Client(
        "LlamaIndex",
        "llama-index-llms-openai-like",
        "python",
        "frameworks/llama_index_llm.py",
    ),
    Client(
        "LlamaIndex for Node", "@llamaindex/openai", "node", "node/llamaindex.mjs", ("llamaindex",)
    ),
    Client(
        "OpenAI Agents SDK",
        "openai-agents",
        "python",
        "frameworks/openai_agents.py",
        (),
        "Responses, Chat",
    ),
    Client(
        "OpenAI Agents SDK for Node",
        "@openai/agents",
        "node",
        "node/openai_agents.mjs",
        ("zod", "openai"),
        "Responses, Chat",
    ),
    Client(
        "Pydantic AI",
        "pydantic-ai-slim",
        "python",
        "frameworks/pydantic_ai_agent.py",
        ("pydantic-ai-slim[openai,anthropic]",),
        "Chat, Responses, Messages",
    ),
    Client("DSPy", "dspy", "python", "frameworks/dspy_lm.py"),
    Client("smolagents", "smolagents", "python", "frameworks/smolagents_model.py", ("openai",)),
    Client(
        "AutoGen",
        "autogen-agentchat",
        "python",
        "frameworks/autogen_agent.py",
        ("autogen-ext[openai]",),
    ),
    Client(
        "Haystack",
        "haystack-ai",
        "python",
        "frameworks/haystack_generator.py",
        variables={"HAYSTACK_TELEMETRY_ENABLED": "False"},
    ),
    Client("Semantic Kernel", "semantic-kernel", "python", "frameworks/semantic_kernel_chat.py"),
    Client(
        "CrewAI",
        "crewai",
        "python",
        "frameworks/crewai_llm.py",
        variables={"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"},
    ),
    Client("magentic", "magentic", "python", "frameworks/magentic_chat.py"),
    Client("Agno", "agno", "python", "frameworks/agno_agent.py", ("openai",)),
    Client(
        "Strands Agents",
        "strands-agents",
        "python",
        "frameworks/strands_agent.py",
        ("strands-agents[openai]",),
    ),
    Client("chatlas", "chatlas", "python", "frameworks/chatlas_chat.py", ("openai",)),
    Client(
        "Mirascope",
        "mirascope",
        "python",
        "frameworks/mirascope_call.py",
        ("mirascope[openai]",),
    ),
    Client("Mastra", "@mastra/core", "node", "node/mastra.mjs", ("zod",)),
    _agent(
        "Claude Code",
        "@anthropic-ai/claude-code",
        "claude_code",
        "Messages",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_TELEMETRY="1",
        DISABLE_ERROR_REPORTING="1",
        DISABLE_AUTOUPDATER="1",
        ANTHROPIC_MODEL="m",
    ),
    _agent("Codex", "@openai/codex", "codex", "Responses"),
    _agent("opencode", "opencode-ai", "opencode"),
    Client(
        "Qwen Code",
        "@qwen-code/qwen-code",
        "command",
        "commands/qwen_code.py",
        # Otherwise npm takes an earlier one, whose makers named an earlier Node.
        ("@qwen-code/qwen-code@latest",),
        registry="npm",
    ),
    _agent("Continue", "@continuedev/cli", "continue_cli"),
    _agent("Cline", "cline", "cline", CLINE_TELEMETRY_DISABLED="1"),
    _agent("Pi", "@mariozechner/pi-coding-agent", "pi_agent"),
    Client("aider", "aider-chat", "command", "commands/aider.py"),
    Client("gptme", "gptme", "command", "commands/gptme_command.py"),
    # Its package imports click but does not declare it.
    Client("ShellGPT", "shell-gpt", "command", "commands/shell_gpt.py", ("click",)),
)

NOT_RUN: tuple[tuple[str, str], ...] = (
    ("Langroid", "at its start it fetches a tokenizer from the network"),
    ("SGLang's client", "its package brings some 6 GB of libraries for CUDA"),
    ("Goose", "its makers publish it elsewhere than on PyPI and npm"),
    ("aichat", "its makers publish it elsewhere than on PyPI and npm"),
    ("mods", "its makers publish it elsewhere than on PyPI and npm"),
)
# What clients do by themselves and the server has no part in: client, version, what was seen.
BY_THEMSELVES: tuple[tuple[str, str, str], ...] = (
    (
        "aider",
        "0.86.2",
        "after an overflow it opens a page of its own help and waits until a browser in the "
        "terminal ends: with one that ran for 20 s, it ended 40 s after its only request",
    ),
    (
        "LangChain",
        "1.7.4",
        "its OpenAIEmbeddings sends the ids of OpenAI's tokenizer instead of the text, which mean "
        "other words to another model, unless it is made with check_embedding_ctx_length=False",
    ),
    (
        "Qwen Code",
        "0.24.4",
        "Ctrl-C in its terminal ended its request within 0.1 s; a signal to its first process "
        "alone leaves others, which go on reading the answer",
    ),
)
