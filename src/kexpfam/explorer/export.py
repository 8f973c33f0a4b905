"""The main pictures in one page that needs no server, no network and no script."""

import datetime
from collections.abc import Sequence
from html import escape
from importlib import resources

import numpy as np

from kexpfam._typing import Array
from kexpfam.display import EXTRAPOLATION, UNLIKE, middle_cut
from kexpfam.display.numbers import density_numbers
from kexpfam.display.svg import bar, number_text, picture
from kexpfam.explanation import Importance
from kexpfam.explorer.joint import JointView
from kexpfam.explorer.pictures import curve_picture, density_picture
from kexpfam.explorer.subject import (
    Control,
    JointSubject,
    Question,
    Subject,
    kind_of_model,
)
from kexpfam.explorer.view import ConditionalView

# Of pictures, in pixels: three beside each other on a laptop, one on a phone.
_WIDTH = 400.0

# Features of which importance and ranges are told, and letters of the name of a group;
# more are not read.
_BARS, _LETTERS = 12, 40


def report(view: ConditionalView | JointView) -> str:
    """One self-contained HTML page with the main pictures of a model."""
    if isinstance(view, JointView):
        return _joint(view)
    found, subject = view.learn_importance(), view.ranked()
    names = _listed([c.name for c in subject.controls])
    heading = f"{subject.target} given {names}" if names else subject.target
    parts = [_part("At typical conditions", _densities(view), "cards many")]
    if subject.controls:
        title = "Along the features that matter most"
        parts.append(_part(title, _curves(view, subject), "cards many"))
    observed = np.isfinite(subject.y).any()
    if observed:
        parts.append(_part("Compared with the data", _comparison(view)))
    about = []
    if found is not None:
        about = [_importance(found, view.is_trained_on())]
    elif len(subject.controls) > 1:
        about = [_relevance(subject)]
    if observed:
        about += [_scores(view), _summary(subject, most=_BARS)]
    if about:
        parts.append(_part("In numbers", about, "cards many"))
    return _page(subject.title, heading, _subtitle(subject), "".join(parts))


def _joint(view: JointView) -> str:
    subject = view.subject
    graph = view.graph(Question({"width": 560}))["picture"]
    broad, narrow = (view.pairs(Question({"width": w})) for w in (900, 340))
    pairs = _either(broad["picture"], narrow["picture"])
    note = _quiet(broad["note"]) if broad["note"] else ""
    columns = dict(zip(subject.names, subject.rows.T, strict=True))
    keys = _legend(("key-draws", "draws of the model"), ("key-data", "data"))
    parts = [
        f'<div class="cards"><section class="card wide">{pairs}{keys}{note}'
        f'</section><section class="card"><header><h2>Graph</h2></header>'
        f'<div class="centred">{graph}</div></section>',
        _table("Columns of the data", columns) if len(subject.rows) else "",
        "</div>",
    ]
    heading = f"{_listed(subject.names)}, together"
    return _page(subject.title, heading, _subtitle(subject), "".join(parts))


def _either(broad: str, narrow: str) -> str:
    """A picture in two sizes: no script can ask for another one later."""
    return (
        f'<div class="broad">{_picture(broad)}</div>'
        f'<div class="narrow">{_picture(narrow)}</div>'
    )


def _page(title: str, heading: str, subtitle: str, body: str) -> str:
    folder = resources.files("kexpfam.explorer") / "page"
    template, style = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("report.html", "style.css")
    )
    return template.format(
        title=escape(f"{heading} · {title} · kexpfam"),
        style=style,
        date=f"{datetime.date.today():%-d %B %Y}",
        heading=escape(heading),
        subtitle=escape(subtitle),
        body=body,
    )


def _subtitle(subject: Subject | JointSubject) -> str:
    rows = len(subject.X if isinstance(subject, Subject) else subject.rows)
    data = f"{rows:,} rows of {subject.source}" if rows else "no data"
    told = [subject.title, kind_of_model(subject.model), data]
    return " · ".join(dict.fromkeys(told))  # a title may be the name of the class


def _listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a heading, not too many of them."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _part(title: str, cards: list[str], kind: str = "cards") -> str:
    return (
        f'<h2 class="part">{escape(title)}</h2><div class="{kind}">{"".join(cards)}'
        f"</div>"
    )


def _card(title: str, *content: str) -> str:
    return (
        f'<section class="card"><header><h2>{escape(title)}</h2></header>'
        f"{''.join(content)}</section>"
    )


def _picture(svg: str) -> str:
    return f'<div class="picture">{svg}</div>'


def _legend(*keys: tuple[str, str]) -> str:
    items = "".join(f'<li class="{kind}">{escape(text)}</li>' for kind, text in keys)
    return f'<ul class="legend">{items}</ul>'


def _densities(view: ConditionalView) -> list[str]:
    subject = view.subject
    cards = []
    for title, row, observed in _typical(subject):
        found = density_numbers(subject.model, row, view.axis, zoom=True)
        svg = density_picture(found, (_WIDTH, 230.0), subject.target, observed)
        where = ", ".join(
            f"{n} = {v if isinstance(v, str) else number_text(v)}"
            for n, v in subject.values(row[0]).items()
        )
        low, high = (number_text(float(v)) for v in found.interval)
        keys = [
            ("key-mean", f"mean {number_text(found.mean)}"),
            ("key-median", f"median {number_text(float(found.quantiles[2]))}"),
        ]
        if found.modes:  # a mass function has none
            modes = ", ".join(number_text(mode.place) for mode in found.modes)
            word = "modes" if len(found.modes) > 1 else "mode"
            keys.append(("key-mode", f"{word} {modes}"))
        keys.append(("key-region", f"90 % interval {low} – {high}"))
        if len(found.atoms):
            keys.append(("key-atom", "own probability"))
        if observed is not None:
            keys.append(("key-observed", f"observed {number_text(observed)}"))
        about = _quiet(where)
        far = bool(subject.unlike(row)[0])
        note = f'<p class="warning">Note: {escape(UNLIKE)}.</p>' if far else ""
        cards.append(_card(title, about, _picture(svg), _legend(*keys), note))
    return cards


def _typical(subject: Subject) -> list[tuple[str, Array, float | None]]:
    """A typical row, and rows with low and high means, as titles, rows and y.

    Without data, all medians, and rows that the model remembers.
    """
    rows, typical = subject.rows_to_average(), subject.typical_row()
    medians: list[tuple[str, Array, float | None]]
    medians = [("All features typical", subject.row({}), None)]
    if rows is None or not subject.controls:
        return medians
    places = {} if typical is None else {typical: "a typical row"}
    # Rows whose means are at these quantiles of the means of some.
    order = np.argsort(subject.model.predict(rows.X[:500]), kind="stable")
    for word, level in (("low", 0.1), ("high", 0.9)):
        place = int(order[int(level * (len(order) - 1))])
        places.setdefault(place, f"with a {word} mean")
    if typical is None:
        return medians + [
            (f"A row of the fit {words}", rows.X[[place]], None)
            for place, words in places.items()
        ]
    return [
        (
            f"Row {subject.numbers[place]}, {words}",
            subject.X[[place]],
            subject.observed(place),
        )
        for place, words in places.items()
    ]


def _curves(view: ConditionalView, subject: Subject, most: int = 6) -> list[str]:
    """Pictures along the features that matter most, averaged over rows."""
    averaged = len(subject.controls) > 1 and subject.rows_to_average() is not None
    first: list[Control] = []
    others: list[Control] = []
    row = subject.row({})
    for control in subject.controls:  # of those that say the same, one comes first
        said = {other.name for other in first} & set(control.beside)
        (others if said else first).append(control)
    found = [
        (control, view.averaged(control) if averaged else subject.along(control, row))
        for control in [*first, *others][:most]
    ]
    keys = [
        ("key-curve", "median"),
        ("key-mean", "mean"),
        ("key-inner", "50 %"),
        ("key-outer", "90 %"),
    ]
    cards = []
    for control, numbers in found:
        seen, size = view.shown(control), (_WIDTH, 250.0)
        svg = curve_picture(numbers, control.axis, size, subject.target, seen=seen)
        few = [("key-few", EXTRAPOLATION)] if numbers.few.any() else []
        legend = _legend(*keys, *few)
        cards.append(_card(f"Along {control.name}", _picture(svg), legend))
    return cards


def _comparison(view: ConditionalView) -> list[str]:
    found = view.calibration(Question({"width": 280, "height": 230}))
    drawn = [
        view.draws(Question({"width": w, "height": 270}))["picture"] for w in (560, 340)
    ]
    both = (
        f'<div class="two">{_picture(found["pit_picture"])}'
        f"{_picture(found['coverage_picture'])}</div>"
    )
    note = _quiet(found["note"])
    keys = _legend(
        ("key-bar", "probability integral transform"),
        ("key-curve", "coverage of central intervals"),
        ("key-mean", "of highest density"),
        ("key-fair", "±2 standard errors"),
    )
    draws = _legend(("key-draws", "draws of the model"), ("key-data", "data"))
    return [
        _card("Calibration", both, keys, note),
        _card("Draws and data", _either(*drawn), draws),
    ]


def _scores(view: ConditionalView) -> str:
    found = view.evaluation()
    scores = {
        "log loss": found.log_loss,
        "CRPS": found.crps,
        "interval score, 90 %": found.interval_score,
    }
    rows = [("", "mean", "± error")]
    rows += [
        (name, number_text(e.value), number_text(e.standard_error, 2))
        for name, e in scores.items()
    ]
    rows += [("coverage of intervals", "central", "densest")]
    levels = zip(found.confidence, found.coverage, found.hpd_coverage, strict=True)
    rows += [(f"{c:.0%}", f"{e.value:.1%}", f"{h.value:.1%}") for c, e, h in levels]
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(a)}</td><td>{escape(b)}</td></tr>"
        for name, a, b in rows
    )
    about = _quiet(f"On {len(found.pit)} rows; scores are better if lower.")
    return _card("Scores", f"<table><tbody>{body}</tbody></table>", about)


def _relevance(subject: Subject) -> str:
    """How much densities depend on each feature, as bars."""
    shares = [(c.name, c.relevance or 0.0) for c in subject.controls[:_BARS]]
    rows = [(name, share, f"{share:.0%}") for name, share in shares]
    words = (
        "How much the density changes if a feature is taken from another row, as a "
        "share of all: a quick look without observations. Features that say the same "
        "as others may share what they matter."
    )
    return _card("What the density depends on", _bars(rows), _quiet(words))


def _importance(found: Importance, trained: bool) -> str:
    """What is lost without each feature or group of them, as bars."""
    losses = found.losses["conditional"]["log_density"]
    rows = [
        (middle_cut(name, _LETTERS), loss.value, str(loss))
        for name, loss in list(zip(found.names, losses, strict=True))[:_BARS]
    ]
    words = (
        f"Log density, in nats, that {found.n_rows} rows lose on average without a "
        f"feature, or without features that say the same: what these tell beyond the "
        f"others, with standard errors."
    )
    if trained:
        words += " The model was fitted to these rows, it seems."
    return _card("Importance", _bars(rows), _quiet(words))


def _bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """A table of names, bars and what these stand for; none where it is negative."""
    most = max((value for _, value, _ in rows), default=0.0)
    lengths = [
        200 * max(value, 0.0) / most if most > 0 else 0.0 for _, value, _ in rows
    ]
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>"
        + picture((200.0, 10.0), bar(0, 1, length, 8, "bar"), text)
        + f"</td><td>{escape(text)}</td></tr>"
        for (name, _, text), length in zip(rows, lengths, strict=True)
    )
    return f'<table class="bars"><tbody>{cells}</tbody></table>'


def _quiet(words: str) -> str:
    return f'<p class="quiet">{escape(words)}</p>'


def _summary(subject: Subject, most: int) -> str:
    columns = {subject.target: subject.y[np.isfinite(subject.y)]}
    told, rest = subject.controls[:most], subject.controls[most:]
    for control in told:
        if not control.categories:
            columns[control.name] = subject.X[:, control.columns[0]]
    lists = "".join(
        f"<tr><th>{escape(c.name)}</th><td>{len(c.categories)} categories</td></tr>"
        for c in told
        if c.categories
    )
    more = f"<table><tbody>{lists}</tbody></table>" if lists else ""
    if rest:
        more += _quiet(f"{len(rest)} more features.")
    return _table(f"{len(subject.X)} rows of {subject.source}", columns, more)


def _table(title: str, columns: dict[str, Array], more: str = "") -> str:
    head = "<tr><th></th><td>least</td><td>median</td><td>most</td></tr>"
    rows = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(
            f"<td>{number_text(float(v))}</td>"
            for v in (values.min(), np.median(values), values.max())
        )
        + "</tr>"
        for name, values in columns.items()
    )
    return _card(title, f"<table><tbody>{head}{rows}</tbody></table>{more}")
