"""Builds the documentation site: plain Markdown in, HTML by Sphinx out.

    python docs/build_site.py [folder]

Pages stay plain Markdown that any reader of the repository can read. What Sphinx wants
otherwise is written into a copy of them, in `build/pages`:

- Pages link to files of the repository, as a reader of the files expects. On the site
  such files are pages below `repository/`: Markdown as it is, code as a listing.
- Formulas between dollars become MathML, which browsers draw without a script.
- Blocks of code that start with `>>>` are highlighted as a session.
- `::: kexpfam.name` becomes the entry of that name, from its docstring.
- `contents.yml` becomes the navigation, and the examples become a gallery.
"""

import argparse
import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import NamedTuple

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
        # Results of a run that was not made here. Sphinx looks after links in docs/,
        # and a test after all of them.
        missing = not (ROOT / resolved(here, found[2])).exists()
        elsewhere = page.parts[0] == str(PLACE) or found[2].startswith("..")
        return found[1] if missing and elsewhere else found[0]

    return _LINK.sub(link, _LINK_TEXT.sub(text_only, text))


def _first_page(folder: PurePosixPath) -> PurePosixPath:
    """What stands for a folder: its first page, the gallery, or its first file."""
    if folder == PurePosixPath("examples"):
        return PurePosixPath("examples.md")
    files = sorted((ROOT / folder).glob("*.md")) or sorted((ROOT / folder).iterdir())
    return site_path(PurePosixPath(files[0].relative_to(ROOT).as_posix()))


def drawn_formulas(text: str) -> str:
    """Formulas between double dollars as MathML."""
    from latex2mathml.converter import convert

    def formula(found: re.Match[str]) -> str:
        number = _TAG.search(found[1])
        inner = convert(_TAG.sub("", found[1]).strip(), display="block")
        side = f"<span>({number[1]})</span>" if number else ""
        return f'<div class="formula"><div>{inner}</div>{side}</div>'

    return _FORMULA.sub(formula, text)


def as_sessions(text: str) -> str:
    """Blocks of Python that start with a prompt, named as what they are."""
    # What ends a doctest is no line of the page.
    text = re.sub(r"\n+```$", "\n```", text, flags=re.MULTILINE)
    text = re.sub(r"^```csv.*$", "```text", text, flags=re.MULTILINE)
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


# An entry of the reference; what follows it, indented, are options.
_ENTRY = re.compile(r"^::: (\S+)\n((?: +\S.*\n?)*)", flags=re.MULTILINE)
_MODULE = "show_root_heading: false"


def with_entries(text: str) -> str:
    r"""Entries of the reference as directives of Sphinx.

    Example:
        >>> print(with_entries("::: kexpfam.KEF\n"))
        ```{eval-rst}
        .. autoclass:: kexpfam.KEF
        ```
        <BLANKLINE>
    """

    def entry(found: re.Match[str]) -> str:
        name, options = found[1], found[2]
        if _MODULE in options:
            kind, more = "automodule", []
            if (ROOT / "src" / name.replace(".", "/") / "__init__.py").exists():
                more = ["   :imported-members:"]
        else:
            kind = (
                "autoclass" if name.rpartition(".")[2][:1].isupper() else "autofunction"
            )
            more = ["   :inherited-members:"] if "inherited_members" in options else []
        lines = ["```{eval-rst}", f".. {kind}:: {name}", *more, "```", ""]
        return "\n".join(lines)

    return _ENTRY.sub(entry, text)


def prepared(text: str, page: PurePosixPath) -> str:
    """The Markdown of a page as Sphinx gets it."""
    return with_entries(as_sessions(rewritten(drawn_formulas(text), page)))


def contents() -> list[tuple[str, list[tuple[str, PurePosixPath]]]]:
    """Sections of the site with titles and pages; the first page of each leads it."""
    import yaml

    found = yaml.safe_load((ROOT / "docs/contents.yml").read_text(encoding="utf-8"))
    return [
        (section, [(title, PurePosixPath(page)) for title, page in pages.items()])
        for section, pages in found.items()
    ]


def toctree(entries: list[tuple[str, str]]) -> str:
    """A part of the navigation, which does not show on the page itself."""
    lines = [f"{title} </{place}>" for title, place in entries]
    return "\n".join(["", "```{toctree}", ":hidden:", "", *lines, "```", ""])


# Pictures of examples that do not have their name
PICTURES = {"compare_estimators": "estimators", "joint_density": "pairs"}


class Example(NamedTuple):
    """A script of `examples/`, on a page of its own."""

    title: str
    what: str  # The first sentence of its docstring,
    about: str  # and the others
    code: str
    picture: str  # Below `images`; empty without one

    @classmethod
    def read(cls, path: Path) -> "Example":
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        what, _, about = (ast.get_docstring(tree) or "").partition("\n")
        code = "".join(text.splitlines(keepends=True)[tree.body[0].end_lineno :])
        name = f"{PICTURES.get(path.stem, path.stem)}.png"
        has_one = (ROOT / "docs/images" / name).exists()
        title = path.stem.replace("_", " ")
        picture = name if has_one else ""
        return cls(title, what, about.strip("\n"), code.lstrip(), picture)

    def card(self, page: PurePosixPath) -> str:
        """What the gallery says of it."""
        picture = f"![{self.what}](images/{self.picture})\n\n" if self.picture else ""
        return f"{picture}**[{self.title}]({page})**<br>{self.what}\n"

    def page(self) -> str:
        """What it is about, its picture and its code."""
        picture = f"![{self.what}](../../images/{self.picture})" if self.picture else ""
        code = f"````python\n{self.code}````"
        title = self.title[0].upper() + self.title[1:]
        return "\n\n".join([f"# {title}", self.what, picture, self.about, code, ""])


def examples() -> dict[PurePosixPath, Example]:
    """All examples, by their pages."""
    paths = sorted((ROOT / "examples").glob("*.py"))
    return {
        site_path(PurePosixPath("examples", path.name)): Example.read(path)
        for path in paths
    }


def gallery() -> str:
    """A page of the examples: what each shows, with its picture if it has one."""
    found = examples()
    body = "\n\n</div>\n<div>\n\n".join(one.card(page) for page, one in found.items())
    about = "Longer scripts, which the tests run at a small size."
    pages = [(one.title, str(page.with_suffix(""))) for page, one in found.items()]
    return (
        f"# Examples\n\n{about}\n\n"
        f'<div class="cards gallery">\n<div>\n\n{body}\n\n</div>\n</div>\n'
        f"{toctree(pages)}"
    )


def overview() -> str:
    """The pages in one text, for programs that read documentation."""
    first = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    about = re.search(
        r"^A regression answers.*?(?=\n\n)", first, re.MULTILINE | re.DOTALL
    )
    lines = ["# kexpfam", "", "> " + " ".join(about[0].split() if about else []), ""]
    for section, entries in contents():
        lines += [f"## {section}", ""]
        lines += [f"- [{t}]({p.with_suffix('.html')})" for t, p in entries] + [""]
    return "\n".join(lines)


def write_pages(folder: Path) -> None:
    """All pages as Sphinx gets them, with the navigation."""
    pages: dict[PurePosixPath, str] = {PurePosixPath("examples.md"): gallery()}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = PurePosixPath(path.relative_to(ROOT / "docs").as_posix())
        pages[page] = prepared(path.read_text(encoding="utf-8"), page)
    pages |= {page: example.page() for page, example in examples().items()}
    orphans = set()
    for file in sorted(linked_files()):
        language, place = _LISTINGS.get(file.suffix), site_path(file)
        if place in pages:
            continue
        text = (ROOT / file).read_text(encoding="utf-8", errors="replace")
        if language is not None:
            pages[place] = f"# {file.name}\n\n````{language}\n{text}````\n"
            orphans.add(place)
        elif file.suffix == ".md":
            pages[place] = prepared(text, place)
            orphans.add(place)
        else:  # what a browser shows by itself, and pictures, which Sphinx looks for
            for target in (folder / "_extra" / place, folder / place):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, target)
    root = []
    for section, entries in contents():
        listed = [page for _, page in entries]
        orphans -= set(listed)
        lead = listed[0] if listed[0].stem == "index" else PurePosixPath("index.md")
        if lead == PurePosixPath("index.md"):  # the first page of all leads no section
            below = [entry for entry in entries if entry[1] != lead]
            lead = PurePosixPath(f"{section.lower()}.md")
            lines = [f"- [{title}]({page})" for title, page in below]
            pages[lead] = "\n".join([f"# {section}", "", *lines, ""])
        else:
            below = entries[1:]
        pages[lead] += toctree([(t, str(p.with_suffix(""))) for t, p in below])
        root.append((section, str(lead.with_suffix(""))))
    pages[PurePosixPath("index.md")] += toctree(root)
    for page, text in pages.items():
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        front = "---\norphan: true\n---\n\n" if page in orphans else ""
        target.write_text(front + text, encoding="utf-8")
    shutil.copytree(ROOT / "docs/images", folder / "images")
    # Pictures that pages name in HTML, which Sphinx does not read
    shutil.copytree(ROOT / "docs/images", folder / "_extra/images")
    (folder / "_extra/llms.txt").write_text(overview(), encoding="utf-8")
    shutil.copyfile(ROOT / "docs/style.css", folder / "style.css")
    shutil.copyfile(ROOT / "docs/conf.py", folder / "conf.py")
    icon = ROOT / "src/kexpfam/explorer/page/icon.svg"
    shutil.copyfile(icon, folder / "icon.svg")


def build(site: Path) -> int:
    """Write the pages, and run Sphinx on them; a warning is an error."""
    folder = ROOT / "build/pages"
    shutil.rmtree(folder, ignore_errors=True)
    write_pages(folder)
    shutil.rmtree(site, ignore_errors=True)
    words = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going"]
    doctrees = ["-d", str(ROOT / "build/doctrees")]
    done = subprocess.run([*words, *doctrees, str(folder), str(site)], check=False)
    return done.returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "site")
    sys.exit(build(parser.parse_args().site))
