"""The only module that uses private parts of transformers. It is a workaround.

Checked with transformers 5.23.0, whose source is at
https://github.com/huggingface/transformers/tree/v5.23.0.
``tests/conventions/test_private_parts.py`` fails, and names the part, when one changes.
Importing this module does not import transformers. Any thread.
"""

from importlib import import_module
from typing import Any


def bound_templates() -> None:
    """Let transformers compile chat templates in an environment with bounds.

    Upstream: ``_cached_compile_jinja_template`` in ``utils/chat_template_utils.py``.
    """
    from engine.conversation.bounded_jinja import BoundedEnvironment

    utils: Any = import_module("transformers.utils.chat_template_utils")
    utils.ImmutableSandboxedEnvironment = BoundedEnvironment
