"""Trains a model's draft head, with the model as it is: ``python draft_head.py [FOLDER]``.

The head guesses the token after the next from the model's last hidden state and the next token, in
the layout of Qwen's multi-token prediction: one decoder layer, whose hidden state is fed back to
guess further ahead. It learns the model's own distribution on the conversations of the last lesson
and is written to ``mtp.safetensors``. Some ten minutes on one core with OpenBLAS. Main thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import hybrid
import mlx.core as mx
import mlx.nn as nn
from conversations import alone, final_conversation
from delta_rule import solve_whole_rows
from evaluate import families
from exchange import Conversation
from mlx_lm.models import qwen3, qwen3_5
from mlx_lm.utils import load_model
from rendering import Rendering
from train import MODEL_FOLDER, Batch, Lesson, batches, learn, save_weights

FILE = "mtp.safetensors"
DEPTHS = 3
WEIGHTS_OF_DEPTHS = (1.0, 0.7, 0.5)
STEPS, STEPS_OF_HYBRID = 360, 300
# tokens in a row: rows in a batch
BUCKETS = {64: 24, 104: 15, 152: 10, 216: 7}


class Ahead:
    """Stands in for a cache while a layer reads whole rows once for each token ahead."""

    def __init__(self) -> None:
        self._read: list[tuple[mx.array, mx.array]] = []

    @property
    def offset(self) -> int:
        """By how many tokens this reading is ahead of the first one."""
        return len(self._read)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Return the keys and values of all readings, the newest last."""
        self._read.append((keys, values))
        every_keys, every_values = zip(*self._read, strict=True)
        return mx.concatenate([*every_keys], axis=2), mx.concatenate([*every_values], axis=2)

    def mask(self, tokens: int) -> mx.array:
        """Return what the next reading may see: the first up to here, the others here only."""
        here = [mx.eye(tokens)] * self.offset
        return mx.concatenate([mx.tri(tokens), *here], axis=1).astype(mx.bool_)


class DraftHead(nn.Module):  # type: ignore[misc]  # MLX has no types here
    """Guesses tokens further ahead; shares embedding and output with its model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        norm, self.layers = model.model.norm, [_layer(model)]
        width, eps = norm.weight.shape[0], norm.eps
        self.pre_fc_norm_embedding = nn.RMSNorm(width, eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(width, eps)
        self.fc = nn.Linear(2 * width, width, bias=False)
        self.norm = nn.RMSNorm(width, eps)

    def __call__(self, embedded: mx.array, hidden: mx.array, ahead: Ahead) -> mx.array:
        """Return hidden states from which the model's output guesses."""
        both = [self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)]
        joined = self.fc(mx.concatenate(both, axis=-1))
        mask = ahead.mask(joined.shape[1])
        read: mx.array = self.norm(self.layers[0](joined, mask, ahead))
        return read


def _layer(model: Any) -> nn.Module:
    if model.model_type == "qwen3":
        layer = qwen3.TransformerBlock(model.args)
    else:
        args = model.language_model.args
        layer = qwen3_5.DecoderLayer(args, args.full_attention_interval - 1)
    layer.self_attn.o_proj.weight = mx.zeros_like(layer.self_attn.o_proj.weight)
    layer.mlp.down_proj.weight = mx.zeros_like(layer.mlp.down_proj.weight)
    return layer


def logits_ahead(model: Any, head: DraftHead, ids: mx.array) -> tuple[mx.array, list[mx.array]]:
    """Return the model's logits of rows, and the head's for each depth as far as all reach.

    The head's logits of depth d at place t are a guess at the model's own at place t + d.
    """
    embedding = model.model.embed_tokens
    hidden = model.model(ids)
    own = embedding.as_linear(hidden)
    length = ids.shape[1] - DEPTHS
    ahead, read, guessed = Ahead(), hidden[:, :length], []
    for depth in range(1, DEPTHS + 1):
        read = head(embedding(ids[:, depth : depth + length]), read, ahead)
        guessed.append(embedding.as_linear(read))
    return own, guessed


def loss_against(model: Any) -> Any:
    """Return the loss of a head: its cross-entropy against the model's own distribution."""

    def loss_of(head: DraftHead, ids: mx.array, weights: mx.array) -> mx.array:
        own, guessed = logits_ahead(model, head, ids[:, :-1])
        aimed = mx.stop_gradient(mx.softmax(own, axis=-1))
        total = mx.array(0.0)
        for depth, (logits, share) in enumerate(zip(guessed, WEIGHTS_OF_DEPTHS, strict=True), 1):
            length = logits.shape[1]
            # The distribution at place t is that of the token at t + 1.
            weight = weights[:, depth + 1 : depth + 1 + length]
            surprise = nn.losses.cross_entropy(logits, aimed[:, depth : depth + length])
            total = total + share * (surprise * weight).sum() / weight.sum()
        return total

    return loss_of


def accepted(
    model: Any, head: DraftHead, rendering: Rendering, asked: list[Conversation]
) -> list[float]:
    """Return for each depth how often the guesses up to it are what the model itself writes."""
    right, count = [0] * DEPTHS, 0
    for conversation in asked:
        begin = len(rendering.prompt_ids(conversation)) - 1
        ids, _ = rendering.taught(conversation, 0.0)
        own, guessed = logits_ahead(model, head, mx.array([ids]))
        writes: Any = mx.argmax(own[0], axis=-1).tolist()
        guesses: Any = [mx.argmax(logits[0], axis=-1).tolist() for logits in guessed]
        for at in range(begin, len(guesses[0])):
            count += 1
            for depth in range(DEPTHS):
                if guesses[depth][at] != writes[at + depth + 1]:
                    break
                right[depth] += 1
    return [times / count for times in right]


def _lesson(rendering: Rendering, folder: Path, seed: int) -> Lesson:
    made: Iterator[Batch]
    if folder == MODEL_FOLDER:
        made = batches(rendering, Random(seed), final_conversation, BUCKETS, 0.02)
        return Lesson(STEPS, made, (1.0, 0.0))
    made = batches(rendering, Random(seed), hybrid.conversation, hybrid.BUCKETS, 0.02)
    return Lesson(STEPS_OF_HYBRID, made, (1.0, 0.0))


def held_out(folder: Path) -> dict[str, list[Conversation]]:
    """Return conversations by which a head is judged, none of which it has learnt from."""
    rng = Random(5)
    if folder == MODEL_FOLDER:
        return {family.name: family.conversations[:60] for family in families()}
    return {
        "counting": [alone(hybrid.counting(rng, held_out=True)) for _ in range(60)],
        "repeats": [alone(hybrid.repeating(rng, held_out=True)) for _ in range(60)],
    }


def train_head(folder: Path, seed: int) -> None:
    """Train the head of the model in a folder, write it there and print what is accepted."""
    mx.random.seed(seed)
    model: Any = load_model(folder)[0]
    model.freeze()
    if model.model_type != "qwen3":
        solve_whole_rows(model)
    head, rendering = DraftHead(model), Rendering(MODEL_FOLDER)
    learn(head, _lesson(rendering, folder, seed), 0, None, loss_against(model))
    weights = {"mtp": head.parameters()}
    save_weights(weights, folder / FILE)
    report(folder)


def loaded(folder: Path) -> tuple[Any, DraftHead]:
    """Return a folder's model and its trained head."""
    model: Any = load_model(folder)[0]
    head = DraftHead(model)
    weights: Any = mx.load(str(folder / FILE))
    head.load_weights([(name.removeprefix("mtp."), value) for name, value in weights.items()])
    return model, head


def report(folder: Path) -> None:
    """Print how many guesses of a folder's head are right on held-out conversations."""
    (model, head), rendering = loaded(folder), Rendering(MODEL_FOLDER)
    if model.model_type != "qwen3":
        solve_whole_rows(model)
    for name, asked in held_out(folder).items():
        shares = accepted(model, head, rendering, asked)
        print(f"{name:24}", *(f"{share:6.1%}" for share in shares), flush=True)


def main() -> None:
    """Train, save and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=MODEL_FOLDER)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--report", action="store_true", help="judge the head that is there")
    chosen = parser.parse_args()
    if chosen.report:
        report(chosen.folder)
    else:
        train_head(chosen.folder, chosen.seed)


if __name__ == "__main__":
    main()
