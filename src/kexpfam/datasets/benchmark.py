"""The paper's fourteen conditional and three joint data sets, by name."""

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array, Indices
from kexpfam._validation import check_flag
from kexpfam.datasets.catalogue import CATALOGUE, Entry
from kexpfam.datasets.files import read_file


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
        (17, ('red_wine', 'white_wine', 'parkinsons'))
    """
    return tuple(CATALOGUE)


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
    entry = _entry(name)
    target = _target(name, entry, target)
    content = read_file(
        name,
        entry,
        cache=None if cache is None else Path(cache).expanduser(),
        download=check_flag("download", download),
        url=url,
    )
    data = np.loadtxt(io.BytesIO(content), delimiter=",", skiprows=1, ndmin=2)
    names = entry.columns
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
        target_alternatives=_alternatives(entry, target),
        source=entry.source,
        licence=entry.licence,
        note=entry.note,
        preprocessing=entry.preprocessing,
        sha256=entry.sha256,
        groups=_groups(entry),
    )


def _entry(name: object) -> Entry:
    if not isinstance(name, str) or name not in CATALOGUE:
        raise ValueError(f"name must be one of {', '.join(CATALOGUE)}; got {name!r}.")
    return CATALOGUE[name]


def _groups(entry: Entry) -> Indices | None:
    if not entry.group_sizes:
        return None
    return np.repeat(np.arange(len(entry.group_sizes)), entry.group_sizes)


def _target(name: str, entry: Entry, target: str | None) -> str | None:
    if target is None:
        return entry.target
    if entry.target is None:
        raise ValueError(
            f"target must be None for {name}, whose joint density is modelled, got "
            f"{target!r}."
        )
    allowed = (entry.target, *entry.alternatives)
    if target not in allowed:
        raise ValueError(
            f"target of {name} must be one of {', '.join(allowed)}; got {target!r}."
        )
    return target


def _alternatives(entry: Entry, target: str | None) -> tuple[str, ...]:
    if entry.target is None:
        return ()
    every = (entry.target, *entry.alternatives)
    return tuple(column for column in every if column != target)
