"""Trains a small hybrid of today's kind for tests: ``python hybrid.py FOLDER``.

Three layers of four are Gated DeltaNet, as in Qwen 3.5. It counts and repeats, in few wordings, and
shares tokenizer and template with the demo model. Then ``python draft_head.py FOLDER`` trains its
draft head. Some 25 minutes on one core with OpenBLAS. Main thread.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from random import Random

import mlx.core as mx
from conversations import alone
from delta_rule import solve_whole_rows
from exchange import Conversation, Exchange
from lexicon import any_word, drawn
from mlx_lm.models.qwen3_5 import Model, ModelArgs
from rendering import Rendering
from train import MODEL_FOLDER, Batch, Lesson, batches, learn, save_weights

BUCKETS = {48: 30, 64: 22, 96: 15}
FIRST_BUCKETS = {48: 30}
FIRST_STEPS = 240
SEPARATORS = {"": ", ", ", one per line": "\n", ", with spaces": " "}
SHARE_OF_COUNTS = 0.5


def counting(rng: Random, held_out: bool = False, most: int = 20) -> Exchange:
    """Return an exchange that counts up."""
    return drawn(lambda: _counting(rng, most), lambda exchange: exchange.key, held_out)


def _counting(rng: Random, most: int) -> Exchange:
    form, separator = rng.choice(list(SEPARATORS.items()))
    least = rng.choice((1, rng.randint(0, 30), rng.randint(0, 98)))
    numbers = list(range(least, min(99, least + rng.randint(1, most)) + 1))
    question = f"Count from {numbers[0]} to {numbers[-1]}{form}."
    return Exchange(question, separator.join(map(str, numbers)), "", "number", question)


def repeating(rng: Random, held_out: bool = False, most: int = 6) -> Exchange:
    """Return an exchange that repeats words."""
    count = rng.randint(1, most)
    text = " ".join(any_word(rng, held_out) for _ in range(count))
    return Exchange(f"Repeat exactly: {text}", text, "", "repeat")


def conversation(rng: Random) -> Conversation:
    """Return a conversation for training: a question alone, or after another one."""
    return alone((counting if rng.random() < SHARE_OF_COUNTS else repeating)(rng))


def first_conversation(rng: Random) -> Conversation:
    """Return a short repeat: copying is learnt soonest on its own."""
    return alone(repeating(rng, most=4))


def new_hybrid(folder: Path) -> Model:
    """Return an untrained model of the shape in ``config.json``, whose layers add nothing yet."""
    model = Model(ModelArgs.from_dict(json.loads((folder / "config.json").read_text())))
    model.model.embed_tokens.weight = mx.random.normal(model.model.embed_tokens.weight.shape) * 0.1
    for layer in model.layers:
        layer.mlp.down_proj.weight = mx.zeros_like(layer.mlp.down_proj.weight)
        if layer.is_linear:
            delta = layer.linear_attn
            delta.out_proj.weight = mx.zeros_like(delta.out_proj.weight)
            # States that forget slowly, from the whole row to some tokens.
            delta.A_log = mx.log(mx.random.uniform(0.02, 1.0, delta.A_log.shape))
            delta.dt_bias = mx.full(delta.dt_bias.shape, -2.0)
        else:
            layer.self_attn.o_proj.weight = mx.zeros_like(layer.self_attn.o_proj.weight)
    return model


def lessons(rendering: Rendering, seed: int) -> list[Lesson]:
    """Return the lessons in order: copying alone, then counting too."""
    first, second = Random(seed), Random(seed + 1)
    begun: Iterator[Batch] = chain(
        islice(batches(rendering, first, first_conversation, FIRST_BUCKETS), FIRST_STEPS),
        batches(rendering, first, conversation, BUCKETS),
    )
    later = partial(batches, rendering, weight_of_prompts=0.0)
    return [
        Lesson(640, begun, warm_up_steps=60),
        Lesson(450, later(second, conversation, BUCKETS), (0.8, 0.0)),
    ]


def train_hybrid(folder: Path, seed: int) -> None:
    """Train the model whose ``config.json`` lies in a folder; write its weights beside it."""
    mx.random.seed(seed)
    model, done = new_hybrid(folder), 0
    solve_whole_rows(model)
    for lesson in lessons(Rendering(MODEL_FOLDER), seed):
        learn(model, lesson, done, None)
        done += lesson.steps
        save_weights(model.parameters(), folder / "model.safetensors")


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where its config.json lies")
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    train_hybrid(chosen.folder, chosen.seed)


if __name__ == "__main__":
    main()
