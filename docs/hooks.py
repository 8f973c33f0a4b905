"""What mkdocs does not do by itself, so that the pages stay plain Markdown.

- Pages link to files of the repository, as a reader of the files expects. On the site
  such files are pages below `repository/`: Markdown as it is, code as a listing.
- Formulas between dollars become MathML, which browsers draw without a script.
- Blocks of code that start with `>>>` are highlighted as a session.

mkdocs calls the functions that start with `on_`.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[1]
PLACE = PurePosixPath("repository")  # of the repository's files on the site
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")

_LINK = re.compile(r"(?<!\\)(\]\()([^)\s#:]+)((?:#[^)\s]*)?)(?=[)\s])")
_LINK_TEXT = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
_FENCE = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)
_FORMULA = re.compile(r"\$\$(.+?)\$\$", flags=re.DOTALL)
_TAG = re.compile(r"\\tag\{([^}]*)\}")
_LISTINGS = {".py": "python", ".cff": "yaml", ".toml": "toml", ".json": "json"}


def repository_path(page: PurePosixPath) -> PurePosixPath:
    """Where a page of the site lies in the repository.

    Example:
        >>> str(repository_path(PurePosixPath("repository/benchmarks/README.md")))
        'benchmarks/README.md'
        >>> str(repository_path(PurePosixPath("api/index.md")))
        'docs/api/index.md'
    """
    if page.parts[0] == str(PLACE):
        return page.relative_to(PLACE)
    return PurePosixPath("docs") / page


def site_path(file: PurePosixPath) -> PurePosixPath:
    """Where a file of the repository lies on the site.

    Example:
        >>> str(site_path(PurePosixPath("docs/scale.md")))
        'scale.md'
        >>> str(site_path(PurePosixPath("examples/demo.py")))
        'repository/examples/demo.py.md'
    """
    if file.parts[0] == "docs":
        return file.relative_to("docs")
    listed = file.suffix in _LISTINGS
    return PLACE / (file.with_name(f"{file.name}.md") if listed else file)


def resolved(page: PurePosixPath, target: str) -> PurePosixPath:
    """The file of the repository that a link in another one points to.

    Example:
        >>> str(resolved(PurePosixPath("docs/scale.md"), "../benchmarks/README.md"))
        'benchmarks/README.md'
    """
    parts: list[str] = []
    for part in (page.parent / target).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)


def relative(page: PurePosixPath, target: PurePosixPath) -> str:
    """A link from one page of the site to another.

    Example:
        >>> page = PurePosixPath("repository/CHANGELOG.md")
        >>> relative(page, PurePosixPath("scale.md"))
        '../scale.md'
    """
    return "/".join([*[".."] * len(page.parent.parts), str(target)])


def links(text: str) -> list[str]:
    """Files that Markdown links to, without addresses, anchors, code and formulas.

    Example:
        >>> links('[a](b.md#c), [d](https://e.org), ![f](g.png), <img src="h.png">')
        ['b.md', 'g.png', 'h.png']
    """
    prose = re.sub(r"`[^`\n]+`", "", _FORMULA.sub("", _FENCE.sub("", text)))
    pictures = re.findall(r'\b(?:src|srcset)="([^":]+)"', prose)
    return [found[2] for found in _LINK.finditer(prose)] + pictures


def rewritten(text: str, page: PurePosixPath) -> str:
    """The Markdown of a page, with links to files of the repository as on the site."""
    here = repository_path(page)

    def link(found: re.Match[str]) -> str:
        file = resolved(here, found[2])
        outside = page.parts[0] == str(PLACE) or file.parts[:1] != ("docs",)
        if not outside:
            return found[0]
        if (ROOT / file).is_dir():
            return f"{found[1]}{relative(page, _first_page(file))}{found[3]}"
        return f"{found[1]}{relative(page, site_path(file))}{found[3]}"

    def text_only(found: re.Match[str]) -> str:
        # Results of a run that was not made here. mkdocs looks after links in docs/,
        # and a test after all of them.
        missing = not (ROOT / resolved(here, found[2])).exists()
        elsewhere = page.parts[0] == str(PLACE) or found[2].startswith("..")
        return found[1] if missing and elsewhere else found[0]

    return _LINK.sub(link, _LINK_TEXT.sub(text_only, text))


def _first_page(folder: PurePosixPath) -> PurePosixPath:
    """What stands for a folder: its first page, or its first file."""
    files = sorted((ROOT / folder).glob("*.md")) or sorted((ROOT / folder).iterdir())
    return site_path(PurePosixPath(files[0].relative_to(ROOT).as_posix()))


def drawn_formulas(text: str) -> str:
    """Formulas between double dollars as MathML."""
    from latex2mathml.converter import convert

    def formula(found: re.Match[str]) -> str:
        number = _TAG.search(found[1])
        inner = convert(_TAG.sub("", found[1]).strip(), display="block")
        side = f"<span>({number[1]})</span>" if number else ""
        return f'<div class="formula">{inner}{side}</div>'

    return _FORMULA.sub(formula, text)


def as_sessions(text: str) -> str:
    """Blocks of Python that start with a prompt, named as what they are."""
    return re.sub(r"^```python\n(?=>>>)", "```pycon\n", text, flags=re.MULTILINE)


def linked_files() -> set[PurePosixPath]:
    """Files outside of `docs/` that some page of the site links to."""
    found: set[PurePosixPath] = {PurePosixPath(page) for page in PAGES}
    waiting = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / page for page in PAGES)]
    for path in waiting:
        page = PurePosixPath(path.relative_to(ROOT).as_posix())
        for target in links(path.read_text(encoding="utf-8")):
            file = resolved(page, target)
            if file.parts[:1] != ("docs",) and (ROOT / file).is_file():
                found.add(file)
    return found


def on_files(files: Any, config: Any) -> Any:
    """Add the files of the repository that pages link to."""
    from mkdocs.structure.files import File, InclusionLevel

    for file in sorted(linked_files()):
        language = _LISTINGS.get(file.suffix)
        if language is None:
            source = {"abs_src_path": str(ROOT / file)}
        else:
            code = (ROOT / file).read_text(encoding="utf-8")
            source = {"content": f"# {file}\n\n````{language}\n{code}````\n"}
        level = InclusionLevel.NOT_IN_NAV
        if str(file) in PAGES:
            level = InclusionLevel.INCLUDED
        place = str(site_path(file))
        files.append(File.generated(config, place, inclusion=level, **source))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Prepare the text of a page."""
    place = PurePosixPath(page.file.src_uri)
    if place.suffixes[:1] and place.suffixes[0] in _LISTINGS:
        return markdown
    return as_sessions(rewritten(drawn_formulas(markdown), place))
