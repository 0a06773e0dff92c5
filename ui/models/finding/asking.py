"""Searches a hub for what a person typed: words, or the name or address of one repository.

Waits for the hub, so never call it on the main thread.
"""

from engine.library.download_progress import DownloadFailed
from engine.library.downloads import repository_of
from engine.library.hub import searching
from engine.library.hub.asking import Hub
from engine.library.hub.searching import SearchResult
from engine.library.hub_failures import HubCancelled, HubFailed


def found_for(hub: Hub, text: str, most: int) -> SearchResult:
    """Search the hub; the name of a repository finds that one too, even if it lacks the MLX tag."""
    repository = _repository(text)
    if not repository:
        return searching.search(hub, text, most)
    exact, problem = None, None
    try:
        exact = searching.look_up(hub, repository)
    except HubCancelled:
        raise
    except HubFailed as error:
        problem = error
    others = searching.search(hub, repository, most)
    if exact is None:
        if not others.models and problem is not None:
            raise problem
        return others
    models = (exact, *(one for one in others.models if one.name != exact.name))
    return SearchResult(models, others.has_more)


def _repository(text: str) -> str:
    try:
        return repository_of(text)
    except DownloadFailed:
        return ""
