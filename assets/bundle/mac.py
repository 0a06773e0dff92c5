"""The bundle on a Mac: its property lists, icon and signatures."""

import plistlib
import shutil
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from assets.bundle.product import (
    ICONS,
    IDENTIFIER,
    LEAST_MACOS,
    NAME,
    RUN_SUFFIX,
    RUN_TYPE,
    Layout,
    run,
)

# Writes the Mac's container of icons: a head, then each picture as it is, a PNG.
#
# Source of the rule: the layout that ``iconutil`` writes, a big-endian (type, length) before each
# picture, where the length counts those eight bytes.

_MAGIC = b"icns"
_HEAD = struct.Struct(">4sI")
_PNG = b"\x89PNG\r\n\x1a\n"
# Side in pixels to the types of that size: for an ordinary screen, and for half as large an icon
# on a doubled one.
_TYPES: Mapping[int, tuple[bytes, ...]] = {
    16: (b"icp4",),
    32: (b"icp5", b"ic11"),
    64: (b"ic12",),
    128: (b"ic07",),
    256: (b"ic08", b"ic13"),
    512: (b"ic09", b"ic14"),
    1024: (b"ic10",),
}
SIDES = tuple(_TYPES)


def packed(pictures: Mapping[int, bytes]) -> bytes:
    """Return the container of PNG pictures.

    Args:
        pictures: Side in pixels to the PNG; sides are among ``SIDES``.

    Raises:
        ValueError: A side has no place in the container, or a picture is no PNG of that side.
    """
    parts = []
    for side, picture in sorted(pictures.items()):
        if side not in _TYPES:
            raise ValueError(f"{side}: the container takes {', '.join(map(str, SIDES))}")
        if side_of(picture) != side:
            raise ValueError(f"{side}: the picture is {side_of(picture)} pixels wide")
        parts += [_block(kind, picture) for kind in _TYPES[side]]
    return _block(_MAGIC, b"".join(parts))


def side_of(picture: bytes) -> int:
    """Return the width of a PNG in pixels.

    Raises:
        ValueError: It is no PNG.
    """
    if not picture.startswith(_PNG) or picture[12:16] != b"IHDR":
        raise ValueError("this is no PNG")
    return int.from_bytes(picture[16:20], "big")


def _block(kind: bytes, content: bytes) -> bytes:
    return _HEAD.pack(kind, _HEAD.size + len(content)) + content


# Reads what a Mac's programs and libraries say of themselves in their first bytes.
#
# Source of the numbers: Apple's ``mach-o/loader.h`` and ``mach-o/fat.h``.

_FAT, _FAT_64 = 0xCAFEBABE, 0xCAFEBABF
_THIN_64 = 0xFEEDFACF
_MACHINES = {0x0100000C: "arm64", 0x01000007: "x86_64"}
_LC_VERSION_MIN_MACOSX, _LC_BUILD_VERSION = 0x24, 0x32
_RUNNING_KINDS = frozenset({2, 6, 8})  # programs, libraries, modules
_MOST_MACHINES = 8  # Java's class files begin like a fat file, with a larger number there
_THIN_HEAD_BYTES = 32


def is_code(path: Path) -> bool:
    """Return whether a file is a program or a library of a Mac."""
    return not path.is_symlink() and path.is_file() and bool(_parts(path))


def least_systems(path: Path) -> dict[str, tuple[int, int]]:
    """Return the oldest macOS on which each machine's part of a file runs, by machine.

    Parts that do not say are left out.
    """
    found = {}
    with path.open("rb") as file:
        for machine, offset in _parts(path):
            least = _least_system(file, offset)
            if least is not None:
                found[machine] = least
    return found


def _parts(path: Path) -> list[tuple[str, int]]:
    """Return machine and offset of each part of a file that can be run or loaded."""
    with path.open("rb") as file:
        return [
            (_MACHINES.get(one, hex(one)), at) for one, at in _all_parts(file) if _runs(file, at)
        ]


def _all_parts(file: BinaryIO) -> list[tuple[int, int]]:
    head = file.read(8)
    if len(head) < 8:
        return []
    magic, count = struct.unpack(">II", head)
    if magic in (_FAT, _FAT_64) and count <= _MOST_MACHINES:
        entry = struct.Struct(">IIIII" if magic == _FAT else ">IIQQII")
        entries = [entry.unpack(file.read(entry.size)) for _ in range(count)]
        return [(fields[0], fields[2]) for fields in entries]
    magic, machine = struct.unpack("<II", head)
    return [(machine, 0)] if magic == _THIN_64 else []


def _runs(file: BinaryIO, offset: int) -> bool:
    """Return whether a part is no object file and no archive of such."""
    file.seek(offset)
    head = file.read(16)
    if len(head) < 16:
        return False
    magic, _, _, kind = struct.unpack("<4I", head)
    return magic == _THIN_64 and kind in _RUNNING_KINDS


def _least_system(file: BinaryIO, offset: int) -> tuple[int, int] | None:
    file.seek(offset)
    fields = struct.unpack("<8I", file.read(_THIN_HEAD_BYTES))
    count, size = fields[4], fields[5]
    commands, at = file.read(size), 0
    for _ in range(count):
        kind, length = struct.unpack_from("<II", commands, at)
        if kind == _LC_BUILD_VERSION:
            return _version(struct.unpack_from("<I", commands, at + 12)[0])
        if kind == _LC_VERSION_MIN_MACOSX:
            return _version(struct.unpack_from("<I", commands, at + 8)[0])
        at += length
    return None


def _version(number: int) -> tuple[int, int]:
    return number >> 16, number >> 8 & 0xFF


# Signs an app from the inside out: every library, then every framework, then the app.
#
# Never all at once: what ``--deep`` does not know of it leaves out, and it signs everything
# alike.

AD_HOC = "-"


def code_in(app: Path) -> list[Path]:
    """Return all programs and libraries in an app."""
    return [path for path in sorted(app.rglob("*")) if is_code(path)]


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


# What a Mac wants to know of an app: property lists and the icon. Writes files, runs nothing.

_ICON = f"{NAME}.icns"
_LOCAL_NETWORK = (
    "Fullstop answers other devices on your network only while you make its server visible to "
    "them, and asks other servers there only when you probe one."
)


def info(version: str) -> dict[str, Any]:
    """Return the content of ``Info.plist``.

    Args:
        version: The product's version, as ``0.1.0``.
    """
    return {
        "CFBundleDevelopmentRegion": "en",
        "CFBundleDisplayName": NAME,
        "CFBundleDocumentTypes": [
            {
                "CFBundleTypeName": "Saved run of Fullstop",
                "CFBundleTypeRole": "Viewer",
                "LSHandlerRank": "Owner",
                "LSItemContentTypes": [RUN_TYPE],
            },
            {
                # What the inspector saves is JSON by name as well.
                "CFBundleTypeName": "JSON",
                "CFBundleTypeRole": "Viewer",
                "LSHandlerRank": "Alternate",
                "LSItemContentTypes": ["public.json"],
            },
        ],
        "CFBundleExecutable": NAME,
        "CFBundleIconFile": _ICON,
        "CFBundleIdentifier": IDENTIFIER,
        "CFBundleInfoDictionaryVersion": "6.0",
        "CFBundleName": NAME,
        "CFBundlePackageType": "APPL",
        "CFBundleShortVersionString": version,
        "CFBundleSupportedPlatforms": ["MacOSX"],
        "CFBundleVersion": version,
        "LSApplicationCategoryType": "public.app-category.developer-tools",
        "LSArchitecturePriority": ["arm64"],
        "LSMinimumSystemVersion": ".".join(map(str, LEAST_MACOS)),
        "LSRequiresNativeExecution": True,
        "NSHighResolutionCapable": True,
        "NSLocalNetworkUsageDescription": _LOCAL_NETWORK,
        "NSPrincipalClass": "NSApplication",
        "NSSupportsAutomaticGraphicsSwitching": True,
        "UTExportedTypeDeclarations": [
            {
                "UTTypeConformsTo": ["public.json"],
                "UTTypeDescription": "Saved run of Fullstop",
                "UTTypeIdentifier": RUN_TYPE,
                "UTTypeTagSpecification": {"public.filename-extension": [RUN_SUFFIX]},
            }
        ],
    }


def login_agent() -> dict[str, Any]:
    """Return the content of the agent that starts the app, hidden, when a person logs in.

    It names the app, not its place, so that it goes on working when the app is moved.
    """
    return {
        "Label": f"{IDENTIFIER}.login",
        "LimitLoadToSessionType": "Aqua",
        "ProcessType": "Interactive",
        "ProgramArguments": ["/usr/bin/open", "-g", "-j", "-b", IDENTIFIER],
        "RunAtLoad": True,
    }


def write_files(layout: Layout, version: str) -> None:
    """Write property lists and icon into an app."""
    contents = layout.root / "Contents"
    agents = contents / "Library" / "LaunchAgents"
    agents.mkdir(parents=True)
    (contents / "Info.plist").write_bytes(plistlib.dumps(info(version)))
    (contents / "PkgInfo").write_bytes(b"APPL????")
    (agents / f"{IDENTIFIER}.login.plist").write_bytes(plistlib.dumps(login_agent()))
    pictures = {side: (ICONS / f"{side}.png").read_bytes() for side in SIDES}
    (layout.resources / _ICON).write_bytes(packed(pictures))
