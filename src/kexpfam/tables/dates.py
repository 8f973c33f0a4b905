"""Moments as numbers: days since 1970, and the parts of a date that repeat.

A date says where in time a row is, and where in the year, the week and the day. What
repeats is an angle, of which sine and cosine are taken, so that December is beside
January. Clocks are read as they stand: a time zone that a text names is not looked at.
"""

import re
from datetime import datetime
from typing import Any

import numpy as np

from kexpfam._typing import Array

Column = np.ndarray[Any, Any]

_CLOCK = re.compile(r"([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?")
_ISO = re.compile(r"\d{4}-\d{2}(-\d{2}([T ].*)?)?")
_DAY = 86_400_000_000  # microseconds


def day_of_text(text: str) -> float | None:
    """Days since 1970 of a date in ISO 8601, or of a time of day; None for others.

    Example:
        >>> day_of_text("1970-01-02"), day_of_text("1970-02"), day_of_text("06:00")
        (1.0, 31.0, 0.25)
        >>> day_of_text("1970-01-01T12:00:00Z"), day_of_text("31.1.1970")
        (0.5, None)
    """
    if _CLOCK.fullmatch(text):
        hours, rest = text.split(":", 1)
        text = f"1970-01-01T{hours:0>2}:{rest}"
    elif not _ISO.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(f"{text}-01" if len(text) == 7 else text)
    except ValueError:
        return None
    since = np.datetime64(moment.replace(tzinfo=None), "us").astype(np.int64)
    return float(since) / _DAY


def days_of(cells: Column) -> Array | None:
    """Days since 1970 of a column, NaN for missing, (n,); None if it has no dates.

    Example:
        >>> days_of(np.array(["1970-01-03", ""], dtype=object)).tolist()
        [2.0, nan]
        >>> days_of(np.array(["1970-01-03", "soon"], dtype=object)) is None
        True
    """
    if cells.dtype.kind == "M":
        since = cells.astype("M8[us]").astype(np.int64) / _DAY
        return np.where(np.isnat(cells), np.nan, since)
    if cells.dtype.kind == "f":  # nothing but gaps may be dates
        return cells if np.isnan(cells).all() else None
    known = {"": np.nan}
    for text in cells.tolist():
        if text not in known:
            day = day_of_text(text)
            if day is None:
                return None
            known[text] = day
    return np.array([known[text] for text in cells.tolist()], dtype=float)


def text_of_day(day: float) -> str:
    """A date, with the time of day where that is not midnight; a time on day 0.

    Example:
        >>> text_of_day(1.0), text_of_day(1.5), text_of_day(0.25)
        ('1970-01-02', '1970-01-02 12:00:00', '06:00:00')
    """
    text = str(as_moments(np.array([day]))[0].astype("M8[s]")).replace("T", " ")
    date, _, clock = text.partition(" ")
    if clock in ("", "00:00:00"):
        return date
    return clock if 0.0 <= day < 1.0 else text


def as_moments(days: Array) -> Column:
    """Days since 1970 as moments, (n,)."""
    known = np.isfinite(days)
    since = np.rint(np.where(known, days, 0.0) * _DAY).astype(np.int64)
    return np.where(known, since.astype("M8[us]"), np.datetime64("NaT", "us"))


def parts_of_dates(days: Array, origin: float) -> dict[str, Array]:
    """All that may be told of dates, by its name, each (n,).

    Args:
        days: Days since 1970, (n,), no NaN.
        origin: Where the trend begins, in the same days.

    Example:
        >>> parts = parts_of_dates(np.array([0.0, 31.5]), 0.0)
        >>> parts["year"].tolist(), parts["month cos"].round(3).tolist()
        ([1970.0, 1970.0], [1.0, 0.866])
        >>> parts["days"].tolist(), parts["hour cos"].tolist()
        ([0.0, 31.5], [1.0, -1.0])
    """
    when = as_moments(days)
    months = when.astype("M8[M]").astype(np.int64)
    whole = when.astype("M8[D]").astype(np.int64)
    clock = (when.astype(np.int64) - whole * _DAY) / _DAY
    found: dict[str, Array] = {"year": (1970 + months // 12).astype(float)}
    turns: dict[str, Array] = {
        "month": (months % 12) / 12.0,
        "weekday": ((whole + 3) % 7) / 7.0,  # Monday is 0
        "hour": clock,
    }
    for name, turn in turns.items():
        found[f"{name} sin"] = np.sin(2.0 * np.pi * turn)
        found[f"{name} cos"] = np.cos(2.0 * np.pi * turn)
    return found | {"days": days - origin}
