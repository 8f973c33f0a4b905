"""How Sphinx builds the site from the pages that `build_site.py` has written."""

import re
from importlib.util import find_spec
from typing import Any

from numpy.typing import ArrayLike
from sphinx.util.typing import stringify_annotation

import kexpfam
from kexpfam._typing import Array

project = "kexpfam"
author = "The kexpfam developers"
copyright = author  # noqa: A001 - Sphinx looks for this name
release = version = kexpfam.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_extra"]
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4
# Anchors that HTML in pages has, and files that pages name, are looked after by tests
suppress_warnings = ["myst.xref_missing"]

default_role = "code"  # docstrings are written with the backticks of Markdown
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# Extras that need not be there
autodoc_mock_imports = [n for n in ("pandas", "skpro") if find_spec(n) is None]
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes stand once, also those that are properties
napoleon_attr_annotations = False  # the signature above has the types
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 68
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Nothing is loaded from another host, so that the pages also work without a network.
html_theme = "pydata_sphinx_theme"
html_title = "kexpfam"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_extra_path = ["_extra"]
html_favicon = "icon.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "kexpfam"},
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        **{page: [] for page in ("index", "rivals", "state_of_the_field", "examples")},
    },
    "use_edit_page_button": False,
}
# The first page, and the one with the widest table, have all the width.
html_sidebars: dict[str, list[str]] = {"index": [], "rivals": []}

# Of what others' classes bring along only what is ours is shown.
_ROUTING = re.compile(r"set_\w+_request|get_metadata_routing|get_params|set_params")
_CODE = re.compile(r"(`[^`]*`)")


def ours(_app: Any, _what: str, name: str, obj: Any, skip: bool, _: Any) -> bool | None:
    """Whether a member is left out: what comes from other libraries."""
    home = getattr(obj, "__module__", None) or "kexpfam"
    if _ROUTING.fullmatch(name) or home.split(".")[0] != "kexpfam":
        return True
    return None if not skip else True


def escaped(
    _app: Any, _what: str, _name: str, _obj: Any, _: Any, lines: list[str]
) -> None:
    """Bars, stars and last underscores in prose are themselves: p(y|x), a * b."""
    for k, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = _CODE.split(line)
        prose = [
            re.sub(r"\||(?<!\*)\*(?=[\s,)])|(?<=\w)_(?=\W|$)", r"\\\g<0>", p)
            for p in parts[::2]
        ]
        # A plural behind code: reStructuredText wants a mark between them
        prose[1:] = [re.sub(r"^(?=\w)", r"\\ ", part) for part in prose[1:]]
        parts[::2] = prose
        lines[k] = "".join(parts)


# What readers know by a name is written as that name, not as what it stands for.
_NAMES = {
    stringify_annotation(kind, "smart"): name
    for name, kind in (("ArrayLike", ArrayLike), ("Array", Array))
}


def by_name(
    _app: Any, _what: str, _name: str, _obj: Any, _: Any, *texts: str | None
) -> tuple[str | None, ...]:
    """Types of parameters and results by their names."""
    for kind, name in _NAMES.items():
        texts = tuple(text and text.replace(kind, name) for text in texts)
    return texts


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", ours)
    app.connect("autodoc-process-signature", by_name)
    app.connect("autodoc-process-docstring", escaped, priority=400)
