"""What the command line says without a traceback: the user's mistakes (exit code 2), lost peers (75), the rest (1)."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """Something the user can put right. The message gives the rule, the value and the way out."""

    is_told = True
    """Whether this process says it: where all ranks have the same to say, one of each host does."""


class ConfigError(UserError):
    """The configuration file or a --set option is wrong."""


class DataError(UserError):
    """A file of text, or a prepared data folder, cannot be used as it is."""


class ChangedFileError(DataError):
    """An input is not what it was when it was first looked at."""


class StorageError(UserError):
    """A folder cannot be written: full, read-only, or not ours."""


class CheckpointError(UserError):
    """A checkpoint is damaged, incomplete, or not one of ours."""


class ArtifactError(UserError):
    """An artifact is damaged, incomplete, or not one of ours."""


class LostPeerError(Exception):
    """Another rank, its host, or the network between is gone: start it again, and it goes on.

    Where that rank said why it left, its exit code is everyone's.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class DriftError(Exception):
    """Ranks that should hold the same weights do not: memory, a disk or a link has changed bits."""


class ParityError(Exception):
    """An exported model does not say what its checkpoint says."""


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turns what the operating system says about a failed write into a StorageError with a cure.

    Errors of reading do not pass here: the readers turn theirs into DataErrors that name the file.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            cure = "free some space and run the same command again: nothing that was finished is lost"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            cure = "choose a folder that you may write to, or change its permissions"
        elif error.errno in (errno.ENOTDIR, errno.EEXIST):
            cure = "a file stands where a folder should be; choose another folder or move the file away"
        else:
            cure = "put that right and run the same command again: nothing that was finished is lost"
        raise StorageError(
            f"cannot write to {folder}: {error.strerror} ({error.filename or 'while writing'}); {cure}"
        ) from error
