"""Small real tokenizers of every kind, loaded as the product loads a model's own.

A ``Model`` is a folder with tokenizer files, mlx-lm's wrapper around them, the product's backend
made of both, and, for the reference, what a page about the model would say: the bytes of each
token, the special ones, the tags of its family.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlx_lm.tokenizer_utils import load as load_wrapper
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from engine.inference.backend import BatchLimits, OnLoadProgress
from engine.inference.batch import RunningBatch
from engine.inference.loader import Loader
from engine.inference.mlx_backend import MlxBackend
from engine.library.model_info import EosToken, ModelInfo
from engine.output.vocabulary import read_vocabulary
from tests.engine.contract.writing.families import FAMILIES, HARMONY_MARKERS, Family
from tests.engine.contract.writing.pieces import BROKEN, PIECES
from tests.support.scripted import ScriptedModel

CONTEXT = 4096
EOS = "<|im_end|>"
LATE_EOS = "<|late|>"
GO = "<|go|>"
ODD = "<|odd|>"
KINDS = ("byte-level", "sentence-piece", "metaspace", "word-piece")
# What the template ends in is an option, so that a case can set it; a last message of the assistant
# is continued.
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}<|im_end|>"
    "{% elif m.role == 'assistant' %}<|go|>{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|go|>{{ tail }}{% endif %}"
)


@dataclass(frozen=True, eq=False)
class Model:
    """One tokenizer, one family, and the backend that the product makes of them.

    Attributes:
        kind: One of ``KINDS``.
        family: What its output looks like.
        backend: The product's.
        ids: Piece to token id; bytes as keys for halves of characters.
        raw: Bytes per id where tokens are bytes, else None.
        special: Ids whose text is skipped, with that text.
        added: Other ids that were added to the vocabulary, likewise.
        eos: Ids that end generation.
    """

    kind: str
    family: Family
    backend: MlxBackend
    ids: dict[str | bytes, int]
    raw: tuple[bytes, ...] | None
    special: dict[int, str]
    added: dict[int, str]
    eos: frozenset[int]
    size: int
    wrapper: Any
    folder: TemporaryDirectory[str] = field(repr=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the whole text of a list of ids as Hugging Face says it, special ones too."""
        return _decoded(self, tuple(ids))

    def spell(self, text: str, rng: random.Random) -> list[int]:
        """Return ids that spell a text, cut at random; specials and tags in it are their ids."""
        out: list[int] = []
        at = 0
        while at < len(text):
            found = [n for n in self._lengths(text, at) if n]
            if not found:
                out.extend(self._spelled_bytes(text[at]))
                at += 1
                continue
            longest = max(found)
            length = longest if rng.random() < 0.6 else rng.choice(found)
            out.append(self.ids[text[at : at + length]])
            at += length
        return out

    def _lengths(self, text: str, at: int) -> list[int]:
        return [n for n in range(1, 24) if text[at : at + n] in self.ids and at + n <= len(text)]

    def _spelled_bytes(self, char: str) -> list[int]:
        if self.raw is None:
            return [self.ids["x"]]
        return [self.ids[bytes([byte])] for byte in char.encode()]


@lru_cache(maxsize=1 << 14)
def _decoded(made: Model, ids: tuple[int, ...]) -> str:
    return str(made.wrapper._tokenizer.decode(list(ids), skip_special_tokens=False))


def _byte_level() -> dict[int, str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in table)
    table.update({byte: chr(0x100 + n) for n, byte in enumerate(others)})
    return table


_LETTER_OF = _byte_level()


def _byte_level_tokenizer() -> tuple[Tokenizer, dict[str | bytes, int]]:
    raws: dict[bytes, int] = {}
    for byte in range(256):
        raws.setdefault(bytes([byte]), len(raws))
    for piece in (*PIECES, *BROKEN):
        raws.setdefault(piece if isinstance(piece, bytes) else piece.encode(), len(raws))
    vocabulary = {"".join(_LETTER_OF[b] for b in raw): i for raw, i in raws.items()}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    ids: dict[str | bytes, int] = dict(raws)
    ids.update({piece: raws[piece.encode()] for piece in PIECES})
    return tokenizer, ids


def _sentence_piece_tokenizer() -> tuple[Tokenizer, dict[str | bytes, int]]:
    vocabulary = {"<unk>": 0}
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    ids: dict[str | bytes, int] = {bytes([b]): vocabulary[f"<0x{b:02X}>"] for b in range(256)}
    for piece in PIECES:
        ids[piece] = vocabulary.setdefault(piece.replace(" ", "\u2581"), len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer, ids


def _metaspace_tokenizer() -> tuple[Tokenizer, dict[str | bytes, int]]:
    names = dict.fromkeys(["<unk>", *(piece.replace(" ", "\u2581") for piece in PIECES)])
    scores = [(name, -float(n + 1)) for n, name in enumerate(names)]
    numbers = {name: n for n, name in enumerate(names)}
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, {piece: numbers[piece.replace(" ", "\u2581")] for piece in PIECES}


def _word_piece_tokenizer() -> tuple[Tokenizer, dict[str | bytes, int]]:
    names = {"<unk>": 0}
    ids: dict[str | bytes, int] = {}
    for piece in PIECES:
        bare = piece.removeprefix(" ")
        if bare:
            ids[bare] = names.setdefault(f"##{bare}", len(names))
            ids[f" {bare}"] = names.setdefault(bare, len(names))
    tokenizer = Tokenizer(models.WordPiece(names, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return tokenizer, ids


_MAKERS = {
    "byte-level": _byte_level_tokenizer,
    "sentence-piece": _sentence_piece_tokenizer,
    "metaspace": _metaspace_tokenizer,
    "word-piece": _word_piece_tokenizer,
}


@cache
def model(kind: str, family_name: str) -> Model:
    """Return the model of a kind and a family; made once a process."""
    family = FAMILIES[family_name]
    tokenizer, ids = _MAKERS[kind]()
    specials = dict.fromkeys([EOS, LATE_EOS, GO, ODD, *family.special_tokens])
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in specials])
    tokenizer.add_tokens(
        [AddedToken(text, special=False, normalized=False) for text in family.plain_tokens]
    )
    own = [*specials, *family.plain_tokens]
    ids.update({text: tokenizer.token_to_id(text) for text in own})
    folder = TemporaryDirectory(prefix="contract-")
    path = Path(folder.name)
    tokenizer.save(str(path / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": EOS,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE + "{# " + family.marker + " #}",
    }
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    wrapper = load_wrapper(path)
    for text in (LATE_EOS, *family.eos):
        wrapper.add_eos_token(text)
    eos = frozenset(wrapper.eos_token_ids)
    size = len(wrapper)
    info = ModelInfo(
        id=f"{kind} {family_name}",
        path=path,
        architecture="scripted",
        context_length=CONTEXT,
        vocabulary_size=size,
        eos=tuple(EosToken(i, str(wrapper.convert_ids_to_tokens(i)), "tokenizer") for i in eos),
        can_think=bool(wrapper.has_thinking),
        can_call_tools=bool(wrapper.has_tool_calling),
        size_bytes=0,
        loaded_at=0,
    )
    backend = _backend(ScriptedModel(size, ids[GO], ids[EOS], lambda _: ()), wrapper, info)
    raw: tuple[bytes, ...] | None = None
    if kind in ("byte-level", "sentence-piece"):
        by_id = {i: key if isinstance(key, bytes) else key.encode() for key, i in ids.items()}
        raw = tuple(by_id.get(i, b"<unk>") for i in range(size))
    return Model(
        kind=kind,
        family=family,
        backend=backend,
        ids=ids,
        raw=raw,
        special={ids[text]: text for text in specials},
        added={ids[text]: text for text in family.plain_tokens},
        eos=eos,
        size=size,
        wrapper=wrapper,
        folder=folder,
    )


def _backend(scripted: ScriptedModel, wrapper: Any, info: ModelInfo) -> MlxBackend:
    eos = {token.token_id: token.source for token in info.eos}
    vocabulary = read_vocabulary(info.path, wrapper._tokenizer, eos, info.vocabulary_size, eos)
    batch = RunningBatch(scripted, BatchLimits(64, 1 << 20, 8))
    return MlxBackend(wrapper, info, vocabulary, batch)


def loader_of(made: Model, answer: Callable[[list[int]], Sequence[int]]) -> Loader:
    """Return a loader of the model whose scripts ``answer`` gives for prompts up to the mark."""

    def load(
        folder: Path, *, limits: BatchLimits, on_progress: OnLoadProgress, **_: Any
    ) -> MlxBackend:
        scripted = ScriptedModel(made.size, made.ids[GO], made.ids[EOS], answer)
        return _backend(scripted, made.wrapper, replace(made.backend.info, context_length=CONTEXT))

    return load


def texts_of_tags(made: Model) -> list[str]:
    family = made.family
    if family.is_harmony:
        return list(HARMONY_MARKERS)
    return ["".join(tag) for tag in (*(family.think or ()), *(family.tool or ())) if tag]
