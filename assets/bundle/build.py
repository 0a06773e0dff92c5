"""Builds the bundle for the system that this runs on: ``python -m assets.bundle.build``.

On a Mac it makes ``Fullstop.app``, on Linux the folder ``fullstop``. It needs a C compiler, pip,
and the network for what is installed; uv, if it is there, fetches a Python that can be moved.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from app import __version__
from assets.bundle import linux, mac, packages
from assets.bundle.mac import AD_HOC, code_in, least_systems, mend_frameworks, notarising, sign
from assets.bundle.packages import compile_launchers, copy, found, gathered
from assets.bundle.product import LEAST_MACOS, LICENCE_TEXTS, ROOT, BuildFailed, Layout, layout_here

_PYTHON = "3.12"


def build(output: Path, python: Path | None, identity: str) -> Layout:
    """Build the bundle in a folder and return where its parts are.

    What was there before is replaced only when the new one is whole.

    Args:
        output: The folder.
        python: An unpacked python-build-standalone; None fetches or copies one.
        identity: Who signs, on a Mac.

    Raises:
        BuildFailed: It cannot be built; the message says why.
    """
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output, prefix=".build-") as folder:
        scratch = Path(folder)
        made = layout_here(scratch)
        _fill(made, python, scratch)
        if sys.platform == "darwin":
            _say(f"signing as {identity}")
            sign(made.root, identity)
        final = layout_here(output)
        if final.root.exists():
            shutil.rmtree(final.root)
        made.root.rename(final.root)
    return final


def _fill(layout: Layout, python: Path | None, scratch: Path) -> None:
    fetched, wheels = scratch / "python", scratch / "wheels"
    wheels.mkdir()
    _say("Python")
    source = found(python, _PYTHON, fetched)
    layout.resources.mkdir(parents=True)
    copy(source, layout.python)
    compile_launchers(source, layout)
    site_packages = layout.python / "lib" / f"python{source.version}" / "site-packages"
    _say("packages")
    packages.install(layout.python, source.version, site_packages, wheels)
    packages.check_tags(packages.wheel_tags(site_packages), sys.platform)
    packages.check_mlx(site_packages, sys.platform)
    packages.leave_out_unused(site_packages)
    packages.compile_all(layout.python, source.version)
    _say("licences, icons, entries")
    python_licence = layout.python / "lib" / f"python{source.version}" / "LICENSE.txt"
    text = gathered(site_packages, python_licence, LICENCE_TEXTS.iterdir())
    layout.licences.write_text(text, encoding="utf-8")
    if sys.platform == "darwin":
        mend_frameworks(site_packages)
        mac.write_files(layout, __version__)
        if newer := made_for_newer_systems(layout.root):
            _say(f"made with a newer system in mind, prove it on the oldest: {', '.join(newer)}")
    else:
        linux.write_files(layout)


def made_for_newer_systems(app: Path) -> list[str]:
    """Return the code in an app that says it was made for a newer macOS than the oldest one.

    The tags of wheels do not tell: PySide6's modules carry the version of the machine that
    compiled them. Macs load such libraries as long as they find all that they need, so this is
    a reason to prove the app on the oldest system, not to refuse it.
    """
    return [
        f"{path.name} (macOS {'.'.join(map(str, least))})"
        for path in code_in(app)
        for machine, least in least_systems(path).items()
        if machine == "arm64" and least > LEAST_MACOS
    ]


def _say(what: str) -> None:
    print(f"{what} …", flush=True)


def main() -> int:
    """Build as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m assets.bundle.build", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument(
        "--python", type=Path, metavar="FOLDER", help="an unpacked python-build-standalone"
    )
    parser.add_argument(
        "--sign",
        default=AD_HOC,
        metavar="IDENTITY",
        help='who signs on a Mac, as "Developer ID Application: …" (default: nobody, for this '
        "Mac alone)",
    )
    given = parser.parse_args()
    try:
        made = build(given.output.resolve(), given.python, given.sign)
    except BuildFailed as failed:
        print(f"not built: {failed}", file=sys.stderr)
        return 1
    print(f"{made.root}\nprove it: {made.program} --self-test")
    if sys.platform == "darwin" and given.sign != AD_HOC:
        print(f"then, to have it notarised:\n{notarising(made.root)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
