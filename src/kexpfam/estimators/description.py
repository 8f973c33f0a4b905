"""What a fitted model is made of, in words and as HTML for notebooks.

Words are what the model remembers. HTML also says which columns matter, for which some
hundred densities are computed at rows that the model keeps.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.display import (
    html_bar,
    html_box,
    html_heading,
    html_notes,
    html_quiet,
    html_table,
    pit_strip,
)
from kexpfam.selection.results import kernel_in_words, short

# Names, members and columns of a list; more are counted.
_NAMES, _MEMBERS, _COLUMNS = 6, 6, 8


@dataclass(frozen=True, eq=False)
class ModelDescription:
    """What there is to say of a fitted model.

    Attributes:
        heading: Of what, given what, from how many rows.
        facts: What it is made of, by name.
        members: Weight, held-out log density, base density and kernel of each member.
        pit: Density of held-out PIT values in bins of [0, 1], (k,); None if there are
            none. In files these are not kept, only the map that densities are behind.
        pit_words: What of them.
        notes: What a user should know.
        relevance: Columns of x and how much p(y|x) depends on each, from the first on.
    """

    heading: str
    facts: tuple[tuple[str, str], ...]
    members: tuple[tuple[str, str, str, str], ...] = ()
    pit: Array | None = None
    pit_words: str = ""
    notes: tuple[str, ...] = ()
    relevance: tuple[tuple[str, float], ...] = ()

    def in_words(self) -> str:
        """Lines for a terminal."""
        width = max((len(name) for name, _ in self.facts), default=0)
        lines = [self.heading]
        lines += [f"  {name.ljust(width)}  {text}" for name, text in self.facts]
        lines += [f"  {weight}  {base}" for weight, _, base, _ in self.members]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def in_html(self, title: str) -> str:
        """A part of a page."""
        parts = [html_heading(title, self.heading)]
        if self.facts:
            parts.append(html_table((), self.facts))
        if self.members:
            header = ("weight", "held-out log p", "base density", "kernel")
            parts.append(html_table(header, self.members))
        if self.pit is not None:
            parts.append(pit_strip(self.pit, self.pit_words))
        if self.relevance:
            parts += self._relevant_columns()
        return html_box(*parts, html_notes(self.notes))

    def _relevant_columns(self) -> list[str]:
        shown, rest = self.relevance[:_COLUMNS], self.relevance[_COLUMNS:]
        most = shown[0][1] or 1.0
        rows = [(name, html_bar(s / most), f"{s:.0%}") for name, s in shown]
        if rest:
            share = sum(s for _, s in rest)
            rows.append((f"({len(rest)} more)", "", f"{share:.0%}"))
        words = (
            "How much p(y|x) moves when a column is exchanged between rows. What it is "
            "worth on rows of yours: model.importance(X, y)."
        )
        return [html_table((), rows), html_quiet(words)]


def with_relevance(model: Any) -> ModelDescription:
    """The same, and how much p(y|x) depends on each column of x."""
    if getattr(model, "_fitted", True) is None or not hasattr(model, "_columns"):
        return described(model)  # sums that are not solved to be looked at
    columns = model._columns()
    shares = columns.relevance()
    if shares is None:
        return described(model)
    order = np.argsort(-shares, kind="stable").tolist()
    found = tuple((columns.names[j], float(shares[j])) for j in order)
    return replace(described(model), relevance=found)


def described(model: Any) -> ModelDescription:
    """What a fitted `KCEF` or `AutoKCEF` is made of."""
    columns = getattr(model, "columns_", None)
    if columns is not None:
        names = [n if isinstance(n, str) else f"y{n}" for n in columns.names]
        facts = [
            (name, _of_column(own)) for name, own in zip(names, columns, strict=True)
        ]
        heading = _heading(model, ", ".join(names))
        return ModelDescription(heading, tuple(facts), notes=_notes(model))
    counted = hasattr(getattr(model, "discrete_", None), "regressions")
    members = None if counted else getattr(model, "members_", None)
    facts = [*_of_response(model), *(_of_average(model) if members else _alone(model))]
    return ModelDescription(
        _heading(model, model._target or "y"),
        tuple(facts),
        _member_rows(members) if members else (),
        *_calibration(model),
        _notes(model),
    )


def _of_column(model: Any) -> str:
    """What the average of one column of several is made of."""
    score, _ = held_out_score(model)
    told = "" if score is None else f", held-out log p {score:.4g}"
    return f"an average of {len(model.members_ or ())} densities{told}"


def _calibration(model: Any) -> tuple[Array | None, str]:
    """Held-out PIT values in bins, and in words; or the map that they have led to."""
    found = getattr(model, "calibration_", None)
    law = getattr(getattr(model, "_law", None), "average", None)
    shares = getattr(law, "pit", None)
    ends = "high ends mean densities that are too narrow."
    if shares is not None:
        after = "needed no correction" if found is None else "are corrected for"
        words = (
            f"PIT values of held-out rows, which {after}: bars should be level, {ends}"
        )
        return len(shares) * shares, words
    if found is None:
        return None, ""
    heights = found.pdf((np.arange(20) + 0.5) / 20)
    return heights, f"What densities are corrected for, as PIT values: {ends}"


def held_out_score(model: Any) -> tuple[float | None, str | None]:
    """Mean held-out log density of the best family, and its base in words.

    Of a law with atoms neither: families are those of the rest.
    """
    if getattr(model, "discrete_", None) is not None:
        return None, None
    if getattr(model, "members_", None):
        best = max(model.members_, key=lambda member: member.held_out)
        return best.held_out, best.coordinates
    selection = getattr(model, "selection_", None)
    if selection is None or not hasattr(selection, "chosen"):
        return None, None
    return float(selection.chosen.mean(selection.weights)), selection.chosen.coordinates


def _heading(model: Any, target: str) -> str:
    names = getattr(model, "feature_names_in_", None)
    if model.coder_ is not None:
        names = [feature.name for feature in model.coder_.coding_.features]
    count = model.n_features_in_
    shown = [f"x{j}" for j in range(count)] if names is None else list(map(str, names))
    given = ", ".join(shown[:_NAMES])
    if len(shown) > _NAMES:
        given += f", ... ({len(shown)} columns)"
    fitted = getattr(model, "_fitted", None)
    near = getattr(fitted, "neighbourhood", vars(model).get("neighbourhood_"))
    rows = "" if near is None else f" from {_counted(float(near.weights.sum()))}"
    return f"p({target} | {given}){rows}"


def _counted(rows: float) -> str:
    """As many rows as weights stand for: 40 rows; rows that weigh 0.4."""
    whole = rows >= 0.5 and abs(rows - round(rows)) <= 1e-6 * rows
    return f"{round(rows)} rows" if whole else f"rows that weigh {rows:.4g} together"


def _of_response(model: Any) -> list[tuple[str, str]]:
    """What kind of variable y is, where there is something to say."""
    found, atoms = [], getattr(model, "atoms_", np.empty(0))
    counts: Any = getattr(model, "discrete_", None)
    if hasattr(counts, "regressions"):
        few = f"{len(counts.values)} values"
        what = "whole numbers" if counts.regressions else few
        found = [("y", f"a mass function on {what}")]
        return [*found, ("held-out log p", f"{counts.held_out:.4g}")]
    if len(atoms):
        values = ", ".join(f"{value:g}" for value in atoms[:_NAMES].tolist())
        found.append(("y", f"probabilities of {values}, and a density of the rest"))
    support = getattr(model, "support_", None)
    if support is not None:
        low, high = support.lower, support.upper
        known = getattr(model, "beyond_", None) is None
        found.append(("bounds" if known else "likely bounds", f"[{low:g}, {high:g}]"))
    if getattr(model, "rounding_", 0.0):
        found.append(("rounded to", f"{model.rounding_:g}"))
    return found


def _of_average(model: Any) -> list[tuple[str, str]]:
    score, best = held_out_score(model)
    count = len(model.members_)
    made = "one density" if count == 1 else f"an average of {count} densities"
    facts = [("made of", f"{made} out of {model.n_candidates_} that were tried")]
    if score is not None:
        facts.append(("held-out log p", f"{score:.4g} (best member alone: {best})"))
    return facts


def _alone(model: Any) -> list[tuple[str, str]]:
    if getattr(model, "_fitted", None) is None:
        return []  # another estimator, or sums that are not solved to be looked at
    facts = [
        ("base density", short(model.base_)),
        ("kernel", kernel_in_words(model.kernel_)),
        ("regularization", f"{model.regularization_:.3g}"),
        ("fitted by", f"{model.fit_method_}, {model.solver_}"),
    ]
    selection = model.selection_
    if hasattr(selection, "chosen"):
        weights, chosen = selection.weights, selection.chosen
        error = chosen.standard_error(weights)
        score = f"{chosen.mean(weights):.4g} ± {error:.2g} in {selection.n_folds} folds"
        facts.append((f"held-out {selection.objective}", score))
    return facts


def _member_rows(members: Any) -> tuple[tuple[str, str, str, str], ...]:
    rows = [
        (f"{m.weight:.3f}", f"{m.held_out:.3f}", m.base, m.kernel)
        for m in members[:_MEMBERS]
    ]
    rest = sum(m.weight for m in members[_MEMBERS:])
    if rest:
        more = f"({len(members) - _MEMBERS} more)"
        rows.append((f"{rest:.3f}", "", more, ""))
    return (*rows, (f"{members.defensive:.3f}", "", "defensive component", ""))


def _notes(model: Any) -> tuple[str, ...]:
    notes = [] if model.coder_ is None else list(model.coder_.coding_.notes)
    isolated = selection = None
    if getattr(model, "_fitted", True) is not None:
        isolated = getattr(model, "isolated_components_", None)
        selection = getattr(model, "selection_", None)  # of a single family or a grid
    if isolated is not None and isolated.found:
        notes.append("y has isolated components; their masses were checked.")
    stopped = getattr(model, "stopped_", getattr(selection, "reason", ""))
    if "budget" in stopped:
        notes.append(f"The search ended early: {stopped}.")
    return tuple(notes)
