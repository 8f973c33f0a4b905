"""What a user tells of the columns of a table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kexpfam.tables.columns import Table, TableError, label_of, listed


@dataclass(frozen=True)
class Told:
    """What is told of the columns of a table.

    Attributes:
        categorical: Columns that are categories even if they hold numbers.
        ordered: Columns that are ordered categories, and their order.
    """

    categorical: Collection[str] = ()
    ordered: Mapping[str, Sequence[Any]] | None = None

    def order_of(self, table: Table, name: str) -> tuple[str, ...] | None:
        """The order of a column, told or of its type; None if it has none."""
        if name in (self.ordered or {}):
            levels = (self.ordered or {})[name]
            return tuple(label_of(str(level).strip()) for level in levels)
        return None if name in self.categorical else table.ordered.get(name)

    def is_grouped(self, table: Table, name: str) -> bool:
        """Whether a column is one of categories, whatever its cells look like."""
        known = {*self.categorical, *table.categorical, *(self.ordered or {})}
        return name in known

    def check(self, table: Table, names: Collection[str]) -> None:
        """Refuse what is told of columns that are not there."""
        if not isinstance(self.ordered or {}, Mapping):
            raise TableError(
                f"ordered must be a mapping from columns to their values in order, "
                f"such as {{'size': ['S', 'M', 'L']}}, got {self.ordered!r:.60}."
            )
        said = {"categorical": self.categorical, "ordered": self.ordered or {}}
        for word, columns in said.items():
            for name in columns:
                table.column(name)
                if name not in names:
                    raise TableError(
                        f"{table.spelled(word, [name])}: this column is not among "
                        f"the features, {listed(list(names))}."
                    )
        for name, levels in (self.ordered or {}).items():
            if isinstance(levels, str) or len(set(map(str, levels))) < 2:
                raise TableError(
                    f"ordered: the order of {name!r} must be a list of two different "
                    f"values at least, got {levels!r:.60}."
                )
