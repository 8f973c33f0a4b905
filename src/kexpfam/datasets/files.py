"""Where the files of benchmark data are: a folder, the user cache, or an address.

Whatever is read has the checksum of the catalogue: a file that differs is refused, or
replaced if it is in the cache and there is an address to download it from.
"""

import hashlib
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kexpfam._optional import needed
from kexpfam.datasets.catalogue import Entry
from kexpfam.errors import DatasetError, MissingDependencyError

FOLDER_VARIABLE = "KEXPFAM_DATA"
ADDRESS_VARIABLE = "KEXPFAM_DATA_URL"


def read_file(
    name: str, entry: Entry, *, cache: Path | None, download: bool, url: str | None
) -> bytes:
    """The bytes of a data set's file, which have the right checksum.

    Looks in the folder that KEXPFAM_DATA names, then in the cache, then downloads.

    Args:
        name: Of the data set.
        entry: What is known about it.
        cache: The cache folder, or None for that of the user.
        download: Whether a file may be downloaded.
        url: Address of a folder, or None for the one that KEXPFAM_DATA_URL names.

    Raises:
        DatasetError: There is no such file, it is damaged, or it cannot be had.
        MissingDependencyError: pooch is needed and not installed.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    wrong = _wrong_folder(folder)
    if folder and (given := Path(folder).expanduser() / f"{name}.csv").is_file():
        return _checked(given, name, entry)
    if cache is None:
        cache = Path(_pooch(name, wrong).os_cache("kexpfam"))
    file = cache / f"{name}.csv"
    address = (url or os.environ.get(ADDRESS_VARIABLE)) if download else None
    if address and not _is_right(file, entry):
        _download(address, file, name, entry)
    if not file.is_file():
        known = None if wrong else folder
        places = " or ".join(str(place) for place in (known, cache) if place)
        raise DatasetError(
            f"{wrong}{name}.csv was not found in {places}; {how_to_get(name, entry)}"
        )
    return _checked(file, name, entry)


def _wrong_folder(folder: str | None) -> str:
    """The start of a message about a folder that there is not, or nothing."""
    if not folder or Path(folder).expanduser().is_dir():
        return ""
    return f"{FOLDER_VARIABLE} names {folder}, which is not a folder; "


def how_to_get(name: str, entry: Entry) -> str:
    """What to do where a file is missing or damaged; the rest of a sentence."""
    # References after the semicolon are no help here.
    origin = entry.source.partition(";")[0]
    return (
        f"make it from {origin}, with the header {','.join(entry.columns)} "
        f"({entry.rows} rows; preprocessing: {entry.preprocessing}; sha256 "
        f"{entry.sha256}) and put it into the folder that the environment variable "
        f"{FOLDER_VARIABLE} names, or give url= or {ADDRESS_VARIABLE} the address of a "
        f"folder to download it from."
    )


def _is_right(file: Path, entry: Entry) -> bool:
    return file.is_file() and _digest(file.read_bytes()) == entry.sha256


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checked(file: Path, name: str, entry: Entry) -> bytes:
    content = file.read_bytes()
    seen = _digest(content)
    if seen == entry.sha256:
        return content
    lines = content.count(b"\n")
    seems = "truncated" if lines <= entry.rows else "changed"
    raise DatasetError(
        f"{file} is {seems}: it has {lines} lines and sha256 {seen}, not "
        f"{entry.rows + 1} lines and {entry.sha256}; "
        f"{how_to_get(name, entry)}"
    )


def _download(address: str, file: Path, name: str, entry: Entry) -> None:
    """Put the file into the cache, all of it or nothing."""
    pooch = _pooch(name)
    source = f"{address.rstrip('/')}/{name}.csv"
    # Less than a megabyte is read at once: no connection stays open after an error.
    web = source.lower().startswith(("http://", "https://"))
    downloader = pooch.HTTPDownloader(stream=False) if web else None
    try:
        with _quiet(pooch):
            # Writes to a temporary file, and moves it once the checksum is right.
            pooch.retrieve(
                source,
                f"sha256:{entry.sha256}",
                fname=file.name,
                path=file.parent,
                downloader=downloader,
            )
    # Connections fail with an OSError, a checksum or a protocol with a ValueError.
    except (OSError, ValueError) as error:
        first = re.split(r"\.?\s*\n|\.\s|\.$", str(error).strip())[0]  # its sentence
        raise DatasetError(
            f"{source} could not be downloaded ({type(error).__name__}: {first}); "
            f"{how_to_get(name, entry)}"
        ) from error


def _pooch(name: str, first: str = "") -> Any:
    """The library; `first` is said before all else if it is not installed."""
    try:
        return needed(
            "pooch",
            f"to find {name}.csv in the user cache or to download it, unless the "
            f"folder that {FOLDER_VARIABLE} names has it",
            "data",
        )
    except MissingDependencyError as error:
        raise MissingDependencyError(f"{first}{error}") from error


@contextmanager
def _quiet(pooch: Any) -> Iterator[None]:
    """Without the line that pooch logs about every download."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
