"""The names of the formats of calls that mlx-lm does not name."""

JSON_CALLS = "json_tools"
"""mlx-lm's name of the style ``<tool_call>{"name": …, "arguments": …}</tool_call>``."""

DEEPSEEK = "deepseek"
"""Our name of the calls of DeepSeek V3.1."""

DEEPSEEK_FENCED = "deepseek_v3"
"""Our name of the calls of DeepSeek V3 and R1, whose arguments stand in a fence."""

LLAMA = "llama"
"""Our name of the calls of Llama 3.1 to 3.3: ``{"name": …, "parameters": …}`` and nothing else."""

KIMI = "kimi_k2"
"""mlx-lm's name of the calls of Kimi K2: a section of calls whose names are numbered."""

COMMAND = "command"
"""Our name of the calls of Command R7B and A: JSON that names ``tool_name`` and ``parameters``."""

GEMMA = "tool_code"
"""Our name of the calls of Gemma 3: Python in a fence, or a list of calls and nothing else."""

DSML = "dsml"
"""Our name of the calls of DeepSeek V3.2 and V4."""

CODER = "qwen3_coder"
"""mlx-lm's name of the calls of Qwen3-Coder, which Seed-OSS writes between tags of its own."""
