"""Zip archives and compressed JSON from strangers: nothing is unpacked to disk by name, and nothing without limit."""

from __future__ import annotations

import contextlib
import gzip
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Final

from adjudge.errors import InputError, quote, read_error
from adjudge.io.files import GZIP, ZSTD

if TYPE_CHECKING:
    import zipfile

ZIP_SIGNATURES: Final = (b"PK\x03\x04", b"PK\x05\x06")  # an archive with members, and one without
ARCHIVES: Final = (*ZIP_SIGNATURES, GZIP, ZSTD, b"7z\xbc\xaf", b"Rar!", b"BZh", b"\xfd7zXZ")
NESTED_ARCHIVE_SUFFIXES: Final = (".zip", ".gz", ".zst", ".tar", ".tgz", ".7z", ".rar", ".bz2", ".xz")
FREE: Final = 256 << 20  # bytes that anything may expand into
MAX_COMPRESSION_RATIO: Final = 100  # how many times its packed size it may have beyond that
MAX_MEMBERS: Final = 10_000
LOG_MEMBERS: Final = ("header.json", "_journal/start.json")  # of logs of Inspect: of a finished one, of one being written
ZSTANDARD: Final = 93  # the number of this method in zip archives
JUNK: Final = ("__MACOSX", ".DS_Store", "Thumbs.db")  # what file managers leave in archives


def members(path: Path, name: str) -> list[str]:
    """Return the files of a zip archive, in the order of their names; one that could do harm is an error.

    The members of a log of Inspect are named after samples, of which there may be many: such names are never used as paths.
    """
    with _open(path, name) as archive:
        infos = archive.infolist()
        is_log = any(info.filename in LOG_MEMBERS for info in infos)
        if len(infos) > MAX_MEMBERS and not is_log:
            raise InputError(f"{name} has {len(infos)} members, more than {MAX_MEMBERS}: it is not an export")
        require_bounded(sum(info.file_size for info in infos), path.stat().st_size, name)
        if is_log:
            return sorted({info.filename for info in infos})
        names = []
        for info in infos:
            parts = PurePosixPath(info.filename.replace("\\", "/")).parts
            if not parts or info.is_dir() or parts[0] in JUNK or parts[-1] in JUNK:
                continue
            _check(info, parts, name)
            names.append(info.filename)
        if len(set(names)) < len(names):
            raise InputError(f"{name} has two members of one name: pack it again")
        return sorted(names)


def member(path: Path, within: str, name: str) -> bytes:
    """Return the content of a member, within the limit of its expanded size."""
    ((_, data),) = read_members(path, within.__eq__, name)
    if data.startswith(ARCHIVES):
        raise InputError(f"{name}: {quote(within)} is an archive itself: unpack it first")
    return data


def read_members(path: Path, chosen: Callable[[str], object], name: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the members whose name is chosen; of several of one name the last one counts."""
    with _open(path, name) as archive:
        last = {info.filename: info for info in archive.infolist() if chosen(info.filename)}
        for within, info in last.items():
            where = f"{name}: {quote(within)}"
            try:
                with archive.open(info) as stream:
                    data = read_limited(stream, info.compress_size, where)
            except InputError:
                raise
            except NotImplementedError as error:
                remedy = "install backports.zstd, or use Python 3.14" if info.compress_type == ZSTANDARD else "pack it again"
                raise InputError(f"{where} is packed with a method that is not supported here: {remedy}") from error
            except Exception as error:  # each way to pack has errors of its own
                raise InputError(f"{where} cannot be unpacked: {error}") from error
            yield within, data


def _zip_library() -> Any:
    """Return a zip library that also unpacks Zstandard, if there is one, or else the standard one."""
    if sys.version_info < (3, 14):
        with contextlib.suppress(ImportError):
            return import_module("backports.zstd.zipfile")
    return import_module("zipfile")


def unpack(path: Path, name: str) -> bytes:
    """Return the content of a file, without its gzip compression if it has one."""
    try:
        with path.open("rb") as file:
            start = file.read(len(ZSTD))
        if start == ZSTD:
            raise InputError(f"{name} is JSON packed with Zstandard, which is not read: unpack it, or pack it with gzip")
        if not start.startswith(GZIP):
            return path.read_bytes()
        with gzip.open(path) as stream:
            return read_limited(stream, path.stat().st_size, name)
    except (OSError, EOFError, zlib.error) as error:
        raise read_error(name, error) from error


def read_limited(stream: IO[bytes] | gzip.GzipFile, packed: int, where: str) -> bytes:
    """Return all of a compressed stream; exceeding the limit is an error, regardless of the header."""
    blocks, total = [], 0
    while block := stream.read(1 << 20):
        total += len(block)
        require_bounded(total, packed, where)
        blocks.append(block)
    return b"".join(blocks)


def require_bounded(size: int, packed: int, where: str) -> None:
    """Raise when something packed expands beyond what exports do."""
    most = max(FREE, MAX_COMPRESSION_RATIO * packed)
    if size > most:
        raise InputError(
            f"{where} expands beyond {most >> 20} MiB (the limit: {FREE >> 20} MiB, or {MAX_COMPRESSION_RATIO} times its "
            "packed size): unpack it yourself if you trust it"
        )


def _open(path: Path, name: str) -> zipfile.ZipFile:
    library = _zip_library()
    try:
        archive: zipfile.ZipFile = library.ZipFile(path)
    except (library.BadZipFile, OSError) as error:
        raise InputError(f"{name} is a damaged zip archive: {error}") from error
    return archive


def _check(info: zipfile.ZipInfo, parts: tuple[str, ...], name: str) -> None:
    where = f"{name}: the member {quote(info.filename)}"
    if ".." in parts or parts[0].startswith("/") or ":" in parts[0] or "\0" in info.filename:
        raise InputError(f"{where} points outside the archive: it is not an export")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise InputError(f"{where} is a link: pack the file itself")
    if info.flag_bits & 1:
        raise InputError(f"{where} is encrypted: unpack the archive, and name the folder")
    if parts[-1].lower().endswith(NESTED_ARCHIVE_SUFFIXES):
        raise InputError(f"{where} is an archive itself: unpack it first")
