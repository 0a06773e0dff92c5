"""Cycles that the default figures find in texts which no model wrote.

    python -m tests.lab.repetition_in_texts TOKENIZER.json FOLDER ... [--texts 100000]

Every ``.py``, ``.md``, ``.json``, ``.csv`` and ``.txt`` file of the folders is cut into texts of up
to 4,000 tokens, each once. Tables, arrays, base64, numbered lists and poems are written beside
them. Each text is given to the detector as an answer would be; the kinds with their counts, every
cycle and the time per token are printed. Nothing here runs at import, and the suite does not ask
for it.
"""

import argparse
import base64
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

from engine.stopping.repetition import DEFAULT_DETECTION, RepetitionDetector

LENGTH = 4_000  # tokens of a text
KINDS = (".py", ".md", ".json", ".csv", ".txt")
CHARS = 200_000  # of one file that the tokenizer takes at once
WRITTEN = 2_000  # texts of each kind that is written here
NOUNS = ("rain", "harbour", "lamp", "sister", "river", "winter", "door", "letter", "field", "song")
VERBS = ("waits", "sings", "turns", "remembers", "falls", "opens", "burns", "returns")


def files(folders: list[Path]) -> Iterator[tuple[str, str, str]]:
    """Return kind, path and text of each file, those of equal content once."""
    known = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in KINDS or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="ignore")
            digest = hashlib.blake2b(text.encode("utf-8", "ignore"), digest_size=16).digest()
            if text and digest not in known:
                known.add(digest)
                for begin in range(0, len(text), CHARS):
                    yield path.suffix, str(path), text[begin : begin + CHARS]


def written(rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Return kind, name and text of what answers contain beside prose."""
    for number in range(WRITTEN):
        rows = rng.randint(20, 300)
        yield "numbered list", str(number), "\n".join(f"{n}. {line(rng)}" for n in range(1, rows))
        values = [rng.choice(("yes", "no", "0", "1.5", "")) for _ in range(4 * rows)]
        cells = (" | ".join(values[n : n + 4]) for n in range(0, len(values), 4))
        table = "\n".join(f"| {n} | {row} |" for n, row in enumerate(cells))
        yield "table", str(number), f"| # | a | b | c | d |\n|---|---|---|---|---|\n{table}"
        items = [{"id": n, "name": rng.choice(NOUNS), "ok": True} for n in range(rows)]
        yield "array of objects", str(number), json.dumps(items, indent=rng.choice((None, 2)))
        yield "array of numbers", str(number), json.dumps([rng.randint(0, 9) for _ in range(rows)])
        yield "base64", str(number), base64.b64encode(rng.randbytes(8 * rows)).decode()
        refrain = "\n".join(line(rng) for _ in range(4))
        verses = ["\n".join(line(rng) for _ in range(4)) for _ in range(rng.randint(3, 12))]
        yield "poem with a refrain", str(number), f"\n\n{refrain}\n\n".join(verses)


def line(rng: random.Random) -> str:
    return f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} over the {rng.choice(NOUNS)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--texts", type=int, default=100_000, help="of files, at most")
    given = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(given.tokenizer))
    texts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    tokens, spent = 0, 0.0

    def look(kind: str, name: str, text: str) -> None:
        nonlocal tokens, spent
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        for begin in range(0, len(ids), LENGTH):
            part = ids[begin : begin + LENGTH]
            detector = RepetitionDetector(DEFAULT_DETECTION)
            began = time.perf_counter()
            cycle = next((c for c in map(detector.add, part) if c is not None), None)
            spent += time.perf_counter() - began
            texts[kind] += 1
            tokens += len(part)
            if cycle is not None:
                found[kind] += 1
                copy = part[cycle.token_index : cycle.token_index + cycle.period]
                print(f"{kind} {name} +{begin}: {cycle}: {tokenizer.decode(copy)[:60]!r}")

    for number, (kind, name, text) in enumerate(files(given.folders)):
        look(kind, name, text)
        if texts.total() >= given.texts:
            print(f"enough after {number + 1} parts of files")
            break
    for kind, name, text in written(random.Random(0)):
        look(kind, name, text)
    for kind, count in texts.items():
        print(f"{kind}: {found[kind]} cycles in {count:,} texts")
    print(f"{found.total()} cycles in {texts.total():,} texts, {tokens:,} tokens,", end=" ")
    print(f"{1e6 * spent / tokens:.3f} µs a token")


if __name__ == "__main__":
    main()
