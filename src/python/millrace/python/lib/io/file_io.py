# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Files and folders: FileIO and the functions of tf.gfile. Errors are those of tf.errors."""

from __future__ import annotations

import binascii
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import Any

from millrace.python.framework import errors
from millrace.python.lib.io import _match
from millrace.python.lib.io._paths import local_path as _local_path
from millrace.python.lib.io._paths import raising as _raising
from millrace.python.util import compat

# The number of bytes that file_crc32 reads at a time.
_DEFAULT_BLOCK_SIZE = 16 * 1024 * 1024


class FileIO:
    """A file that is opened when it is first read or written.

    Modes: r, w, a, r+, w+, a+, each with b for bytes instead of str in UTF-8. Not thread-safe.
    """

    def __init__(self, name: Any, mode: str) -> None:
        """Raises InvalidArgumentError for an invalid mode."""
        self.__name = name
        self.__mode = mode
        self._file: Any = None
        self._binary_mode = "b" in mode
        mode = mode.replace("b", "")
        if mode not in ("r", "w", "a", "r+", "w+", "a+"):
            raise errors.InvalidArgumentError(None, None, "mode is not 'r' or 'w' or 'a'")
        self._read_check_passed = mode in ("r", "r+", "a+", "w+")
        self._write_check_passed = mode in ("a", "w", "r+", "a+", "w+")
        self._plain_mode = mode

    @property
    def name(self) -> Any:
        return self.__name

    @property
    def mode(self) -> str:
        return self.__mode

    def _open(self) -> Any:
        if self._file is None:
            with _raising(self.__name):
                self._file = open(_local_path(self.__name), self._plain_mode + "b")
        return self._file

    def _preread_check(self) -> Any:
        if not self._read_check_passed:
            raise errors.PermissionDeniedError(None, None, "File isn't open for reading")
        return self._open()

    def _prewrite_check(self) -> Any:
        if not self._write_check_passed:
            raise errors.PermissionDeniedError(None, None, "File isn't open for writing")
        return self._open()

    def _prepare_value(self, value: bytes) -> Any:
        return value if self._binary_mode else value.decode("utf-8")

    def size(self) -> int:
        """Bytes in the file."""
        return stat(self.__name).length

    def write(self, file_content: Any) -> None:
        """Appends str (as UTF-8) or bytes."""
        file = self._prewrite_check()
        data = compat.as_bytes(file_content)
        with _raising(self.__name):
            file.write(data)

    def read(self, n: int = -1) -> Any:
        """Returns up to `n` bytes, or the rest of the file if `n` is -1."""
        file = self._preread_check()
        with _raising(self.__name):
            return self._prepare_value(file.read(n))

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Sets the position: `offset` from the start (whence 0), the current position (1) or the end (2)."""
        file = self._preread_check()
        if offset is None and position is None:
            raise TypeError("seek(): offset argument required")
        if offset is None:
            offset = position
        if whence not in (0, 1, 2):
            raise errors.InvalidArgumentError(
                None, None, "Invalid whence argument: {}. Valid values are 0, 1, or 2.".format(whence)
            )
        with _raising(self.__name):
            file.seek(offset, whence)

    def readline(self) -> Any:
        """The next line with its newline; empty at the end of the file."""
        file = self._preread_check()
        with _raising(self.__name):
            return self._prepare_value(file.readline())

    def readlines(self) -> list[Any]:
        """All remaining lines."""
        lines: list[Any] = []
        while True:
            line = self.readline()
            if not line:
                return lines
            lines.append(line)

    def tell(self) -> int:
        """The position in the file."""
        if self._read_check_passed:
            return int(self._preread_check().tell())
        return int(self._prewrite_check().tell())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, unused_type: Any, unused_value: Any, unused_traceback: Any) -> None:
        self.close()

    def __iter__(self) -> Any:
        return self

    def next(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    __next__ = next

    def flush(self) -> None:
        """Passes buffered data to the operating system."""
        if self._file is not None and self._write_check_passed:
            with _raising(self.__name):
                self._file.flush()

    def close(self) -> None:
        """Closes the file; a file open for writing exists afterwards even if nothing was written."""
        if self._file is None and self._plain_mode in ("w", "w+", "a", "a+") and not self._closed():
            self._open()
        if self._file is not None:
            with _raising(self.__name):
                self._file.close()
            self._file = None
        self._was_closed = True

    def _closed(self) -> bool:
        return getattr(self, "_was_closed", False)

    def seekable(self) -> bool:
        return True


def file_exists(filename: Any) -> bool:
    """Whether there is a file or folder of that name."""
    return file_exists_v2(filename)


def file_exists_v2(path: Any) -> bool:
    return os.path.exists(_local_path(path))


def delete_file(filename: Any) -> None:
    """Deletes a file. Raises NotFoundError if there is none."""
    delete_file_v2(filename)


def delete_file_v2(path: Any) -> None:
    with _raising(path):
        os.unlink(_local_path(path))


def read_file_to_string(filename: Any, binary_mode: bool = False) -> Any:
    """Contents of a file as str, or bytes if `binary_mode`."""
    with FileIO(filename, mode="rb" if binary_mode else "r") as f:
        return f.read()


def write_string_to_file(filename: Any, file_content: Any) -> None:
    """Writes `file_content` to a file, replacing its contents."""
    with FileIO(filename, mode="w") as f:
        f.write(file_content)


def get_matching_files(filename: Any) -> list[str]:
    """Files that match a pattern, or any of a list of patterns, sorted; wildcards * ? [...] stop at slashes."""
    return get_matching_files_v2(filename)


def get_matching_files_v2(pattern: Any) -> list[str]:
    patterns = pattern if isinstance(pattern, (list, tuple)) else [pattern]
    found: list[str] = []
    for p in patterns:
        found.extend(_match.matching_paths(_local_path(p)))
    return found


def create_dir(dirname: Any) -> None:
    """Makes a folder, whose parent must exist."""
    create_dir_v2(dirname)


def create_dir_v2(path: Any) -> None:
    with _raising(path):
        os.mkdir(_local_path(path))


def recursive_create_dir(dirname: Any) -> None:
    """Makes a folder and its missing parents."""
    recursive_create_dir_v2(dirname)


def recursive_create_dir_v2(path: Any) -> None:
    with _raising(path):
        if _local_path(path):  # The empty name is the current folder.
            os.makedirs(_local_path(path), exist_ok=True)


def copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copies a file. Raises AlreadyExistsError where the new one exists, unless `overwrite`."""
    copy_v2(oldpath, newpath, overwrite)


def copy_v2(src: Any, dst: Any, overwrite: bool = False) -> None:
    source, target = _local_path(src), _local_path(dst)
    if not overwrite and os.path.exists(target):
        raise errors.AlreadyExistsError(None, None, "file already exists")
    with _raising(src):
        shutil.copyfile(source, target)


def rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Renames a file or folder. Raises AlreadyExistsError where the new one exists, unless `overwrite`."""
    rename_v2(oldname, newname, overwrite)


def rename_v2(src: Any, dst: Any, overwrite: bool = False) -> None:
    source, target = _local_path(src), _local_path(dst)
    if not overwrite and os.path.exists(target):
        raise errors.AlreadyExistsError(None, None, "file already exists")
    with _raising(src):
        os.replace(source, target)


def atomic_write_string_to_file(filename: Any, contents: Any, overwrite: bool = True) -> None:
    """As `write_string_to_file`, but a reader sees the old contents or the new, never a part."""
    if not has_atomic_move(filename):
        write_string_to_file(filename, contents)
        return
    temp_pathname = str(_local_path(filename)) + ".tmp" + uuid.uuid4().hex
    write_string_to_file(temp_pathname, contents)
    try:
        rename(temp_pathname, filename, overwrite)
    except errors.OpError:
        delete_file(temp_pathname)
        raise


def has_atomic_move(path: Any) -> bool:
    return True


def delete_recursively(dirname: Any) -> None:
    """Deletes a folder and all that it holds."""
    delete_recursively_v2(dirname)


def delete_recursively_v2(path: Any) -> None:
    local = _local_path(path)
    with _raising(path):
        if os.path.isdir(local) and not os.path.islink(local):
            shutil.rmtree(local)
        else:
            os.unlink(local)


def is_directory(dirname: Any) -> bool:
    """Whether there is a folder of that name."""
    return is_directory_v2(dirname)


def is_directory_v2(path: Any) -> bool:
    return os.path.isdir(_local_path(path))


def list_directory(dirname: Any) -> list[str]:
    """Names of the entries of a folder. Raises NotFoundError if it does not exist."""
    return list_directory_v2(dirname)


def list_directory_v2(path: Any) -> list[str]:
    if not is_directory(path):
        raise errors.NotFoundError(None, None, "Could not find directory {}".format(path))
    with _raising(path):
        return os.listdir(_local_path(path))


def walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields (folder, its folders, its files) for `top` and all below, a folder before its folders if `in_order`."""
    return walk_v2(top, in_order)


def walk_v2(
    top: Any, topdown: bool = True, onerror: Any = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    local = _local_path(top)
    try:
        listing = list_directory(local)
    except errors.NotFoundError as err:
        if onerror:
            onerror(err)
        return
    files: list[Any] = []
    subdirs: list[Any] = []
    for item in listing:
        (subdirs if is_directory(os.path.join(local, item)) else files).append(item)
    here = (local, subdirs, files)
    if topdown:
        yield here
    for subdir in subdirs:
        yield from walk_v2(os.path.join(local, subdir), topdown, onerror=onerror)
    if not topdown:
        yield here


class FileStatistics:
    """Length in bytes, time of the last change in nanoseconds since 1970, and whether it is a folder."""

    def __init__(self, length: int, mtime_nsec: int, is_directory: bool) -> None:
        self.length = length
        self.mtime_nsec = mtime_nsec
        self.is_directory = is_directory

    def __repr__(self) -> str:
        return "<tensorflow.FileStatistics length=%d mtime_nsec=%d is_directory=%s>" % (
            self.length,
            self.mtime_nsec,
            self.is_directory,
        )


def stat(filename: Any) -> FileStatistics:
    """FileStatistics of a file or folder. Raises NotFoundError."""
    return stat_v2(filename)


def stat_v2(path: Any) -> FileStatistics:
    local = _local_path(path)
    with _raising(path):
        result = os.stat(local)
    return FileStatistics(result.st_size, result.st_mtime_ns, os.path.isdir(local))


def filecmp(filename_a: Any, filename_b: Any) -> bool:
    """Whether two files have the same size and checksum."""
    if FileIO(filename_a, "rb").size() != FileIO(filename_b, "rb").size():
        return False
    return file_crc32(filename_a) == file_crc32(filename_b)


def file_crc32(filename: Any, block_size: int = _DEFAULT_BLOCK_SIZE) -> str:
    """CRC-32 of a file's contents in hexadecimal."""
    crc = 0
    with FileIO(filename, mode="rb") as f:
        chunk = f.read(n=block_size)
        while chunk:
            crc = binascii.crc32(chunk, crc)
            chunk = f.read(n=block_size)
    return hex(crc & 0xFFFFFFFF)
