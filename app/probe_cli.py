"""``fullstop-probe``: the probe as a separate program, without the application.

The small distribution contains this module and its imports, without Qt and MLX. Main thread.
"""

import argparse
import sys
from collections.abc import Sequence

from api.terminal_text import harmless
from app import __version__, exits
from app.exits import CommandError
from app.settings.probe_options import add_options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return the exit code."""
    try:
        given = _parser().parse_args(argv)
        from app.commands import probe

        return probe.run_arguments(given)
    except SystemExit as ended:  # argparse has printed help, version or the error
        return ended.code if isinstance(ended.code, int) else exits.USAGE
    except CommandError as failed:
        print(f"fullstop-probe: {harmless(str(failed))}", file=sys.stderr)
        return failed.exit_code
    except BrokenPipeError:
        return exits.leave_reader()
    except KeyboardInterrupt:
        print("fullstop-probe: interrupted", file=sys.stderr)
        return exits.INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fullstop-probe",
        description="Test how any server handles stops.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fullstop-probe {__version__}")
    add_options(parser)
    return parser
