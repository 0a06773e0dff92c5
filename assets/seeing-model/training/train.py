"""Trains the small model that sees from nothing and writes it into the folder above.

``python train.py`` draws pictures on the fly from a seed. It needs mlx-vlm, whose own model and
processor it trains. One process, main thread. Debian's OpenBLAS, preloaded, makes it several
times faster on Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from random import Random
from threading import Thread
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_map
from mlx_vlm import utils
from questions import ask_about, talk
from scenes import COLORS, SHAPES, Scene, draw_scene
from tokenizers import AddedToken, Tokenizer

MODEL_FOLDER = Path(__file__).resolve().parents[1]
DEMO_MODEL = MODEL_FOLDER.parent / "demo-model"
SPECIALS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
MARK = "<|image_pad|>"
WORDS = (
    "user assistant How many are there do you see What Which Name Read Count Describe is it the in"
    " picture shape shapes digit number colour color circle circles square squares triangle"
    " triangles star stars and red green blue yellow orange purple black"
)
PICTURES, QUESTIONS, TALK_ROWS, TALK_EVERY = 24, 2, 16, 10
NAMES, SHADES = ("", *SHAPES, *map(str, range(10))), tuple(COLORS)
LOOKING_STEPS = 500
PEAK_RATE, PEAK_RATE_OF_MATRICES, WARM_UP_STEPS = 3e-3, 0.012, 100


def write_tokenizer() -> None:
    """Write the demo model's tokenizer with whole words, and the tokens in place of pictures."""
    tokenizer = Tokenizer.from_file(str(DEMO_MODEL / "tokenizer.json"))
    for form in [form for word in WORDS.split() for form in (word, f" {word}")]:
        tokenizer = with_word(tokenizer, form)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIALS])
    tokenizer.save(str(MODEL_FOLDER / "tokenizer.json"))


def with_word(tokenizer: Tokenizer, word: str) -> Tokenizer:
    """Return a tokenizer for which a word, with the space before it, is one token."""
    first, *others = tokenizer.encode(word).tokens
    described = json.loads(tokenizer.to_str())
    vocabulary, merges = described["model"]["vocab"], described["model"]["merges"]
    for other in others:
        merges.append([first, other])
        first += other
        vocabulary.setdefault(first, len(vocabulary))
    return Tokenizer.from_str(json.dumps(described))


@dataclass(frozen=True)
class Batch:
    """Rows of tokens whose pictures, of one size, stand at the same place.

    Attributes:
        ids: (rows, tokens).
        weights: of each token's loss; 1 in answers.
        pixels: (pictures, patches, values), one of the two equal frames; None without pictures.
        names: (pictures, patches, 2), the indices in ``NAMES`` and ``SHADES`` of what has its
            center in a patch.
        grid: a picture's patches from top to bottom and from left to right.
        start: the index of a picture's first token.
    """

    ids: mx.array
    weights: mx.array
    pixels: Any = None
    names: Any = None
    grid: tuple[int, int] = (0, 0)
    start: int = 0


# Pixels, names, ids, and the index of the answer's first.
Row = tuple[Any, Any, list[int], int]


def names_of(scene: Scene, height: int, width: int) -> np.ndarray:
    """Return for each patch, in the processor's order, what has its center there."""
    names = np.zeros((height, width, 2), np.int32)
    for thing, (x, y) in zip(scene.things, scene.centers, strict=True):
        indices = NAMES.index(thing.name), SHADES.index(thing.color)
        names[int(y * height), int(x * width)] = indices
    blocks = names.reshape(height // 2, 2, width // 2, 2, 2).transpose(0, 2, 1, 3, 4)
    return blocks.reshape(-1, 2)


class Teacher:
    """Makes batches of the shipped processor, tokenizer and template."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._processor = utils.load_processor(MODEL_FOLDER, add_detokenizer=False)
        self._tokenizer = self._processor.tokenizer
        self._images = self._processor.image_processor
        self._tokenizer.chat_template = (MODEL_FOLDER / "chat_template.jinja").read_text()
        self._pad = self._tokenizer.convert_tokens_to_ids(MARK)

    def batches(self) -> Iterator[Batch]:
        """Yield batches of one grid when they are full, and talk in between."""
        waiting: dict[tuple[int, int], list[Row]] = {}
        made = 0
        while True:
            scene = draw_scene(self._rng)
            seen = self._images([scene.image])
            _, height, width = (int(side) for side in seen["image_grid_thw"][0])
            rows = waiting.setdefault((height, width), [])
            names = names_of(scene, height, width)
            for _ in range(QUESTIONS):
                row = self._row(*ask_about(self._rng, scene), height * width // 4)
                rows.append((seen["pixel_values"], names, *row))
            if len(rows) == PICTURES * QUESTIONS:
                yield self._joined(rows, (height, width))
                rows.clear()
                made += 1
                if made % TALK_EVERY == 0:
                    yield self._joined(
                        [(None, None, *self._row(*talk(self._rng), 0)) for _ in range(TALK_ROWS)]
                    )

    def _row(self, question: str, answer: str, tokens: int) -> tuple[list[int], int]:
        """Return ids, and the index of the answer's first."""
        parts = [{"type": "image"}] * bool(tokens) + [{"type": "text", "text": question}]
        text = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": parts}], tokenize=False, add_generation_prompt=True
        )
        encode = self._tokenizer.encode
        prompt = encode(text.replace(MARK, MARK * tokens), add_special_tokens=False)
        return prompt + encode(answer + "<|im_end|>", add_special_tokens=False), len(prompt)

    def _joined(self, rows: list[Row], grid: tuple[int, int] = (0, 0)) -> Batch:
        longest = max(len(ids) for _, _, ids, _ in rows)
        ids = np.zeros((len(rows), longest), np.int32)
        weights = np.zeros((len(rows), longest), np.float32)
        for index, (_, _, row, begin) in enumerate(rows):
            ids[index, : len(row)] = row
            weights[index, begin : len(row)] = 1.0
        if rows[0][0] is None:
            return Batch(mx.array(ids), mx.array(weights))
        pixels = np.stack([one for one, _, _, _ in rows[::QUESTIONS]])
        frames = pixels.reshape(*pixels.shape[:2], 3, 2, -1)[:, :, :, 0]
        start = rows[0][2].index(self._pad)
        return Batch(
            mx.array(ids),
            mx.array(weights),
            mx.array(frames.reshape(*pixels.shape[:2], -1)),
            mx.array(np.stack([names for _, names, _, _ in rows[::QUESTIONS]])),
            grid,
            start,
        )


def see(tower: Any, pixels: mx.array, grid: tuple[int, int]) -> list[mx.array]:
    """Return the tower's patches of pictures of one grid, features, and those that layers add."""
    rows, patches, _ = pixels.shape
    thw = mx.array([(1, *grid)])
    kernel = tower.patch_embed.proj.weight.sum(axis=1).transpose(0, 3, 1, 2)  # two equal frames
    hidden = pixels @ kernel.reshape(kernel.shape[0], -1).T + tower.patch_embed.proj.bias
    hidden = hidden + tower.fast_pos_embed_interpolate(thw)
    angles = tower.rot_pos_emb(thw).reshape(patches, -1)
    cos, sin = (mx.tile(turn(angles), (1, 2)) for turn in (mx.cos, mx.sin))

    def turned(part: mx.array) -> mx.array:
        left, right = mx.split(part, 2, axis=-1)
        return part * cos + mx.concatenate([-right, left], axis=-1) * sin

    def merged(merger: Any) -> mx.array:
        features: mx.array = merger(hidden).reshape(rows, patches // 4, -1)
        return features

    added: list[mx.array] = []
    for index, block in enumerate(tower.blocks):
        attention = block.attn
        parts = attention.qkv(block.norm1(hidden))
        parts = parts.reshape(rows, patches, 3, attention.num_heads, -1).transpose(2, 0, 3, 1, 4)
        read = mx.fast.scaled_dot_product_attention(
            turned(parts[0]), turned(parts[1]), parts[2], scale=attention.scale
        )
        hidden = hidden + attention.proj(read.transpose(0, 2, 1, 3).reshape(hidden.shape))
        hidden = hidden + block.mlp(block.norm2(hidden))
        if index in tower.deepstack_visual_indexes:
            added.append(merged(tower.deepstack_merger_list[len(added)]))
    return [hidden, merged(tower.merger), *added]


def positions(length: int, batch: Batch) -> np.ndarray:
    """Return the positions (3, tokens) of rows with one picture, or none."""
    height, width = (side // 2 for side in batch.grid)
    text = np.arange(length)
    if not height:
        return np.stack([text] * 3)
    start, end = batch.start, batch.start + height * width
    found = np.stack([text - (height * width - max(height, width)) * (text >= end)] * 3)
    found[:, start:end] = start
    found[1, start:end] += np.repeat(np.arange(height), width)
    found[2, start:end] += np.tile(np.arange(width), height)
    return found


def answer(model: Any, batch: Batch, seen: list[mx.array]) -> mx.array:
    """Return the logits of every next token."""
    text = model.language_model.model
    ids = batch.ids[:, :-1]
    rows, length = ids.shape
    hidden, start, end = text.embed_tokens(ids), 0, 0
    added: list[mx.array] = []
    if seen:
        features, *added = (mx.repeat(part, QUESTIONS, axis=0) for part in seen)
        start, end = batch.start, batch.start + features.shape[1]
        hidden = mx.concatenate([hidden[:, :start], features, hidden[:, end:]], axis=1)
    places = mx.broadcast_to(mx.array(positions(length, batch))[:, None], (3, rows, length))
    for index, layer in enumerate(text.layers):
        hidden = layer(hidden, "causal", None, places)
        if index < len(added):
            hidden = hidden + mx.pad(added[index], [(0, 0), (start, length - end), (0, 0)])
    logits: mx.array = text.embed_tokens.as_linear(text.norm(hidden))
    return logits


def read_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield batches that are drawn while others are learnt from."""
    drawn: Queue[Batch] = Queue(8)

    def draw() -> None:
        for batch in batches:
            drawn.put(batch)

    Thread(target=draw, daemon=True).start()
    while True:
        yield drawn.get()


def loss_of(model: Any, batch: Batch, is_looking: bool) -> mx.array:
    """Return the loss of names at the centers of things, and unless looking that of answers."""
    named: mx.array = mx.array(0.0)
    seen: list[mx.array] = []
    if batch.pixels is not None:
        patches, *seen = see(model.vision_tower, batch.pixels, batch.grid)
        names, shades = batch.names[..., 0], batch.names[..., 1]
        weights = mx.where(names > 0, 1.0, 0.1)
        scores = model.namer(patches)
        losses = nn.losses.cross_entropy(scores[..., : len(NAMES)], names)
        shaded = nn.losses.cross_entropy(scores[..., len(NAMES) :], shades)
        named = ((losses + shaded * (names > 0)) * weights).sum() / weights.sum()
        if is_looking:
            return named
    losses = nn.losses.cross_entropy(answer(model, batch, seen), batch.ids[:, 1:])
    weights = batch.weights[:, 1:]
    loss: mx.array = (losses * weights).sum() / weights.sum() + 0.5 * named
    return loss


def shares_right(model: Any, batch: Batch) -> tuple[float, float]:
    """Return the share of centers whose name is right, and that of whole answers."""
    patches, *seen = see(model.vision_tower, batch.pixels, batch.grid)
    names = np.array(batch.names[..., 0])
    found = np.array(model.namer(patches)[..., : len(NAMES)].argmax(-1))
    best = np.array(answer(model, batch, seen).argmax(-1))
    wrong = (best != np.array(batch.ids[:, 1:])) & (np.array(batch.weights[:, 1:]) > 0)
    return float((found == names)[names > 0].mean()), float(1 - wrong.any(axis=1).mean())


def new_model() -> Any:
    """Return mlx-vlm's model of the shape in ``config.json``, whose layers add nothing yet."""
    config = json.loads((MODEL_FOLDER / "config.json").read_text())
    kind, _ = utils.get_model_and_args(dict(config))
    shape = kind.ModelConfig.from_dict(config)
    model = kind.Model(utils.update_module_configs(shape, kind, config, ["text", "vision"]))
    text = model.language_model.model
    text.embed_tokens.weight = mx.random.normal(text.embed_tokens.weight.shape) * 0.1
    layers = [(one.self_attn.o_proj, one.mlp.down_proj) for one in text.layers]
    layers += [(one.attn.proj, one.mlp.linear_fc2) for one in model.vision_tower.blocks]
    for part in (part for parts in layers for part in parts):
        part.weight = mx.zeros_like(part.weight)
    outputs = len(NAMES) + len(SHADES)
    model.namer = nn.Linear(config["vision_config"]["hidden_size"], outputs)  # not saved
    return model


def new_optimizer() -> Any:
    """Return Muon for the layers' matrices and AdamW for all else."""
    matrices = optim.Muon(learning_rate=0.0, momentum=0.95, weight_decay=0.0)
    others = optim.AdamW(learning_rate=0.0, betas=[0.9, 0.95], weight_decay=0.01)

    def is_matrix(path: str, weight: mx.array) -> bool:
        return weight.ndim == 2 and ("layers." in path or "blocks." in path)

    return optim.MultiOptimizer([matrices, others], [is_matrix])


def save(model: Any, file: Path) -> None:
    """Write the weights as float16; the file appears at once."""
    parts = dict(tree_flatten(model.parameters()))
    weights = {name: part.astype(mx.float16) for name, part in parts.items() if "namer" not in name}
    unfinished = file.with_name("unfinished.safetensors")
    mx.save_safetensors(str(unfinished), weights, {"format": "mlx"})
    os.replace(unfinished, file)


def train(steps: int, seed: int, file: Path, begun: Path | None = None, first: int = 0) -> None:
    """Train, print loss and share of right answers, and save every 250 steps."""
    mx.random.seed(seed)
    model, optimizer = new_model(), new_optimizer()
    if begun:
        read: Any = mx.load(str(begun))
        floats = [(name, part.astype(mx.float32)) for name, part in read.items()]
        model.load_weights(floats, strict=False)
    step_of = nn.value_and_grad(model, loss_of)
    matrices, others = optimizer.optimizers
    started, lost, right = time.monotonic(), [], []
    batches = read_ahead(Teacher(Random(seed + first)).batches())
    streams = [mx.new_stream(mx.default_device()) for _ in range(2)]
    for step in range(first, steps):
        share = min((step - first + 1) / WARM_UP_STEPS, 1.0, 1.5 * (1 - step / steps) + 0.005)
        matrices.learning_rate = PEAK_RATE_OF_MATRICES * share
        others.learning_rate = PEAK_RATE * share
        pair = [next(batches), next(batches)]
        if step % 10 == 5 and pair[0].pixels is not None:  # not yet learnt from
            right.append(shares_right(model, pair[0]))
        found = []
        for stream, batch in zip(streams, pair, strict=True):  # one core each
            with mx.stream(stream):
                found.append(step_of(model, batch, step < LOOKING_STEPS))
        mx.eval(found)
        losses, parts = zip(*found, strict=True)
        gradients = tree_map(lambda one, other: (one + other) / 2, *parts)
        gradients, _ = optim.clip_grad_norm(gradients, 1.0)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
        lost += [loss.item() for loss in losses]
        if step % 50 == 49:
            names, answers = np.mean(right, axis=0)
            seconds = time.monotonic() - started
            print(
                f"step {step + 1}  loss {np.mean(lost):.4f}  names {names:.3f}"
                f"  answers {answers:.3f}  {seconds:.0f} s",
                flush=True,
            )
            lost, right = [], []
        if step % 250 == 249:
            save(model, file)
    save(model, file)


def main() -> None:
    """Write the tokenizer, train, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=MODEL_FOLDER / "model.safetensors")
    parser.add_argument("--begun", type=Path, help="weights to go on from")
    parser.add_argument("--first", type=int, default=0, help="the step to go on from")
    chosen = parser.parse_args()
    write_tokenizer()
    train(chosen.steps, chosen.seed, chosen.out, chosen.begun, chosen.first)


if __name__ == "__main__":
    main()
