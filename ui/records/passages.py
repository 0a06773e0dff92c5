"""Passages of long documents: how a text is divided, and which of them a question goes with.

Pure, apart from counting tokens; any thread.
"""

import re
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

from engine.wording import counted
from ui.records.attachments import ATTACHED, Attachment

# A passage is long enough to be understood alone and short enough to be about one thing.
_MIN_WORDS, _MAX_WORDS = 200, 400
# A long paragraph, such as a whole page of a PDF file, is divided at the sentence end after these.
_GOOD_WORDS = 300
# The characters of so many words: texts without spaces or sentences are cut here.
_MAX_CHARS = 6 * _MAX_WORDS

# Chinese, Japanese and Korean: each character counts as a word.
CJK = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003134f"
)
_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+")
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?=\n)")
_SENTENCE = re.compile(
    rf".{{1,{_MAX_CHARS}}}?(?:(?<=[.!?])\s+|(?<=[。！？])|\n+|\Z)|.{{1,{_MAX_CHARS}}}", re.DOTALL
)
_HEADING = re.compile(
    r"\s*(?:\#{1,6}[^\S\n]+(?P<atx>\S.*)|(?P<line>\S.*)\n(?:={3,}|-{3,}|\*{3,}|~{3,})[^\S\n]*)(?:\n|\Z)"
)
# The title and the labels of ``Excerpt.as_file``.
_TITLE = re.compile(r"(.*) \([\d,]+ of [\d,]+ passages?(?:, spread evenly)?\)")
_LABEL = re.compile(r"^\[((?:Passage|Pages?) [^\n]*)\]$", re.MULTILINE)
_ELSEWHERE = "Passages of it are with the last question"
# A question about all of a document: the words in it name no passage.
_ABOUT_ALL = re.compile(
    r"\b(?:summar[iy]|tl;?dr|overview|key points|main points|zusammenfass|fasse?\b.*\bzusammen|"
    r"überblick|résum|synthèse|resum|riassum|sammanfatt|samenvat|podsumuj|streszcz|обобщ|резюм|"
    r"кратко)|总结|總結|概括|摘要|要約|まとめ|概要|요약",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document; ``page`` is 0 in a document without pages."""

    number: int
    text: str
    page: int = 0
    last_page: int = 0
    heading: str = ""

    @property
    def label(self) -> str:
        """Its page, or its number in a document without pages, and its heading."""
        label = f"Passage {self.number + 1}"
        if self.page:
            is_one = self.last_page <= self.page
            label = f"Page {self.page}" if is_one else f"Pages {self.page}–{self.last_page}"
        return f"{label}, {self.heading}" if self.heading else label


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file, whose pages begin with their numbers from ``first_page`` on."""

    name: str
    text: str
    first_page: int = 0

    @staticmethod
    def of(file: Attachment) -> "Document":
        return Document(file.name, file.text, file.pages.first if file.pages else 0)

    @property
    def id(self) -> str:
        text = f"{self.name}\0{self.text.removesuffix(chr(10))}"  # a fence adds the line end
        return blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


class IndexedDocument(NamedTuple):
    """A document in the index, of a conversation or of a folder of conversations."""

    number: int
    id: str
    name: str
    passages: int
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The passages of a document that went with a question, in reading order.

    ``is_spread``: no words of the question were found, so they are the beginning and further
    passages at even distances.
    """

    document: str
    name: str
    total: int
    passages: tuple[Passage, ...]
    is_spread: bool = False

    @property
    def extent(self) -> str:
        return self._extent("")

    @property
    def sentence(self) -> str:
        return self._extent(" was read" if self.total == 1 else " were read")

    @property
    def remark(self) -> str:
        """The choice of the passages if no words of the question were found."""
        is_part = self.is_spread and len(self.passages) < self.total
        return "The beginning, and passages at even distances." if is_part else ""

    def _extent(self, verb: str) -> str:
        count = f"{len(self.passages):,} of {counted(self.total, 'passage')}{verb}"
        return f"{count}, spread evenly" if self.remark else count

    def as_file(self) -> Attachment:
        """Return the passages as a file of the prompt, or a note without any."""
        if not self.passages:
            why = "No passage of it has room" if self.total else _ELSEWHERE
            return Attachment(self.name, f"({why}.)")
        parts = (f"[{passage.label}]\n{passage.text.strip()}" for passage in self.passages)
        return Attachment(f"{self.name} ({self.extent})", "\n\n".join(parts))


@dataclass(frozen=True, slots=True)
class Found:
    """The documents that were searched, and their passages with the documents' ids, best first."""

    documents: Sequence[IndexedDocument]
    ranked: Sequence[tuple[str, Passage]]
    is_spread: bool = False

    def excerpts(self, count: int) -> tuple[Excerpt, ...]:
        """Return the best passages by document, in reading order."""
        best = self.ranked[:count]
        return tuple(
            Excerpt(
                document.id,
                document.name,
                document.passages,
                tuple(
                    sorted((p for owner, p in best if owner == document.id), key=lambda p: p.number)
                ),
                self.is_spread,
            )
            for document in self.documents
        )


@dataclass(frozen=True, slots=True)
class QuestionVector:
    """A question as the vector (32-bit numbers) of an embedding model."""

    model: str
    vector: bytes


@dataclass(frozen=True, slots=True)
class PassageSearch:
    """A search in the documents of a conversation and of a folder, the present question last.

    ``is_draft``: the question may still change; the index of other documents is not removed.
    """

    documents: Sequence[Document]
    questions: Sequence[str]
    conversation_id: str = ""
    folder_id: str = ""
    is_draft: bool = False
    vector: QuestionVector | None = None


# Returns the passages of documents that are about questions, the present one last.
FindPassages = Callable[[Sequence[Document], Sequence[str]], Awaitable[Found]]


def is_about_all(question: str) -> bool:
    """Return whether a question, such as "summarise this", is about a whole document."""
    return bool(_ABOUT_ALL.search(question))


def words_of(text: str) -> list[str]:
    """Return the words of a text; characters of Chinese, Japanese and Korean one by one."""
    return _WORD.findall(text)


def passages_of(document: Document) -> Iterator[Passage]:
    """Divide a document at paragraphs, headings and ends of pages."""
    number, size, chars, heading = 0, 0, 0, ""
    held: list[str] = []
    first = page = 0
    own_heading = ""

    def taken() -> Passage:
        nonlocal number, size, chars
        text = "".join(held).replace("\0", " ").strip("\n")
        passage = Passage(number, text, first, page, own_heading)
        number, size, chars = number + 1, 0, 0
        held.clear()
        return passage

    for page, text in _pages(document):
        for paragraph in _paragraphs(text):
            if (named := _HEADING.match(paragraph)) is not None:
                heading = (named["atx"] or named["line"]).strip("# \t")[:120]
                if size >= _MIN_WORDS // 2:
                    yield taken()
            for sentence in _SENTENCE.findall(paragraph):
                words = len(words_of(sentence))
                if held and (size + words > _MAX_WORDS or chars + len(sentence) > _MAX_CHARS):
                    yield taken()
                if not held:
                    first, own_heading = page, heading
                held.append(sentence)
                size, chars = size + words, chars + len(sentence)
                if size >= _GOOD_WORDS:
                    yield taken()
            if size >= _MIN_WORDS:
                yield taken()
        if size >= _MIN_WORDS // 2:
            yield taken()
        elif held:
            held.append("\n\n")
    if "".join(held).strip():
        yield taken()


def _pages(document: Document) -> Iterator[tuple[int, str]]:
    """Yield the pages as ``text_of_pages`` joins them; a text without pages is page 0."""
    text, page = document.text, document.first_page
    if not page or not text.startswith(f"[Page {page}]"):
        yield 0, text
        return
    start = len(f"[Page {page}]")
    while (end := text.find(mark := f"\n\n[Page {page + 1}]", start)) >= 0:
        yield page, text[start:end].lstrip("\n")
        start, page = end + len(mark), page + 1
    yield page, text[start:].lstrip("\n")


def _paragraphs(text: str) -> Iterator[str]:
    start = 0
    for blank in _BLANK_LINES.finditer(text):
        if not text[start : blank.end()].isspace():
            yield text[start : blank.end()]
        start = blank.end()
    if text[start:].strip():
        yield text[start:]


def marks_of(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where passages begin and end in a message as the model gets it, and their names."""
    for file in ATTACHED.finditer(text):
        if (title := _TITLE.fullmatch(file["title"])) is None:
            continue
        begin, end = file.span("text")
        labels = [*_LABEL.finditer(text, begin, end)]
        for label, after in zip(labels, [*labels[1:], None], strict=True):
            yield label.start(), after.start() if after else end, f"{title[1]}, {label[1]}"


def spread(total: int) -> Iterator[int]:
    """Yield all numbers below a total so that each beginning of them is spread evenly, 0 first."""
    seen: set[int] = set()
    parts = 1
    while len(seen) < total:
        for part in range(parts + 1):
            if (number := part * (total - 1) // parts) not in seen:
                seen.add(number)
                yield number
        parts *= 2


def merge_rankings(rankings: Iterable[Sequence[int]]) -> list[int]:
    """Return one order of several by reciprocal rank fusion, with the constant of its paper, 60."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, number in enumerate(ranking, 1):
            scores[number] = scores.get(number, 0.0) + 1 / (60 + rank)
    return sorted(scores, key=lambda number: (-scores[number], number))


async def fitting_excerpts(
    found: Found, max_tokens: int, count: Callable[[str], Awaitable[int]]
) -> tuple[Excerpt, ...]:
    """Return as many of the best passages as have at most so many tokens."""
    if not found.ranked:
        return found.excerpts(0)

    def written(number: int) -> str:
        files = (each.as_file() for each in found.excerpts(number))
        return "\n".join(f"{file.title}\n{file.text}" for file in files)

    chars = [0, *accumulate(len(passage.text) for _, passage in found.ranked)]
    low, high = 0, len(found.ranked)
    chars_per_token = 4.0
    while low < high:  # a guess by the rate of the last one takes few counts, which are slow
        guess = bisect_right(chars, max_tokens * chars_per_token) - 1
        tried = min(max(guess, low + 1), high)
        tokens = await count(written(tried))
        chars_per_token = chars[tried] / max(tokens, 1)
        if tokens <= max_tokens:
            low = tried
        else:
            high = tried - 1
    return found.excerpts(low)
