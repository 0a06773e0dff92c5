"""The façade of the engine: the only thing that windows and servers talk to.

Every method may be called from any event loop; answers arrive on that loop. It owns the engine
thread and starts a fresh one if it died. It never imports MLX itself.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engine.backend import Backend
from engine.errors import EngineClosed
from engine.generation import Generation
from engine.models import ModelInfo
from engine.request import GenerationRequest
from engine.worker import Cancel, Command, CountTokens, EngineThread, Limits, Load, Shutdown
from engine.worker import EngineStatus as EngineStatus
from engine.worker import Submit, Tokenize, Unload

_T = TypeVar("_T")
