"""``fullstop-probe``: the probe as a separate program, without the application.

The small distribution contains this module and its imports, without Qt and MLX. Main thread.
"""

import sys
from collections.abc import Sequence

from api.conformance.captures.values import harmless
from app import __version__, exits
from app.command_line.probe_arguments import probe_parser
from app.exits import CommandError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return the exit code."""
    try:
        given = probe_parser(__version__).parse_args(argv)
        from app.commands import probe

        return probe.run_arguments(given)
    except SystemExit as ended:  # argparse has printed help, version or the error
        return ended.code if isinstance(ended.code, int) else exits.USAGE
    except CommandError as failed:
        print(f"fullstop-probe: {harmless(str(failed))}", file=sys.stderr)
        return failed.exit_code
    except KeyboardInterrupt:
        print("fullstop-probe: interrupted", file=sys.stderr)
        return exits.INTERRUPTED
