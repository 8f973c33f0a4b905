"""Examples of docstrings as sessions on the site.

The docstrings have one `Example:` each. griffe, which reads them for mkdocs, knows a
section of that kind as `Examples:` only, and would show ours as a quotation.
"""

import re
from typing import Any

import griffe

_HEADING = re.compile(r"^(\s*)Example:$", flags=re.MULTILINE)


def in_plural(text: str) -> str:
    """A docstring with the heading that griffe knows.

    Example:
        >>> in_plural("Example:")
        'Examples:'
    """
    return _HEADING.sub(r"\1Examples:", text)


class Sections(griffe.Extension):
    """Renames the section when an object has been read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = in_plural(obj.docstring.value)
