"""The engine thread: runs jobs between steps, and steps the batches while there is work.

Everything that touches a model happens here. The thread looks into its queue between two decode
steps, and between two chunks of a long prompt, so a cancel waits at most one step.

One turn of the thread:

- ``_run_calls``: jobs of other threads (``Models.do``), and answers to cancel
- ``Models.step`` -> ``ModelSlot.step`` -> ``Scheduler.step``: one step of one batch
- ``Models.advance`` -> ``ModelSlot.advance`` -> ``Scheduler.fill``: waiting requests join, due
  loads and unloads follow the last answer, idle models are unloaded
- ``Models.refresh_statuses``, then ``Outbox.deliver``: one wake-up for each reader's loop
- ``Models.load_next``: a load, while the others take steps between two parts of it
"""

import contextlib
import logging
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from engine.errors import EngineClosed, EngineError, EngineStuck, ModelLoadFailed
from engine.inference.cache.disk import DiskCache
from engine.inference.loader import Loader
from engine.scheduling.call_queue import CallQueue, settle
from engine.scheduling.context import EngineContext, Heartbeat, ThreadAbandoned
from engine.scheduling.failures import cause_of
from engine.scheduling.model_list import ModelList, ModelStatus
from engine.scheduling.model_slot import ModelSlot, SlotState
from engine.scheduling.models import Models
from engine.scheduling.outbox import Outbox
from engine.stopping.record import StopInfo, StopKind
from engine.threads import free_mlx_thread, set_batch_scheduling, set_switch_interval
from engine.values.events import Finished, Timing, Usage
from engine.values.limits import Limits

_log = logging.getLogger(__name__)
SHUT_DOWN = "the engine has been shut down"
_ANOTHER_HUNG = "the engine was restarted because another model hung; retry"


class EngineThread:
    """One run of the engine thread: until it is closed, fails, or hangs."""

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        disk: DiskCache | None,
        statuses: ModelList,
        previous: "EngineThread | None" = None,
    ) -> None:
        self.queue = CallQueue()
        self._context = EngineContext(
            limits,
            loader,
            disk,
            self.queue,
            Outbox(),
            statuses,
            Heartbeat(),
            # A long prompt holds up few others.
            prompt_pool=ThreadPoolExecutor(2, "fullstop-prompts"),
            slow_prompt_pool=ThreadPoolExecutor(4, "fullstop-slow-prompts"),
            question_pool=ThreadPoolExecutor(1, "fullstop-counting"),
        )
        before = None if previous is None else previous.models
        self.models: Models = Models(self._context, before)
        # When the running load was last continued.
        self._load_resumed_s = 0.0
        set_switch_interval()
        self._thread = threading.Thread(target=self._run, name="fullstop-engine", daemon=True)
        self._is_unwatched = threading.Event()
        threading.Thread(target=self._watch, name="fullstop-watchdog", daemon=True).start()
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_abandoned(self) -> bool:
        return self._context.heartbeat.is_stopped

    # -- the end; any thread ---------------------------------------------------------------

    def close(self) -> None:
        """End the thread and all answers, or abandon the thread after some seconds."""
        if self.is_abandoned:
            return
        self.queue.is_closing = True
        self.queue.calls.put(None)
        self._thread.join(5.0)  # a step is under way, and memory is freed
        if self._thread.is_alive():
            self._abandon()
            self._end_callers(StopKind.CANCELLED, EngineClosed(SHUT_DOWN))
            self._context.statuses.end(ModelStatus(state="failed", message=SHUT_DOWN))

    def _abandon(self) -> None:
        """Take no more jobs, and let the thread begin nothing any more."""
        self._context.heartbeat.is_stopped = True
        self.queue.close()
        self._is_unwatched.set()
        self.queue.calls.put(None)

    def _end_callers(self, kind: StopKind, why: EngineError, model: str | None = None) -> None:
        """End all answers as far as their readers have them, and refuse all jobs."""
        context = self._context
        for generation in context.outbox.running.copy():
            error = None if kind is StopKind.CANCELLED else str(why)
            if error and model is not None and generation.setting.model != model:
                error = _ANOTHER_HUNG
            usage = Usage(generation.prompt_tokens, output_tokens=generation.written_tokens)
            generation.push([Finished(StopInfo(kind), usage, Timing(), error=error)])
            with contextlib.suppress(RuntimeError):  # its loop is closed
                generation.loop.call_soon_threadsafe(generation.wake)
        for future in self.queue.futures.copy():
            settle(future, why)
        for pool in (context.prompt_pool, context.slow_prompt_pool, context.question_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def _fail(self, cause: str, *, is_stuck: bool) -> None:
        """End all answers with an error; the next request starts a new thread."""
        heartbeat, models = self._context.heartbeat, self.models.models.copy()
        heartbeat.is_stopped = True  # it publishes nothing from now on
        failed = next((model for model in models if model is heartbeat.model), None)
        is_loading = failed is not None and failed.state is SlotState.LOADING
        for model in models:
            thread = self._thread if is_stuck and model is failed else None
            model.end(cause if model is (failed or self.models.default) else "", thread)
        self._abandon()
        if failed is not None and is_loading and failed.transition is not None:
            settle(failed.transition.future, ModelLoadFailed(cause))
        if is_stuck:
            self.models.push_pending_events()
        else:
            with contextlib.suppress(Exception):
                self.models.end_answers(StopKind.ERROR, cause)
                self._context.outbox.deliver()
        name = None if failed is None else failed.name
        why = EngineStuck(cause) if is_stuck else EngineError(cause)
        self._end_callers(StopKind.ERROR, why, name)
        self.models.detach()

    # -- the watchdog's thread -------------------------------------------------------------

    def _watch(self) -> None:
        """Give the thread up once its heartbeat has not risen for some seconds.

        Time is counted in ticks: the clock jumps when the computer sleeps.
        """
        context = self._context
        heartbeat, limit_s = context.heartbeat, context.limits.stuck_after_s
        tick_s = min(0.5, limit_s / 4)
        count, stalled_s = -1, 0.0
        while not self._is_unwatched.wait(tick_s):
            is_stalled = heartbeat.is_busy and heartbeat.count == count
            count, stalled_s = heartbeat.count, stalled_s + tick_s if is_stalled else 0.0
            model = heartbeat.model if isinstance(heartbeat.model, ModelSlot) else None
            backend = model.backend if is_stalled and model is not None else None
            # MLX may wait forever for a rank that is lost.
            if backend is not None and (fault := backend.batch.fault()):
                self._fail(fault, is_stuck=True)
            elif stalled_s >= limit_s:
                is_loading = model is not None and model.state is SlotState.LOADING
                progress = "been loaded any further" if is_loading else "completed a step"
                cause = f"the model has not {progress} for {limit_s:g} seconds"
                _log.error("%s; its thread is abandoned", cause)
                self._fail(cause, is_stuck=True)

    # -- the loop --------------------------------------------------------------------------

    def _run(self) -> None:
        set_batch_scheduling()
        try:
            while self._run_calls():
                self._step()
                self.models.load_next(self._step_others_during_load)
            self._shut_down()
        except ThreadAbandoned:
            _log.warning("an abandoned engine thread ends")
        except BaseException as error:
            if not self._context.heartbeat.is_stopped:
                _log.error("the engine thread died", exc_info=error)
                self._fail(f"the engine stopped: {cause_of(error)}", is_stuck=False)
        finally:
            self._is_unwatched.set()
            self.models.close()
            with contextlib.suppress(Exception):
                free_mlx_thread()  # even a cancelled load has used the libraries

    def _step(self) -> None:
        self.models.step()
        self.models.advance()
        self.models.refresh_statuses()
        self._context.outbox.deliver()

    def _step_others_during_load(self) -> None:
        """Run calls and step the other models for a while, between two parts of a load."""
        now_s = time.monotonic()
        # How long the other models are stepped between two parts of a load.
        until_s = now_s + min(now_s - self._load_resumed_s, 0.1)
        while not self.queue.is_closing:
            self._cancel()
            with contextlib.suppress(queue.Empty):
                while time.monotonic() < until_s:
                    self._run_call(0.0)
            self._step()
            if not self.models.is_running or time.monotonic() > until_s:
                break
        self._load_resumed_s = time.monotonic()

    def _cancel(self) -> None:
        if cancelled := self.queue.take_cancelled():
            self.models.cancel(cancelled)

    def _run_call(self, timeout_s: float | None) -> None:
        """Run the next call; raises ``queue.Empty`` if none comes in time."""
        self._context.heartbeat.pause()
        try:
            call = self.queue.calls.get(timeout=timeout_s)
        finally:
            self._context.heartbeat.beat()
        if call is not None:
            self.models.refresh_plans()
            call(self.models)

    def _run_calls(self) -> bool:
        """Run calls, a few milliseconds while answers run, or wait for one; False at the end."""
        begin_s = time.monotonic()
        models = self.models
        while not self.queue.is_closing:
            self._cancel()
            is_idle = models.is_idle
            timeout_s: float | None = 0.0
            if is_idle or models.waits_for_prompts:
                # Readers must know before a long wait which answers have ended.
                models.refresh_statuses()
                self._context.outbox.deliver()
                timeout_s = models.unload_due_s if is_idle else 0.05
            else:
                models.reset_idle_time()
            try:
                self._run_call(timeout_s)
            except queue.Empty:
                if is_idle:
                    models.unload_idle()
                return True
            models.reset_idle_time()
            # How long calls are run between two steps; the last one may take longer.
            if models.is_running and time.monotonic() - begin_s > 0.004:
                return True
        return False

    def _shut_down(self) -> None:
        """End all answers and jobs, so that nobody waits for a thread that has ended."""
        self._context.heartbeat.beat()
        self.queue.close()
        self.models.end_answers(StopKind.CANCELLED)
        self._context.outbox.deliver()
        self._end_callers(StopKind.CANCELLED, EngineClosed(SHUT_DOWN))
        self._context.statuses.end(ModelStatus())
