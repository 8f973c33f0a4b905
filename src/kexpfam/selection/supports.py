"""Bounds of y: those that are given, those that are likely, and maps to the line.

Where y has a bound, families are fitted to w = s(y) (`distributions.SupportMap`). How
soon s turns from a logarithm into a straight line is chosen by what regressions without
a kernel part say of held-out rows, which is cheap: their log densities, and whether
variances are those of residuals. A bound that is only likely competes with none in the
same way.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from kexpfam._typing import Array
from kexpfam.data import Rows, TrainingRows
from kexpfam.distributions import SupportMap
from kexpfam.errors import DegenerateDataError
from kexpfam.family import Spec
from kexpfam.selection.held_out_laws import HeldOutLaws
from kexpfam.selection.spec import SUPPORT, SupportSpec, default_coordinates
from kexpfam.selection.validation import Validation

R = TypeVar("R", bound=Rows)


@dataclass(frozen=True)
class ResponseBounds:
    """The interval that y lies in, and whether that is only likely."""

    lower: float = -math.inf
    upper: float = math.inf
    likely: bool = False  # Noticed in the rows, and not given

    def __bool__(self) -> bool:
        """Whether there is a bound at all."""
        return math.isfinite(self.lower) or math.isfinite(self.upper)


def given_bounds(lower: Any, upper: Any) -> ResponseBounds | None:
    """Bounds that a user gave, −∞ and ∞ for none; None if neither was given.

    Example:
        >>> given_bounds(0, None)
        ResponseBounds(lower=0.0, upper=inf, likely=False)
    """
    if lower is None and upper is None:
        return None
    ends = []
    for name, value, open_end in (
        ("lower", lower, -math.inf),
        ("upper", upper, math.inf),
    ):
        number = open_end if value is None else value
        real = isinstance(number, int | float | np.number)
        if isinstance(number, bool) or not real or math.isnan(float(number)):
            raise ValueError(f"{name} must be a number or None, got {value!r}.")
        ends.append(float(number))
    if not ends[0] < ends[1]:
        raise ValueError(
            f"lower must be below upper, got lower={lower!r} and upper={upper!r}."
        )
    return ResponseBounds(ends[0], ends[1])


def require_within(y: Array, bounds: ResponseBounds) -> None:
    """Refuse responses (n,) outside bounds that were given."""
    outside = np.flatnonzero((y < bounds.lower) | (y > bounds.upper))
    if len(outside):
        row = int(outside[0])
        raise DegenerateDataError(
            f"y has {len(outside)} rows outside [{bounds.lower:g}, {bounds.upper:g}], "
            f"the bounds lower and upper; row {row} is {y[row]:g}. Widen the bounds or "
            f"remove the rows."
        )


def noticed_bounds(y: Array, spec: SupportSpec = SUPPORT) -> ResponseBounds:
    """Bounds that y (n,) seems to have: 0, or 0 and 1.

    If N₁ and N₂ rows are in the first two steps from a bound, a density that goes on
    beyond it would have about N₁²/N₂ rows in the step on its other side. There are
    none. If that is unlikely, and the bound is 0, or 1 for a share, it is one.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> noticed_bounds(rng.exponential(size=200))
        ResponseBounds(lower=0.0, upper=inf, likely=True)
        >>> noticed_bounds(rng.beta(0.8, 0.8, size=200))
        ResponseBounds(lower=0.0, upper=1.0, likely=True)
        >>> bool(noticed_bounds(rng.normal(4.0, 1.0, size=200)))
        False
    """
    if len(y) < spec.fewest_rows or y.min() < 0.0:
        return ResponseBounds()
    low = _ends_at(y, spec)
    if y.max() <= 1.0 and _ends_at(1.0 - y, spec):
        return ResponseBounds(0.0, 1.0, likely=True)
    return ResponseBounds(0.0, likely=True) if low else ResponseBounds()


def _ends_at(distance: Array, spec: SupportSpec) -> bool:
    """Whether rows, by their distance from a bound, would go on beyond it."""
    lower, upper = np.quantile(distance, [0.25, 0.75])
    width = min(float(distance.std()), (upper - lower) / 1.35)
    if not width > 0:
        return False
    step = spec.step * width
    first = int(np.count_nonzero(distance < step))
    second = int(np.count_nonzero((distance >= step) & (distance < 2 * step)))
    return first**2 / max(second, 1) >= spec.missing_rows


def support_maps(
    y: Array, bounds: ResponseBounds, spec: SupportSpec = SUPPORT
) -> list[SupportMap]:
    """Maps to the line that are tried for responses (n,), in any order."""
    y = np.sort(y)
    margins = (
        _margin(np.abs(y - bound), spec) if math.isfinite(bound) else 1.0
        for bound in (bounds.lower, bounds.upper)
    )
    ends = bounds.lower, bounds.upper, (next(margins), next(margins))
    if math.isfinite(bounds.lower) and math.isfinite(bounds.upper):
        return [SupportMap(*ends)]
    distance = y - bounds.lower if math.isfinite(bounds.lower) else bounds.upper - y
    std, far = float(distance.std()), float(distance.max())
    scales = [width * std for width in spec.scales] + [spec.far * far]
    return [SupportMap(*ends, scale, far) for scale in scales]


def _margin(distance: Array, spec: SupportSpec) -> float:
    """How far a map goes on beyond a bound."""
    positive = distance[distance > 0]
    if not len(positive):
        return 1.0
    margin = spec.margin * float(np.median(positive))
    # Less, where many rows are nearer: as much as their crowd needs.
    crowd = 0.5 * float(np.quantile(positive, spec.nearest))
    return max(min(margin, crowd), 1e-12 * float(positive.max()))


def choose_support(
    rows: Rows, bounds: ResponseBounds, spec: Spec, tuning: SupportSpec = SUPPORT
) -> SupportMap | None:
    """The map that regressions of held-out rows are best behind.

    None if the bounds are only likely, and worse than none by too much.
    """
    y = rows.Y[:, 0]
    maps = support_maps(y, bounds, tuning)
    if len(maps) == 1 and not bounds.likely:
        return maps[0]
    seed = np.random.default_rng(0)
    some = TrainingRows.of(rows, shuffled=True)[: tuning.compared_rows]
    if len(some) < tuning.fewest_compared:
        return maps[-1]
    worth = [_worth(some, one, spec, seed) for one in maps]
    best = int(np.argmax(worth))
    if bounds.likely:
        plain = _worth(some, None, spec, seed)
        if worth[best] < plain - tuning.worse * float(some.weights.sum()):
            return None
    return maps[best]


def _worth(
    rows: TrainingRows, support: SupportMap | None, spec: Spec, rng: np.random.Generator
) -> float:
    """Total held-out log density without a kernel part, of the best coordinates."""
    mapped = rows if support is None else mapped_rows(rows, support)
    validation = Validation.of(mapped, spec, rng)
    tried = [s for s in default_coordinates() if s.name in SUPPORT.compared]
    validation.add_coordinates(tried)
    validation.add_bases()
    best = max(validation.candidates, key=lambda c: c.mean(validation.weights))
    laws = HeldOutLaws(validation, support)
    total = float(best.held_out @ validation.weights)
    if support is not None:
        total += float(support.log_abs_det_jacobian(rows.Y[:, 0]) @ rows.weights)
    return total + laws.variance_worth(*laws.of(best)[:, 1:].T)


def mapped_rows(rows: R, support: SupportMap) -> R:
    """Rows whose responses are on the line."""
    return replace(rows, Y=support.forward(rows.Y))
