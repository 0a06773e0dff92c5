"""Says in words what a run is doing right now. Pure; any thread."""

from engine import counted, figure
from ui.records.runs import Run, RunState


def progress_words(run: Run) -> str:
    """Return what a run that is not over is doing."""
    if run.is_cancelling:
        return "Stopping…"
    if run.starting:
        return f"Starting the tools of {', '.join(run.starting)}…"
    if run.state is RunState.QUEUED:
        return (
            f"Waiting for {run.model_id} to load…" if run.is_loading else "Waiting for the model…"
        )
    if run.state is RunState.PREFILL:
        words = f"Reading the prompt: {run.prompt_processed:,} of "
        words += counted(run.prompt_total, "token")
        rate = run.prompt_tokens_per_s
        return words if rate is None else f"{words}, {figure(rate)} tok/s"
    return "Answering…"
