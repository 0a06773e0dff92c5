"""``fullstop models``: lists, searches, downloads and removes models in the terminal.

Results go to standard output, everything else to standard error. Main thread; loads no model.
"""

import json
import sys
import threading
from argparse import Namespace
from concurrent.futures import Future, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

from api.terminal_text import harmless_json, on_one_line
from app import exits, paths
from app.exits import CommandError, did_you_mean
from app.printer import Printer, table
from app.process.streams import takes_controls
from engine.errors import EngineError
from engine.library.downloads import HubDownload, repository_of
from engine.library.hub import Hub, HubCancelled, HubFailed
from engine.library.hub_models import USUAL_RESULTS, HubModel, look_up, look_up_all, with_needs
from engine.library.hub_models import search as search_hub
from engine.library.local_models import FoundModel, hub_cache, models_named, removal_of
from engine.library.local_models import remove as remove_files
from engine.library.memory_need import Fit, Memory, MemoryNeed, memory, need
from engine.library.model_files import model_name
from engine.library.suggestions import WRITTEN_ON, suggestions
from engine.library.weights import weights_of, weights_size
from engine.wording import counted, format_size
from ui.models.model_words import ORIGINS, TransferRate, fit_text, percent

_FITS = {Fit.FITS: "yes", Fit.TIGHT: "tight", Fit.TOO_LARGE: "no", None: "?"}
_HUB_HEAD = ("NAME", "SIZE", "BITS", "FITS", "DOWNLOADS", "UPDATED", "LICENSE", "NOTES")
_LOCAL_HEAD = ("NAME", "SIZE", "BITS", "FITS", "CONTEXT", "FROM", "NOTES")


def show(options: Namespace) -> int:
    """List the models on this computer; return the exit code."""
    models, now = paths.local_models(), memory()
    if getattr(options, "names", False):
        names = [
            on_one_line(model.name) for model in models if not (model.is_partial or model.is_gguf)
        ]
        return _printed(
            {"models": names} if options.is_json else "".join(f"{name}\n" for name in names)
        )
    if options.is_json:
        return _printed({"models": [_local_values(model, now) for model in models]})
    rows = [
        (
            each.name,
            format_size(each.size_bytes) if each.size_bytes else "",
            _bits(each.bits),
            _FITS[_fit(_need_of(each), now)] if each.can_be_loaded else "",
            f"{each.context_length:,}" if each.context_length else "",
            ORIGINS[each.origin],
            _note(each),
        )
        for each in models
    ]
    return _printed(table(_LOCAL_HEAD, rows))


def describe(options: Namespace) -> int:
    """Describe one model; return the exit code."""
    model, now = _model_named(options.name), memory()
    if options.is_json:
        return _printed(_local_values(model, now))
    needed = _need_of(model) if model.can_be_loaded else None
    fit = _fit(needed, now)
    facts = (
        ("name", model.name),
        ("folder", str(model.folder)),
        ("from", ORIGINS[model.origin]),
        ("base", model.trained_for if model.base is None else model_name(model.base)),
        ("architecture", model.architecture),
        ("size", format_size(model.size_bytes) if model.size_bytes else ""),
        ("bits", _bits(model.bits)),
        ("context", counted(model.context_length, "token") if model.context_length else ""),
        ("fits", _FITS[fit] if model.can_be_loaded else ""),
        ("memory", fit_text(needed, fit, now) if needed and fit else ""),
        (
            "draft head",
            "its own" if model.can_be_loaded and weights_of(model.model_folder).has_head else "",
        ),
        ("problem", model.problem or model.obstacle),
    )
    lines = (f"{name:<12}  {on_one_line(text)}\n" for name, text in facts if text)
    return _printed("".join(lines))


def search(options: Namespace) -> int:
    """Search the hub, or suggest models without a query; return the exit code."""
    text, is_json = " ".join(options.query), options.is_json
    printer, now = Printer(), memory()
    here = {model.name for model in paths.local_models() if model.can_be_loaded}
    if not text.strip():
        return _suggest(printer, now, here, is_json=is_json)
    printer.status("searching …")
    try:
        found, has_more = search_hub(Hub(), text, options.limit or USUAL_RESULTS)
        printer.status(f"reading {len(found)} configurations …")
        models = with_needs(Hub(), found)
    except HubFailed as error:
        raise CommandError(f"{error}; fullstop models lists what is on this computer") from error
    finally:
        printer.status("")
    if is_json:
        listed = [_hub_values(model, now, here) for model in models]
        return _printed({"models": listed, "has_more": has_more})
    if not models:
        printer.remark(f"no MLX model on the hub has a name with “{on_one_line(text)}”")
        return exits.OK
    code = _printed(table(_HUB_HEAD, [_hub_row(model, now, here) for model in models]))
    if has_more:
        printer.remark("there are more: add a word, or raise --limit")
    return code


def download(options: Namespace) -> int:
    """Download a model and show the progress; return the exit code."""
    printer = Printer()
    try:
        repository = repository_of(options.name)
    except EngineError as error:
        raise CommandError(str(error), exits.USAGE) from error
    try:
        printer.status("contacting the hub …")
        model = look_up(Hub(), repository)
    except HubFailed:
        pass  # the download reports the error
    else:
        if model.problem:
            raise CommandError(f"{repository} cannot be used here. {model.problem}")
        now = memory()
        fit = model.fit(now)
        if fit is not None and (text := fit_text(model.need, fit, now)):
            printer.remark(f"{model.name}: {text}")
    finally:
        printer.status("")
    try:
        folder = _fetch(repository, hub_cache(), printer)
    except HubCancelled as error:
        printer.remark(f"{error}: the same command resumes it")
        return exits.INTERRUPTED
    except EngineError as error:
        raise CommandError(str(error)) from error
    size = weights_size(folder)
    if options.is_json:
        return _printed({"name": repository, "folder": str(folder), "size_bytes": size})
    return _printed(f"{repository} ({format_size(size)}) is in {on_one_line(str(folder))}\n")


def _fetch(repository: str, cache: Path, printer: Printer) -> Path:
    """Download a model and show its progress; Ctrl-C raises ``HubCancelled`` and keeps the part."""
    download = HubDownload(repository, cache)
    outcome: Future[Path] = Future()

    def work() -> None:
        try:
            folder = download.run()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(folder)

    if not takes_controls(sys.stderr):
        printer.remark(f"downloading {repository} …")
    rate = TransferRate()
    threading.Thread(target=work, name=f"download {repository}", daemon=True).start()
    try:
        while not outcome.done():
            progress = download.progress
            text = rate.text(progress)
            if progress.total_bytes:
                text = f"{percent(progress.done_bytes, progress.total_bytes):3}%  {text}"
            printer.status(text)
            wait([outcome], 0.2)
    except KeyboardInterrupt:
        download.gives_up.set()
        # A stalled transfer does not notice that it was cancelled.
        wait([outcome], 2.0)
        raise HubCancelled("the download was cancelled; the partial download is kept") from None
    finally:
        printer.status("")
    return outcome.result()


def remove(options: Namespace) -> int:
    """Delete a model after asking; return the exit code."""
    try:
        model = _model_named(options.name)
        name = model.name
        folder, freed_bytes = removal_of(model)
        if not options.yes and not _confirmed(name, folder, freed_bytes):
            Printer().remark("nothing was removed")
            return exits.FAILURE
        remove_files(folder)
    except EngineError as error:
        raise CommandError(str(error)) from error
    if options.is_json:
        return _printed({"name": name, "folder": str(folder), "freed_bytes": freed_bytes})
    return _printed(f"{name} is removed; {format_size(freed_bytes)} are free\n")


def _model_named(name: str) -> FoundModel:
    models = paths.local_models()
    models_found = models_named(models, name)
    if not models_found:
        near = did_you_mean(name, (model.name for model in models))
        raise CommandError(
            f"there is no model {name} on this computer.{near} fullstop models lists them."
        )
    if len(models_found) > 1:
        several = ", ".join(
            f"{model.name} ({ORIGINS[model.origin]}, {model.folder})" for model in models_found
        )
        raise CommandError(
            f"{name} names {counted(len(models_found), 'model')}: {several}", exits.USAGE
        )
    return models_found[0]


def _suggest(printer: Printer, now: Memory, here: set[str], *, is_json: bool) -> int:
    chosen = suggestions(now)
    printer.status("asking the hub for sizes …")
    problem = ""
    try:
        from_hub = look_up_all(Hub(), tuple(suggestion.name for suggestion in chosen))
    except HubFailed as error:
        from_hub, problem = (None,) * len(chosen), str(error)
    finally:
        printer.status("")
    models = [model or own.model() for model, own in zip(from_hub, chosen, strict=True)]
    if is_json:
        listed = [
            {
                **_hub_values(model, now, here),
                "purpose": own.purpose,
                "is_from_hub": hub_model is not None,
            }
            for model, own, hub_model in zip(models, chosen, from_hub, strict=True)
        ]
        return _printed({"models": listed, "written_on": WRITTEN_ON, "hub_problem": problem})
    if not chosen:
        printer.remark("none of the suggested models fits into this computer's memory")
        return exits.OK
    rows = [
        (*_hub_row(model, now, here)[:-1], own.purpose)
        for model, own in zip(models, chosen, strict=True)
    ]
    code = _printed(table((*_HUB_HEAD[:-1], "GOOD FOR"), rows))
    if problem:
        printer.remark(f"sizes are those of {WRITTEN_ON}: {problem}")
    best = next((model for model in models if model.fit(now) is Fit.FITS), models[0])
    printer.remark(f"to download one: fullstop models download {best.name}")
    return code


def _confirmed(name: str, folder: Path, freed_bytes: int) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError(
            "remove asks before it deletes, and standard input is not a terminal; add --yes",
            exits.USAGE,
        )
    where = f"{on_one_line(name)} ({on_one_line(str(folder))})"
    question = f"Delete {where} and free {format_size(freed_bytes)}? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in {"y", "yes"}


def _need_of(model: FoundModel) -> MemoryNeed | None:
    try:
        return need(model.folder, base=model.base)
    except (EngineError, OSError):
        return None


def _note(model: FoundModel) -> str:
    if model.is_partial:
        return f"partial download: {model.problem}"
    note = "adapter" if model.is_adapter else ""
    return model.problem or model.obstacle or note


def _fit(needed: MemoryNeed | None, now: Memory) -> Fit | None:
    return None if needed is None else needed.fit(now)


def _local_values(model: FoundModel, now: Memory) -> dict[str, Any]:
    needed = _need_of(model) if model.can_be_loaded else None
    return {**asdict(model), "needed_bytes": needed and needed.total, "fit": _fit(needed, now)}


def _hub_values(model: HubModel, now: Memory, here: set[str]) -> dict[str, Any]:
    values = asdict(model)
    values["needed_bytes"] = model.need and model.need.total
    del values["need"]
    return {**values, "fit": model.fit(now), "is_here": model.name in here}


def _hub_row(model: HubModel, now: Memory, here: set[str]) -> tuple[str, ...]:
    notes = [*(["gated"] * model.is_gated), *(["on this computer"] * (model.name in here))]
    return (
        model.name,
        "?" if model.size_bytes is None else format_size(model.size_bytes),
        _bits(model.bits),
        _FITS[model.fit(now)],
        f"{model.downloads:,}" if model.downloads else "",
        "" if model.updated is None else model.updated.isoformat(),
        model.license,
        ", ".join(notes),
    )


def _bits(bits: int | None) -> str:
    return "" if bits is None else str(bits)


def _printed(text: str | dict[str, Any]) -> int:
    """Print a text, or an object as JSON; return the exit code."""
    if isinstance(text, dict):
        text = harmless_json(json.loads(json.dumps(text, default=str))) + "\n"
    print(text, end="", flush=True)
    return exits.OK
