"""The larger recipes of HOW_TO_ADD: each edits a copy of the tree, whose program then acts."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
_CODE = shutil.ignore_patterns("__pycache__", "*.pyc", "lab")
_PROMPT = "Count from 1 to 9, one number per line"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the program, its demo model and its tests but those of this folder."""
    folder = tmp_path / "tree"
    for package in ("api", "app", "engine", "ui", "assets/demo-model", ".github", "tests"):
        shutil.copytree(ROOT / package, folder / package, ignore=_CODE)
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def insert(tree: Path, name: str, before: str, text: str) -> None:
    """Insert a text before another one, which a file contains once."""
    replace(tree, name, before, text + before)


def replace(tree: Path, name: str, old: str, new: str) -> None:
    """Replace a text that a file contains once."""
    file = tree / name
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{name} contains {old!r} once"
    file.write_text(text.replace(old, new), encoding="utf-8")


def environment(tree: Path) -> dict[str, str]:
    """The environment of a program in a copy, with folders of its own."""
    own = {"FULLSTOP_DATA_DIR": "data", "FULLSTOP_CONFIG_DIR": "config", "HF_HUB_CACHE": "hub"}
    folders = {name: str(tree.parent / folder) for name, folder in own.items()}
    other = {"PYTHONPATH": str(tree), "COLUMNS": "100", "QT_QPA_PLATFORM": "offscreen"}
    return {**os.environ, **folders, **other}


def output_of(tree: Path, *arguments: str) -> str:
    """Run Python in a copy and return its standard output."""
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tree,
        env=environment(tree),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def table(tree: Path, name: str) -> str:
    """Return a table of the pages, as it is made from the code of a copy."""
    made = f"from tests.support.readme_lists import LISTS; print(LISTS[{name!r}](''))"
    return output_of(tree, "-c", made)


@contextmanager
def serve(tree: Path) -> Iterator[str]:
    """The address of a server in a copy."""
    with subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--port", "0", "--plain-decoding"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tree,
        env=environment(tree),
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().removeprefix("listening on ").strip()
        finally:
            server.terminate()


def send(address: str, path: str, body: object = None) -> httpx.Response:
    """Send a request to a server: a POST with a body, a GET without."""
    url = f"{address.rstrip('/')}/{path}"
    return httpx.request("GET" if body is None else "POST", url, json=body, timeout=300)


def answer(address: str, prompt: str = _PROMPT, **parameters: Any) -> str:
    """Return the text of a chat completion of the demo model."""
    body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 12, **parameters}
    reply = send(address, "v1/chat/completions", body)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["choices"][0]["message"]["content"])


def test_command_runs_and_is_in_help_completion_and_tables(tree: Path) -> None:
    command = """\
    Command(
        name="greet",
        help="greet somebody",
        work="app.commands.greet:run",
        arguments=(
            argument("name", metavar="NAME", help="who is greeted"),
            argument(
                "--times", type=int, default=1, metavar="N", help="how often (default 1)"
            ),
        ),
    ),
"""
    function = '''\
"""``fullstop greet``: greets somebody."""

from argparse import Namespace

from app import exits


def run(options: Namespace) -> int:
    """Print the greeting; return the exit code."""
    print(" ".join([f"Hello {options.name}"] * options.times))
    return exits.OK
'''
    page = "### `fullstop greet`\n\n<!-- options of greet -->\n<!-- /options of greet -->\n\n"
    insert(tree, "app/settings/commands.py", '    Command(\n        name="serve"', command)
    (tree / "app/commands/greet.py").write_text(function, encoding="utf-8")
    insert(tree, ".github/OPTIONS.md", "### `fullstop replay`\n", page)
    greeting = output_of(tree, "-m", "app", "greet", "Ada", "--times", "2")
    assert greeting == "Hello Ada Hello Ada\n"
    assert "greet               greet somebody" in output_of(tree, "-m", "app", "--help")
    assert "--times N" in output_of(tree, "-m", "app", "greet", "--help")
    assert "--times" in output_of(tree, "-m", "app", "completion", "bash")
    assert "| `--times N` | how often (default 1) |" in table(tree, "options of greet")


def test_sampling_parameter_acts_over_http(tree: Path) -> None:
    field = """\
    top_n_sigma: float | None = _option(
        "Top n sigma", "deviations below the likeliest token", 0, 10, 0.1
    )
"""
    mask = """\
def _top_n_sigma(requested: Sampling) -> list[Any]:
    sigmas = requested.top_n_sigma
    if sigmas is None:
        return []

    def mask(_: mx.array, logits: mx.array) -> mx.array:
        lowest = mx.max(logits, -1, keepdims=True) - sigmas * mx.std(logits, -1, keepdims=True)
        return mx.where(logits < lowest, -mx.inf, logits)

    return [mask]


"""
    row = "    top_n_sigma: Annotated[float, Field(ge=0, le=10)] | None = None\n"
    sampling = "engine/inference/sampling.py"
    processors = "    return [\n        *make_logits_processors("
    insert(tree, "engine/values/request.py", "    min_p: float | None = _option(", field)
    insert(tree, sampling, "def processors(", mask)
    with_mask = processors.replace("return ", "return _top_n_sigma(requested) + ")
    replace(tree, sampling, processors, with_mask)
    insert(tree, "api/dialects/openai/wire.py", "    min_p: Probability", row)
    with serve(tree) as address:
        greedy = answer(address, temperature=0)
        assert any(answer(address, temperature=2, seed=seed) != greedy for seed in range(8))
        for seed in range(8):
            assert answer(address, temperature=2, seed=seed, top_n_sigma=0.001) == greedy


def test_stop_option_acts_over_http_as_in_the_reference_of_the_contract(tree: Path) -> None:
    rules, matcher = "engine/stopping/rules.py", "engine/stopping/matcher.py"
    field = """\
    ignores_case: bool = field(
        default=False, metadata={"title": "Ignore Case", "help": "take any case of its letters"}
    )

"""
    found = """\
        if self.ignores_case:
            return text.lower().find(self.text[:chars].lower(), start)
"""
    insert(tree, rules, "    def find(self", field)
    insert(tree, rules, "        return text.find(self", found)
    lowered = """\
        self._any_case = any_case or (False,) * len(strings)
        pairs = zip(strings, self._any_case, strict=True)
        strings = tuple("".join(map(str.lower, text)) if any_ else text for text, any_ in pairs)
"""
    insert(tree, matcher, "        self._strings = strings\n", lowered)
    firsts = "frozenset(string[0] for string in strings)"
    both = "frozenset(first for text in strings for first in (text[0], text[0].upper()))"
    folded = "                folded = char.lower() if self._any_case[number] else char\n"
    insert(tree, matcher, "                length = lengths[number]\n", folded)
    made = """\
    stops = [rules.stops[number] for number in numbers]
    any_case = tuple(stop.ignores_case for stop in stops)
    return StopMatcher(tuple(stop.text for stop in stops), any_case)
"""
    for old, new in (
        ("__slots__ = (", '__slots__ = ("_any_case", '),
        ("strings: tuple[str, ...])", "strings: tuple[str, ...], any_case: tuple[bool, ...] = ())"),
        (firsts, both),
        ("string[length] != char:", "string[length] != folded:"),
        ("string[length] == char\n", "string[length] == folded\n"),
        ("Match(rule, value, ", "Match(rule, text[begin : begin + len(value)], "),
        ("    return StopMatcher(tuple(rules.stops[number].text for number in numbers))\n", made),
    ):
        replace(tree, matcher, old, new)
    parameter = "    stop_ignores_case: dict[str, bool] = Field(default_factory=dict)\n"
    reading = """\
    for text, ignores_case in options.stop_ignores_case.items():
        stops[text] = replace(stops[text], ignores_case=ignores_case)
"""
    parameters = "api/dialects/shared/parameters.py"
    insert(tree, parameters, "    stop_scope: _Scope", parameter)
    insert(tree, parameters, "    given = {\n        option.name: option.kind", reading)
    ends = "tests/engine/contract/writing/ends.py"
    condition = "if text == stop.text or (stop.ignores_case and text.lower() == stop.text.lower()):"
    replace(tree, ends, "if text == stop.text:", condition)
    with serve(tree) as address:
        request = {"prompt": "Who are you?", "temperature": 0, "max_tokens": 30}
        whole = answer(address, **request)
        assert "demo model" in whole
        assert answer(address, **request, stop=["DEMO"]) == whole
        ignoring = {"stop_ignores_case": {"DEMO": True}}
        cut = answer(address, **request, stop=["DEMO"], fullstop=ignoring)
        assert cut == whole[: whole.index("demo")]
    compared = output_of(tree, "-m", "tests.engine.contract.run", "--cases", "800", "--seed", "2")
    assert ", 0 differ from the reference" in compared


def test_preference_is_in_the_dialog_and_the_tables_and_acts(tree: Path) -> None:
    field = """\
    opacity_percent: int = declare(
        100,
        help="how opaque the window is",
        minimum=20,
        maximum=100,
        section=GENERAL,
        label="Opacity",
        unit="%",
    )
"""
    acts = "        self.setWindowOpacity(now.opacity_percent / 100)\n"
    insert(tree, "ui/preferences.py", "    tells_of_answers: bool = declare(", field)
    before = "        self.workspace.apply("
    insert(tree, "ui/window/main_window.py", before, acts)
    assert "| `opacity_percent` |" in table(tree, "settings")
    test = """
from tests.support.kept import preferences_state
from tests.support.shown import main_window, shown
from ui.window.preferences_dialog import PreferencesDialog


def test_opacity(run, engine, theme):
    async def steps():
        state = preferences_state()
        window = main_window(engine, theme, preferences=state)
        async with shown(window):
            assert window.windowOpacity() == 1.0
            dialog = PreferencesDialog(state, window)
            dialog.controls["opacity_percent"].setValue(60)
            assert round(window.windowOpacity(), 2) == 0.6

    run(steps())
"""
    (tree / "tests/ui/window/test_opacity.py").write_text(test, encoding="utf-8")
    outcome = output_of(tree, "-m", "pytest", "-q", "tests/ui/window/test_opacity.py")
    assert "1 passed" in outcome


_DIALECT = '''\
"""Plain: a vendor that answers one question with one text. https://plain.example/reference"""

from collections.abc import Sequence
from typing import Any, Literal, assert_never

from typing_extensions import TypedDict

from api.dialects.shared.parameters import ReadContext
from api.dialects.shared.answers import AnswerEncoder, not_an_ending, raw_text_of, with_field
from api.dialects.shared.parsing import WireModel
from api.dialects.shared.dialect import AnswerRoute, Collected, Dialect, Head
from api.dialects.shared.encoding import json_text, sse_event
from api.service.errors import ApiError
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules, checked_strings
from engine.values.events import Finished
from engine.values.request import GenerationRequest, Message

Why = Literal["end", "mark", "length"]


class PlainParams(WireModel):
    question: str
    marks: list[str] = []
    longest: int | None = None
    stream: bool = False
    model: str | None = None


class PlainAnswer(TypedDict):
    text: str
    why: Why
    mark: str | None


class PlainEncoder(AnswerEncoder):
    def __init__(self, params: PlainParams, head: Head) -> None:
        super().__init__()
        self._whole = ""

    def _text(self, text: str, choice: int) -> None:
        self._whole += text
        self._send(sse_event(json_text({"piece": text}), "piece"))

    def _end(self, finished: Finished, choice: int) -> None:
        self._send(sse_event(json_text(_answer(self._whole, finished)), "end"))

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        self._send(sse_event(json_text({"problem": with_field(error)}), "problem"))


def _answer(text: str, finished: Finished) -> PlainAnswer:
    stop = finished.stop
    mark = str(stop.value) if stop.kind is StopKind.STOP_STRING else None
    return {"text": text, "why": _why(stop), "mark": mark}


def _why(stop: StopInfo) -> Why:
    match stop.kind:
        case StopKind.EOS | StopKind.STOP_TOKEN | StopKind.TOOL_CALL:
            return "end"
        case StopKind.STOP_STRING:
            return "mark"
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            return "length"
        case StopKind.ERROR | StopKind.CANCELLED:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


def requests_from_wire(params: PlainParams, context: ReadContext) -> Sequence[GenerationRequest]:
    stops = StopRules.of(*checked_strings(params.marks, "stops.strings"))
    messages = (Message("user", params.question),)
    return [GenerationRequest(messages, stops=stops, max_tokens=params.longest)]


def write_answer(answers: Sequence[Collected], params: PlainParams, head: Head) -> PlainAnswer:
    events, finished = answers[0]
    return _answer(raw_text_of(events), finished)


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, dict[str, str]]:
    return error.kind.status, {"problem": with_field(error)}


def request_body(request: GenerationRequest, model: str, prompt: str) -> dict[str, Any] | None:
    return {"question": request.messages[-1].content, "marks": list(request.stops.strings)}


PLAIN = Dialect(
    name="Plain",
    title="Plain",
    vendor="OpenAI",
    error_type=dict[str, str],
    render_error=error_to_wire,
    request_body=request_body,
    field_names={"stops.strings": "marks"},
    routes=(
        AnswerRoute(
            path="/plain",
            summary="Plain",
            request=PlainParams,
            answer=PlainAnswer,
            read=requests_from_wire,
            write_whole=write_answer,
            encoder=PlainEncoder,
        ),
    ),
)
'''


def test_dialect_answers_streams_refuses_and_is_documented(tree: Path) -> None:
    routes = "api/server/routes.py"
    (tree / "api/dialects/plain.py").write_text(_DIALECT, encoding="utf-8")
    before = "from api.dialects.responses.dialect import"
    insert(tree, routes, before, "from api.dialects.plain import PLAIN\n")
    replace(tree, routes, "GENERATE, OLLAMA)", "GENERATE, OLLAMA, PLAIN)")
    body = {"question": _PROMPT, "longest": 40}
    with serve(tree) as address:
        counted = {"text": "1\n2\n3\n", "why": "mark", "mark": "4"}
        assert send(address, "plain", {**body, "marks": ["4"]}).json() == counted
        stream = send(address, "plain", {**body, "marks": ["4"], "stream": True})
        events = stream.text.split("\n\n")
        *pieces, end = [event.split("\n") for event in events if event]
        assert end == ["event: end", f"data: {json.dumps(counted, separators=(',', ':'))}"]
        texts = [json.loads(piece.removeprefix("data: "))["piece"] for _, piece in pieces]
        assert "".join(texts) == counted["text"]
        refused = send(address, "plain", {**body, "marks": [""]})
        assert refused.status_code == 400
        assert refused.json()["problem"] == "marks[0]: each stop sequence must be non-empty"
        described = send(address, "openapi.json").json()["components"]["schemas"]["PlainParams"]
        assert "question" in described["properties"]
        assert 'dialect="Plain"' in send(address, "metrics").text
