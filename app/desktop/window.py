"""The program with a window: one Qt and asyncio loop, the engine, the switchable server."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import qasync
from PySide6.QtCore import Qt

from app import exits, paths
from app.agents.commands import CopiedLines
from app.damaged_files import has_set_aside
from app.desktop.application import Application
from app.desktop.garbage_collection import freeze_gc, gc_on_main_thread
from app.desktop.offered_models import sync_offers
from app.desktop.request_feed import RequestFeed
from app.desktop.server import LocalServer
from app.desktop.single_instance import SingleInstance, only_instance
from app.engines import folder_and_base, open_engine, read_user_template
from app.mcp.host import ToolServers
from app.private_files import made_private, tighten
from app.process.logs import log_to_file, log_to_standard_error
from app.process.open_files import raise_open_file_limit
from app.process.signals import EndingSignals
from app.settings.keychain import KeyStore
from app.settings.options import AnswerOptions, ChatOptions
from app.settings.settings_file import StoredPreferences
from app.store.conversation_store import open_store
from app.store.traces import TraceFiles
from app.updates import find_updates
from engine import DiskCache, Engine
from engine.library.adapters import is_adapter
from engine.values.limits import Limits
from ui.chat.session.traces import TraceStore
from ui.inspector.shown_run import InspectorTools
from ui.kit.dialogs import show_error
from ui.kit.theme import Theme
from ui.preferences_state import PreferencesState
from ui.records.conversations import Conversation
from ui.records.store import ConversationStore
from ui.server.requests import RequestLog
from ui.window.help_window import HelpFiles
from ui.window.main_window import MainWindow
from ui.window.tray import Tray, has_tray

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def in_tray(window: MainWindow, preferences: PreferencesState) -> Iterator[None]:
    """Show an icon in the tray, if there is one, so that the program runs on without its window."""
    switch = window.local_server.switch
    is_mac = sys.platform == "darwin"

    def goes_on() -> bool:
        # On a Mac a program outlives its windows: the Dock brings them back.
        return preferences.now.stays_in_tray and (is_mac or switch.is_requested)

    if is_mac:
        window.runs_in_background = goes_on
    if not has_tray():
        yield
        return
    tray = Tray(switch, window)
    tray.show_requested.connect(window.come_forward)
    tray.server_requested.connect(window.others.show_server)
    tray.quit_requested.connect(window.quit)
    window.runs_in_background = goes_on
    tray.show()
    window.notices.notified.connect(tray.notify)
    tray.notice_chosen.connect(window.notices.show)

    def show_waiting() -> None:
        tray.show_waiting(len(window.notices.waiting))

    window.notices.waiting_changed.connect(show_waiting)
    try:
        yield
    finally:
        tray.close()


def open_traces(store: ConversationStore, preferences: PreferencesState) -> TraceFiles:
    """Return what keeps the recorded tokens of conversations, those of deleted ones left out."""
    bound = preferences.now.kept_traces_bytes
    traces = TraceFiles(paths.traces_folder(), bound, store.pictures_folder)
    preferences.changed.connect(lambda _: traces.limit_to(preferences.now.kept_traces_bytes))
    if store.problem is None and not has_set_aside(paths.conversations_file()):
        # Where conversations could not be read, nobody knows which were deleted.
        traces.retain(frozenset(conversation.id for conversation in store.conversations()))
    return traces


def chosen_model(options: ChatOptions, stored: StoredPreferences) -> tuple[Path, Path | None]:
    """Return the requested model, or else the last used one, and the base of an adapter."""
    last = stored.last_model
    if options.model is not None or options.adapter is not None or last is None:
        return folder_and_base(options)
    chosen = {c.folder: c.base for c in stored.preferences().models.choices}
    is_chosen = bool(chosen.get(str(last.resolve())))
    # Where its base is gone, loading reports that in the window.
    return last, paths.adapter_at(last).base if is_adapter(last) and not is_chosen else None


def save_window_state(window: MainWindow, stored: StoredPreferences) -> None:
    """Keep the window's layout and the model that was used last, or else is loaded."""
    try:
        stored.save_window_layout(window.save_layout())
        selection, info = window.workspace.model_selection, window.workspace.models.status().info
        folder = None if info is None else info.path
        if selection.last_used is not None and selection.last_used.folder is not None:
            folder = selection.last_used.folder
        if folder is not None:
            is_demo = folder.resolve() == paths.demo_model().resolve()
            stored.save_last_model(None if is_demo else folder)
    except OSError as error:
        _log.warning("the window's layout cannot be saved: %s", error)


def run(options: ChatOptions) -> int:
    """Show the window until it is closed; return the exit code."""
    options.answer.stop_entries()  # an unreadable file is reported before anything is shown
    for folder in (paths.data_folder(), paths.config_folder(), paths.log_folder()):
        tighten(folder)
    _log_to_file()
    raise_open_file_limit()
    with contextlib.closing(EndingSignals()) as signals:
        stored = StoredPreferences(paths.config_folder())
        if (percent := stored.preferences().interface_percent) != 100:
            # Qt reads its scale factor when the application object is created.
            os.environ.setdefault("QT_SCALE_FACTOR", str(percent / 100))
        application = Application()
        with only_instance(options.opened, options.attached) as instance:
            if instance is None:
                print("Fullstop is already open; its window was brought forward.", file=sys.stderr)
                return exits.OK
            with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner:
                runner.run(session(application, options, signals, stored, instance))
    return exits.OK


async def session(
    application: Application,
    options: ChatOptions,
    signals: EndingSignals,
    stored: StoredPreferences,
    instance: SingleInstance | None = None,
) -> None:
    """Show a window on the running Qt loop; return once it is closed and everything has ended."""
    # What the window was is collected on this thread, after the frame that held it is gone.
    with gc_on_main_thread(asyncio.get_running_loop()):
        await _until_closed(application, options, signals, stored, instance)


async def _until_closed(
    application: Application,
    options: ChatOptions,
    signals: EndingSignals,
    stored: StoredPreferences,
    instance: SingleInstance | None,
) -> None:
    loop, closed = asyncio.get_running_loop(), asyncio.Event()
    preferences = PreferencesState(stored.preferences(), stored.save)
    disk = DiskCache(paths.kept_prompts_folder("conversations"), preferences.now.kept_prompts_bytes)
    preferences.changed.connect(lambda _: disk.limit_to(preferences.now.kept_prompts_bytes))
    folder, base = chosen_model(options, stored)
    template = read_user_template(options.template, folder, base)
    limits = Limits(plain_decoding=options.is_plain)
    async with (
        open_engine(limits, disk=disk) as engine,
        contextlib.aclosing(await open_store(paths.conversations_file())) as store,
    ):
        theme = Theme(application, preferences.now.theme)
        traces = open_traces(store, preferences)
        window = create_main_window(engine, theme, store, preferences, loop, traces)
        window.restore_layout(stored.window_layout)
        if (requested := requested_conversation(options)) is not None:
            if not requested.stops:
                listed = window.workspace.conversations
                stops, requested.stops_from = listed.new_stops
                requested.stops = list(stops)
            window.workspace.take_in(requested)
        window.closed.connect(closed.set)
        window.workspace.models.changed.connect(lambda: _freeze_gc_once_loaded(window))
        with (
            signals.delivered(loop, lambda: window.quit(confirm=False)),
            in_tray(window, preferences),
        ):
            if instance is not None:
                instance.show_in(window)
            window.show()
            window.start(folder, options.draft, template, base)
            application.attach_window(window)
            application.applicationStateChanged.connect(lambda state: _reopen(window, state))
            if options.opened is not None:
                window.open_run(options.opened)
            if options.files:
                window.attach(options.attached)
            if stored.notice:
                _log.warning("%s", stored.notice)
                heading = "Some of your settings could not be read"
                show_error(window, heading, stored.notice, title="Settings")
            _log.info("the window is shown")
            await closed.wait()
            save_window_state(window, stored)
            finishing = asyncio.ensure_future(window.finish())
            # How long the end of the program waits for the steps and loads that are under way.
            ended, _ = await asyncio.wait({finishing}, timeout=1.0)
            if not ended:
                await engine.aclose()  # ends the answers of a model that takes long over a step
            await finishing
            await preferences.finish()
            await asyncio.to_thread(traces.close)
        application.detach()
        window.deleteLater()


def _freeze_gc_once_loaded(window: MainWindow) -> None:
    if window.workspace.models.stage == "ready":
        freeze_gc()


def _reopen(window: MainWindow, state: Qt.ApplicationState) -> None:
    """Show the hidden window when a click in the Dock makes the program active."""
    is_hidden = sys.platform == "darwin" and not window.isVisible()
    if is_hidden and state is Qt.ApplicationState.ApplicationActive:
        window.come_forward()


def create_main_window(
    engine: Engine,
    theme: Theme,
    store: ConversationStore,
    preferences: PreferencesState,
    loop: asyncio.AbstractEventLoop,
    traces: TraceStore | None = None,
) -> MainWindow:
    """Return the main window with its server, whose requests appear in the window’s log."""
    key = KeyStore(paths.config_folder())
    log = RequestLog()
    feed = RequestFeed(loop, log)
    server = LocalServer(engine, preferences, key, feed)

    def tools() -> InspectorTools:
        # Imported when it is wanted: the web framework is not to hold up the window.
        from app.inspector.shown_apis import inspector_tools

        return inspector_tools(engine, lambda: window.local_server.switch.url)

    window = MainWindow(
        engine,
        server=server,
        store=store,
        preferences=preferences,
        key=key,
        log=log,
        tools=tools,
        tool_host=ToolServers(
            paths.data_folder(),
            call_timeout_s=lambda: preferences.now.tools.time_out_s,
        ),
        model_folders=paths.library_folders(),
        agents=CopiedLines(),
        trace_store=traces,
        help_files=HelpFiles(
            paths.page("HELP.md"),
            paths.page("WINDOW.md"),
            paths.page("CHANGELOG.md"),
            paths.page("LICENSE.md"),
            paths.log_folder(),
        ),
        updates=find_updates(),
    )
    feed.traces = window.workspace.traces
    # They know a few subjects only.
    window.workspace.titles.excluded_models = (paths.demo_model(), paths.seeing_model())
    sync_offers(engine, window.model_library)
    return window


def requested_conversation(options: ChatOptions) -> Conversation | None:
    """Return a conversation as the command line wants it; None if it wants nothing."""
    if options.answer == AnswerOptions() and not options.files:
        return None
    return options.answer.new_conversation()


def _log_to_file() -> None:
    try:
        log_to_file(made_private(paths.log_folder()) / paths.LOG_FILE)
    except OSError as error:
        log_to_standard_error(is_verbose=False)
        _log.warning("no log file: %s", error)
