"""One file for arrays and a description: safetensors with a JSON header.

A file is written beside its destination and renamed, so that a crash leaves the old
file or the new one, never half of either. Reading runs no code from the file.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.errors import CannotSaveError, FileFormatError

# The one metadata key that this library reads, and the version of what it holds. Among
# that is a checksum of everything else, against bits that flip.
_KEY, _CHECKSUM = "kexpfam", "sha256"
FORMAT_VERSION = 2

# Bytes of header that are looked at; a real one has a few thousand.
_LONGEST_HEADER = 4_000_000


def write_container(
    path: str | Path, arrays: dict[str, Array], description: dict[str, Any]
) -> None:
    """Write arrays and a JSON-compatible description, all or nothing."""
    from safetensors.numpy import save

    described = {"format": FORMAT_VERSION, **description}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    described[_CHECKSUM] = _checksum(contiguous, described)
    header = json.dumps(described, allow_nan=False)
    content = save(contiguous, metadata={_KEY: header})
    length = int.from_bytes(content[:8], "little")
    if length > _LONGEST_HEADER:
        raise CannotSaveError(
            f"The description of the model has {length} bytes, and files have at most "
            f"{_LONGEST_HEADER}; put less into extra."
        )
    with replacing(path) as temporary:
        Path(temporary).write_bytes(content)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[str]:
    """A file beside the destination, which takes its place when all went well.

    A link stays one, and what it leads to is replaced, with the permissions that it
    had. A folder that does not exist or cannot be written to, and a disk that is full,
    are an OSError that names the destination.
    """
    target = Path(os.path.realpath(path))
    start, end = _beside(target)
    name = f"{start}{os.getpid()}.{secrets.token_hex(4)}{end}"
    temporary = str(target.with_name(name))
    _remove_leftovers(target)
    try:
        try:
            # As any new file, but private while it is written if it will be.
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            os.close(os.open(temporary, flags, 0o666 if mode is None else mode))
        except OSError as error:
            # The user knows the destination, not the temporary file beside it.
            raise type(error)(
                f"Cannot write {str(path)!r}: the folder {str(Path(path).parent)!r} "
                f"does not exist or cannot be written to ({error.strerror})."
            ) from error
        if mode is not None:
            os.chmod(temporary, mode)
        try:
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
                raise
            raise type(error)(
                f"Cannot write {str(path)!r}: {error.strerror}; what was there before "
                f"is as it was."
            ) from error
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(temporary)
        raise


def _beside(target: Path) -> tuple[str, str]:
    """How hidden files begin and end that this one is written to.

    The end is its own, for who reads suffixes; systems have a longest name.
    """
    return f".{target.name[:100]}.", target.suffix[-100:]


def _remove_leftovers(target: Path) -> None:
    """Remove what processes have left that were killed while they wrote this file."""
    start, end = map(re.escape, _beside(target))
    with contextlib.suppress(OSError):
        for other in target.parent.iterdir():
            found = re.fullmatch(rf"{start}(\d+)\.[0-9a-f]{{8}}{end}", other.name)
            if found and not _is_alive(int(found[1])):
                other.unlink()


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # where asking would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def read_container(path: str | Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and description of a file; FileFormatError if it is not a whole one."""
    name = str(path)
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # it might never end, or begin
        raise FileFormatError(
            f"{name!r} is a pipe or a device, and a model is read from a file; write "
            f"it to one first."
        )
    with open(path, "rb") as file:  # a missing file or folder is the caller's to see
        length = int.from_bytes(file.read(8), "little")
        size = os.fstat(file.fileno()).st_size
    if size < 8 or length > min(size - 8, _LONGEST_HEADER):
        raise FileFormatError(
            f"{name!r} is not a kexpfam model, or is truncated ({size} bytes)."
        )
    from safetensors import safe_open

    try:
        with safe_open(name, framework="np") as content:
            metadata = content.metadata() or {}
            names = content.keys()  # not a mapping: iterating it does not work
            arrays = {key: content.get_tensor(key) for key in names}
    except Exception as error:  # the library raises several unrelated types
        raise FileFormatError(
            f"{name!r} is damaged or not a kexpfam model ({error})."
        ) from error
    if _KEY not in metadata:
        raise FileFormatError(
            f"{name!r} is a safetensors file of another program: it has no "
            f"{_KEY!r} entry."
        )
    try:
        description = json.loads(metadata[_KEY])
        version = description["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(f"{name!r} has a damaged description.") from error
    if version != FORMAT_VERSION:
        raise FileFormatError(
            f"{name!r} has format {version!r:.40}, and this version of kexpfam reads "
            f"format {FORMAT_VERSION}; load it with the version that wrote it."
        )
    known = description.pop(_CHECKSUM, None)
    if known is not None and known != _checksum(arrays, description):
        raise FileFormatError(
            f"{name!r} is damaged: its content does not have the checksum that was "
            f"written with it; take a copy of the file that is whole."
        )
    return arrays, description


def _checksum(arrays: dict[str, Array], description: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(description, allow_nan=False).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
