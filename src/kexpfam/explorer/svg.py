"""A little SVG: axes with sensible ticks, lines, areas and texts.

Colours and widths are those of classes in `page/style.css`, so that a picture follows
the page into the dark. All texts are escaped, since names of columns come from files.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from kexpfam._typing import Array
from kexpfam.explorer.subject import nice_step

# Pixels that a tick needs: labels of numbers beside and above each other.
_BESIDE, _ABOVE = 78, 46

# Width of a letter of a label, in pixels.
_LETTER = 6.6

# Thousands are set apart from here on: below it are years.
_GROUPED = 10_000


@dataclass(frozen=True)
class Scale:
    """A line from numbers to pixels.

    Attributes:
        low: Number at the start.
        high: Number at the end.
        start: Pixel of the start.
        end: Pixel of the end.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, values: Array | float) -> Array:
        """Pixels of numbers."""
        share = (np.asarray(values, dtype=float) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


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
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


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
        text = f"{value:,.0f}" if size >= _GROUPED else f"{value:.0f}"
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
    comma = "," if max(map(abs, values)) >= _GROUPED else ""
    return [f"{v:{comma}.{decimals}f}".replace("-", "−") for v in values]


def line(xs: Array, ys: Array, kind: str) -> str:
    """A line through points, in pixels."""
    return f'<path class="{kind}" d="{_path(xs, ys)}"/>'


def area(xs: Array, upper: Array, lower: Array | float, kind: str) -> str:
    """The area between two lines, in pixels."""
    base = np.broadcast_to(np.asarray(lower, dtype=float), np.shape(xs))
    both = np.concatenate([xs, xs[::-1]]), np.concatenate([upper, base[::-1]])
    return f'<path class="{kind}" d="{_path(*both)}Z"/>'


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


@dataclass(frozen=True)
class PictureFrame:
    """Axes of a picture, with the y axis upwards.

    Attributes:
        width: Of the picture, in pixels.
        height: Of the picture.
        x: Horizontal scale.
        y: Vertical scale.
    """

    width: float
    height: float
    x: Scale
    y: Scale

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
            labels = tick_texts(ticks(*ys, _fitting(y, _ABOVE)))
            left = 16.0 + _LETTER * max([len(label) for label in labels], default=1)
        return cls(width, height, Scale(*xs, left, width - 14.0), y)

    def axes(
        self,
        x_label: str,
        y_label: str = "",
        *,
        y_ticks: bool = True,
        x_texts: Sequence[str] | None = None,
    ) -> str:
        """Grid lines, ticks and labels."""
        left, right = self.x.start, self.x.end
        bottom = self.y.start
        parts = []
        if y_ticks:
            heights = ticks(self.y.low, self.y.high, _fitting(self.y, _ABOVE))
            for value, label in zip(heights, tick_texts(heights), strict=True):
                y = float(self.y(value))
                parts.append(
                    f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>'
                )
                parts.append(text(left - 8, y + 4, label, "tick", "end"))
        if x_texts is None:
            places = ticks(self.x.low, self.x.high, _fitting(self.x, _BESIDE))
            labels = tick_texts(places)
        else:
            places, labels = [float(i) for i in range(len(x_texts))], list(x_texts)
        parts.append(f'<path class="axis" d="M{left:.1f} {bottom:.1f}H{right:.1f}"/>')
        for value, label in zip(places, labels, strict=True):
            x = float(self.x(value))
            parts.append(f'<path class="axis" d="M{x:.1f} {bottom:.1f}v5"/>')
            inside = min(max(x, 0.5 * _LETTER * len(label)), self.width - 4)
            end = x + 0.5 * _LETTER * len(label) > self.width
            place = (self.width - 2, "end") if end else (inside, "middle")
            parts.append(text(place[0], bottom + 18, label, "tick", place[1]))
        middle = 0.5 * (left + right)
        most = int((right - left) / 7)
        parts.append(
            text(middle, bottom + 36, shortened(x_label, most), "label", "middle")
        )
        if y_label:
            parts.append(text(left, 14.0, shortened(y_label, most), "label"))
        return "".join(parts)

    def dots(self, xs: Array, ys: Array, kind: str, radius: float = 2.4) -> str:
        """Dots at numbers, as far as they are inside the axes."""
        x, y = self.x, self.y
        inside = (xs >= x.low) & (xs <= x.high) & (ys >= y.low) & (ys <= y.high)
        return dots(x(xs[inside]), y(ys[inside]), kind, radius)

    def picture(self, content: str, title: str) -> str:
        """The whole picture, with a title for those who do not see it."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}">'
            f"<title>{escape(title)}</title>{content}</svg>"
        )


def _fitting(scale: Scale, apart: float) -> int:
    return max(2, int(abs(scale.end - scale.start) / apart))


def _path(xs: Array, ys: Array) -> str:
    pairs = zip(np.asarray(xs).tolist(), np.asarray(ys).tolist(), strict=True)
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in pairs)
