# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Names of the purposes of a model."""
from __future__ import annotations

import collections
from typing import Any, Iterator


class KerasModeKeys:
    """The names of Keras."""

    TRAIN = "train"
    TEST = "test"
    PREDICT = "predict"


class EstimatorModeKeys:
    """The names of estimators."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


def is_predict(mode: str) -> bool:
    """Whether predictions are computed."""
    return mode in (KerasModeKeys.PREDICT, EstimatorModeKeys.PREDICT)


def is_eval(mode: str) -> bool:
    """Whether the model is evaluated."""
    return mode in (KerasModeKeys.TEST, EstimatorModeKeys.EVAL)


def is_train(mode: str) -> bool:
    """Whether the model is trained."""
    return mode in (KerasModeKeys.TRAIN, EstimatorModeKeys.TRAIN)


class ModeKeyMap(collections.abc.Mapping):  # type: ignore[type-arg]
    """A mapping in which both names of a mode are the same key; ValueError for other keys and for both names
    at once."""

    def __init__(self, **kwargs: Any) -> None:
        self._internal_dict: dict[str, Any] = {}
        self._keys: list[str] = []
        for key, value in kwargs.items():
            self._keys.append(key)
            inner = self._get_internal_key(key)
            if inner in self._internal_dict:
                raise ValueError(
                    "Error creating ModeKeyMap. Multiple keys/values found for {} mode.".format(inner)
                )
            self._internal_dict[inner] = value

    def _get_internal_key(self, key: str) -> str:
        if is_train(key):
            return KerasModeKeys.TRAIN
        if is_eval(key):
            return KerasModeKeys.TEST
        if is_predict(key):
            return KerasModeKeys.PREDICT
        raise ValueError("Invalid mode key: {}.".format(key))

    def __getitem__(self, key: str) -> Any:
        return self._internal_dict[self._get_internal_key(key)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
