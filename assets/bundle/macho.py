"""Reads what a Mac's programs and libraries say of themselves in their first bytes. Pure reading.

Source of the numbers: Apple's ``mach-o/loader.h`` and ``mach-o/fat.h``.
"""

import struct
from pathlib import Path
from typing import BinaryIO

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
