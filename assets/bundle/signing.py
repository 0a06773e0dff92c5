"""Signs an app from the inside out: every library, then every framework, then the app.

Never all at once: what ``--deep`` does not know of it leaves out, and it signs everything alike.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from assets.bundle import macho
from assets.bundle.commands import run

AD_HOC = "-"


def code_in(app: Path) -> list[Path]:
    """Return all programs and libraries in an app."""
    return [path for path in sorted(app.rglob("*")) if macho.is_code(path)]


def in_order(app: Path, code: Iterable[Path]) -> list[Path]:
    """Return what is to be signed, in order: the deepest first, the app last.

    A framework's own library and the app's own program are signed with what they belong to.

    Args:
        app: The app.
        code: Programs and libraries in it.
    """
    program = app / "Contents" / "MacOS" / app.stem
    files, frameworks = set(), set()
    for path in code:
        version = _version_folder(path)
        if version is not None:
            frameworks.add(version)
        main = program if version is None else version / version.parents[1].stem
        if path != main:
            files.add(path)
    return [*_deepest_first(files), *_deepest_first(frameworks), app]


def command(path: Path, identity: str) -> list[str | Path]:
    """Return the command that signs one thing.

    Args:
        path: What is signed.
        identity: Whose signature; ``-`` is nobody's, which other Macs do not trust.
    """
    words: list[str | Path] = ["codesign", "--force", "--sign", identity]
    if identity != AD_HOC:
        words += ["--options", "runtime", "--timestamp"]
    return [*words, path]


def sign(app: Path, identity: str) -> None:
    """Sign an app and check that it holds."""
    for path in in_order(app, code_in(app)):
        run(command(path, identity))
    run(["codesign", "--verify", "--strict", app])


def mend_frameworks(folder: Path) -> None:
    """Give frameworks the links that wheels cannot carry, without which they cannot be signed."""
    for framework in sorted(folder.rglob("*.framework")):
        versions = framework / "Versions"
        if not (versions / "A").is_dir():
            continue
        for stray in framework.iterdir():
            if stray != versions:
                shutil.rmtree(
                    stray
                ) if stray.is_dir() and not stray.is_symlink() else stray.unlink()
        _link(versions / "Current", "A")
        for part in (versions / "A").iterdir():
            if part.name != "_CodeSignature":
                _link(framework / part.name, f"Versions/Current/{part.name}")


def notarising(app: Path) -> str:
    """Return the commands with which Apple is asked to vouch for a signed app."""
    archive = app.with_suffix(".zip")
    return (
        f"ditto -c -k --keepParent '{app}' '{archive}'\n"
        f"xcrun notarytool submit '{archive}' --keychain-profile PROFILE --wait\n"
        f"xcrun stapler staple '{app}'"
    )


def _link(link: Path, target: str) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _deepest_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (-len(path.parts), path.as_posix()))


def _version_folder(path: Path) -> Path | None:
    """Return the version of a framework that a file belongs to, such as ``…/Versions/A``."""
    for folder in path.parents:
        if folder.parent.name == "Versions" and folder.parents[1].suffix == ".framework":
            return folder
    return None
