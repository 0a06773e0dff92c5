"""Fixtures that every test folder shares: the demo model and a real engine that has loaded it."""

import asyncio
import gc
import inspect
import itertools
import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from app.desktop.garbage_collection import collect_if_due
from engine.engine import Engine
from tests.support.random_cases import cases

ROOT = Path(__file__).parents[1]

# Collection makes a million objects that stay until the end of the run: looking among them for
# garbage would be in vain, now and in every full collection of a test.
gc.disable()

# Every process of the run and every program that a test starts reads what another has compiled;
# without that, each compiles some hundred modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell's background job ignores Ctrl-C, nohup hang-ups; every program that a test starts would.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)
# A thread that outlives its test may be the first to ask for a keychain.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
# Qt complains about the plain one, and takes this one instead.
if os.environ.get("LC_ALL") in ("C", "POSIX"):
    os.environ["LC_ALL"] = "C.UTF-8"

# Widths and pixels are those of the fonts that the tests know: a machine that has more fonts, as
# many programs install them, would show the same window in another one.
if Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf").exists():
    os.environ["FONTCONFIG_FILE"] = str(ROOT / "tests" / "support" / "fonts.conf")

# By default Hypothesis fails a test on a slow machine, which says nothing about the program.
settings.register_profile(
    "any speed",
    max_examples=cases(50),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any speed")


def qt_problem() -> str | None:
    """Return why Qt cannot be imported on this machine, None where it can."""
    try:
        import PySide6.QtWidgets  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


QT_PROBLEM = qt_problem()
if QT_PROBLEM is None or "CI" in os.environ:
    pytest_plugins = ["pytestqt.plugin"]
else:
    collect_ignore = [
        "ui",
        "conventions/test_recipes.py",
        "app/inspector",
        "app/store/test_killing.py",
        "app/mcp",
        "app/commands/test_window.py",
        "app/desktop/test_local_server.py",
        "app/desktop/test_application.py",
        "app/desktop/test_figures_agree.py",
        "app/desktop/test_notifications.py",
        "app/desktop/test_server_window.py",
        "app/desktop/test_single_instance.py",
        "app/settings/test_stored_preferences.py",
        "app/desktop/test_last_session.py",
        "app/desktop/test_window.py",
        "e2e/test_window.py",
    ]

    def pytest_addoption(parser: pytest.Parser) -> None:
        for option in ("qt_api", "qt_log_level_fail"):
            parser.addini(option, "pytest-qt's own, which is not loaded")
        parser.addini("qt_log_ignore", "likewise", type="linelist")


def pytest_report_header() -> str:
    if QT_PROBLEM is None:
        return "Qt: found"
    return (
        f"Qt: {QT_PROBLEM}; the window's tests are left out. "
        "The README names the system libraries that Qt needs."
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the run, begin with the files that take longest.

    The option ``--no-loadscope-reorder`` keeps this order: by itself xdist begins with the files
    of the most tests, and one process would be left alone with a single long test at the end.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    counts = Counter(item.path for item in items)
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: (item.path not in long, -counts[item.path]))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on a loop of its own; a hang fails it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(test, 300))
    return True


def pytest_collection_finish() -> None:
    """Leave out of every later collection what is there for the whole run."""
    gc.freeze()


_folders = itertools.count()


@pytest.fixture(autouse=True)
def own_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Keep every test, and every process that it starts, away from this person's conversations."""
    folder = tmp_path_factory.getbasetemp() / f"data-{next(_folders)}"
    monkeypatch.setenv("FULLSTOP_DATA_DIR", str(folder))
    # Likewise from the models on this computer, and from settings.
    monkeypatch.setenv("HF_HUB_CACHE", str(folder / "hub"))
    monkeypatch.setenv("FULLSTOP_CONFIG_DIR", str(folder / "config"))


@pytest.fixture(scope="session", autouse=True)
def _mlx_keeps_no_unused_memory() -> None:
    """Let MLX return memory at once, for then ``mx.clear_cache`` has nothing to do.

    MLX's CPU build keeps a thread for every stream, beyond the end of the engine that made it, and
    each ``mx.clear_cache`` that finds something wakes all of them. Beside the hundreds of threads
    that one process of the run gathers, that takes longer than the steps of an answer.
    """
    import mlx.core as mx

    if not mx.metal.is_available():
        mx.set_cache_limit(0)


class _Deaths(logging.Handler):
    """Collects what ended engine threads."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.causes: list[BaseException | None] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "the engine thread died" and record.exc_info:
            self.causes.append(record.exc_info[1])


@pytest.fixture(autouse=True)
def no_engine_thread_dies(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test whose engine thread died: a fresh thread takes over, and would hide the fault."""
    if request.node.get_closest_marker("engine_dies") is not None:
        yield
        return
    deaths = _Deaths()
    log = logging.getLogger("engine.scheduling.engine_thread")
    log.addHandler(deaths)
    yield
    log.removeHandler(deaths)
    assert not deaths.causes, "the engine thread died; mark the test engine_dies if it must"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Take back how a command that ran in this process has set up logging."""
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in ("app", "engine", "api", "ui"))]
    handlers, levels = root.handlers[:], [logger.level for logger in loggers]
    yield
    root.handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        if logger.level != level:
            logger.setLevel(level)


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take back what a test has shown, and told the engine that all tests share."""
    gc.disable()
    names = request.fixturenames
    has_window = QT_PROBLEM is None and ("qapp" in names or "qtbot" in names)
    patch = pytest.MonkeyPatch()
    if has_window:
        _watch_item_models(patch)
    shared = request.getfixturevalue("engine") if "engine" in names else None
    loaded = shared.model if isinstance(shared, Engine) else None
    yield
    patch.undo()
    if has_window:
        _delete_widgets()
    if isinstance(shared, Engine):
        shared.offer(None)
        shared.unload_after(None)
        if loaded is not None and shared.model != loaded:
            asyncio.run(shared.load(loaded.path))
    # On the main thread, as the program does: else widgets could be destroyed on another one.
    collect_if_due()


def _watch_item_models(patch: pytest.MonkeyPatch) -> None:
    """Watch item models by Qt's own tester; its warnings fail the test that caused them."""
    from tests.support.looks.model_testers import model_classes, watched

    for kind in model_classes():
        patch.setattr(kind, "__init__", watched(kind.__init__))


def _delete_widgets() -> None:
    """Delete what a test showed and copied: each change of theme would style it again."""
    from PySide6.QtCore import QCoreApplication, QEvent
    from PySide6.QtWidgets import QApplication

    # Qt's offscreen platform keeps what was copied beyond the end of Python, which it needs.
    QApplication.clipboard().clear()
    for widget in QApplication.topLevelWidgets():
        widget.deleteLater()
    QCoreApplication.sendPostedEvents(None, int(QEvent.Type.DeferredDelete))


@pytest.fixture(scope="session")
def qapp_cls() -> type:
    """Run the window's tests in the application that the program starts."""
    from app.desktop.application import Application

    return Application


@pytest.fixture(scope="session")
def demo_model_path() -> Path:
    return ROOT / "assets" / "demo-model"


@pytest.fixture(scope="session")
def engine(demo_model_path: Path) -> Iterator[Engine]:
    """One engine for the whole run: it is used from many loops, as in the product."""
    engine = Engine()
    asyncio.run(engine.load(demo_model_path))
    yield engine
    engine.close()
