"""Names and contents that survive: a power cut, and a network file system that loses an answer.

A file's content is on disk after syncing the file, its name after syncing its folder.

A network file system may carry a request out, lose the answer and repeat the request: a link then fails because the
name exists, and a rename because the old name is gone. So after such an error we look whose the name is.
"""

import errno
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_REFUSED = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EACCES, errno.EROFS, errno.EMLINK, errno.ENOENT, errno.ENOTDIR),
    *(errno.EXDEV, errno.ENAMETOOLONG, errno.EOPNOTSUPP, errno.ELOOP),
}
"""Errors after which a link certainly does not exist, and will not."""


class UnknownOutcomeError(OSError):
    """A link failed so that it may exist, or appear later: nothing that it would name may be deleted."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give errors of writes the file's name, which the system leaves out once the file is open."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def sync_file(path: Path) -> None:
    """Return when the file's content is on disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Return when the folder's names are on disk, for files created, renamed, linked or removed there."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link(source: Path, target: Path) -> bool:
    """Give a file a second name. Returns False if another file has that name.

    The file's content must be unique. Raises OSError, or UnknownOutcomeError if the name may exist nevertheless.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        return is_same(source, target)
    except OSError as error:
        if error.errno in _REFUSED:
            raise
        with suppress(OSError):
            return is_same(source, target)
        raise UnknownOutcomeError(error.errno, f"linking {target} failed: {error}") from error
    return True


@contextmanager
def discarding(discard: Callable[[], object]) -> Iterator[None]:
    """Call `discard` if a step fails, unless what it wrote may be named nevertheless."""
    try:
        yield
    except UnknownOutcomeError:
        raise  # a vacuum deletes what no commit names
    except BaseException:
        discard()
        raise


def is_same(source: Path, target: Path) -> bool:
    """Whether two names are of one file, or of equal ones: not every file system keeps inode numbers.

    Raises OSError.
    """
    return source.samefile(target) or source.read_bytes() == target.read_bytes()


def rename(source: Path, target: Path) -> None:
    """Rename a file or folder, over a file that has the name. Raises OSError."""
    before = source.stat()
    try:
        source.replace(target)
    except FileNotFoundError:
        if not os.path.samestat(before, target.stat()):
            raise


def make_folders(folder: Path) -> None:
    """Create a folder and its missing parents, durably."""
    missing = [folder, *folder.parents]
    missing = missing[: next((n for n, path in enumerate(missing) if path.is_dir()), len(missing))]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text`, durably and atomically. Raises OSError, and then leaves no temporary file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        with naming(path), temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def overwrite(path: Path, text: str) -> None:
    """Overwrite a file's content in place, within the space that it has.

    This is for a disk on which nothing new can be created.

    Blanks fill the rest, which JSON permits. A reader may briefly see half of it (`read_runner` retries). Raises
    OSError if the file does not exist or has no room.
    """
    data = text.encode()
    with path.open("r+b", buffering=0) as file:
        status = os.fstat(file.fileno())
        if len(data) > max(status.st_size, 512 * status.st_blocks):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.pwrite(file.fileno(), data.ljust(status.st_size), 0)
