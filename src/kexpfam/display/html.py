"""Densities in a notebook: a table with small curves, as HTML without scripts.

Looks are attributes of the elements and not a style sheet, which some viewers remove.
Colours of texts are those of the page, so that it reads on white and on black.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.display.summaries import (
    LEVEL,
    DensitySummary,
    first_summaries,
    summary_texts,
)
from kexpfam.display.svg import Scale, number_text, path, picture, tick_texts
from kexpfam.display.theme import THEME

_BOX = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.4;max-width:68em"
_CELL = "padding:3px 14px 3px 0;text-align:left"
_QUIET = "opacity:.65;font-size:12px"

# Letters of a cell that has one line; kernels of many columns have more.
_LONG = 36

# Of a small curve beside numbers, and of one by itself, in pixels.
_SMALL, _LARGE = (260.0, 46.0), (460.0, 130.0)


def html_box(*content: str) -> str:
    """Parts of a page, one below the other."""
    return f'<div class="kexpfam" style="{_BOX}">{"".join(content)}</div>'


def html_heading(text: str, more: str = "") -> str:
    """A line in bold, and some quiet words after it."""
    words = f' <span style="{_QUIET}">{escape(more)}</span>' if more else ""
    return f'<div style="margin:2px 0 4px"><b>{escape(text)}</b>{words}</div>'


def html_quiet(text: str) -> str:
    """A paragraph of small letters."""
    return f'<div style="{_QUIET};margin:4px 0">{escape(text)}</div>'


def html_notes(notes: Sequence[str]) -> str:
    """A list of what a reader should know; nothing without notes."""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    style = "margin:6px 0 0;padding-left:1.3em"
    return f'<ul style="{style}">{items}</ul>' if notes else ""


def pit_strip(heights: Array, words: str) -> str:
    """How often PIT values were where, from 0 to 1, beside "as often".

    Args:
        heights: Their density in bins of [0, 1], one if all was well, (k,).
        words: What they are.
    """
    width, height = size = (260.0, 46.0)
    x = Scale(0.0, 1.0, 4.0, width - 4.0)
    y = Scale(0.0, max(1.6, float(heights.max())), height - 15.0, 4.0)
    wide = (x.end - x.start) / len(heights)
    bars = "".join(
        f'<rect x="{x.start + k * wide + 0.5:.1f}" y="{top:.1f}" '
        f'width="{wide - 1:.1f}" height="{y.start - top:.1f}" fill="{THEME.bars}"/>'
        for k, top in enumerate(y(heights).tolist())
    )
    one = (
        f'<path d="M{x.start:.1f} {float(y(1.0)):.1f}H{x.end:.1f}" '
        f'stroke="{THEME.orange}" stroke-dasharray="4 3"/>'
    )
    svg = picture(size, bars + one + _ticks(x, y.start), "PIT of held-out rows")
    return f'<div style="margin-top:8px">{svg}{html_quiet(words)}</div>'


def html_bar(share: float) -> str:
    """A bar as long as a share of one, in a cell of a table."""
    width, height = size = (160.0, 12.0)
    bar = (
        f'<rect y="1" width="{max(1.0, share * width):.1f}" height="{height - 2:.0f}" '
        f'fill="{THEME.bars}"/>'
    )
    return picture(size, bar, f"{share:.0%}")


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; cells that are pictures are taken as they are, others escaped."""
    quiet = f"{_CELL};white-space:nowrap;font-weight:500;opacity:.65"
    head = "".join(f'<th style="{quiet}">{_cell(name)}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td{_wrapped(c)}>{_cell(c)}</td>" for c in row) + "</tr>"
        for row in rows
    )
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    table = 'style="border-collapse:collapse;margin:0;width:auto"'
    return (
        f'<div style="overflow-x:auto"><table {table}>{head}'
        f"<tbody>{body}</tbody></table></div>"
    )


def _wrapped(content: str) -> str:
    """The style of a cell: what is long goes on below."""
    long = len(content) > _LONG and not content.startswith("<svg ")
    width = "min-width:16em" if long else "white-space:nowrap"
    return f' style="{_CELL};{width}"'


def _cell(content: str) -> str:
    return content if content.startswith("<svg ") else escape(content)


def densities_in_html(densities: Any, names: list[str], most: int = 5) -> str:
    """What a notebook shows of densities: the first of them as curves and numbers.

    Args:
        densities: Of one column or of several, as `given` returns them.
        names: Of the columns.
        most: How many densities are shown.
    """
    single = np.ndim(densities.support) == 1 + (len(names) > 1)
    count = 1 if single else len(densities)
    kind = "mass function" if _is_counting(densities) else "density"
    plural = "mass functions" if _is_counting(densities) else "densities"
    title = f"One {kind}" if count == 1 else f"{count} {plural}"
    heading = html_heading(f"{title} of {', '.join(names)}", type(densities).__name__)
    if not count:
        return html_box(heading)
    rest = html_quiet(f"… and {count - most} more") if count > most else ""
    if len(names) > 1:
        return html_box(heading, _several(densities, names, single, most), rest)
    found = first_summaries(densities, most)
    size = _LARGE if single else _SMALL
    axis = _axis(found)
    rows = [
        [
            *([] if single else [str(i)]),
            small_curve(summary, axis, size, names[0]),
            *summary_texts(summary),
        ]
        for i, summary in enumerate(found)
    ]
    header = [
        *([] if single else ["row"]),
        names[0],
        *("mean", "median", f"{LEVEL:.0%} interval", "modes"),
    ]
    legend = html_quiet(
        f"Shaded: the smallest region with {LEVEL:.0%}. Triangles: modes. Dotted: mean."
        + (" Stems: values with a probability of their own." if _stems(found) else "")
    )
    return html_box(heading, html_table(header, rows), rest, legend)


def _is_counting(densities: Any) -> bool:
    return getattr(densities, "measure", "lebesgue") == "counting"


def _stems(found: list[DensitySummary]) -> bool:
    return any(len(summary.atoms) for summary in found)


def _axis(found: list[DensitySummary]) -> tuple[float, float]:
    """A range in which all of these are seen."""
    seen = [np.concatenate([s.interval, _told(s.atoms)[:, 0]]) for s in found]
    seen += [s.curve.y[[0, -1]] for s in found if s.curve is not None]
    ends = np.concatenate(seen)
    low, high = float(ends.min()), float(ends.max())
    room = 0.02 * (high - low) or 0.5 * max(1.0, abs(low))
    return low - room, high + room


def _told(atoms: Array) -> Array:
    return atoms[atoms[:, 1] >= 1e-3]


def small_curve(
    summary: DensitySummary,
    axis: tuple[float, float],
    size: tuple[float, float],
    name: str,
) -> str:
    """A density as a small picture, with its own height."""
    width, height = size
    x = Scale(*axis, 4.0, width - 4.0)
    curve, atoms = summary.curve, _told(summary.atoms)
    top = max(
        0.0 if curve is None else float(curve.pdf.max()), atoms[:, 1].max(initial=0.0)
    )
    y = Scale(0.0, top or 1.0, height - 15.0, 10.0)
    base, parts = y.start, []
    if curve is not None:
        xs, heights = x(curve.y), y(curve.pdf)
        parts.append(_area(xs, heights, base, THEME.bars, 0.28))
        for low, high in np.clip(summary.region, curve.y[0], curve.y[-1]).tolist():
            inner = curve.y[(curve.y > low) & (curve.y < high)]
            ys = np.array([low, *inner, high])
            tops = y(np.interp(ys, curve.y, curve.pdf))
            parts.append(_area(x(ys), tops, base, THEME.bars, 0.75))
        stroke = f'fill="none" stroke="{THEME.blue}" stroke-width="1.6"'
        parts.append(f'<path d="{path(xs, heights)}" {stroke}/>')
    for value, mass in atoms.tolist():
        at, tip = float(x(value)), float(y(mass))
        parts.append(
            f'<path d="M{at:.1f} {base:.1f}V{tip:.1f}" stroke="{THEME.blue}" '
            f'stroke-width="1.6"/><circle cx="{at:.1f}" cy="{tip:.1f}" r="2.4" '
            f'fill="{THEME.blue}"/>'
        )
    parts.append(_marks(summary, x, y))
    parts.append(_ticks(x, base))
    return picture(
        size, "".join(parts), f"Density of {name}, median {number_text(summary.median)}"
    )


def _area(xs: Array, heights: Array, base: float, color: str, opacity: float) -> str:
    around = np.concatenate([xs, xs[::-1]])
    edge = np.concatenate([heights, np.full(len(xs), base)])
    return f'<path d="{path(around, edge)}Z" fill="{color}" fill-opacity="{opacity}"/>'


def _marks(summary: DensitySummary, x: Scale, y: Scale) -> str:
    """Triangles over modes of the curve, and a dotted line at the mean."""
    parts = []
    if x.low <= summary.mean <= x.high:
        at = float(x(summary.mean))
        parts.append(
            f'<path d="M{at:.1f} {y.start:.1f}V{y.end:.1f}" stroke="{THEME.orange}" '
            f'stroke-width="1.4" stroke-dasharray="1.5 2.5"/>'
        )
    masses = set(summary.atoms[:, 0].tolist())
    for place in summary.modes:
        if place in masses or summary.curve is None:
            continue
        at = float(x(place))
        tip = float(y(np.interp(place, summary.curve.y, summary.curve.pdf))) - 2.0
        parts.append(f'<path d="M{at:.1f} {tip:.1f}l-3.5 -6h7z" fill="currentColor"/>')
    return "".join(parts)


def _ticks(x: Scale, base: float) -> str:
    """A line below, with a few round numbers."""
    parts = [
        f'<path d="M{x.start:.1f} {base:.1f}H{x.end:.1f}" stroke="currentColor" '
        f'stroke-opacity=".35"/>'
    ]
    places = x.ticks(72.0)
    for value, label in zip(places, tick_texts(places), strict=True):
        at = float(x(value))
        half = 3.0 * len(label)
        middle = min(max(at, x.start + half), x.end - half)
        parts.append(
            f'<path d="M{at:.1f} {base:.1f}v3" stroke="currentColor" '
            f'stroke-opacity=".35"/><text x="{middle:.1f}" y="{base + 13:.1f}" '
            f'text-anchor="middle" font-size="10" fill="currentColor" '
            f'fill-opacity=".65">{escape(label)}</text>'
        )
    return "".join(parts)


def _several(densities: Any, names: list[str], single: bool, most: int) -> str:
    """Mean and standard deviation of each column, and draws of the first two."""
    first = densities if single else densities[:most]
    shape = (-1, len(names))
    means, stds = np.reshape(first.mean(), shape), np.reshape(first.std(), shape)
    draws = np.asarray(first.rvs(150, random_state=0))
    draws = draws[None] if single else draws
    ends = [_spread(draws[..., j]) for j in (0, 1)]
    rows = [
        [
            *([] if single else [str(i)]),
            _dots(draws[i], ends),
            *(
                f"{number_text(m)} ± {number_text(s, 2)}"
                for m, s in zip(means[i].tolist(), stds[i].tolist(), strict=True)
            ),
        ]
        for i in range(len(means))
    ]
    header = [*([] if single else ["row"]), f"{names[1]} against {names[0]}", *names]
    words = "Mean ± standard deviation of each column; dots are draws."
    return html_table(header, rows) + html_quiet(words)


def _spread(values: Array) -> tuple[float, float]:
    low, high = (float(v) for v in np.percentile(values, [0.5, 99.5]))
    room = 0.05 * (high - low) or 0.5 * max(1.0, abs(low))
    return low - room, high + room


def _dots(draws: Array, ends: list[tuple[float, float]]) -> str:
    width, height = size = (150.0, 84.0)
    x, y = Scale(*ends[0], 4.0, width - 4.0), Scale(*ends[1], height - 4.0, 4.0)
    points = "".join(
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="1.6"/>'
        for a, b in zip(x(draws[:, 0]).tolist(), y(draws[:, 1]).tolist(), strict=True)
        if 0 <= a <= width and 0 <= b <= height
    )
    frame = (
        f'<rect x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1:.0f}" '
        f'fill="none" stroke="currentColor" stroke-opacity=".25"/>'
    )
    dots = f'<g fill="{THEME.blue}" fill-opacity=".55">{points}</g>'
    return picture(size, frame + dots, "Draws of the first two columns")
