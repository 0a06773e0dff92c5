"""What each token id stands for: its bytes, its text, whether it is special, and the EOS ids.

Built once per model from the Hugging Face tokenizer, then read only. With it, detokenizers
turn the ids of an answer into text. No MLX.
"""

import codecs
import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.stopping.record import TEMPLATE_SOURCE
from engine.stopping.rules import StopOptions

_SPM_SPACE = "\u2581"


def _byte_alphabet() -> dict[str, int]:
    """The stand-ins of byte-level BPE: printable Latin-1 for itself, other bytes from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if chr(byte) not in table]
    table.update({chr(0x100 + n): byte for n, byte in enumerate(others)})
    return table


_BYTE_OF = _byte_alphabet()


def byte_level(token: str) -> bytes:
    """Return the bytes of a byte-level BPE token; one with foreign characters is plain text."""
    try:
        return bytes([_BYTE_OF[char] for char in token])
    except KeyError:
        return token.encode("utf-8", "replace")


def sentence_piece(token: str) -> bytes:
    """Return the bytes of a SentencePiece token (``<0x0A>`` is a byte, U+2581 a space)."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            pass
    return token.replace(_SPM_SPACE, " ").encode("utf-8", "replace")


def _decoders(decoder: Any) -> Iterator[dict[str, Any]]:
    if isinstance(decoder, dict):
        yield decoder
        for part in decoder.get("decoders") or ():
            yield from _decoders(part)


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Token ids and their meaning.

    Attributes:
        raw: The bytes of each id; None where a piece's text depends on its neighbours, so that only
            the tokenizer's own decoder knows it.
        text: For each id its text, if its bytes are whole characters; otherwise None.
        special: Ids whose text is not part of an answer, with that text.
        eos: Ids that end generation.
        strips_first_space: Whether the decoder drops one space at the very beginning.
        eos_sources: Where each id that ends generation is named, as far as that is known.
        size: The number of ids that the model reads and produces: they are in [0, size). Only
            these may index an MLX array, which checks no bounds. The tokenizer may have more.
    """

    raw: Sequence[bytes] | None
    text: Sequence[str | None]
    special: dict[int, str]
    eos: frozenset[int]
    strips_first_space: bool
    size: int
    eos_sources: Mapping[int, str] = field(default_factory=dict)

    @property
    def id_count(self) -> int:
        """The number of ids with a text, those of the tokenizer alone included."""
        return max(self.size, len(self.text))

    def ends(self, rules: StopOptions) -> frozenset[int]:
        """Return the ids that end an answer under the options of its request."""
        if rules.ignore_eos:
            return frozenset()
        if not rules.ignore_template_eos:
            return self.eos
        return frozenset(i for i in self.eos if self.eos_sources.get(i) != TEMPLATE_SOURCE)

    def bytes_of(self, token_id: int) -> bytes:
        if self.raw is not None:
            return self.raw[token_id] if token_id < len(self.raw) else b""
        return self.text_of(token_id).encode()

    def text_of(self, token_id: int) -> str:
        """Return a token's own text, special ones included, for people to read."""
        if token_id in self.special:
            return self.special[token_id]
        if token_id >= len(self.text):
            return ""
        text = self.text[token_id]
        return self.bytes_of(token_id).decode("utf-8", "replace") if text is None else text

    def pieces(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text that each id completes; a character has its text at its last byte."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token_id in ids:
            if token_id in self.special or self.raw is None:
                yield decoder.decode(b"", True) + self.text_of(token_id)
            else:
                yield decoder.decode(self.bytes_of(token_id))

    def showing_specials(self) -> "Vocabulary":
        """Return a vocabulary in which special tokens other than EOS are ordinary text."""
        special = {i: text for i, text in self.special.items() if i in self.eos}
        return replace(self, special=special)


def _whole(raw: bytes) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def decode_ids(tokenizer: Any, ids: list[int]) -> str:
    """Return the text of ids by a tokenizer's own decoder, special tokens included."""
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _texts_amid_others(tokenizer: Any, count: int, added: Container[int]) -> list[str | None]:
    """Return each id's text in the middle of an answer, not at its beginning."""
    alone = [decode_ids(tokenizer, [token_id]) for token_id in range(count)]
    letters = (i for i, text in enumerate(alone) if text.isalnum() and i not in added)
    before = next(letters, None)
    if before is None:
        return list(alone)
    start = alone[before]
    texts: list[str | None] = []
    for token_id, own in enumerate(alone):
        whole = decode_ids(tokenizer, [before, token_id])
        texts.append(whole[len(start) :] if whole.startswith(start) else own)
    return texts


def read_vocabulary(
    folder: Path,
    tokenizer: Any,
    eos: Iterable[int],
    size: int,
    eos_sources: Mapping[int, str] | None = None,
) -> Vocabulary:
    """Build the vocabulary of a loaded model."""
    decoder: Any = None
    file = folder / "tokenizer.json"
    if file.is_file():
        decoder = json.loads(file.read_text(encoding="utf-8")).get("decoder")
    # A vocabulary may have gaps, so the number of its tokens says nothing about its largest id.
    count = 1 + max(tokenizer.get_vocab().values(), default=-1)
    added: dict[int, Any] = dict(getattr(tokenizer, "added_tokens_decoder", {}))
    special = {i: str(token.content) for i, token in added.items() if token.special}
    for token_id in tokenizer.all_special_ids:
        special.setdefault(token_id, str(tokenizer.convert_ids_to_tokens(token_id)))
    names = tokenizer.convert_ids_to_tokens(list(range(count)))
    decoders = list(_decoders(decoder))
    kinds = {part.get("type") for part in decoders}
    strips = [part for part in decoders if part.get("type") == "Strip"]
    raw: list[bytes] | None = None
    if "ByteLevel" in kinds:
        raw = [byte_level(name or "") for name in names]
    elif "ByteFallback" in kinds:
        raw = [sentence_piece(name or "") for name in names]
    # Decoders see added tokens, too. Gemma's vocabularies have runs of spaces among them.
    has_spaces = bool(kinds & {"ByteFallback", "Metaspace"})
    added_texts = {
        token_id: str(token.content).replace(_SPM_SPACE, " ")
        if has_spaces and not token.special
        else str(token.content)
        for token_id, token in added.items()
        if token_id < count
    }
    text: list[str | None]
    if raw is not None:
        for token_id, own in added_texts.items():
            raw[token_id] = own.encode("utf-8", "replace")
        text = [_whole(piece) for piece in raw]
    else:
        text = _texts_amid_others(tokenizer, count, added)
        for token_id, own in added_texts.items():
            text[token_id] = own
    return Vocabulary(
        raw=raw,
        text=text,
        special=special,
        eos=frozenset(i for i in eos if type(i) is int and 0 <= i < size),
        strips_first_space=any(part.get("content") == " " and part.get("start") for part in strips),
        size=size,
        eos_sources=eos_sources or {},
    )
