"""The grammar of ``fullstop serve``: its options are made from the declared settings.

An option that is not given stays absent, so that the environment or the settings file can set it
instead. Must not run anything. Pure; main thread.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.command_line.setting_arguments import add_setting
from app.settings.serve import API_KEY_VARIABLE, ServeOptions
from ui.preferences.preferences import declared

Command = Callable[[argparse.Namespace], int]

_EXAMPLES = f"""\
examples:
  fullstop serve
  fullstop serve --port 0
  {API_KEY_VARIABLE}=secret fullstop serve --host 0.0.0.0 --model ~/models/some-mlx-model
  fullstop serve --host 0.0.0.0 --api-key-file ~/fullstop-key
  mlx.launch --hostfile hosts.json -- "$(which fullstop)" serve --model /models/a-large-one

The last one shards a model across several machines; the first of them serves it.
Other apps then use the address that is printed, in whichever API they know.
Every option may also be a variable of the environment (--max-rows is FULLSTOP_MAX_ROWS) or a line
of the settings file (max_rows = 8). The command line takes precedence over the environment, and the
environment over the file.
exit codes: 0 ended by Ctrl-C or SIGTERM, 1 failed, 2 wrong usage
"""


def add_serve(commands: Any, run: Command) -> None:
    """Add the command to a parser's subcommands."""
    serve = commands.add_parser(
        "serve",
        help="serve the model to other apps over HTTP, without a window",
        description="Serve the model to other apps over HTTP, without a window.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    serve.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="a TOML file of settings (default: serve.toml in the folder of settings, if any)",
    )
    groups: dict[str, argparse._ActionsContainer] = {"": serve}
    for one in declared(ServeOptions):
        place = one.setting.place
        if place not in groups:
            groups[place] = serve.add_argument_group(place)
        add_setting(groups[place], one)
    serve.set_defaults(command=run)
