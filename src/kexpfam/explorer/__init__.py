"""A local page to explore a fitted density with, and its export to one file."""

from kexpfam.explorer.export import report
from kexpfam.explorer.joint import JointView
from kexpfam.explorer.notebook import Exploration, explored
from kexpfam.explorer.server import ExplorerServer, plain
from kexpfam.explorer.subject import (
    Control,
    ExplorerError,
    JointSubject,
    Question,
    Subject,
    SubjectRows,
    controls_of,
    number_control,
    remembered_rows,
)
from kexpfam.explorer.view import ConditionalView

__all__ = [
    "ConditionalView",
    "Control",
    "Exploration",
    "ExplorerError",
    "ExplorerServer",
    "JointSubject",
    "JointView",
    "Question",
    "Subject",
    "SubjectRows",
    "controls_of",
    "explored",
    "number_control",
    "plain",
    "remembered_rows",
    "report",
]
