"""The program with a window: one Qt and asyncio loop, the engine, the switchable server."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator
from dataclasses import fields, replace
from pathlib import Path

import qasync

from app import exits, logs, paths
from app.agents import CopiedLines
from app.composition import open_engine
from app.desktop.application import (
    Application,
    SingleInstance,
    collected_on,
    leave_out_what_is_loaded,
    only_instance,
    shown_on_demand,
)
from app.desktop.rescued_text import RescuedText, rescue
from app.desktop.server import LocalServer, RequestFeed, SharedModels, keep_offered
from app.desktop.tray import in_tray
from app.mcp.host import ToolServers
from app.mcp.processes import kill_all
from app.paths import made_private, tighten
from app.process import EndingSignals, exit_at_once, raise_limit
from app.settings.keychain import KeyStore
from app.settings.options import AnswerOptions, ChatOptions
from app.settings.settings_file import StoredPreferences
from app.store.conversation_store import StoreUnavailable, open_store
from app.store.traces import TraceFiles
from engine import DiskCache, Engine, Limits, StopScope
from ui.chat.session.traces import TraceKeeper
from ui.inspector.shown_run import InspectorTools
from ui.kit.dialogs import report_failure
from ui.kit.theme import Theme
from ui.preferences.preferences_state import PreferencesState
from ui.records.conversations import Conversation, ConversationSettings, StopEntry
from ui.records.store import ConversationStore, MemoryConversationStore
from ui.server.requests import RequestLog
from ui.server.server_panel import ApiKeyState, ServerPanel
from ui.window.main_window import MainWindow

# Opens what is kept of this person's conversations: the store, and the tokens of answers.
#
# Main thread.

_log = logging.getLogger(__name__)


def kept_traces(store: ConversationStore, preferences: PreferencesState) -> TraceFiles:
    """Return what keeps the recorded tokens of conversations, those of deleted ones left out."""
    traces = TraceFiles(paths.traces_folder(), preferences.now.kept_traces_bytes)
    preferences.changed.connect(lambda _: traces.limit_to(preferences.now.kept_traces_bytes))
    if store.problem is None:
        # Where conversations could not be read, nobody knows which were deleted.
        traces.keep_only(frozenset(one.id for one in store.load_all()))
    return traces


@contextlib.asynccontextmanager
async def kept_conversations() -> AsyncIterator[ConversationStore]:
    """Yield the store of this person's conversations; memory, which says so, if there is none."""
    try:
        store = await open_store(paths.conversations_file(), may_wait=True)
    except StoreUnavailable as unavailable:
        _log.error("conversations are not saved: %s", unavailable)
        yield MemoryConversationStore(unavailable.problem)
        return
    try:
        yield store
    finally:
        await store.close()


# Keeps the window's layout and its last model for the next start.
#
# Main thread.


def chosen_model(options: ChatOptions, stored: StoredPreferences) -> Path:
    """Return the requested model, or else the one that was used last."""
    if options.model == paths.demo_model() and stored.last_model is not None:
        return stored.last_model
    return options.model


def keep_for_next_time(window: MainWindow, stored: StoredPreferences) -> None:
    """Keep the window's layout and the loaded model."""
    try:
        stored.keep_window_layout(window.save_layout())
        info = window.workspace.model.info
        if info is not None:
            stored.keep_last_model(None if info.path == paths.demo_model() else info.path)
    except OSError as error:
        _log.warning("the window's layout cannot be saved: %s", error)


def tell(window: MainWindow, notice: str) -> None:
    """Show a notice to the person once, if there is one."""
    if not notice:
        return
    _log.warning("%s", notice)
    report_failure(window, "Some of your settings could not be read", notice, title="Settings")


# The program with a window: one Qt and asyncio loop, the engine, the switchable server.
#
# The only module that knows qasync. Main thread.

# How long the end of the program waits for the steps and loads that are under way.
_MOST_STEP_S = 1.0


def run(options: ChatOptions) -> int:
    """Show the window until it is closed; return the exit code."""
    for folder in (paths.data_folder(), paths.config_folder(), paths.log_folder()):
        tighten(folder)
    _log_to_file()
    raise_limit()
    with contextlib.closing(EndingSignals(_end_at_once)) as signals:
        application = Application()
        with only_instance(options.opened) as instance:
            if instance is None:
                print("Fullstop is already open; its window was brought forward.", file=sys.stderr)
                return exits.OK
            with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner:
                runner.run(session(application, options, signals, instance))
    return exits.OK


def _end_at_once() -> None:
    """End the process and the tool servers that it started."""
    kill_all()
    exit_at_once()


async def session(
    application: Application,
    options: ChatOptions,
    signals: EndingSignals,
    instance: SingleInstance | None = None,
) -> None:
    """Show a window on the running Qt loop; return once it is closed and everything has ended."""
    loop = asyncio.get_running_loop()
    with collected_on(loop):
        await _until_closed(application, loop, options, signals, instance)


async def _until_closed(
    application: Application,
    loop: asyncio.AbstractEventLoop,
    options: ChatOptions,
    signals: EndingSignals,
    instance: SingleInstance | None,
) -> None:
    closed = asyncio.Event()
    stored = StoredPreferences(paths.config_folder())
    preferences = PreferencesState(stored.preferences(), stored)
    disk = DiskCache(paths.kept_prompts_folder("conversations"), preferences.now.kept_prompts_bytes)
    preferences.changed.connect(lambda _: disk.limit_to(preferences.now.kept_prompts_bytes))
    limits = Limits(plain_decoding=options.is_plain)
    has_signal = asyncio.Event()
    async with open_engine(limits, disk=disk) as engine, kept_conversations() as store:
        theme = Theme(application, preferences.now.theme)
        traces = kept_traces(store, preferences)
        window = server_window(engine, theme, store, preferences, loop, traces)
        window.restore_layout(stored.window_layout)
        if (asked := asked_conversation(options.answer)) is not None:
            window.workspace.take_in(asked)
        window.closed.connect(closed.set)
        window.workspace.model.changed.connect(lambda: _leave_out_what_is_loaded(window))
        with (
            signals.delivered(loop, lambda: _quit_for(has_signal, window)),
            in_tray(window, preferences),
            shown_on_demand(window, instance, lambda path: open_saved_run(window, path)),
        ):
            window.show()
            window.start(chosen_model(options, stored), options.draft)
            application.serve(lambda path: open_saved_run(window, path), window.quit)
            if options.opened is not None:
                open_saved_run(window, options.opened)
            tell(window, stored.notice)
            rescued = RescuedText(window, store)
            rescued.offer()
            _log.info("the window is shown")
            await closed.wait()
            keep_for_next_time(window, stored)
            await rescued.finish()
            finishing = asyncio.ensure_future(window.finish())
            ended, _ = await asyncio.wait({finishing}, timeout=_MOST_STEP_S)
            if not ended:
                await engine.aclose()  # ends the answers of a model that takes long over a step
            await finishing
            await preferences.finish()
            await asyncio.to_thread(traces.close)
        listed = window.workspace.conversations
        conversations = [listed.at(row) for row in range(listed.rowCount())]
        application.leave()
        window.deleteLater()
    if has_signal.is_set():
        # Nobody could be asked, and the store has made its last attempt.
        rescue(store, conversations)


def _leave_out_what_is_loaded(window: MainWindow) -> None:
    """Once a model is loaded, exclude all present objects from garbage collection."""
    if window.workspace.model.stage == "ready":
        leave_out_what_is_loaded()


def _quit_for(has_signal: asyncio.Event, window: MainWindow) -> None:
    """Close the window without a question."""
    has_signal.set()
    window.quit(asks=False)


def open_saved_run(window: MainWindow, path: Path) -> None:
    """Show a saved run in the inspector, which also reports a file that is not one."""
    window.come_forward()
    window.others.show_inspector()
    window.inspector.open_file(path)


def server_window(
    engine: Engine,
    theme: Theme,
    store: ConversationStore,
    preferences: PreferencesState,
    loop: asyncio.AbstractEventLoop,
    traces: TraceKeeper | None = None,
) -> MainWindow:
    """Return the window with its server, whose requests appear in the window's log.

    Args:
        engine: Answers.
        theme: The look.
        store: Keeps conversations.
        preferences: What a person chose.
        loop: The window's loop.
        traces: Keeps the recorded tokens of answers; None keeps them in memory alone.
    """
    key = KeyStore(paths.config_folder())
    log = RequestLog()
    feed = RequestFeed(
        loop,
        log.take,
        wanted_trace=lambda: window.workspace.traces.wanted,
        keep_trace=lambda name, trace: window.workspace.traces.keep(name, trace),
    )
    server = LocalServer(
        SharedModels(engine, lambda: preferences.now.server.is_model_chosen),
        preferences=lambda: preferences.now.server,
        key=key.key,
        observer=lambda: feed,
    )

    def tools() -> InspectorTools:
        # Imported when it is wanted: the web framework is not to hold up the window.
        from app.inspector import inspector_tools

        workspace = window.workspace
        return inspector_tools(engine, lambda: workspace.server.url)

    window = MainWindow(
        engine,
        theme,
        server=server,
        store=store,
        preferences=preferences,
        server_panel=lambda switch: ServerPanel(switch, preferences, ApiKeyState(key), log, server),
        tools=tools,
        tool_host=ToolServers(
            paths.data_folder(),
            call_time_out_s=lambda: preferences.now.tools.time_out_s,
        ),
        model_folders=paths.library_folders,
        agents=CopiedLines(),
        kept_traces=traces,
    )
    keep_offered(engine, window.model_library)
    return window


def asked_conversation(answer: AnswerOptions) -> Conversation | None:
    """Return a conversation as the command line wants it; None if it wants nothing."""
    if answer == AnswerOptions():
        return None
    wanted = answer.conversation
    return Conversation(
        settings=ConversationSettings(
            **{one.name: getattr(wanted, one.name) for one in fields(wanted)},
            seed=answer.seed,
            # In the window each stop has a scope of its own.
            stop_options=replace(answer.stop_options, scope=StopScope.TEXT),
        ),
        stops=[StopEntry(stop, scope=answer.stop_options.scope) for stop in answer.stops],
    )


def _log_to_file() -> None:
    try:
        logs.to_file(made_private(paths.log_folder()) / "fullstop.log")
    except OSError as error:
        logs.to_standard_error(is_verbose=False)
        _log.warning("no log file: %s", error)
