"""Certificates: a promise as a JSON file with its figures, the version, and fingerprints of the files; and their check."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from adjudge.errors import InputError, describe_json_error, quote, read_error
from adjudge.io.sources import Opened, Source
from adjudge.io.write import write_aside

if TYPE_CHECKING:
    from adjudge.results.promise.certify import Promise

CERTIFICATE_KIND: Final = "adjudge certificate"
CERTIFICATE_VERSION: Final = 1
HASH_CHUNK_BYTES: Final = 1 << 20
FIGURE_TOLERANCE: Final = 1e-9  # by which confidences may differ from machine to machine
FILES_FIELD: Final = "files"


def write_certificate(
    promise: Promise,
    path: str | os.PathLike[str],
    inputs: Mapping[str, Source] | None = None,
    command: Mapping[str, object] | None = None,
) -> None:
    """Write a promise as JSON.

    - `inputs`: the sources behind it by name. Each of their files is listed with its SHA-256, relative to the certificate.
    - `command`: the options that produced the labels, so that they can be produced again.
    """
    place = Path(path)
    files = {name: [list(one) for one in _digests(source, place)] for name, source in (inputs or {}).items()}
    content = {
        "kind": CERTIFICATE_KIND,
        "version": CERTIFICATE_VERSION,
        "adjudge": import_module("adjudge").__version__,
        "sentence": promise.sentence,
        "figures": promise.figures(),
        FILES_FIELD: files,
        "command": dict(command or {}),
    }
    text = json.dumps(content, ensure_ascii=True, indent=1, allow_nan=False)
    write_aside(place, lambda aside: aside.write_text(text + "\n", encoding="utf-8"))


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a certificate; raise unless it is one."""
    place = Path(path)
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise read_error(place, error) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not a certificate: {describe_json_error(error)}") from error
    if not isinstance(content, dict) or content.get("kind") != CERTIFICATE_KIND:
        raise InputError(f"{place} is not a certificate: {CERTIFICATE_KIND!r} is missing")
    if content.get("version") != CERTIFICATE_VERSION:
        raise InputError(f"{place} has version {quote(content.get('version'))}: this adjudge reads version {CERTIFICATE_VERSION}")
    match content:
        case {"figures": dict(), "files": dict() as files, "command": dict(), "sentence": str(), "adjudge": str()}:
            listed = [one for each in files.values() if isinstance(each, list) for one in each]
            if all(isinstance(one, list) and len(one) == 2 and all(isinstance(part, str) for part in one) for one in listed):
                return content
    raise InputError(f"{place} is damaged: a certificate has adjudge, sentence, figures, files and command")


def files_of(content: Mapping[str, Any], name: str, certificate: Path) -> list[str]:
    """Return the paths of an input, as they are seen from here."""
    return [os.path.normpath(certificate.parent / relative) for relative, _ in content[FILES_FIELD].get(name, [])]


def require_same_files(content: Mapping[str, Any], certificate: Path) -> None:
    """Raise unless every file that a certificate lists is there, and unchanged."""
    for name, listed in content[FILES_FIELD].items():
        for relative, digest in listed:
            path = certificate.parent / relative
            if _sha256(path) != digest:
                raise InputError(f"{path}, read as {name}, has changed since the certificate was written (SHA-256 differs)")


def require_same_figures(content: Mapping[str, Any], promise: Promise, certificate: Path) -> None:
    """Raise unless the promise computed again has the figures, and the sentence, of a certificate."""
    stated = content["figures"]
    for name, value in promise.figures().items():
        other = stated.get(name)
        close = isinstance(value, float) and isinstance(other, float) and abs(value - other) <= FIGURE_TOLERANCE
        if not close and other != value:
            raise InputError(f"{certificate} states {name} {quote(other)}, but the files give {quote(value)}: it does not hold")
    if content["sentence"] != promise.sentence:
        raise InputError(f"{certificate} has another sentence than its figures give: it does not hold")


def _digests(source: Source, certificate: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of a source, relative to a certificate, each with its SHA-256."""
    paths = Opened.of(source).paths
    if paths is None:
        raise InputError(f"a certificate names files, and {quote(source)} is none: give the path of a file")
    for path in paths:
        every = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for file in every:
            yield os.path.relpath(file, certificate.parent), _sha256(file)


def _sha256(path: Path) -> str:
    whole = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(HASH_CHUNK_BYTES):
                whole.update(chunk)
    except OSError as error:
        raise read_error(path, error) from error
    return whole.hexdigest()
