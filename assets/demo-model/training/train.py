"""Trains the demo model from nothing and writes it into the folder above: ``python train.py``.

Conversations are made up on the fly from a seed, rendered by the chat template that the model
ships with, and sorted into batches by length. MLX only; one process, main thread. Knows nothing
of Fullstop itself. Debian's OpenBLAS, preloaded, makes it several times faster on Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from conversations import (
    alone,
    any_conversation,
    final_conversation,
    last_conversation,
    later_conversation,
    list_conversation,
    more_list_conversation,
)
from exchange import Conversation
from mlx.utils import tree_flatten
from mlx_lm.models.qwen3 import Model, ModelArgs
from prompts_repeating import repeating
from rendering import Rendering
from tokenizer import write_tokenizer

MODEL_FOLDER = Path(__file__).resolve().parents[1]
# tokens in a row: rows in a batch
BUCKETS = {64: 60, 104: 37, 152: 25, 216: 18, 320: 12, 640: 6}
LATER_BUCKETS = {**BUCKETS, 1280: 3}
SHIPPED = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "tokenizer.json",
)
FIRST_STEPS, FIRST_TOKENS, FIRST_ROWS = 600, 64, 30
WEIGHT_OF_PROMPTS = 0.1
PEAK_RATE = 3e-3
PEAK_RATE_OF_MATRICES = 0.015

Batch = tuple[mx.array, mx.array]
Draw = Callable[[Random], Conversation]


@dataclass(frozen=True)
class Lesson:
    """Batches to learn from for a number of steps.

    Attributes:
        steps: how many batches are taken.
        batches: where they come from.
        rates: the share of the peak rates at the beginning and at the end, a straight line between.
        warm_up_steps: over how many steps the rate comes up to that line.
    """

    steps: int
    batches: Iterator[Batch]
    rates: tuple[float, float] = (1.0, 1.0)
    warm_up_steps: int = 40

    def rate_share(self, step: int) -> float:
        """Return the share of the peak rates at a step of this lesson."""
        begin, end = self.rates
        line = begin + (end - begin) * step / self.steps
        return max(0.005, min(line, (step + 1) / self.warm_up_steps))


def first_batches(rendering: Rendering, rng: Random) -> Iterator[Batch]:
    """Yield small batches of short repeats only: copying is learnt soonest on its own."""
    rows: list[tuple[list[int], list[float]]] = []
    while True:
        row = rendering.taught(alone(repeating(rng, most_words=7)), WEIGHT_OF_PROMPTS)
        rows += [row] if len(row[0]) <= FIRST_TOKENS + 1 else []
        if len(rows) == FIRST_ROWS:
            yield _padded(rows, FIRST_TOKENS + 1)
            rows = []


def batches(
    rendering: Rendering,
    rng: Random,
    draw: Draw,
    buckets: Mapping[int, int] = LATER_BUCKETS,
    weight_of_prompts: float = WEIGHT_OF_PROMPTS,
) -> Iterator[Batch]:
    """Yield token ids and loss weights, each ``(rows, tokens)``, when a length's batch is full."""
    waiting: dict[int, list[tuple[list[int], list[float]]]] = {
        length: [] for length, _ in buckets.items()
    }
    while True:
        ids, weights = rendering.taught(draw(rng), weight_of_prompts)
        for length, rows in buckets.items():
            if len(ids) <= length + 1:
                waiting[length].append((ids, weights))
                if len(waiting[length]) == rows:
                    yield _padded(waiting[length], length + 1)
                    waiting[length] = []
                break


def _padded(rows: list[tuple[list[int], list[float]]], length: int) -> Batch:
    ids = np.zeros((len(rows), length), dtype=np.int32)
    weights = np.zeros((len(rows), length), dtype=np.float32)
    for index, (row, row_weights) in enumerate(rows):
        ids[index, : len(row)] = row
        weights[index, : len(row)] = row_weights
    return mx.array(ids), mx.array(weights)


def loss_of(model: nn.Module, ids: mx.array, weights: mx.array) -> mx.array:
    """Return the weighted mean cross-entropy of every next token."""
    logits = model(ids[:, :-1])
    losses = nn.losses.cross_entropy(logits, ids[:, 1:])
    mean: mx.array = (losses * weights[:, 1:]).sum() / weights[:, 1:].sum()
    return mean


def new_model(folder: Path = MODEL_FOLDER) -> Model:
    """Return an untrained model of the shape in ``config.json``, whose layers add nothing yet."""
    model = Model(ModelArgs.from_dict(json.loads((folder / "config.json").read_text())))
    model.model.embed_tokens.weight = mx.random.normal(model.model.embed_tokens.weight.shape) * 0.1
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight = mx.zeros_like(layer.self_attn.o_proj.weight)
        layer.mlp.down_proj.weight = mx.zeros_like(layer.mlp.down_proj.weight)
    return model


def new_optimizer() -> tuple[optim.MultiOptimizer, Callable[[float], None]]:
    """Return Muon for matrices, AdamW for the rest, and what sets a share of their peak rates."""
    matrices = optim.Muon(learning_rate=PEAK_RATE_OF_MATRICES, momentum=0.95, weight_decay=0.0)
    others = optim.AdamW(learning_rate=PEAK_RATE, betas=[0.9, 0.95], weight_decay=0.01)

    def set_share(share: float) -> None:
        matrices.learning_rate = PEAK_RATE_OF_MATRICES * share
        others.learning_rate = PEAK_RATE * share

    def is_matrix(path: str, weight: mx.array) -> bool:
        return weight.ndim == 2 and "embed" not in path

    return optim.MultiOptimizer([matrices, others], [is_matrix]), set_share


def save(model: nn.Module, folder: Path) -> None:
    """Write the whole model directory."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHIPPED:
        if folder != MODEL_FOLDER:
            shutil.copyfile(MODEL_FOLDER / name, folder / name)
    save_weights(model.parameters(), folder / "model.safetensors")


def save_weights(weights: dict[str, Any], file: Path) -> None:
    """Write weights to a file, which appears at once."""
    unfinished = file.with_name("unfinished.safetensors")
    mx.save_safetensors(str(unfinished), dict(tree_flatten(weights)), {"format": "mlx"})
    os.replace(unfinished, file)


def lessons(rendering: Rendering, seed: int) -> list[Lesson]:
    """Return the lessons in order: copying, then everything, long contexts, brief lists, lists."""
    first, second, third, fourth, last, lists, more_lists, final, again = (
        Random(seed + index) for index in range(9)
    )
    begun = chain(
        islice(first_batches(rendering, first), FIRST_STEPS),
        batches(rendering, first, any_conversation, BUCKETS),
    )
    no_prompts = partial(batches, rendering, weight_of_prompts=0.0)
    return [
        Lesson(1000, begun, warm_up_steps=100),
        Lesson(200, batches(rendering, second, later_conversation), warm_up_steps=100),
        Lesson(200, batches(rendering, third, last_conversation)),
        Lesson(400, batches(rendering, fourth, last_conversation), (1.0, 0.8)),
        Lesson(780, no_prompts(last, last_conversation), (0.7, 0.0)),
        Lesson(1250, no_prompts(lists, list_conversation), (0.55, 0.0)),
        Lesson(650, no_prompts(more_lists, more_list_conversation), (0.45, 0.0)),
        Lesson(2400, no_prompts(final, final_conversation), (0.55, 0.0)),
        Lesson(1500, no_prompts(again, final_conversation), (0.4, 0.0)),
    ]


def learn(
    model: nn.Module,
    lesson: Lesson,
    done: int,
    snapshots: Path | None,
    loss: Callable[..., mx.array] = loss_of,
) -> None:
    """Train through one lesson with an optimizer of its own, printing the loss every 20 steps."""
    optimizer, set_share = new_optimizer()
    value_and_grad = nn.value_and_grad(model, loss)
    optimizer.init(model.trainable_parameters())
    state: list[Any] = [model.state, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def stepped(ids: mx.array, weights: mx.array) -> mx.array:
        lost: mx.array
        lost, gradients = value_and_grad(model, ids, weights)
        gradients, _ = optim.clip_grad_norm(gradients, 1.0)
        optimizer.update(model, gradients)
        return lost

    started = time.monotonic()
    recent: list[mx.array] = []
    for step, (ids, weights) in zip(range(lesson.steps), lesson.batches, strict=False):
        set_share(lesson.rate_share(step))
        lost = stepped(ids, weights)
        mx.eval(lost, state)
        recent.append(lost)
        if step % 20 == 19:
            mean, seconds = mx.stack(recent).mean().tolist(), time.monotonic() - started
            print(f"step {done + step + 1:5d}  loss {mean:.4f}  {seconds:6.0f} s", flush=True)
            recent.clear()
        if snapshots and step % 200 == 199:
            save(model, snapshots)


def train(seed: int, out: Path, snapshots: Path | None, begun: Path | None, had: int) -> None:
    """Train through all lessons, or those after the first ``had`` on a model begun; save it."""
    mx.random.seed(seed)
    model, done = new_model(), 0
    if begun:
        model.load_weights(str(begun / "model.safetensors"))
    for index, lesson in enumerate(lessons(Rendering(MODEL_FOLDER), seed)):
        if index >= had:
            learn(model, lesson, done, snapshots)
        done += lesson.steps
    save(model, out)


def main() -> None:
    """Learn the tokenizer if it is absent, train, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--out", type=Path, default=MODEL_FOLDER, help="where the finished model goes"
    )
    parser.add_argument("--snapshots", type=Path, help="where a model goes every 200 steps")
    parser.add_argument("--begun", type=Path, help="a snapshot at the end of a lesson")
    parser.add_argument("--had", type=int, default=0, help="the lessons that the snapshot has had")
    parser.add_argument("--relearn-tokenizer", action="store_true")
    chosen = parser.parse_args()
    if chosen.relearn_tokenizer or not (MODEL_FOLDER / "tokenizer.json").exists():
        write_tokenizer()
    train(chosen.seed, chosen.out, chosen.snapshots, chosen.begun, chosen.had)


if __name__ == "__main__":
    main()
