"""Numbers of p(y|x) as a frame: a row for each condition, a column for each number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._optional import is_instance, needed
from kexpfam._typing import Array, ArrayLike
from kexpfam._validation import as_numbers, check_confidence, check_levels
from kexpfam.distributions import ChainRuleDensity, SeveralColumns

# Draws that quantiles are from where a marginal is not known: the error of one of 5 %
# is about a thirtieth of a standard deviation.
DRAWS = 4000


@dataclass(frozen=True)
class FrameColumns:
    """Which numbers of a density of one variable are wanted.

    Attributes:
        quantiles: Levels of quantiles.
        intervals: Probabilities of central intervals.
        above: Thresholds t of P(y > t).

    Example:
        >>> FrameColumns.of([0.05, 0.5], 0.9, 10).names()
        ['mean', 'std', 'q0.05', 'q0.5', 'low', 'high', 'P(y>10)']
        >>> FrameColumns.of(0.5, None, 10).names(["a", "b"])[:4]
        ['a mean', 'a std', 'a q0.5', 'P(a>10)']
        >>> FrameColumns.of(None, [0.5, 0.9], None).names()[2:]
        ['low0.5', 'high0.5', 'low0.9', 'high0.9']
    """

    quantiles: tuple[float, ...]
    intervals: tuple[float, ...]
    above: tuple[float, ...]

    @classmethod
    def of(
        cls,
        quantiles: ArrayLike | None,
        interval: ArrayLike | None,
        above: ArrayLike | None,
    ) -> "FrameColumns":
        """Check what was asked for; a number stands for a list of one."""
        levels = check_levels("quantiles", () if quantiles is None else quantiles)
        limits = as_numbers("above", () if above is None else above)
        if limits.ndim > 1 or np.isnan(limits).any():
            raise ValueError(
                f"above must be a number or a flat list, without NaN, got {above!r}."
            )
        inside = np.atleast_1d(
            as_numbers("interval", () if interval is None else interval)
        )
        for confidence in inside:
            check_confidence(confidence, "interval")
        return cls(_distinct(levels), _distinct(inside), _distinct(limits))

    def names(self, responses: Sequence[str] = ()) -> list[str]:
        """Names of the columns, in their order; of several responses, with theirs."""
        whats = [
            "mean",
            "std",
            *(f"q{_plain(level)}" for level in self.quantiles),
            *(f"{end}{own}" for own in self._of_intervals for end in ("low", "high")),
        ]
        found = []
        for response in responses or ("",):
            found += [f"{response} {what}" if response else what for what in whats]
            found += [f"P({response or 'y'}>{_plain(limit)})" for limit in self.above]
        return found

    def values(self, p: Any) -> Array:
        """Their values for n densities, (n, columns), of each response in turn."""
        if not isinstance(p, SeveralColumns):
            return self._of_one(p)
        if isinstance(p, ChainRuleDensity):
            marginals = [p.marginal(j) for j in range(p._d)]
            return np.hstack([self._of_one(marginal) for marginal in marginals])
        return self._of_draws(p)

    @property
    def _of_intervals(self) -> list[str]:
        """What names of their ends say of intervals: nothing of a single one."""
        single = len(self.intervals) == 1
        return [""] if single else [_plain(own) for own in self.intervals]

    @property
    def _levels(self) -> list[float]:
        """Levels of quantiles and of the ends of an interval."""
        levels = list(self.quantiles)
        for confidence in self.intervals:
            levels += [0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)]
        return levels

    def _of_one(self, p: Any) -> Array:
        """The same for one response."""
        parts = [p.mean()[:, None], p.std()[:, None]]
        if self._levels:
            parts.append(p.quantile(self._levels))
        if self.above:
            parts.append(p.sf(np.array([self.above])))
        return np.hstack(parts)

    def _of_draws(self, p: Any) -> Array:
        """The same where marginals are not known: all but moments by draws."""
        draws = p.rvs(DRAWS, random_state=0)
        mean, std, parts = p.mean(), p.std(), []
        for j in range(p._d):
            own = draws[..., j]
            parts += [mean[:, j, None], std[:, j, None]]
            parts.append(np.quantile(own, self._levels, axis=1).T)
            parts += [np.mean(own > limit, axis=1)[:, None] for limit in self.above]
        return np.hstack(parts)


def as_frame(names: list[str], values: Array, like: Any) -> Any:
    """A frame of the kind of another, with its index if it has one.

    Arrays and all else become frames of pandas.

    Example:
        >>> import polars
        >>> as_frame(["a"], np.ones((2, 1)), polars.DataFrame({"x": [1, 2]})).shape
        (2, 1)
    """
    columns = dict(zip(names, values.T, strict=True))
    if is_instance(like, "polars", "DataFrame"):
        import polars

        return polars.DataFrame(columns)
    pandas = needed("pandas", "to make a frame of what is no Polars frame")
    index = like.index if is_instance(like, "pandas", "DataFrame") else None
    return pandas.DataFrame(columns, index=index)


def _distinct(values: Array) -> tuple[float, ...]:
    return tuple(dict.fromkeys(np.atleast_1d(values).tolist()))


def _plain(number: float) -> str:
    """A number in the name of a column, with as many digits as it has."""
    return f"{number:.15g}"
