"""What the pages of the documentation show: commands, files, links."""

import importlib.util
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Programs whose commands have to work.
PROGRAMS = ("kexpfam", "make", "python", "pip")

_COMMAND = re.compile(rf"(?:{'|'.join(PROGRAMS)}) \S")


def documents():
    """Every page that a user reads, by its path in the repository."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    paths += sorted((ROOT / "docs").rglob("*.md"))
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths}


def files_of(text):
    """Files that a page shows, with their content."""
    return dict(re.findall(r'```csv title="(.+)"\n(.*?)```', text, flags=re.DOTALL))


def fences_of(text):
    """Lines of each block between fences with its language, and the text without."""
    blocks, prose, language = [], [], None
    for line in text.splitlines():
        if line.startswith("```"):
            language = line[3:].strip() if language is None else None
            if language is not None:
                blocks.append((language, []))
        elif language is None:
            prose.append(line)
        else:
            blocks[-1][1].append(line)
    return blocks, "\n".join(prose)


def commands_of(text):
    """Commands in console blocks, after their prompts, as lists of words."""
    lines = [
        row for kind, rows in fences_of(text)[0] if kind == "console" for row in rows
    ]
    return [words_of(line[2:]) for line in lines if line.startswith("$ ")]


def all_commands_of(text):
    """Commands wherever they are: in blocks of any kind, and inside of sentences."""
    blocks, prose = fences_of(text)
    lines = [row for kind, rows in blocks if kind in ("", "console") for row in rows]
    lines += re.findall(r"^    (\S.*)$", prose, flags=re.MULTILINE)
    lines += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    lines = [line.removeprefix("$ ") for line in lines]
    return [words_of(line) for line in lines if _COMMAND.match(line)]


def words_of(line):
    return shlex.split(line, comments=True)


def module_of(path):
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
