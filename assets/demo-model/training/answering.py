"""Answers many conversations at once with mlx-lm's BatchGenerator, greedily or at a temperature.

Knows how to ask, not what is right. Main thread; MLX.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from exchange import Conversation
from mlx_lm import load
from mlx_lm.generate import BatchGenerator
from mlx_lm.sample_utils import make_sampler
from rendering import Rendering


@dataclass(frozen=True)
class Reply:
    """What the model wrote, cut into its thought and its answer.

    Attributes:
        thought: the text of the thinking block, or None where there was none.
        answer: the text after it.
        ended: whether the model ended by itself.
    """

    thought: str | None
    answer: str
    ended: bool


class Answering:
    """A loaded model that answers conversations in batches."""

    def __init__(self, folder: Path, temperature: float = 0.0) -> None:
        self.model: Any = load(str(folder))[0]
        self.rendering = Rendering(folder)
        self._sampler = make_sampler(temp=temperature)

    def replies(
        self, conversations: list[Conversation], max_tokens: int = 400, rows: int = 64
    ) -> list[Reply]:
        """Return one reply for each conversation, in order."""
        prompts = [self.rendering.prompt_ids(conversation) for conversation in conversations]
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        written: dict[int, list[int]] = {index: [] for index in order}
        ended: dict[int, bool] = {}
        end = self.rendering.tokenizer.eos_token_id
        generator = BatchGenerator(
            self.model,
            max_tokens=max_tokens,
            stop_tokens=[[end]],
            sampler=self._sampler,
            completion_batch_size=rows,
            prefill_batch_size=rows,
        )
        uids = generator.insert([prompts[index] for index in order])
        index_of = dict(zip(uids, order, strict=True))
        while len(ended) < len(order):
            for response in generator.next_generated():
                index = index_of[response.uid]
                if response.finish_reason != "stop":
                    written[index].append(int(response.token))
                if response.finish_reason:
                    ended[index] = response.finish_reason == "stop"
        generator.close()
        return [self._reply(written[index], ended[index]) for index in range(len(prompts))]

    def surprise(self, conversations: list[Conversation]) -> float:
        """Return the mean surprise at the right answers, in nats per token."""
        total, count = 0.0, 0
        for conversation in conversations:
            prompt = self.rendering.prompt_ids(conversation)
            ids, _ = self.rendering.taught(conversation, 0.0)
            logits = self.model(mx.array([ids[:-1]]))[0, len(prompt) - 1 :]
            right = mx.array(ids[len(prompt) :])
            losses = (
                mx.logsumexp(logits, axis=-1)
                - mx.take_along_axis(logits, right[:, None], axis=-1)[:, 0]
            )
            lost: Any = losses.sum().item()
            total, count = total + lost, count + len(right)
        return total / count if count else math.nan

    def _reply(self, ids: list[int], ended: bool) -> Reply:
        text: str = self.rendering.tokenizer.decode(ids, skip_special_tokens=False)
        if not text.startswith("<think>"):
            return Reply(None, text, ended)
        thought, _, answer = text.removeprefix("<think>").partition("</think>")
        return Reply(thought.strip(), answer.removeprefix("\n\n"), ended)
