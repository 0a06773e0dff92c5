"""The names of the formats of calls: mlx-lm's, which are those of its parsers, and ours."""

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

FUNCTION_GEMMA = "function_gemma"
"""mlx-lm's name of the calls of FunctionGemma: ``call:name{key:<escape>text<escape>}``."""

GEMMA4 = "gemma4"
"""mlx-lm's name of the calls of Gemma 4: as FunctionGemma's, with quotes of its own."""

GLM = "glm47"
"""mlx-lm's name of the calls of GLM 4.5 to 4.7: pairs of ``<arg_key>`` and ``<arg_value>``."""

KIMI_K3 = "kimi_k3"
"""mlx-lm's name of the calls of Kimi K3."""

LAGUNA = "laguna"
"""mlx-lm's name of the calls of Laguna, which are written as GLM's."""

LONGCAT = "longcat"
"""mlx-lm's name of the calls of LongCat, which are written as GLM's with tags of its own."""

MINICPM = "minicpm5"
"""mlx-lm's name of the calls of MiniCPM 5."""

MINIMAX = "minimax_m2"
"""mlx-lm's name of the calls of MiniMax M2."""

MISTRAL = "mistral"
"""mlx-lm's name of the calls of Mistral: ``name[ARGS]{…}``, or a list of JSON objects."""

MUSE_SPARK = "muse_spark"
"""mlx-lm's name of the calls of Muse Spark."""

PYTHONIC = "pythonic"
"""mlx-lm's name of a list of calls in Python, as LFM2 writes them."""
