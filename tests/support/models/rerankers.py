"""A reranker for tests: the demo model under the name of Qwen3-Reranker, with its two answers."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx

BEGIN = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
END = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
TASK = "Given a web search query, retrieve relevant passages that answer the query"


def write_reranker(folder: Path, demo: Path) -> Path:
    """Copy the demo model; its last two tokens become *yes* and *no*."""
    reranker = folder / "Qwen3-Reranker-Tiny"
    shutil.copytree(demo, reranker)
    file = reranker / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    model = tokenizer["model"]
    last = sorted(model["vocab"], key=model["vocab"].__getitem__)[-2:]
    for old, new in zip(last, ("yes", "no"), strict=True):
        model["vocab"][new] = model["vocab"].pop(old)
    model["merges"] = [pair for pair in model["merges"] if "".join(pair) not in last]
    model["merges"] += [["y", "es"], ["n", "o"]]
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    return reranker


class PlainReranker:
    """Scores one pair at a time by mlx-lm itself, as the page of Qwen3-Reranker does."""

    def __init__(self, folder: Path) -> None:
        from mlx_lm.utils import load

        self.model, self.tokenizer = load(str(folder))[:2]

    def ids(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return found

    def prompt(self, query: str, document: str, task: str = TASK) -> list[int]:
        pair = f"<Instruct>: {task}\n<Query>: {query}\n<Document>: {document}"
        return [*self.ids(BEGIN), *self.ids(pair), *self.ids(END)]

    def score(self, query: str, document: str, task: str = TASK) -> float:
        logits = self.model(mx.array([self.prompt(query, document, task)]))[0, -1]
        [[no], [yes]] = self.ids("no"), self.ids("yes")
        pair: Any = logits.astype(mx.float32)[mx.array([no, yes])].tolist()
        return 1 / (1 + math.exp(pair[0] - pair[1]))
