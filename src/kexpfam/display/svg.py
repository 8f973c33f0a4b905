"""A little SVG: axes with sensible ticks, lines, areas and texts.

Colours and widths are those of classes in `page/style.css`, so that a picture follows
the page into the dark. All texts are escaped, since names of columns come from files.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import ClassVar

import numpy as np

from kexpfam._typing import Array

LETTER = 6.6  # width of a letter of a label, in pixels


@dataclass(frozen=True)
class Scale:
    """A line from numbers to pixels."""

    low: float  # number at the start
    high: float  # number at the end
    start: float  # pixel of the start
    end: float  # pixel of the end

    def __call__(self, values: Array | float) -> Array:
        """Pixels of numbers."""
        share = (np.asarray(values, dtype=float) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, apart: float) -> list[float]:
        """Round numbers that are at least so many pixels apart."""
        most = max(2, int(abs(self.end - self.start) / apart))
        return ticks(self.low, self.high, most)


@dataclass(frozen=True)
class NamedAxis:
    """An axis of numbers, or of categories that stand at 0, 1, ..."""

    name: str
    ends: tuple[float, float]
    categories: tuple[str, ...] = ()


def nice_step(size: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not larger.

    Example:
        >>> nice_step(0.37), nice_step(7.0)
        (0.2, 5.0)
    """
    power = 10.0 ** math.floor(math.log10(size))
    return tidy(next(m for m in (5.0, 2.0, 1.0) if m * power <= size * 1.0001) * power)


def tidy(value: float) -> float:
    """Without digits that only rounding made."""
    return float(f"{value:.12g}")


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high.

    Example:
        >>> ticks(0.0, 10.0, 5)
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    step = nice_step((high - low) / max(most, 1))
    while (high - low) / step > most + 0.5:
        step = nice_step(step * 2.5)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [tidy(k * step) for k in range(first, last + 1)]


def number_text(value: float, digits: int = 4) -> str:
    """A number for people.

    Example:
        >>> number_text(0.1234567), number_text(-12345.6), number_text(0.0)
        ('0.1235', '−12,346', '0')
        >>> number_text(2026.0)  # perhaps a year
        '2026'
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    size = abs(value)
    if size >= 10 ** (digits + 5) or size < 1e-4:
        text = f"{value:.{digits - 1}e}".replace("e+0", "e").replace("e-0", "e-")
    elif size >= 10 ** (digits - 1):
        text = f"{value:{_grouped(size)}.0f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "−")


def tick_texts(values: Sequence[float]) -> list[str]:
    """Labels of ticks, all with as many decimals as the step between them needs."""
    if len(values) < 2:
        return [number_text(v) for v in values]
    step = values[1] - values[0]
    if max(map(abs, values)) >= 1e7 or step < 1e-4:
        return [number_text(v) for v in values]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    comma = _grouped(max(map(abs, values)))
    return [f"{v:{comma}.{decimals}f}".replace("-", "−") for v in values]


def _grouped(size: float) -> str:
    """How thousands are set apart: from here on, since below it are years."""
    return "," if size >= 10_000 else ""


def line(xs: Array, ys: Array, kind: str) -> str:
    """A line through points, in pixels."""
    return f'<path class="{kind}" d="{path(xs, ys)}"/>'


def area(xs: Array, upper: Array, lower: Array | float, kind: str) -> str:
    """The area between two lines, in pixels."""
    base = np.broadcast_to(np.asarray(lower, dtype=float), np.shape(xs))
    both = np.concatenate([xs, xs[::-1]]), np.concatenate([upper, base[::-1]])
    return f'<path class="{kind}" d="{path(*both)}Z"/>'


def dots(xs: Array, ys: Array, kind: str, radius: float = 2.4) -> str:
    """Many equal dots as one path, which is quicker than many circles."""
    r = f"{radius:g}"
    arc = f"a{r} {r} 0 1 0 {2 * radius:g} 0a{r} {r} 0 1 0 {-2 * radius:g} 0"
    pairs = zip(xs.tolist(), ys.tolist(), strict=True)
    content = "".join(f"M{x - radius:.1f} {y:.1f}{arc}" for x, y in pairs)
    return f'<path class="{kind}" d="{content}"/>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A rectangle, in pixels."""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}"/>'
    )


def bars(edges: Array, base: float, heights: Array, gap: float, kind: str) -> str:
    """Bars of a histogram, in pixels, with a gap between them."""
    ends = zip(edges[:-1].tolist(), edges[1:].tolist(), heights.tolist(), strict=True)
    return "".join(
        bar(a + gap / 2, base - tall, b - a - gap, tall, kind) for a, b, tall in ends
    )


def outline(edges: Array, base: float, heights: Array, kind: str) -> str:
    """The outline of a histogram, in pixels."""
    return line(np.repeat(edges, 2)[1:-1], base - np.repeat(heights, 2), kind)


def text(x: float, y: float, content: str, kind: str, anchor: str = "start") -> str:
    """A text whose baseline begins, ends or has its middle at a point."""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )


def shortened(content: str, most: int) -> str:
    """A text with its end cut off if it is too long."""
    return content if len(content) <= most else content[: max(1, most - 1)] + "…"


def picture(size: tuple[float, float], content: str, title: str) -> str:
    """A whole picture, in pixels, with a title for those who do not see it."""
    width, height = f"{size[0]:.0f}", f"{size[1]:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">'
        f"<title>{escape(title)}</title>{content}</svg>"
    )


@dataclass(frozen=True)
class PictureFrame:
    """Axes of a picture, with the y axis upwards."""

    size: tuple[float, float]  # width and height of the picture, in pixels
    x: Scale
    y: Scale
    # Pixels that a tick needs: labels beside and above each other.
    beside: ClassVar[float] = 78.0
    above: ClassVar[float] = 46.0

    @classmethod
    def around(
        cls,
        size: tuple[float, float],
        xs: tuple[float, float],
        ys: tuple[float, float],
        *,
        y_labels: bool = True,
        y_name: bool = False,
    ) -> "PictureFrame":
        """Leave as much room as labels and name of the y axis need."""
        width, height = size
        y = Scale(*ys, height - 44.0, 26.0 if y_name else 12.0)
        left = 14.0
        if y_labels:
            labels = tick_texts(y.ticks(cls.above))
            left = 16.0 + LETTER * max([len(label) for label in labels], default=1)
        return cls(size, Scale(*xs, left, width - 14.0), y)

    def axes(
        self,
        x_label: str,
        y_label: str = "",
        *,
        y_ticks: bool = True,
        x_texts: Sequence[str] | None = None,
    ) -> str:
        """Grid lines, ticks and labels."""
        left, right, bottom = self.x.start, self.x.end, self.y.start
        parts = []
        if y_ticks:
            heights = self.y.ticks(self.above)
            for value, label in zip(heights, tick_texts(heights), strict=True):
                y = float(self.y(value))
                parts.append(
                    f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>'
                )
                parts.append(text(left - 8, y + 4, label, "tick", "end"))
        places = self.x.ticks(self.beside)
        labels = tick_texts(places)
        if x_texts is not None:
            places, labels = [float(i) for i in range(len(x_texts))], list(x_texts)
        parts.append(f'<path class="axis" d="M{left:.1f} {bottom:.1f}H{right:.1f}"/>')
        for value, label in zip(places, labels, strict=True):
            x = float(self.x(value))
            parts.append(f'<path class="axis" d="M{x:.1f} {bottom:.1f}v5"/>')
            # Labels at the ends stay inside the picture.
            width, half = self.size[0], 0.5 * LETTER * len(label)
            place, anchor = min(max(x, half), width - 4), "middle"
            if x + half > width:
                place, anchor = width - 2, "end"
            parts.append(text(place, bottom + 18, label, "tick", anchor))
        middle, most = 0.5 * (left + right), int((right - left) / 7)
        below = shortened(x_label, most)
        parts.append(text(middle, bottom + 36, below, "label", "middle"))
        if y_label:
            parts.append(text(left, 14.0, shortened(y_label, most), "label"))
        return "".join(parts)

    def dots(self, xs: Array, ys: Array, kind: str, radius: float = 2.4) -> str:
        """Dots at numbers, as far as they are inside the axes."""
        x, y = self.x, self.y
        inside = (xs >= x.low) & (xs <= x.high) & (ys >= y.low) & (ys <= y.high)
        return dots(x(xs[inside]), y(ys[inside]), kind, radius)

    def picture(self, content: str, title: str) -> str:
        """The whole picture."""
        return picture(self.size, content, title)


def path(xs: Array, ys: Array) -> str:
    """What a path through points is, in pixels."""
    pairs = zip(np.asarray(xs).tolist(), np.asarray(ys).tolist(), strict=True)
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in pairs)
