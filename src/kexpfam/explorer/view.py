"""Everything that the page of a conditional density shows, as plain JSON.

Each question of the page has a method, which takes the fields that were sent and
returns what is drawn: numbers, and the picture that they make. What does not depend on
the sliders is computed once.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, Indices
from kexpfam.display import UNLIKE, rows_near
from kexpfam.display.numbers import LEVELS, CurveNumbers, density_numbers
from kexpfam.explanation import Importance
from kexpfam.explorer.pictures import (
    coverage_picture,
    curve_picture,
    density_content,
    density_frame,
    histogram_picture,
    pit_picture,
    scatter_picture,
)
from kexpfam.explorer.subject import (
    Control,
    ExplorerError,
    Question,
    Subject,
    kind_of_model,
)
from kexpfam.metrics import Evaluation, evaluate

Answer = dict[str, Any]


@dataclass(frozen=True)
class ViewSpec:
    """How much of the data is shown and computed."""

    rows: int = 1000  # that calibration is judged by: more would make people wait
    draws: int = 20  # of each row for the histogram, so that its outline is smooth
    dots: int = 600  # of a picture; more are a blot
    scored: int = 150  # that importance is judged by: about two seconds
    least: int = 20  # rows with fewer observations are not asked what matters
    same: float = 0.5  # above this share of training rows found, the data are the same


class ConditionalView:
    """Answers to the page's questions about p(y|x).

    Args:
        subject: What is explored.
        spec: How much of it.
    """

    def __init__(self, subject: Subject, spec: ViewSpec | None = None) -> None:
        self.subject = subject.starting_at_typical_row().by_relevance()
        self.spec = spec or ViewSpec()
        # One for each thing that is computed once, so that none waits for another.
        self._lock = {
            name: threading.Lock()
            for name in ("evaluation", "draws", "averages", "importance")
        }
        self._importance: Importance | None = None
        self._averages: dict[str, CurveNumbers] = {}

    @property
    def questions(self) -> Mapping[str, Callable[[Question], Answer]]:
        """What may be asked, by name."""
        names = ["description", "density", "curve", "row", "calibration", "draws"]
        names += ["importance"]
        return {name: getattr(self, name) for name in names}

    def description(self, question: Question) -> Answer:
        """What the page is about: title, controls, and which cards there are."""
        subject = self.subject
        return {
            "kind": "conditional",
            "title": subject.title,
            "target": subject.target,
            "model": kind_of_model(subject.model),
            "source": subject.source,
            "rows": len(subject.X),
            "observed": len(self._observed),
            "axis": list(self.axis),
            "controls": [control.as_json() for control in subject.controls],
        }

    def importance(self, question: Question) -> Answer:
        """The controls in the order of what is lost without them, and how it is known.

        Without observations it is the order of how much densities depend on them.
        """
        found = self.learn_importance()
        controls = [control.as_json() for control in self.ranked().controls]
        return {"controls": controls, "rows": 0 if found is None else found.n_rows}

    def density(self, question: Question) -> Answer:
        """P(y|x) at one x: picture, numbers, and a grid for tail probabilities."""
        subject = self.subject
        level = question.number("level", 0.9, 0.01, 0.999)
        row = subject.row(question.mapping("values"))
        found = density_numbers(
            subject.model,
            row,
            self.axis,
            level=level,
            highest=question.choice("region", ("interval", "hpd")) == "hpd",
            zoom=question.flag("zoom"),
            kept=question.span("kept"),
            with_std=not question.flag("moving"),
        )
        observed = question.fields.get("observed")
        if observed is not None:
            observed = question.number("observed", 0.0, -np.inf, np.inf)
        own = found.axis
        # Room for a density that was pinned, to be compared with.
        pinned = question.span("include")
        if pinned is not None:
            low, high = found.axis
            axis = min(low, pinned[0]), max(high, pinned[1])
            found = replace(found, axis=axis)
        peak = question.number("peak", 0.0, 0.0, np.inf)
        frame = density_frame(found, question.size(340.0), peak)
        # The largest probability of a value, or that of a pinned density.
        likeliest = max(
            question.number("likeliest", 0.0, 0.0, 1.0), found.likeliest_atom
        )
        content = density_content(found, frame, subject.target, observed, likeliest)
        return {
            "content": content,
            "frame": {
                "likeliest": likeliest,
                "axis": list(found.axis),
                "own": list(own),
                "left": frame.x.start,
                "right": frame.x.end,
                "base": frame.y.start,
                "top": frame.y.end,
                "highest": frame.y.high,
            },
            "grid": found.grid.tolist(),
            "pdf": found.pdf.tolist(),
            "cdf": found.cdf.tolist(),
            "quantiles": found.quantiles.tolist(),
            "interval": found.interval.tolist(),
            "region": found.region.tolist(),
            "level": level,
            "levels": list(LEVELS),
            "mean": found.mean,
            "std": found.std,
            "half_width": 0.5 * float(found.middle[1] - found.middle[0]),
            "atoms": found.atoms.tolist(),
            "modes": [mode._asdict() for mode in found.modes],
            "near": self.near(row),
            "note": UNLIKE if subject.unlike(row)[0] else "",
        }

    def curve(self, question: Question) -> Answer:
        """Mean and quantiles along a feature, averaged over rows like each place.

        With `others` "fixed", the other features are where the sliders are.
        """
        subject = self.subject
        values = question.mapping("values")
        control = subject.control(question.fields.get("feature"))
        row = subject.row(values)
        fixed = question.choice("others", ("averaged", "fixed")) == "fixed"
        alone = len(subject.controls) == 1
        if fixed or alone or subject.rows_to_average() is None:
            found = subject.along(control, row)
        else:
            found = self.averaged(control)
        picture = curve_picture(
            found,
            control.axis,
            question.size(300.0),
            subject.target,
            seen=self.shown(control),
            at=control.value(row[0]),
        )
        places = list(control.categories) or found.places.tolist()
        return {
            "picture": picture,
            "feature": control.name,
            "few": bool(found.few.any()),
            "places": places,
            "mean": found.mean.tolist(),
            "levels": list(LEVELS),
            "quantiles": found.quantiles.tolist(),
        }

    def row(self, question: Question) -> Answer:
        """Values of one row of the data, and what was observed there."""
        count = len(self.subject.X)
        if not count:
            raise ExplorerError("There are no data; say --data.")
        place = int(question.number("place", 1, 1, count)) - 1
        return {
            "place": place + 1,
            "number": int(self.subject.numbers[place]),
            "values": self.subject.values(self.subject.X[place]),
            "observed": self.subject.observed(place),
        }

    def calibration(self, question: Question) -> Answer:
        """Whether probabilities are as large as they claim, on the data."""
        found = self.evaluation()
        size = question.size(240.0)
        central = np.abs(2.0 * found.pit - 1.0)
        coverage = [
            {"level": float(c), "central": e.value, "highest": h.value}
            for c, e, h in zip(
                found.confidence, found.coverage, found.hpd_coverage, strict=True
            )
        ]
        scores = {"log loss": found.log_loss, "CRPS": found.crps}
        return {
            "pit_picture": pit_picture(found.pit, size),
            "coverage_picture": coverage_picture(central, found.hpd_values, size),
            "rows": len(found.pit),
            "pit": found.pit.tolist(),
            "coverage": coverage,
            "scores": {name: [e.value, e.standard_error] for name, e in scores.items()},
            "distance": found.pit_uniformity.statistic,
            "p_value": found.pit_uniformity.pvalue,
            "note": self._trained_note(self.subject.trained_share()),
        }

    def draws(self, question: Question) -> Answer:
        """Draws at the rows of the data, beside what was observed there."""
        subject, rows = self.subject, self._evaluated
        data = subject.y[rows]
        with self._lock["draws"]:
            drawn = self._drawn
        size = question.size(300.0)
        if (feature := question.fields.get("feature")) is not None:
            control = subject.control(feature)
            few = slice(0, self.spec.dots)
            places = self._places(control)[rows][few]
            pairs = (places, data[few]), (places, drawn[few, 0])
            name = subject.target
            picture = scatter_picture(control.axis, *pairs, self.axis, size, name)
        else:
            both = data, drawn.ravel()
            picture = histogram_picture(*both, self.axis, size, subject.target)
        return {
            "picture": picture,
            "observed": data.tolist(),
            "drawn": drawn[:, 0].tolist(),
            "numbers": subject.numbers[rows].tolist(),
        }

    def evaluation(self) -> Evaluation:
        """All scores on the data, computed when first asked for."""
        with self._lock["evaluation"]:
            return self._evaluation

    def learn_importance(self) -> Importance | None:
        """What is lost without controls, computed when first asked for.

        None if there are too few observations, or nothing to put in order.
        """
        rows = self._observed[: self.spec.rows]
        if len(rows) < self.spec.least or len(self.subject.controls) < 2:
            return None
        with self._lock["importance"]:
            if self._importance is None:
                self._importance = self.subject.importance(rows, self.spec.scored)
            return self._importance

    def ranked(self) -> Subject:
        """The subject with controls in the order of importance, where that is known."""
        found = self.learn_importance()
        return self.subject if found is None else self.subject.by_importance(found)

    def averaged(self, control: Control) -> CurveNumbers:
        """Averages along a feature, computed when first asked for."""
        with self._lock["averages"]:
            if control.name not in self._averages:
                own = self.subject.control(control.name)
                self._averages[control.name] = self.subject.averaged_along(own)
            return self._averages[control.name]

    @cached_property
    def _evaluation(self) -> Evaluation:
        rows = self._evaluated
        return evaluate(self.subject.model, self.subject.X[rows], self.subject.y[rows])

    @cached_property
    def _drawn(self) -> Array:
        X = self.subject.X[self._evaluated]
        return self.subject.model.sample(X, self.spec.draws, random_state=0)

    @cached_property
    def axis(self) -> tuple[float, float]:
        """Values of y that pictures show."""
        return self.subject.axis()

    @cached_property
    def _observed(self) -> Indices:
        """Rows with an observation, in an order of their own."""
        rows = np.flatnonzero(np.isfinite(self.subject.y))
        return np.random.default_rng(0).permutation(rows)

    @property
    def _evaluated(self) -> Indices:
        if not len(self._observed):
            raise ExplorerError(
                f"There are no observations of {self.subject.target} to compare with; "
                f"say --data with a table that has them."
            )
        return self._observed[: self.spec.rows]

    def shown(self, control: Control) -> tuple[Array, Array]:
        """Some rows of the data: a feature, or the number of its category, and y."""
        rows = self._observed[: self.spec.dots]
        return self._places(control)[rows], self.subject.y[rows]

    def _places(self, control: Control) -> Array:
        places = control.positions(self.subject.X)
        if not control.categories:
            return places
        # Beside each other, so that dots of a category are seen one by one.
        return places + np.random.default_rng(0).uniform(-0.22, 0.22, len(places))

    def near(self, row: Array) -> float | None:
        """About how many training rows are near a row, (1, p); None if not known."""
        near = rows_near(self.subject.model, row)
        return None if near is None else float(near[0])

    def is_trained_on(self) -> bool:
        """Whether the data are those of the fit, it seems."""
        return self.subject.trained_share() > self.spec.same

    def _trained_note(self, share: float) -> str:
        """What to think of calibration on rows of which the model has seen a share."""
        if share > self.spec.same:
            return (
                "The model was fitted to these rows, it seems, so this looks better "
                "than it would on new ones: judge it with a table that it has not "
                "seen, or with kexpfam evaluate --cv."
            )
        if share > 0.0:
            return (
                f"{share:.0%} of the training rows have the features of a row in this "
                f"file; if these are the same rows, this looks better than it is."
            )
        return "None of the rows that the model remembers from its fit is in this file."
