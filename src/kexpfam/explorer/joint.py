"""The page of a joint density: its graph, and draws of it beside the data."""

import functools
import math
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kexpfam._typing import Array
from kexpfam.explorer.joint_pictures import (
    graph_picture,
    pairs_picture,
    share_outside,
)
from kexpfam.explorer.subject import (
    Control,
    ExplorerError,
    JointSubject,
    Question,
    described,
    number_control,
)

Answer = dict[str, Any]

# Columns of a scatter matrix; more are too small to see.
MOST_COLUMNS = 6

# Axes reach beyond the sliders to all of the data, but on either side by no more than
# this share of a slider: one far row should not squeeze all others.
_BEYOND = 0.5

# Draws that are shown, and those that evidence is weighed by.
DRAWS, _WEIGHED = 400, 1000


class JointView:
    """Answers to the page's questions about a joint density.

    Args:
        subject: What is explored.
    """

    def __init__(self, subject: JointSubject) -> None:
        self.subject = subject
        self._lock = threading.Lock()

    @property
    def questions(self) -> Mapping[str, Callable[[Question], Answer]]:
        """What may be asked, by name."""
        return {
            "description": self.description,
            "graph": self.graph,
            "pairs": self.pairs,
        }

    def description(self, question: Question) -> Answer:
        """What the page is about, and the columns that may be held fixed."""
        subject = self.subject
        return {
            "kind": "joint",
            "title": subject.title,
            "target": ", ".join(subject.names),
            "model": described(subject.model),
            "source": subject.source,
            "rows": len(subject.rows),
            "observed": len(subject.rows),
            "controls": [
                control.as_json() | {"always": control.name in self._exogenous}
                for control in self._controls
            ],
        }

    def graph(self, question: Question) -> Answer:
        """The picture of the graph."""
        graph = self.subject.model.graph_
        names = dict(zip(map(str, graph.names), self._names, strict=True))
        labels = {
            label: tuple(names.get(p, p) for p in parents)
            for label, parents in graph.parent_labels().items()
        }
        renamed = {names.get(node, node): parents for node, parents in labels.items()}
        width, _ = question.size(300.0)
        return {"picture": graph_picture(renamed, self._exogenous, width)}

    def pairs(self, question: Question) -> Answer:
        """Draws, given what is held fixed, beside the data in a scatter matrix."""
        given = question.mapping("given")
        drawn, worth = self.drawn(given)
        shown, columns = drawn[:, :MOST_COLUMNS], self._axes[:MOST_COLUMNS]
        width, _ = question.size(640.0)
        rows = self.subject.rows[: 0 if given else DRAWS, :MOST_COLUMNS]
        return {
            "picture": pairs_picture(rows, shown, columns, width),
            "names": list(self._names),
            "draws": drawn.tolist(),
            "worth": worth,
            "note": outside_note(*(share_outside(v, columns) for v in (shown, rows))),
        }

    def drawn(self, given: Mapping[str, Any]) -> tuple[Array, float | None]:
        """Draws, (n, d), and how many independent ones they are worth if weighted."""
        evidence = {}
        for name in {**dict.fromkeys(self._exogenous), **given}:
            if name not in self._names:
                raise ExplorerError(f"There is no column {name!r:.60}.")
            control = self._controls[self._names.index(name)]
            value = given.get(name, control.start)
            evidence[self._names.index(name)] = control.cells(value)[0]
        model = self.subject.model
        known = set(evidence)
        if all(self._ancestors(c) <= known for c in known):
            return model.sample(DRAWS, random_state=0, given=evidence), None
        # Filters of warnings belong to the process, so one thread at a time sets them.
        with self._lock, warnings.catch_warnings():
            # The page shows what the draws are worth, at every answer.
            warnings.simplefilter("ignore", UserWarning)
            found = model.conditional(evidence, _WEIGHED, random_state=0)
        return found.resample(DRAWS, 0), found.effective_sample_size

    def _ancestors(self, column: int) -> set[int]:
        node = self.subject.model.graph_.node_of(column)
        found: set[int] = set()
        for parent in () if node is None else node.parents:
            found |= {parent} | self._ancestors(parent)
        return found

    @property
    def _names(self) -> tuple[str, ...]:
        return self.subject.names

    @property
    def _exogenous(self) -> list[str]:
        return [self._names[c] for c in self.subject.model.graph_.exogenous]

    @functools.cached_property
    def _controls(self) -> list[Control]:
        """A slider for each column."""
        return [
            number_control(name, i, self._rows[:, i])
            for i, name in enumerate(self._names)
        ]

    @functools.cached_property
    def _axes(self) -> list[Control]:
        """The range of each column that pictures show."""
        return [
            _reaching(control, self._rows[:, i])
            for i, control in enumerate(self._controls)
        ]

    @functools.cached_property
    def _rows(self) -> Array:
        """Data, or draws without any, (n, d)."""
        rows = self.subject.rows
        if not len(rows):
            if self._exogenous:
                raise ExplorerError(
                    f"{self._exogenous[0]!r} is a condition of this model, and its "
                    f"range is not known without data; say --data."
                )
            rows = self.subject.model.sample(DRAWS, random_state=0)
        return rows


def _reaching(control: Control, values: Array) -> Control:
    """A control whose ends hold all of some values, (n,), as far as they may."""
    most = math.floor(_BEYOND * (control.high - control.low) / control.step)
    below = math.ceil((control.low - float(values.min())) / control.step)
    above = math.ceil((float(values.max()) - control.high) / control.step)
    low, high = (min(max(0, steps), most) * control.step for steps in (below, above))
    return replace(control, low=control.low - low, high=control.high + high)


def outside_note(draws: float, data: float) -> str:
    """How much of what was drawn is not to be seen; nothing if all is.

    Args:
        draws: Share of draws outside the axes.
        data: Share of the data outside the axes.

    Example:
        >>> outside_note(0.05, 0.0)
        'Outside the ranges shown: 5.0 % of the draws.'
    """
    parts = [
        f"{100 * share:.1f} % of the {name}"
        for share, name in ((draws, "draws"), (data, "data"))
        if share > 0.0
    ]
    return f"Outside the ranges shown: {', '.join(parts)}." if parts else ""
