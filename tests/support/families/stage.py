"""A scripted model behind the chat template and tokens of a family, on the real pipeline.

``FamilyStage`` has the tokens of a family (``writers``) and a chat template: one of ours after the
family's published rules (``templates``), or a real one. What the model writes is decided by a
function of its whole prompt, so that a test follows a conversation through its rendered form.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlx_lm.tokenizer_utils import load as load_wrapper

from engine.generation import Generation
from engine.inference.backend import BatchLimits, Prompt
from engine.inference.batch import RunningBatch
from engine.inference.mlx_backend import MlxBackend
from engine.inference.sequence import Sequence
from tests.support.families.writers import Family
from tests.support.scripted import ScriptedModel, Stage, write_tokenizer

Answer = Callable[[str], str]
"""The text that the model writes behind a prompt, special tokens spelled out."""


class _Model(ScriptedModel):
    """Writes the script that was cued for a prompt, then EOS for ever."""

    def __init__(self, size: int, eos: int) -> None:
        super().__init__(size, 0, eos, lambda _: [])
        self.eos = eos
        self.cues: list[tuple[list[int], list[int]]] = []

    def _next(self, history: list[int]) -> int:
        for prompt, script in reversed(self.cues):
            begin = len(prompt)
            if len(history) < begin or history[:begin] != prompt:
                continue
            done = history[begin:]
            if done == script[: len(done)]:
                return script[len(done)] if len(done) < len(script) else self.eos
        return self.eos


class _Backend(MlxBackend):
    stage: "FamilyStage"

    def join(self, sequence: Sequence, generation: Generation, prompt: Prompt) -> None:
        self.stage.cue(sequence.tokens)
        super().join(sequence, generation, prompt)


class FamilyStage(Stage):
    """A loader for ``Engine(loader=stage.load)``.

    Args:
        folder: A scratch folder for the tokenizer's files.
        family: The family.
        template: The chat template's text.
        answer: Returns what the model writes behind a prompt.
        tokenizer: The folder of a real ``tokenizer.json``; None makes one of bytes and specials.
        context: Context length in tokens.

    Attributes:
        prompts: The prompts so far, as texts.
    """

    def __init__(
        self,
        folder: Path,
        family: Family,
        *,
        template: str,
        answer: Answer,
        tokenizer: Path | None = None,
        context: int = 32_768,
    ) -> None:
        self.folder, self.answer = folder, answer
        self.prompts: list[str] = []
        self._context = context
        self._lock = threading.Lock()
        if tokenizer is None:
            _write_own_tokenizer(folder, family, template)
        else:
            _copy_tokenizer(tokenizer, folder, template)
        ends = load_wrapper(folder).convert_tokens_to_ids(list(family.eos))
        self.wrapper = load_wrapper(folder, eos_token_ids=[end for end in ends if end is not None])
        added = self.wrapper._tokenizer.added_tokens_decoder
        self.logits_size = 1 + max(*self.wrapper.get_vocab().values(), *added)
        self.model = _Model(self.logits_size, self.wrapper.eos_token_id)

    def cue(self, prompt: list[int]) -> None:
        """Decide what the model writes behind a prompt."""
        text = str(self.wrapper._tokenizer.decode(prompt, skip_special_tokens=False))
        script = self.wrapper.encode(self.answer(text), add_special_tokens=False)
        with self._lock:
            self.prompts.append(text)
            self.model.cues = [*self.model.cues[-32:], (list(prompt), list(script))]

    def load(self, folder: Path, *, limits: BatchLimits, **options: Any) -> MlxBackend:
        """Make the backend; called on the engine thread."""
        plain = super().load(folder, limits=limits, **options)
        batch = RunningBatch(self.model, limits)
        backend = _Backend(self.wrapper, plain.info, plain.vocabulary, batch)
        backend.stage = self
        return backend


def _write_own_tokenizer(folder: Path, family: Family, template: str) -> None:
    write_tokenizer(
        folder,
        special=family.special,
        plain=family.plain,
        template=template,
        eos=family.eos[0],
    )
    if family.bos:
        file = folder / "tokenizer_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "bos_token": family.bos}))


def _copy_tokenizer(source: Path, folder: Path, template: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    config = json.loads((source / "tokenizer_config.json").read_text())
    for key in ("eos_token", "bos_token", "pad_token", "unk_token"):
        if isinstance(config.get(key), dict):
            config[key] = config[key]["content"]
    if isinstance(config.get("additional_special_tokens"), str):
        del config["additional_special_tokens"]
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
