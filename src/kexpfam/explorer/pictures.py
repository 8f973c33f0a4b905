"""Pictures of p(y|x) as SVG, from numbers alone.

The page and the exported report show the same pictures. What they look like, colours
and widths of lines, is in `page/style.css`.
"""

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.display import runs_of
from kexpfam.display.numbers import CurveNumbers, DensityNumbers
from kexpfam.display.svg import (
    NamedAxis,
    PictureFrame,
    area,
    bar,
    bars,
    line,
    number_text,
    outline,
    shortened,
    text,
)

Size = tuple[float, float]


def density_frame(found: DensityNumbers, size: Size, peak: float = 0.0) -> PictureFrame:
    """The axes of a density; its height has no labels, as few can read them.

    They are so high that a peak of another density is inside, too.
    """
    top = 1.24 * max(float(found.pdf.max()), peak, np.finfo(float).tiny)
    return PictureFrame.around(size, found.axis, (0.0, top), y_labels=False)


def density_content(
    found: DensityNumbers,
    frame: PictureFrame,
    target: str,
    observed: float | None,
    likeliest: float,
) -> str:
    """Curve, shaded region, and marks for mean, median, modes and what was observed.

    Stems of probabilities are as high as most of the picture for the likeliest.
    """
    xs, heights = frame.x(found.grid), frame.y(found.pdf)
    base = frame.y.start
    parts = [area(xs, heights, base, "area")]
    for low, high in found.region.tolist():
        inner = found.grid[(found.grid > low) & (found.grid < high)]
        ys = np.clip([low, *inner, high], *found.axis)
        top = frame.y(np.interp(ys, found.grid, found.pdf))
        parts.append(area(frame.x(ys), top, base, "region"))
    parts.append(frame.axes(target, y_ticks=False))
    parts.append(line(xs, heights, "curve"))
    for kind, place in (("median", found.quantiles[2]), ("mean", found.mean)):
        parts.append(_stem(found, frame, float(place), kind))
    for mode in found.modes:
        x, y = float(frame.x(mode.place)), float(frame.y(mode.height))
        parts.append(f'<path class="mode" d="M{x:.1f} {y - 6:.1f}l-4.5 -8h9z"/>')
    parts.append(_atoms(found, frame, likeliest))
    if observed is not None and found.axis[0] <= observed <= found.axis[1]:
        x = float(frame.x(observed))
        parts.append(
            f'<path class="observed" d="M{x - 5:.1f} {base - 5:.1f}l10 10m0 -10l-10 10"'
            f"/>"
        )
    return "".join(parts)


def _atoms(found: DensityNumbers, frame: PictureFrame, most: float) -> str:
    """Stems of values with a probability of their own, which their labels tell.

    Probabilities and densities have no common scale: a stem of the probability `most`
    is as high as most of the picture.
    """
    inside = (found.atoms[:, 0] >= found.axis[0]) & (found.atoms[:, 0] <= found.axis[1])
    atoms, parts = found.atoms[inside], []
    for value, mass in atoms.tolist():
        x = float(frame.x(value))
        top = frame.y.start - 0.72 * (mass / most) * (frame.y.start - frame.y.end)
        parts.append(
            f'<path class="stem" d="M{x:.1f} {frame.y.start:.1f}V{top:.1f}"/>'
            f'<circle class="atom" cx="{x:.1f}" cy="{top:.1f}" r="4"/>'
        )
        if len(atoms) <= 8:  # of more, labels would lie over each other
            parts.append(text(x, top - 9, f"{mass:.0%}", "tick", "middle"))
    return "".join(parts)


def _stem(found: DensityNumbers, frame: PictureFrame, place: float, kind: str) -> str:
    if not found.axis[0] <= place <= found.axis[1]:
        return ""
    x = float(frame.x(place))
    top = float(frame.y(np.interp(place, found.grid, found.pdf)))
    return f'<path class="{kind}" d="M{x:.1f} {frame.y.start:.1f}V{top:.1f}"/>'


def density_picture(
    found: DensityNumbers, size: Size, target: str, observed: float | None = None
) -> str:
    """The whole picture of a density."""
    frame = density_frame(found, size)
    content = density_content(found, frame, target, observed, found.likeliest_atom)
    words = f"Density of {target}, median {number_text(float(found.quantiles[2]))}"
    return frame.picture(content, words)


def curve_picture(
    found: CurveNumbers,
    along: NamedAxis,
    size: Size,
    target: str,
    *,
    seen: tuple[Array, Array],
    at: float | str | None = None,
) -> str:
    """Bands between quantiles, median and mean along a feature, which is now at `at`.

    What was seen are values of the feature and of y in the data, (m,) each.
    """
    shown = [found.quantiles.ravel()]
    if len(seen[1]):
        shown.append(np.percentile(seen[1], [0.5, 99.5]))
    ys = np.concatenate(shown)
    pad = 0.06 * float(np.ptp(ys)) or 0.5
    vertical = float(ys.min()) - pad, float(ys.max()) + pad
    frame, axes = _frame_along(along, vertical, size, target)
    over = (
        _boxes(found, frame, along.categories, at)
        if along.categories
        else _bands(found, frame, at)
    )
    content = axes + frame.dots(*seen, "dot") + over
    return frame.picture(content, f"Quantiles of {target} along {along.name}")


def _frame_along(
    along: NamedAxis, vertical: tuple[float, float], size: Size, target: str
) -> tuple[PictureFrame, str]:
    """A frame along a feature, and its axes."""
    frame = PictureFrame.around(size, along.ends, vertical, y_name=True)
    most = max(2, int((size[0] - 80) / max(1, len(along.categories)) / 7))
    labels = [shortened(category, most) for category in along.categories]
    return frame, frame.axes(along.name, target, x_texts=labels or None)


def _bands(found: CurveNumbers, frame: PictureFrame, at: float | str | None) -> str:
    xs = frame.x(found.places)
    low, lower, middle, upper, high = (frame.y(q) for q in found.quantiles.T)
    parts = [
        area(xs, high, low, "band outer"),
        area(xs, upper, lower, "band inner"),
        line(xs, middle, "curve"),
        *_known_line(xs, frame.y(found.mean), "mean-line"),
        *_dimmed(xs, found.few, frame),
    ]
    if isinstance(at, float) and frame.x.low <= at <= frame.x.high:
        x = float(frame.x(at))
        parts.append(
            f'<path class="here" d="M{x:.1f} {frame.y.start:.1f}V{frame.y.end:.1f}"/>'
        )
    return "".join(parts)


def _known_line(xs: Array, ys: Array, kind: str) -> list[str]:
    """A line where there are numbers; of heavy tails there are no means."""
    runs = runs_of(np.isfinite(ys))
    return [line(xs[first:last], ys[first:last], kind) for first, last in runs]


def _dimmed(xs: Array, few: Mask, frame: PictureFrame) -> list[str]:
    """Veils where hardly any training rows are near, from point to point."""
    # Half way to the points where more are, and not beyond the picture.
    between = np.concatenate([xs[:1], 0.5 * (xs[1:] + xs[:-1]), xs[-1:]])
    return [
        _veil(float(between[first]), float(between[last]), frame)
        for first, last in runs_of(few)
    ]


def _veil(left: float, right: float, frame: PictureFrame) -> str:
    top, height = frame.y.end, frame.y.start - frame.y.end
    lines = "".join(
        f"M{x:.1f} {top:.1f}v{height:.1f}" for x in np.arange(left + 3.0, right, 6.0)
    )
    return (
        bar(left, top, right - left, height, "few")
        + f'<path class="few-line" d="{lines}"/>'
    )


def _boxes(
    found: CurveNumbers,
    frame: PictureFrame,
    categories: tuple[str, ...],
    at: float | str | None,
) -> str:
    half = min(26.0, 0.3 * float(frame.x(1.0) - frame.x(0.0)))
    parts = []
    for i, category in enumerate(categories):
        x = float(frame.x(float(i)))
        low, lower, middle, upper, high = frame.y(found.quantiles[i]).tolist()
        mean = float(frame.y(found.mean[i]))
        chosen = " chosen" if category == at else ""
        parts += [
            bar(x - half, high, 2 * half, low - high, f"band outer{chosen}"),
            bar(x - half, upper, 2 * half, lower - upper, f"band inner{chosen}"),
            f'<path class="curve" d="M{x - half:.1f} {middle:.1f}h{2 * half:.1f}"/>',
        ]
        if np.isfinite(mean):
            stroke = f"M{x - half:.1f} {mean:.1f}h{2 * half:.1f}"
            parts.append(f'<path class="mean-line" d="{stroke}"/>')
        if found.few[i]:
            parts.append(_veil(x - half - 1.0, x + half + 1.0, frame))
    return "".join(parts)


def pit_picture(values: Array, size: Size, bins: int = 12) -> str:
    """Histogram of F(y), (n,), with the range of most bars if all were well."""
    counts, edges = np.histogram(values, bins, (0.0, 1.0))
    heights = counts * bins / len(values)
    # Two standard errors of a bar of uniform values.
    error = 2.0 * np.sqrt((bins - 1) / len(values))
    top = 1.08 * max(1.0 + error, float(heights.max()))
    frame = PictureFrame.around(size, (0.0, 1.0), (0.0, top), y_name=True)
    base = frame.y.start
    shown = bars(frame.x(edges), base, base - frame.y(heights), 2.0, "bar")
    upper, lower = (float(frame.y(max(0.0, 1.0 + s * error))) for s in (1, -1))
    band = bar(frame.x.start, upper, frame.x.end - frame.x.start, lower - upper, "fair")
    one = line(frame.x(np.array([0.0, 1.0])), frame.y(np.ones(2)), "target")
    axes = frame.axes("F(observed)", "density")
    return frame.picture(axes + band + shown + one, "Histogram of the PIT")


def coverage_picture(central: Array, highest: Array, size: Size) -> str:
    """Share of observations inside intervals, against what these promise.

    Of each row, (n,), the level of the central interval that just holds y, |2F(y) − 1|,
    and that of the region of highest density.
    """
    frame = PictureFrame.around(size, (0.0, 1.0), (0.0, 1.0), y_name=True)
    promised = np.linspace(0.0, 1.0, 101)
    error = 2.0 * np.sqrt(promised * (1.0 - promised) / len(central))
    xs = frame.x(promised)
    upper, lower = (np.clip(promised + s * error, 0.0, 1.0) for s in (1, -1))
    content = [
        frame.axes("promised coverage", "observed"),
        area(xs, frame.y(upper), frame.y(lower), "fair"),
        line(xs[[0, -1]], frame.y(promised[[0, -1]]), "target"),
    ]
    for values, kind in ((highest, "mean-line"), (central, "curve")):
        share = np.searchsorted(np.sort(values), promised, side="right") / len(values)
        content.append(line(xs, frame.y(share), kind))
    return frame.picture("".join(content), "Coverage of intervals")


def histogram_picture(
    data: Array, draws: Array, axis: tuple[float, float], size: Size, target: str
) -> str:
    """Histogram of the data, and outline of that of the draws."""
    edges = _bins(np.concatenate([data, draws]), len(data), axis)
    axis = min(axis[0], float(edges[0])), max(axis[1], float(edges[-1]))
    seen, drawn = (
        np.histogram(v, edges)[0] / max(len(v), 1) / (edges[1] - edges[0])
        for v in (data, draws)
    )
    top = 1.1 * max(float(seen.max()), float(drawn.max()), np.finfo(float).tiny)
    frame = PictureFrame.around(size, axis, (0.0, top), y_labels=False)
    left, base = frame.x(edges), frame.y.start
    under = bars(left, base, base - frame.y(seen), 1.5, "seen-bar")
    over = outline(left, base, base - frame.y(drawn), "curve")
    axes = frame.axes(target, y_ticks=False)
    return frame.picture(under + axes + over, f"Histograms of {target}")


def _bins(values: Array, n: int, axis: tuple[float, float]) -> Array:
    """Edges of the bars of n values; of whole numbers each holds as many of them."""
    count = int(np.clip(1.5 * np.sqrt(n), 10, 40))
    if np.array_equal(values, np.round(values)):
        low, high = np.floor(axis[0]), np.ceil(axis[1])
        wide = max(1.0, np.ceil((high - low + 1.0) / max(count, 24)))
        return np.arange(low, high + wide + 0.5, wide) - 0.5
    return np.linspace(*axis, count + 1)


def scatter_picture(
    along: NamedAxis,
    seen: tuple[Array, Array],
    drawn: tuple[Array, Array],
    axis: tuple[float, float],
    size: Size,
    target: str,
) -> str:
    """Data and draws against a feature."""
    frame, axes = _frame_along(along, axis, size, target)
    content = axes + frame.dots(*seen, "dot") + frame.dots(*drawn, "drawn")
    return frame.picture(content, f"Draws and data of {target} against {along.name}")
