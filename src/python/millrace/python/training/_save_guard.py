# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Lets only the latest chief of a training write checkpoints; compatible with the files of the C++ API."""

from __future__ import annotations

import os

from millrace.python.framework import errors

_PREFIX = "chief-"
_MOST_TERMS = 1 << 50


def _term_of(name: str) -> int:
    """The term that a file represents; 0 for another file."""
    digits = name[len(_PREFIX) :]
    if not name.startswith(_PREFIX) or not (digits.isascii() and digits.isdigit()):
        return 0
    term = int(digits) if len(digits) < 20 else 0
    return term if term < _MOST_TERMS else 0


class SaveGuard:
    """A file "chief-<term>" in the folder records the latest chief: each takes a higher term than all before.

    A chief whose process was paused finds the term of its successor there, even if it believes to hold the
    lease.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._term = 0  # 0: never was the chief

    def _latest(self) -> int:
        try:
            return max(map(_term_of, os.listdir(self._folder)), default=0)
        except FileNotFoundError:
            return 0

    def take(self) -> None:
        """Becomes the latest chief, unless it is. Makes the folder."""
        os.makedirs(self._folder, exist_ok=True)
        latest = self._latest()
        if self._term and self._term == latest:
            return
        while True:
            latest += 1
            try:
                # Creating a file exclusively succeeds for one process only.
                path = os.path.join(self._folder, _PREFIX + str(latest))
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
                break
            except FileExistsError:
                continue
        self._term = latest
        for name in os.listdir(self._folder):
            if 0 < _term_of(name) < latest:
                try:
                    os.remove(os.path.join(self._folder, name))
                except FileNotFoundError:
                    pass  # another one has deleted it

    def check(self) -> None:
        """Raises AbortedError when there is a later chief."""
        if self._term == 0 or self._latest() > self._term:
            raise errors.AbortedError(
                None,
                None,
                "This worker is not the chief any more: another one has taken over in %s, and nothing is saved"
                % self._folder,
            )
