"""Learns the demo model's byte-level BPE from text that ships with every Python.

Words are cut the same way with and without a space before them: pieces of words are learnt first,
and only then may a space join the piece that follows it. Copying a word to the start of a line is
then the same pieces again, which is what lets so small a model copy words that it never saw. Knows
nothing of training; main thread.
"""

from __future__ import annotations

import importlib
import json
import warnings
from pathlib import Path
from pydoc_data.topics import topics

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

MODEL_FOLDER = Path(__file__).resolve().parents[1]
VOCAB_SIZE = 768
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
PIECES = (
    r"[^\r\n\p{L}\p{N}]?\p{L}+"  # letters, after at most one other character
    r"|\p{N}"  # every digit alone
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"  # punctuation and the newlines after it
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"  # newlines, then other white space
)
SPACE = "Ġ"
DOCUMENTED_MODULES = (
    "argparse asyncio base64 bisect calendar collections concurrent.futures configparser "
    "contextlib copy csv dataclasses datetime decimal difflib doctest email.message enum "
    "fractions functools gettext glob gzip heapq html http.client http.server imaplib inspect "
    "itertools json locale logging mailbox math operator os pathlib pickle platform pprint "
    "queue random re sched shelve shutil smtplib socket sqlite3 statistics string subprocess "
    "tarfile tempfile textwrap threading timeit tkinter trace traceback turtle types typing "
    "unittest urllib.request uuid wave weakref xml.dom.minidom zipfile"
)


def reference_texts() -> list[str]:
    """Return the reference text and the docstrings of this Python, in a fixed order."""
    texts = [topics[name] for name in sorted(topics)]
    for name in DOCUMENTED_MODULES.split():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        members = [module, *(member for _, member in sorted(vars(module).items()))]
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # some members tell that they are old when they are looked at
            documents = [getattr(member, "__doc__", None) for member in members]
        texts += [document for document in documents if isinstance(document, str)]
    return texts


def learn_tokenizer() -> Tokenizer:
    """Learn merges within words, then let a space join every piece of letters.

    Returns:
        A tokenizer of ``VOCAB_SIZE`` ids: the control tokens first, then bytes, then merges.
    """
    room = VOCAB_SIZE - len(SPECIAL) - len(MARKUP) - 256
    merges: list[tuple[str, str]] = []
    joined = [(SPACE, letter) for letter in _letters()]
    for left, right in _merges_within_words(reference_texts(), VOCAB_SIZE):
        is_word_piece = (left + right).isascii() and (left + right).isalpha()
        if len(merges) + len(joined) + 1 + is_word_piece <= room:
            merges.append((left, right))
            joined += [(SPACE, left + right)] * is_word_piece
    return _assembled([*merges, *joined])


def _letters() -> list[str]:
    return [chr(code) for start in "Aa" for code in range(ord(start), ord(start) + 26)]


def _merges_within_words(texts: list[str], size: int) -> list[tuple[str, str]]:
    """Learn ``size - 256`` merges, none of which crosses a space that leads a word."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.Split(Regex(r"^[^\r\n\p{L}](?=\p{L})"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=6,
    )
    tokenizer.train_from_iterator([*texts, "\n\n" * 4000], trainer)
    learnt = json.loads(tokenizer.to_str())["model"]["merges"]
    return [(left, right) for left, right in learnt]


def _assembled(merges: list[tuple[str, str]]) -> Tokenizer:
    names = [*SPECIAL, *MARKUP, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    names += [left + right for left, right in merges]
    names = list(dict.fromkeys(names))
    tokenizer = Tokenizer(
        models.BPE(vocab={name: index for index, name in enumerate(names)}, merges=merges)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in SPECIAL]
    )
    tokenizer.add_tokens([AddedToken(name, special=False, normalized=False) for name in MARKUP])
    return tokenizer


def write_tokenizer(folder: Path = MODEL_FOLDER) -> None:
    """Learn the tokenizer and write ``tokenizer.json`` into ``folder``."""
    learn_tokenizer().save(str(folder / "tokenizer.json"))


if __name__ == "__main__":
    write_tokenizer()
