"""lm-evaluation-harness: loglikelihood tasks through a server, and by mlx-lm's own evaluation.

Run with the server's address and the folder of the model that it serves. The data is made here;
nothing is fetched from a hub. Prints, for each task, the largest difference of a log-likelihood.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import lm_eval
import lm_eval.models
from lm_eval.tasks import TaskManager
from mlx_lm.evaluate import MLXLM

URL, MODEL = sys.argv[1:3]
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
LONG = " and then ".join(f"{word} {index * 37}" for index, word in enumerate(WORDS * 12))
CHOICES = {
    "task": "fullstop_choices",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{answer}}",
}
LAST_WORDS = {
    "task": "fullstop_last_words",
    "output_type": "loglikelihood",
    "doc_to_text": "{{text}}",
    "doc_to_target": "{{last}}",
}


def documents() -> dict[str, list[dict[str, Any]]]:
    """Return the documents of each task: short ones, and some that are read in several chunks."""
    questions = [f"Count from 1 to {n}:" for n in range(3, 15)] + ["Say hi", LONG]
    choices = [" 1", "\n1\n2\n3", " banana", " ein langer Satz über Zahlen 数"]
    sentences = [f"The word after {a} is" for a in WORDS] + [LONG]
    return {
        "fullstop_choices": [{"question": q, "choices": choices, "answer": 0} for q in questions],
        "fullstop_last_words": [
            {"text": text, "last": f" {word}"}
            for text, word in zip(sentences, [*WORDS[1:], "ten", "end"], strict=True)
        ],
    }


def written(folder: Path) -> TaskManager:
    """Write the tasks and their data; return what finds them."""
    data = documents()
    for config in (CHOICES, LAST_WORDS):
        name = config["task"]
        file = folder / f"{name}.jsonl"
        file.write_text("".join(f"{json.dumps(one)}\n" for one in data[name]))
        whole = {
            **config,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(file)}},
            "test_split": "test",
            "target_delimiter": "",
        }
        # JSON is YAML.
        (folder / f"{name}.yaml").write_text(json.dumps(whole))
    return TaskManager(include_path=str(folder), include_defaults=False)


def likelihoods(model: Any, manager: TaskManager, **options: Any) -> dict[str, list[Any]]:
    """Return, for each task, log-likelihood and greediness of each of its continuations."""
    names = [CHOICES["task"], LAST_WORDS["task"]]
    found = lm_eval.simple_evaluate(
        model=model, tasks=names, task_manager=manager, log_samples=True, **options
    )
    return {
        name: [
            (float(logprob), bool(is_greedy))
            for sample in sorted(found["samples"][name], key=lambda one: one["doc_id"])
            for [(logprob, is_greedy)] in sample["resps"]
        ]
        for name in names
    }


with tempfile.TemporaryDirectory() as folder:
    manager = written(Path(folder))
    served = likelihoods(
        "local-completions",
        manager,
        model_args={
            "model": "demo-model",
            "base_url": f"{URL}/v1/completions",
            "tokenizer_backend": "huggingface",
            "tokenizer": MODEL,
            "num_concurrent": 3,
            "max_length": 8192,
        },
        batch_size=4,
    )
    plain = likelihoods(MLXLM(MODEL, max_tokens=8192, use_chat_template=False), manager)
    for name, expected in plain.items():
        pairs = list(zip(served[name], expected, strict=True))
        line = {
            "name": name,
            "continuations": len(pairs),
            "largest_difference": max(abs(one[0] - other[0]) for one, other in pairs),
            "greedy_agree": all(one[1] == other[1] for one, other in pairs),
            "greedy": sum(one[1] for one, _ in pairs),
        }
        print(json.dumps(line), flush=True)
