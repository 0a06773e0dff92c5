"""Answers of the real model on every route, compared with an oracle that shares no code with us.

    python -m tests.lab.real_answers FOLDER [--cases 60] [--only routes,greedy,…] [--both]

``FOLDER`` holds what ``tests.lab.real_models`` makes. The oracle is a plain loop over mlx-lm's
model that takes the likeliest token, and a search for the stop in the text of the first 1, 2, 3 …
tokens.
Each case is a question and a stop out of its answer. Text, offset and token must be the oracle's
in Messages, Chat Completions, Completions, Responses, /generate, Ollama's two routes, streamed or
not, in the window's engine, in ``fullstop ask`` and in ``fullstop replay``. Nothing here runs at
import, and the suite does not ask for it.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm import generate, load
from mlx_lm.models.cache import make_prompt_cache

from api.conformance.captures.recognition import parse
from api.conformance.captures.values import WireDialect
from engine.engine import Engine
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest, Message, Sampling
from tests.e2e.conftest import ServeProcess
from tests.lab.real_models import NAME

ROOT = Path(__file__).parents[2]
TOKENS = 16
_AT_ONCE, _TOLD_EACH = 24, 60
QUESTIONS = (
    "What is the capital of France?",
    "Name three colors.",
    "Write one sentence about the sea.",
    "What is 2 + 2?",
    "Who wrote Romeo and Juliet?",
    "List two fruits, one per line.",
    "Translate 'good morning' into Spanish.",
    "What do bees make?",
    "Say hello to Anna.",
    "How many days has a week?",
    "Write a line of Python that prints hello.",
    "What is water made of?",
)


# -- the oracle -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """A question with the answer of the plain loop: its prompt, its tokens, the text of each."""

    question: str
    prompt: str
    tokens: tuple[int, ...]
    texts: tuple[str, ...]

    def found(self, stops: Sequence[str]) -> tuple[str, int, str] | None:
        """Return text, token and stop of the first prefix that has a stop."""
        for number, text in enumerate(self.texts):
            places = [(text.index(stop), -len(stop), stop) for stop in stops if stop in text]
            if places:
                at, _, stop = min(places)
                return text[:at], number, stop
        return None


class Oracle:
    def __init__(self, folder: Path) -> None:
        self.model, self.tokenizer = load(str(folder))[:2]

    def known(self, question: str, count: int = TOKENS) -> Known:
        prompt = self.prompt(question)
        tokens: list[int] = []
        cache = make_prompt_cache(self.model)
        fed = self.tokenizer.encode(prompt, add_special_tokens=False)
        while len(tokens) < count:
            logits = self.model(mx.array([fed]), cache=cache)[0, -1]
            token = int(mx.argmax(logits).item())
            if token in self.tokenizer.eos_token_ids:
                break
            tokens.append(token)
            fed = [token]
        texts = [self.decoded(tokens[: number + 1]) for number in range(len(tokens))]
        return Known(question, prompt, tuple(tokens), tuple(texts))

    def prompt(self, question: str) -> str:
        turns = [{"role": "user", "content": question}]
        inner = self.tokenizer._tokenizer
        return str(inner.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    def decoded(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens)))

    def generated(self, known: Known) -> str:
        return str(
            generate(
                self.model,
                self.tokenizer,
                self.tokenizer.encode(known.prompt, add_special_tokens=False),
                max_tokens=TOKENS,
            )
        )


@dataclass(frozen=True)
class Case:
    """A question, its stops, and where the oracle finds the first."""

    known: Known
    stops: tuple[str, ...]
    text: str
    token: int
    stop: str


def cases_of(answers: Sequence[Known], count: int, seed: int = 1) -> list[Case]:
    """Return cases whose stops begin anywhere in an answer: in a token, at its edge, over several.

    Every fourth has a second stop, which may come first.
    """
    draws = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        known = answers[len(cases) % len(answers)]
        whole = known.texts[-1]
        stops = []
        for _ in range(2 if len(cases) % 4 == 3 else 1):
            at = draws.randrange(0, max(1, len(whole) - 1))
            stops.append(whole[at : at + draws.randint(1, 9)])
        found = known.found(stops) if all(stop.strip() for stop in stops) else None
        if found is not None:
            cases.append(Case(known, tuple(stops), *found))
    return cases


# -- the routes -----------------------------------------------------------------------------------

Body = dict[str, Any]
DIALECTS = {
    "/v1/messages": WireDialect.MESSAGES,
    "/v1/chat/completions": WireDialect.CHAT,
    "/v1/completions": WireDialect.COMPLETIONS,
    "/v1/responses": WireDialect.RESPONSES,
    "/generate": WireDialect.GENERATE,
    "/api/chat": WireDialect.OLLAMA,
    "/api/generate": WireDialect.OLLAMA,
}


def _turns(case: Case) -> list[Body]:
    return [{"role": "user", "content": case.known.question}]


def _ollama(case: Case) -> Body:
    return {"num_predict": TOKENS, "temperature": 0, "stop": list(case.stops)}


ROUTES: dict[str, Callable[[Case], Body]] = {
    "/v1/messages": lambda case: {
        "messages": _turns(case),
        "max_tokens": TOKENS,
        "stop_sequences": list(case.stops),
    },
    "/v1/chat/completions": lambda case: {
        "messages": _turns(case),
        "max_tokens": TOKENS,
        "stop": list(case.stops),
    },
    "/v1/completions": lambda case: {
        "prompt": case.known.prompt,
        "max_tokens": TOKENS,
        "stop": list(case.stops),
    },
    "/v1/responses": lambda case: {
        "input": case.known.question,
        "max_output_tokens": TOKENS,
        "stop": list(case.stops),
        "store": False,
    },
    "/generate": lambda case: {
        "text": case.known.prompt,
        "sampling_params": {
            "max_new_tokens": TOKENS,
            "temperature": 0,
            "stop": list(case.stops),
        },
    },
    "/api/chat": lambda case: {"messages": _turns(case), "options": _ollama(case)},
    "/api/generate": lambda case: {
        "prompt": case.known.prompt,
        "raw": True,
        "options": _ollama(case),
    },
}


def ask(address: str, path: str, body: Body, *, is_streamed: bool) -> tuple[str, Body]:
    """Send a request; return the text of the answer and its stop record."""
    whole = {"model": NAME, "temperature": 0, "fullstop": {"report": True}, **body}
    if path == "/generate":
        del whole["temperature"], whole["model"]
    whole["stream"] = is_streamed
    request = urllib.request.Request(
        f"{address}{path}", json.dumps(whole).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=3600) as answer:
        raw = answer.read().decode()
    lines = (line.removeprefix("data:").strip() for line in raw.split("\n"))
    events = [json.loads(line) for line in lines if line.startswith("{")]
    return parse(raw, DIALECTS[path]).text, report_of(events)


def report_of(events: Sequence[Body]) -> Body:
    """Return the stop record of an answer, wherever its dialect has it."""
    waiting: list[Any] = list(events)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(value.get("fullstop"), dict):
                return dict(value["fullstop"]["stop"])
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    raise AssertionError("the answer has no report")


def _environment(home: Path) -> dict[str, str]:
    return dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), str(home))


def check_routes(cases: Sequence[Case], address: str, *, both: bool) -> int:
    """Ask every route for every case, streamed or not in turn, or both; return how many asked."""
    jobs = [
        (case, path, is_streamed)
        for number, case in enumerate(cases)
        for place, path in enumerate(ROUTES)
        for is_streamed in ((True, False) if both else ((number + place) % 2 == 0,))
    ]

    def difference(job: tuple[Case, str, bool]) -> str:
        case, path, is_streamed = job
        text, record = ask(address, path, ROUTES[path](case), is_streamed=is_streamed)
        found = (text, record["text_offset"], record["token_index"], record["value"])
        wanted = (case.text, len(case.text), case.token, case.stop)
        said = (path, is_streamed, case.known.question, case.stops, found, wanted)
        return "" if found == wanted else f"differs: {said}"

    differences = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for number, words in enumerate(pool.map(difference, jobs), 1):
            if words:
                differences.append(words)
            if words or number % _TOLD_EACH == 0:
                print(words or f"{number} of {len(jobs)} asked", file=sys.stderr, flush=True)
    assert not differences, f"{len(differences)} of {len(jobs)} differ"
    return len(jobs)


# -- the engine, the command line -----------------------------------------------------------------


async def check_engine(cases: Sequence[Case], folder: Path) -> int:
    """Ask the engine as the window does."""
    engine = Engine()
    await engine.load(folder)

    async def asked(case: Case) -> None:
        request = GenerationRequest(
            (Message("user", case.known.question),),
            sampling=Sampling(temperature=0),
            stops=StopRules.of(*case.stops),
            max_tokens=TOKENS,
        )
        answer = await (await engine.generate(request)).collect()
        stop = answer.finished.stop
        assert stop.kind is StopKind.STOP_STRING, (case.stops, stop)
        found = (answer.text, stop.text_offset, stop.token_index, stop.value)
        assert found == (case.text, len(case.text), case.token, case.stop), (case.stops, found)

    try:
        for start in range(0, len(cases), 8):
            await asyncio.gather(*(asked(case) for case in cases[start : start + 8]))
    finally:
        await engine.aclose()
    return len(cases)


def check_commands(cases: Sequence[Case], folder: Path, home: Path) -> int:
    """Ask each question once with ``fullstop ask``, and replay its run with each of the stops.

    Each question is also asked with the first of its stops.
    """
    saved: dict[str, Path] = {}
    for number, case in enumerate(cases):
        question = case.known.question
        if question not in saved:
            saved[question] = home / f"{number}.fullstop-run"
            ask_words = ("ask", question, "--model", str(folder), "--temperature", "0",
                         "--max-tokens", str(TOKENS))  # fmt: skip
            whole = command(home, *ask_words, "--save-run", str(saved[question]))
            assert whole["text"] == case.known.texts[-1], (whole["text"], case.known.texts[-1])
            _compare(command(home, *ask_words, *_stops(case)), case)
        _compare(command(home, "replay", str(saved[question]), *_stops(case)), case)
    return len(cases) + len(saved)


def _stops(case: Case) -> list[str]:
    return [word for stop in case.stops for word in ("--stop", stop)]


def _compare(said: Body, case: Case) -> None:
    stop = said["stop"]
    found = (said["text"], stop["text_offset"], stop["token_index"], stop["value"])
    assert found == (case.text, len(case.text), case.token, case.stop), (case.stops, found)


def command(home: Path, *words: str) -> Body:
    """Run a command with ``--json``; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "app", *words, "--json"],
        cwd=ROOT, env=os.environ | _environment(home), check=True, capture_output=True, text=True,
    )  # fmt: skip
    said: Body = json.loads(done.stdout)
    return said


# -- the choice of checks -------------------------------------------------------------------------


def check_greedy(oracle: Oracle, answers: Sequence[Known]) -> int:
    """Compare the oracle's answers with those of ``mlx_lm.generate``."""
    for known in answers:
        assert oracle.generated(known) == known.texts[-1], known.question
    return len(answers)


ALL = ("greedy", "routes", "engine", "commands")


def run(folder: Path, count: int, only: Sequence[str], *, both: bool) -> None:
    """Run the chosen checks and print what each compared."""
    oracle = Oracle(folder)
    answers = [oracle.known(question) for question in QUESTIONS]
    cases = cases_of(answers, count)
    with tempfile.TemporaryDirectory() as home:

        def tell(what: str, value: object) -> None:
            print(f"{what}: {value}", flush=True)

        if "greedy" in only:
            tell("answers equal to mlx_lm.generate", check_greedy(oracle, answers))
        if "engine" in only:
            tell("stops in the engine", asyncio.run(check_engine(cases, folder)))
        if "commands" in only:
            tell("stops by ask and replay", check_commands(cases, folder, Path(home)))
        if "routes" in only:
            server = ServeProcess("--port", "0", "--model", str(folder), **_environment(Path(home)))
            try:
                count = check_routes(cases, server.wait_until_ready(), both=both)
                tell("stops over HTTP", count)
            finally:
                server.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where tests.lab.real_models made the model")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--only", default=",".join(ALL))
    parser.add_argument("--both", action="store_true", help="ask each route streamed and whole")
    given = parser.parse_args()
    run(given.folder / NAME, given.cases, given.only.split(","), both=given.both)


if __name__ == "__main__":
    main()
