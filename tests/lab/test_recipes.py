"""The recipes of HOW_TO_ADD: each makes its change on a copy of the tree and sees the effect."""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
_CODE = shutil.ignore_patterns("__pycache__", "*.pyc")
_COUNT = "Count from 1 to 9, one number per line"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the program and its demo model."""
    folder = tmp_path / "tree"
    for package in ("api", "app", "engine", "ui", "assets/demo-model"):
        shutil.copytree(ROOT / package, folder / package, ignore=_CODE)
    for part in ("tests/support", ".github"):
        shutil.copytree(ROOT / part, folder / part, ignore=_CODE)
    shutil.copy(ROOT / "README.md", folder)
    return folder


def changed(tree: Path, *changes: tuple[str, str, str]) -> None:
    """Put text before a place of each file, which the place names once; a new file has no place."""
    for name, place, text in changes:
        file = tree / name
        before = file.read_text(encoding="utf-8") if place else ""
        assert before.count(place) == 1 or not place, f"{name} has {place!r} once"
        file.write_text(before.replace(place, text + place) if place else text, encoding="utf-8")


def replaced(tree: Path, name: str, place: str, text: str) -> None:
    """Put text in the place that a file has once."""
    file = tree / name
    before = file.read_text(encoding="utf-8")
    assert before.count(place) == 1, f"{name} has {place!r} once"
    file.write_text(before.replace(place, text), encoding="utf-8")


def environment(tree: Path) -> Mapping[str, str]:
    """The environment of a program in a copy, away from this person's folders."""
    own = {"FULLSTOP_DATA_DIR": "data", "FULLSTOP_CONFIG_DIR": "config", "HF_HUB_CACHE": "hub"}
    places = {name: str(tree.parent / folder) for name, folder in own.items()}
    return {
        **os.environ,
        **places,
        "PYTHONPATH": str(tree),
        "COLUMNS": "100",
        "QT_QPA_PLATFORM": "offscreen",
    }


def said(tree: Path, *words: str) -> str:
    """What the program in a copy prints."""
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tree,
        env=environment(tree),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def served(tree: Path) -> Iterator[str]:
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


def sent(address: str, path: str, body: object = None) -> tuple[int, str]:
    """The status and the text of an answer of a server."""
    request = urllib.request.Request(
        f"{address.rstrip('/')}/{path}",
        None if body is None else json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=300) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def answer(address: str, asked: str = _COUNT, **parameters: Any) -> str:
    """The text of a chat completion of the demo model."""
    body = {"messages": [{"role": "user", "content": asked}], "max_tokens": 12, **parameters}
    status, whole = sent(address, "v1/chat/completions", body)
    assert status == 200, whole
    text = json.loads(whole)["choices"][0]["message"]["content"]
    assert isinstance(text, str)
    return text


@pytest.mark.long
def test_a_command_of_three_files_runs_is_completed_and_is_in_help_and_in_the_tables(
    tree: Path,
) -> None:
    options = '''\
@dataclass(frozen=True, slots=True)
class GreetOptions:
    """Who is greeted."""

    name: str = declare("", option="NAME", help="who is greeted")
    times: int = declare(1, minimum=1, maximum=9, metavar="N", help="how often")
    is_loud: bool = declare(False, option="--loudly", help="greet in capitals")


'''
    line = """\
    Command(
        name="greet",
        help="greet somebody",
        work="app.commands.greet:run",
        options=GreetOptions,
    ),
"""
    work = '''\
"""``fullstop greet``: greets somebody."""

from app import exits
from app.settings.options import GreetOptions


def run(options: GreetOptions) -> int:
    """Print the greeting; return the exit code."""
    words = " ".join([f"Hello {options.name}"] * options.times)
    print(words.upper() if options.is_loud else words)
    return exits.OK
'''
    page = "### `fullstop greet`\n\n<!-- options of greet -->\n<!-- /options of greet -->\n\n"
    changed(
        tree,
        (
            "app/settings/options.py",
            "@dataclass(frozen=True, slots=True)\nclass CompletionOptions",
            options,
        ),
        ("app/settings/commands.py", "    InspectOptions,\n", "    GreetOptions,\n"),
        ("app/settings/commands.py", '    Command(\n        name="serve"', line),
        ("app/commands/greet.py", "", work),
        (".github/OPTIONS.md", "### `fullstop replay`\n", page),
    )
    program = ("-m", "app")
    assert said(tree, *program, "greet", "Ada", "--times", "2", "--loudly") == (
        "HELLO ADA HELLO ADA\n"
    )
    assert "greet               greet somebody" in said(tree, *program, "--help")
    assert "--times N" in said(tree, *program, "greet", "--help")
    assert "--loudly" in said(tree, *program, "completion", "bash")
    made = "from tests.support.readme_lists import LISTS; print(LISTS['options of greet'](''))"
    assert "| `--times N` | how often (default 1) |" in said(tree, "-c", made)


@pytest.mark.slow
def test_a_sampling_parameter_of_three_files_is_honoured_over_http(tree: Path) -> None:
    field = """\
    top_n_sigma: float | None = _option(
        SamplingOption("Top n sigma", "deviations below the likeliest token", 0, 10, 0.1)
    )
"""
    near_the_top = """\
def _near_the_top(wanted: Sampling) -> list[Any]:
    sigmas = wanted.top_n_sigma
    if sigmas is None:
        return []

    def mask(_: mx.array, logits: mx.array) -> mx.array:
        least = mx.max(logits, -1, keepdims=True) - sigmas * mx.std(logits, -1, keepdims=True)
        return mx.where(logits < least, -mx.inf, logits)

    return [mask]


"""
    row = "    top_n_sigma: Annotated[float, Field(ge=0, le=10)] | None = None\n"
    changed(
        tree,
        ("engine/values/request.py", "    min_p: float | None = _option(", field),
        ("engine/inference/sampling.py", "def processors(", near_the_top),
        ("api/dialects/openai/wire.py", "    min_p: Probability", row),
    )
    calls = "    return list(\n        make_logits_processors("
    with_mask = calls.replace("return ", "return _near_the_top(wanted) + ")
    replaced(tree, "engine/inference/sampling.py", calls, with_mask)
    with served(tree) as address:
        greedy = answer(address, temperature=0)
        assert any(answer(address, temperature=2, seed=seed) != greedy for seed in range(8))
        for seed in range(8):
            narrow = answer(address, temperature=2, seed=seed, top_n_sigma=0.001)
            assert narrow == greedy


_ONE_STOP_IN_THE_WINDOW = """
from PySide6.QtWidgets import QApplication, QMenu

from engine import Channel, DecodingContext, StopInfo, StopKind, StopRules, TokenTrace
from engine.files.json_fields import Fields
from engine.recording.run_trace import RunTrace
from engine.recording.saved_run import from_json, to_json
from tests.engine.contract.found import stop_as_test
from ui.inspector.stop_tabs import rule_reports
from ui.inspector.shown_run import Tape
from ui.kit.theme import Theme
from ui.records.codec import stops_from, stops_values
from ui.records.conversations import StopEntry, rules_of
from ui.stops.stop_list import StopListModel
from ui.stops.stop_rows import StopHistory, remarks
from ui.stops.stop_list_editor import StopTable

program = QApplication([])
theme = Theme(program)
model = StopListModel([StopEntry.of("END")])
table = StopTable()
table.setModel(model)
table.choose_scope(model.index(0, 1))
option = table.findChild(QMenu).actions()[-1]
print(option.text())
option.trigger()
rules = rules_of(model.entries())
print(stop_as_test(rules.stops[0]))
print(stops_from(Fields({"stops": stops_values(model.entries())})) == model.entries())
trace = RunTrace(DecodingContext("m"), rules, 64)
trace.take(TokenTrace(0, 5, "the end", b"the end", Channel.TEXT, 0.1, 7, "", (0,)))
trace.stop = StopInfo(StopKind.EOS)
recording = trace.recording()
print(from_json(to_json(recording)).rules == rules)
print(remarks(model.entries(), 0, StopHistory(answers=("the end",)), frozenset())[0].text)
print(rule_reports(Tape(trace))[0].outcome)
"""


@pytest.mark.slow
def test_an_option_for_one_stop_of_four_files_counts_over_http_in_the_window_and_in_the_contract(
    tree: Path,
) -> None:
    shutil.copytree(ROOT / "tests/engine", tree / "tests/engine", ignore=_CODE)
    field = """\
    ignores_case: bool = field(
        default=False, metadata={"title": "Ignore Case", "help": "take any case of its letters"}
    )

"""
    any_case = """\
        if self.ignores_case:
            return text.lower().find(self.text[:chars].lower(), start)
"""
    spellings = """\
def _spellings(rules: StopRules, numbers: tuple[int, ...]) -> dict[str, int]:
    texts: dict[str, int] = {}
    for place, number in enumerate(numbers):
        stop = rules.stops[number]
        cases = [{char, char.swapcase()} if stop.ignores_case else {char} for char in stop.text]
        for letters in product(*cases):
            texts.setdefault("".join(letters), place)
    return texts


class _AnyCase(StopMatcher):
    def __init__(self, spellings: dict[str, int]) -> None:
        super().__init__(tuple(spellings))
        self._places = tuple(spellings.values())

    @property
    def progress(self) -> tuple[int, ...]:
        reached = [0] * (max(self._places) + 1)
        for place, count in zip(self._places, super().progress, strict=True):
            reached[place] = max(reached[place], count)
        return tuple(reached)

    def _matched(self, rule: int, held: str, piece: str, consumed: int) -> str:
        text = super()._matched(rule, held, piece, consumed)
        self.match = replace(self.match, rule=self._places[rule])
        return text


"""
    second_reading = """\
    if stop.ignores_case:
        return text.lower() == stop.text[: len(text)].lower()
"""
    meaning = '| `fullstop.stop_ignores_case` | an object | takes any case: `{"END": true}` |\n'
    changed(
        tree,
        ("engine/stopping/rules.py", "    def find(self", field),
        ("engine/stopping/rules.py", "        return text.find(self", any_case),
        ("engine/stopping/matcher.py", "import re\n", "from itertools import product\n"),
        ("engine/stopping/matcher.py", "def matcher_of(", spellings),
        ("tests/engine/contract/writing/ends.py", "    return text == stop.text[", second_reading),
        (".github/OPTIONS.md", "| `fullstop.stop_scopes` |", meaning),
    )
    matcher = "engine/stopping/matcher.py"
    replaced(tree, matcher, "import dataclass\n", "import dataclass, replace\n")
    replaced(tree, matcher, "StopMatcher(_texts(rules, ", "_AnyCase(_spellings(rules, ")
    replaced(
        tree,
        matcher,
        "tuple(rules.stops[number].text for number in numbers)",
        "tuple(_spellings(rules, numbers))",
    )

    with served(tree) as address:
        asked = {"asked": "Who are you?", "temperature": 0, "max_tokens": 30}
        whole = answer(address, **asked)
        assert "demo model" in whole
        assert answer(address, **asked, stop=["DEMO"]) == whole
        ignoring = {"stop_ignores_case": {"DEMO": True}}
        cut = answer(address, **asked, stop=["DEMO"], fullstop=ignoring)
        assert cut == whole[: whole.index("demo")]

    compared = said(tree, "-m", "tests.engine.contract.run", "--cases", "800", "--seed", "2")
    assert ", 0 differ from the reference" in compared
    assert said(tree, "-c", _ONE_STOP_IN_THE_WINDOW).splitlines() == [
        "Ignore Case",
        "Stop('END', ignores_case=True)",
        "True",
        "True",
        "Would have ended the last answer.",
        "Occurred, but did not end the answer",
    ]


def passed(tree: Path, name: str, test: str) -> None:
    """Run a test of the window in a copy, with the fixtures of the folder that it lies in."""
    for part in ("tests/conftest.py", "tests/ui", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tree / part)
    (tree / name).write_text(test, encoding="utf-8")
    assert "1 passed" in said(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", name)


@pytest.mark.slow
def test_a_preference_of_two_files_is_in_the_dialog_and_the_tables_and_changes_the_window(
    tree: Path,
) -> None:
    field = """\
    opacity_percent: int = declare(
        100,
        help="how opaque the window is",
        minimum=20,
        maximum=100,
        section=GENERAL,
        label="Opacity",
        accessible_name="Opacity of the window",
        unit="%",
    )
"""
    acts = "        self._window.setWindowOpacity(now.opacity_percent / 100)\n"
    changed(
        tree,
        ("ui/preferences.py", "    tells_of_answers: bool = declare(", field),
        ("ui/window/main_window.py", "        self._workspace.conversations.sort_by(", acts),
    )
    made = "from tests.support.readme_lists import LISTS; print(LISTS['settings'](''))"
    assert "| `opacity_percent` |" in said(tree, "-c", made)
    kept = "from app.settings.settings_file import Settings; print(Settings().opacity_percent)"
    assert said(tree, "-c", kept) == "100\n"
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
    passed(tree, "tests/ui/window/test_opacity.py", test)


@pytest.mark.slow
def test_a_tab_of_two_files_shows_each_run_in_the_inspector(tree: Path) -> None:
    tab = '''\
"""The tab that counts the words of an answer. Main thread."""

from engine import counted
from ui.inspector.pages import InspectorTab
from ui.inspector.shown_run import ShownRun
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column


class WordsTab(InspectorTab):
    """How many words the answer has."""

    def __init__(self) -> None:
        super().__init__()
        self.words = label("")
        column(self.words, STRETCH, spacing=8, on=self)

    def show_run(self, shown: ShownRun | None) -> None:
        """Count the words of another run."""
        self.words.setText("" if shown is None else counted(len(shown.run.text.split()), "word"))
'''
    window = "ui/inspector/inspector_window.py"
    changed(
        tree,
        ("ui/inspector/words_tab.py", "", tab),
        (window, '    _Tab("Runs", ', '    _Tab("Words", lambda *_: WordsTab()),\n'),
        (
            window,
            "from ui.kit.buttons import",
            "from ui.inspector.words_tab import WordsTab\n",
        ),
    )
    test = """
from tests.ui.inspector.inspecting import COUNT, ask
from ui.inspector.words_tab import WordsTab


async def test_words(window, inspector):
    await ask(window, COUNT, "6")
    tab = inspector.tab(WordsTab)
    inspector.tabs.setCurrentWidget(tab)
    assert "Words" in [inspector.tabs.tabText(n) for n in range(inspector.tabs.count())]
    assert (tab.words.isVisible(), tab.words.text()) == (True, "5 words")
"""
    passed(tree, "tests/ui/inspector/test_words_tab.py", test)


_DIALECT = '''\
"""Plain: a vendor that answers one question with one text. https://plain.example/reference"""

from collections.abc import Sequence
from typing import Any, Literal, assert_never

from typing_extensions import TypedDict

from api.dialects.shared.answers import AnswerEncoder, not_an_ending, raw_text_of, with_field
from api.dialects.shared.body import WireModel
from api.dialects.shared.dialect import AnswerRoute, Collected, Dialect, Head
from api.transport.answer_text import SseEvent, json_text
from api.transport.errors import ApiError, status_of
from engine import (
    Finished,
    GenerationRequest,
    Message,
    StopInfo,
    StopKind,
    StopRules,
    checked_strings,
)

Why = Literal["end", "mark", "length"]


class PlainParams(WireModel):
    """``POST /plain``."""

    question: str
    marks: list[str] = []
    longest: int | None = None
    stream: bool = False
    model: str | None = None


class PlainAnswer(TypedDict):
    """The answer."""

    text: str
    why: Why
    mark: str | None


class PlainError(TypedDict):
    """An error."""

    problem: str


class PlainEncoder(AnswerEncoder[SseEvent]):
    """Sends the pieces of the text, then the whole answer."""

    def __init__(self, params: PlainParams, head: Head) -> None:
        super().__init__()
        self._whole = ""

    def _text(self, text: str, choice: int) -> None:
        self._whole += text
        self._send(SseEvent("piece", json_text({"piece": text})))

    def _end(self, finished: Finished, choice: int) -> None:
        self._send(SseEvent("end", json_text(_answer(self._whole, finished))))

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        self._send(SseEvent("problem", json_text({"problem": with_field(error)})))


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


class PlainRoute(AnswerRoute[PlainParams]):
    """``POST /plain``."""

    path = "/plain"
    summary = "Plain"
    request = PlainParams
    answer = PlainAnswer

    def read(self, params: PlainParams, *, strict: bool) -> Sequence[GenerationRequest]:
        stops = StopRules.of(*checked_strings(params.marks, "stops.strings"))
        messages = (Message("user", params.question),)
        return [GenerationRequest(messages, stops=stops, max_tokens=params.longest)]

    def write_whole(
        self, answers: Sequence[Collected], params: PlainParams, head: Head
    ) -> PlainAnswer:
        events, finished = answers[0]
        return _answer(raw_text_of(events), finished)

    def encoder(self, params: PlainParams, head: Head) -> PlainEncoder:
        return PlainEncoder(params, head)


class Plain(Dialect):
    """A vendor that answers one question with one text."""

    name = "Plain"
    title = "Plain"
    vendor = "OpenAI"
    reference = "https://plain.example/reference"
    error_type = PlainError
    field_names = {"stops.strings": "marks"}
    answers = (PlainRoute(),)

    def render_error(self, error: ApiError, request_id: str) -> tuple[int, PlainError]:
        return status_of(error.kind), {"problem": with_field(error)}

    def request_body(
        self, request: GenerationRequest, model: str, prompt: str
    ) -> dict[str, Any] | None:
        if not request.messages:
            return None
        return {"question": request.messages[-1].content, "marks": list(request.stops.strings)}
'''


@pytest.mark.slow
def test_a_dialect_of_one_module_and_its_name_answers_streams_refuses_and_is_documented(
    tree: Path,
) -> None:
    routes = "api/server/routes.py"
    changed(
        tree,
        ("api/dialects/plain.py", "", _DIALECT),
        (
            routes,
            "from api.dialects.responses.dialect import",
            "from api.dialects.plain import Plain\n",
        ),
    )
    replaced(tree, routes, "    Ollama(),\n", "    Ollama(),\n    Plain(),\n")

    ask = {"question": _COUNT, "longest": 40}
    with served(tree) as address:
        counted = {"text": "1\n2\n3\n", "why": "mark", "mark": "4"}
        assert json.loads(sent(address, "plain", {**ask, "marks": ["4"]})[1]) == counted
        events = sent(address, "plain", {**ask, "marks": ["4"], "stream": True})[1].split("\n\n")
        *pieces, end = [event.split("\n") for event in events if event]
        assert end == ["event: end", f"data: {json.dumps(counted, separators=(',', ':'))}"]
        texts = [json.loads(piece.removeprefix("data: "))["piece"] for _, piece in pieces]
        assert "".join(texts) == counted["text"]
        status, refused = sent(address, "plain", {**ask, "marks": [""]})
        assert (status, json.loads(refused)) == (
            400,
            {"problem": "marks[0]: each stop sequence must be non-empty"},
        )
        described = json.loads(sent(address, "openapi.json")[1])
        assert "/plain" in described["paths"]
        assert "question" in described["components"]["schemas"]["PlainParams"]["properties"]
        metrics = sent(address, "metrics")[1]
        assert 'dialect="Plain"' in metrics
