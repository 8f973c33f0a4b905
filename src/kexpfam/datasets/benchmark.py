"""The paper's fourteen conditional and three joint data sets, and four more, by name.

Their files are in a folder, in the user cache, or at an address. Whatever is read has
the checksum of `catalogue.toml`: a file that differs is refused, or replaced if it is
in the cache and there is an address to download it from.
"""

import functools
import hashlib
import io
import logging
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array, Indices
from kexpfam._validation import check_flag
from kexpfam.errors import DatasetError, MissingDependencyError

# Environment variables with a folder of files, and an address to download them from.
FOLDER_VARIABLE, ADDRESS_VARIABLE = "KEXPFAM_DATA", "KEXPFAM_DATA_URL"


@dataclass(frozen=True)
class BenchmarkFile:
    """The file of one data set, in the words of `Benchmark`."""

    header: str  # names of the columns
    rows: int
    source: str
    licence: str
    sha256: str
    target: str | None = None  # None where the joint density is modelled
    alternatives: tuple[str, ...] = ()  # other columns that may be meant as the target
    note: str = ""
    preprocessing: str = "none"
    group_sizes: tuple[int, ...] = ()  # rows of each person; they follow each other

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the file."""
        return tuple(self.header.split(","))


@functools.cache
def catalogue() -> dict[str, BenchmarkFile]:
    """What is known about the data sets without having their files, by name."""
    content = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    entries: dict[str, dict[str, Any]] = tomllib.loads(content)
    for entry in entries.values():
        for name in ("alternatives", "group_sizes"):
            entry[name] = tuple(entry.get(name, ()))
    return {name: BenchmarkFile(**entry) for name, entry in entries.items()}


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A data set as it was published: nothing is standardised, shuffled or split.

    Args:
        name: Of the data set.
        X: Conditions, (n, p), or all columns where there is no target.
        y: Responses, (n,), or None where there is no target.
        data: All columns, the target last.
        feature_names: Names of the columns of X.
        target_name: Name of y.
        target_alternatives: Other columns that the papers may mean by y.
        source: Where the values come from.
        licence: Of the package or the collection.
        note: What to know about the values.
        preprocessing: What was done to the source.
        sha256: Checksum of the file that was read.
        groups: Number of the person that each row comes from, (n,); None unless rows
            come from persons: those of one should not be on both sides of a split.
    """

    name: str
    X: Array = field(repr=False)
    y: Array | None = field(repr=False)
    data: Array = field(repr=False)
    feature_names: tuple[str, ...]
    target_name: str | None
    target_alternatives: tuple[str, ...]
    source: str
    licence: str
    note: str
    preprocessing: str
    sha256: str
    groups: Indices | None = field(repr=False, default=None)

    def as_frame(self) -> Any:
        """A pandas data frame of `data`, with names.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        pandas = needed("pandas", "to make a data frame")
        target = () if self.target_name is None else (self.target_name,)
        return pandas.DataFrame(self.data, columns=[*self.feature_names, *target])


def list_benchmarks() -> tuple[str, ...]:
    """Names that `load_benchmark` knows; those of joint densities are last.

    Example:
        >>> len(list_benchmarks()), list_benchmarks()[-3:]
        (21, ('red_wine', 'white_wine', 'parkinsons'))
    """
    return tuple(catalogue())


def load_benchmark(
    name: str,
    *,
    target: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    download: bool = True,
    url: str | None = None,
) -> Benchmark:
    """One of the data sets of the KCEF paper, from a file whose checksum is right.

    The file is looked for in the folder that the environment variable KEXPFAM_DATA
    names, then in the cache, and is then downloaded, if there is an address.

    Args:
        name: One of `list_benchmarks()`.
        target: The response: the default, or one of `target_alternatives`.
        cache: The cache folder, instead of that of the user.
        download: Whether the file may be downloaded.
        url: Address of a folder with the files; None for the one that the environment
            variable KEXPFAM_DATA_URL names, if any.

    Raises:
        ValueError: There is no such data set, or it has no such target.
        DatasetError: The file is missing, damaged, or cannot be downloaded.
        MissingDependencyError: pooch is needed and not installed.

    Example:
        >>> cycle = load_benchmark("mcycle")  # doctest: +SKIP
        >>> cycle.X.shape, cycle.target_name  # doctest: +SKIP
        ((133, 1), 'accel')
    """
    known = list_benchmarks()
    if name not in known:  # also if it is something else, without a hash
        raise ValueError(f"name must be one of {', '.join(known)}; got {name!r}.")
    entry = catalogue()[name]
    allowed = () if entry.target is None else (entry.target, *entry.alternatives)
    target = _target(name, allowed, target)
    content = _read_file(
        name,
        entry,
        cache=None if cache is None else Path(cache).expanduser(),
        download=check_flag("download", download),
        url=url,
    )
    data = np.loadtxt(io.BytesIO(content), delimiter=",", skiprows=1, ndmin=2)
    names, sizes = entry.columns, entry.group_sizes
    if target is not None:
        names = (*(column for column in names if column != target), target)
        order = [entry.columns.index(column) for column in names]
        # Row by row in memory, as read: sums over rows depend on the layout.
        data = np.ascontiguousarray(data[:, order])
    return Benchmark(
        name=name,
        X=data.copy() if target is None else data[:, :-1].copy(),
        y=None if target is None else data[:, -1].copy(),
        data=data,
        feature_names=names if target is None else names[:-1],
        target_name=target,
        target_alternatives=tuple(c for c in allowed if c != target),
        source=entry.source,
        licence=entry.licence,
        note=entry.note,
        preprocessing=entry.preprocessing,
        sha256=entry.sha256,
        groups=np.repeat(np.arange(len(sizes)), sizes) if sizes else None,
    )


def _target(name: str, allowed: tuple[str, ...], target: str | None) -> str | None:
    if target is None:
        return allowed[0] if allowed else None
    if not allowed:
        raise ValueError(
            f"target must be None for {name}, whose joint density is modelled, got "
            f"{target!r}."
        )
    if target not in allowed:
        raise ValueError(
            f"target of {name} must be one of {', '.join(allowed)}; got {target!r}."
        )
    return target


def _read_file(
    name: str,
    entry: BenchmarkFile,
    *,
    cache: Path | None,
    download: bool,
    url: str | None,
) -> bytes:
    """The bytes of a data set's file, looked for as `load_benchmark` says."""
    folder = os.environ.get(FOLDER_VARIABLE)
    wrong = ""
    if folder and not Path(folder).expanduser().is_dir():
        wrong = f"{FOLDER_VARIABLE} names {folder}, which is not a folder; "
    if folder and (given := Path(folder).expanduser() / f"{name}.csv").is_file():
        return _checked(given, name, entry)
    if cache is None:
        cache = Path(_pooch(name, wrong).os_cache("kexpfam"))
    file = cache / f"{name}.csv"
    address = (url or os.environ.get(ADDRESS_VARIABLE)) if download else None
    there = file.is_file() and _digest(file.read_bytes()) == entry.sha256
    if address and not there:
        _download(address, file, name, entry)
    if not file.is_file():
        known = None if wrong else folder
        places = " or ".join(str(place) for place in (known, cache) if place)
        raise DatasetError(
            f"{wrong}{name}.csv was not found in {places}; {_how_to_get(name, entry)}"
        )
    return _checked(file, name, entry)


def _how_to_get(name: str, entry: BenchmarkFile) -> str:
    """What to do where a file is missing or damaged; the rest of a sentence."""
    # References after the semicolon are no help here.
    origin = entry.source.partition(";")[0]
    return (
        f"make it from {origin}, with the header {entry.header} "
        f"({entry.rows} rows; preprocessing: {entry.preprocessing}; sha256 "
        f"{entry.sha256}) and put it into the folder that the environment variable "
        f"{FOLDER_VARIABLE} names, or give url= or {ADDRESS_VARIABLE} the address of a "
        f"folder to download it from."
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checked(file: Path, name: str, entry: BenchmarkFile) -> bytes:
    content = file.read_bytes()
    seen = _digest(content)
    if seen == entry.sha256:
        return content
    lines = content.count(b"\n")
    seems = "truncated" if lines <= entry.rows else "changed"
    raise DatasetError(
        f"{file} is {seems}: it has {lines} lines and sha256 {seen}, not "
        f"{entry.rows + 1} lines and {entry.sha256}; "
        f"{_how_to_get(name, entry)}"
    )


def _download(address: str, file: Path, name: str, entry: BenchmarkFile) -> None:
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
            f"{_how_to_get(name, entry)}"
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
