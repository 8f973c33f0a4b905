"""Data on their way in: tables of named columns, and how they become numbers."""

from kexpfam.data.coding import Coded, Feature, TableCoder
from kexpfam.data.columns import Table, TableError, as_table

__all__ = ["Coded", "Feature", "Table", "TableCoder", "TableError", "as_table"]
