"""Turns conversations into token ids with the shipped chat template, for training and for scoring.

Training thus sees what the template makes of the same messages later. Knows no model; any thread.
"""

from __future__ import annotations

from pathlib import Path

from exchange import Conversation
from transformers import AutoTokenizer

THINKING, ANSWER = "<think>\n{thought}\n</think>\n\n", "{answer}<|im_end|>"


class Rendering:
    """The shipped tokenizer and template, read once from a folder."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder))
        self._header = self._ids("<|im_start|>assistant\n")
        self._no_thought = self._ids("<think>\n\n</think>\n\n")
        self._end = self._ids("<|im_end|>")[0]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def prompt(self, conversation: Conversation) -> str:
        """Return the text on which the model goes on."""
        text: str = self.tokenizer.apply_chat_template(
            conversation.messages,
            tools=list(conversation.tools) or None,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=conversation.thinks,
        )
        return text

    def prompt_ids(self, conversation: Conversation) -> list[int]:
        """Return the token ids on which the model goes on."""
        return self._ids(self.prompt(conversation))

    def answer(self, conversation: Conversation) -> str:
        """Return what the model has to write, the thinking block and the end token included."""
        thought = THINKING.format(thought=conversation.last.thought) if conversation.thinks else ""
        return thought + ANSWER.format(answer=conversation.last.answer)

    def taught(
        self, conversation: Conversation, weight_of_prompts: float
    ) -> tuple[list[int], list[float]]:
        """Return ids and weights of the whole conversation.

        Weights are 1 where an assistant writes, end token included, and 0 on an empty thought.
        """
        ids = self._ids(self.prompt(conversation) + self.answer(conversation))
        weights = [weight_of_prompts] * len(ids)
        header, no_thought = self._header, self._no_thought
        at = 0
        while at < len(ids):
            if ids[at : at + len(header)] != header:
                at += 1
                continue
            at += len(header)
            if ids[at : at + len(no_thought)] == no_thought:
                weights[at : at + len(no_thought)] = [0.0] * len(no_thought)
                at += len(no_thought)
            while at < len(ids):
                weights[at] = 1.0
                at += 1
                if ids[at - 1] == self._end:
                    break
        return ids, weights
