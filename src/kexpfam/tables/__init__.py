"""Tables as they come, as numbers: texts, categories, dates, gaps."""

from kexpfam.tables.coder import (
    TableCoder,
    name_of,
    response_name,
    table_of,
    tell_of_leaks,
)
from kexpfam.tables.coding import Coded, Coding, Missing
from kexpfam.tables.columns import Column, Table, TableError, as_table, is_frame
from kexpfam.tables.dates import as_moments, day_of_text, days_of
from kexpfam.tables.features import (
    CategoryFeature,
    DateFeature,
    EncodedFeature,
    Feature,
    NumberFeature,
    OrderedFeature,
    number_feature,
    places_of,
)
from kexpfam.tables.told import Told

__all__ = [
    "CategoryFeature",
    "Coded",
    "Coding",
    "Column",
    "DateFeature",
    "EncodedFeature",
    "Feature",
    "Missing",
    "NumberFeature",
    "OrderedFeature",
    "Table",
    "TableCoder",
    "TableError",
    "Told",
    "as_moments",
    "as_table",
    "day_of_text",
    "days_of",
    "is_frame",
    "name_of",
    "number_feature",
    "places_of",
    "response_name",
    "table_of",
    "tell_of_leaks",
]
