# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits: MNIST from its files, or digits that are drawn here by the strokes of examples/mnist."""
from __future__ import annotations

import gzip
import os
import re
import struct

import numpy as np

SIDE, CLASSES = 28, 10


class Examples:
    """Images [n, 28, 28, 1] of floats from 0 to 1 and labels [n, 10], given out in shuffled batches."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, seed: int = 0) -> None:
        self.images = images.reshape(-1, SIDE, SIDE, 1).astype(np.float32)
        self.labels = np.eye(CLASSES, dtype=np.float32)[labels]
        self._random = np.random.RandomState(seed)
        self._order = np.zeros(0, np.int64)

    def next_batch(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The next `size` examples; each is returned once before any is returned again."""
        while len(self._order) < size:
            self._order = np.concatenate([self._order, self._random.permutation(len(self.labels))])
        chosen, self._order = self._order[:size], self._order[size:]
        return self.images[chosen], self.labels[chosen]


def read_idx(path: str) -> np.ndarray:
    """The array of bytes in an IDX file, plain or with .gz."""
    opened = gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb")
    with opened as file:
        zero, kind, rank = struct.unpack(">HBB", file.read(4))
        if zero != 0 or kind != 8:
            raise ValueError("%s is not an IDX file of bytes" % path)
        shape = struct.unpack(">%dI" % rank, file.read(4 * rank))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def locate(data_dir: str) -> str:
    """The folder of MNIST: `data_dir`, or the first of the usual places that has it, or ""."""
    if data_dir:
        return "" if data_dir == "generated" else data_dir
    places = (os.environ.get("MNIST_DIR", ""), "data/mnist", "../shared/data/mnist")
    name = "train-images-idx3-ubyte"
    found = [
        p
        for p in places
        if p and (os.path.exists(os.path.join(p, name + ".gz")) or os.path.exists(os.path.join(p, name)))
    ]
    return found[0] if found else ""


def write_drawn(folder: str, seed: int = 0, generated: int = 12000) -> None:
    """Files as those of MNIST, with drawn digits."""
    os.makedirs(folder, exist_ok=True)
    sets = {"train": draw_digits(generated, seed), "t10k": draw_digits(generated // 6, seed + 1)}
    for prefix, (images, labels) in sets.items():
        pixels = np.rint(np.asarray(images) * 255).astype(np.uint8).reshape(-1, SIDE, SIDE)
        for name, array in (("-images-idx3-ubyte", pixels), ("-labels-idx1-ubyte", labels.astype(np.uint8))):
            with open(os.path.join(folder, prefix + name), "wb") as file:
                file.write(struct.pack(">HBB%dI" % array.ndim, 0, 8, array.ndim, *array.shape))
                file.write(array.tobytes())


def load(data_dir: str = "", seed: int = 0, generated: int = 12000) -> tuple[Examples, Examples, str]:
    """Examples for training and for the test, and a description of their source."""
    folder = locate(data_dir)
    if not folder:
        train, test = draw_digits(generated, seed), draw_digits(generated // 6, seed + 1)
        return Examples(*train, seed), Examples(*test), "generated digits, seed %d" % seed

    def both(prefix: str) -> tuple[np.ndarray, np.ndarray]:
        images = read_idx(os.path.join(folder, prefix + "-images-idx3-ubyte"))
        return images / np.float32(255), read_idx(os.path.join(folder, prefix + "-labels-idx1-ubyte"))

    return Examples(*both("train"), seed), Examples(*both("t10k")), "MNIST in " + folder


def _variants() -> list[tuple[int, float, float, list[tuple[str, np.ndarray]]]]:
    """Digit, weight, aspect and strokes of each way of writing, from the table of the C++ program."""
    table = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mnist", "digit_strokes.cc")
    with open(table, encoding="utf-8") as file:
        rows = re.findall(r'\{(\d), (\d+), ([\d.]+)f,\s*"([^"]*)"\}', file.read())
    result = []
    for digit, weight, aspect, strokes in rows:
        commands = []
        for kind, numbers in re.findall(r"([MLC])([-\d ]*)", strokes):
            commands.append((kind, np.array(numbers.split(), np.float32).reshape(-1, 2) / 100))
        result.append((int(digit), float(weight), float(aspect), commands))
    return result


def _polylines(
    commands: list[tuple[str, np.ndarray]], jitter: np.ndarray, random: np.random.RandomState
) -> tuple[np.ndarray, list[bool]]:
    """Points [n, points, 2] of n traces of the same strokes, and which points begin a stroke."""
    count = len(jitter)

    def jittered(points: np.ndarray) -> np.ndarray:
        return points + jitter[:, None, None] * random.normal(0, 1, (count,) + points.shape)

    pieces, begins, pen = [], [], np.zeros((count, 1, 2))
    for kind, points in commands:
        moved = jittered(points)
        if kind == "M":
            piece, flags = moved, [True]
        elif kind == "L":
            t = np.linspace(0.25, 1, 4)[None, :, None]
            piece, flags = pen + (moved - pen) * t, [False] * 4
        else:
            t = np.linspace(1 / 9, 1, 9)[None, :, None]
            a, b, end = (moved[:, i : i + 1] for i in range(3))
            piece = (1 - t) ** 3 * pen + 3 * (1 - t) ** 2 * t * a + 3 * (1 - t) * t**2 * b + t**3 * end
            flags = [False] * 9
        pieces.append(piece)
        begins += flags
        pen = piece[:, -1:]
    return np.concatenate(pieces, 1), begins


def _distort(points: np.ndarray, aspect: float, random: np.random.RandomState) -> np.ndarray:
    """Bends, shears, stretches, turns and scales traces, and puts their centres near those of the images."""
    count = len(points)
    column = lambda low, high: random.uniform(low, high, (count, 1))  # noqa: E731
    bell = lambda size: random.normal(0, 1, (count, 1)) * size  # noqa: E731
    x, y = points[..., 0], points[..., 1]
    bent_x = x + bell(0.045) * np.sin(2 * np.pi * (column(0.4, 1.3) * y + column(0, 1)))
    bent_y = y + bell(0.045) * np.sin(2 * np.pi * (column(0.4, 1.3) * x + column(0, 1)))
    width = np.clip(aspect * (1 + bell(0.2)), aspect * 0.5, aspect * 1.7)
    y = bent_y - 0.5
    x = (bent_x - 0.5) * width - (0.12 + bell(0.23)) * y
    angle = np.clip(bell(0.13), -0.4, 0.4)
    turned = np.stack([x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)], -1)
    extent = np.maximum((turned.max(1) - turned.min(1)).max(1), 0.2)
    scale = random.uniform(15.2, 18.8, count) / extent
    centre = 13.5 + random.normal(0, 0.45, (count, 1, 2))
    return (turned - turned.mean(1, keepdims=True)) * scale[:, None, None] + centre


def _ink(points: np.ndarray, begins: list[bool], random: np.random.RandomState) -> np.ndarray:
    """Canvases [n, 28, 28] with the traces drawn by a round pen."""
    count = len(points)
    radius = np.clip(1.15 + random.normal(0, 0.36, count), 0.55, 2.3).astype(np.float32)[:, None, None]
    edge = random.uniform(0.9, 1.7, (count, 1, 1)).astype(np.float32)
    canvas = np.zeros((count, SIDE, SIDE), np.float32)
    grid = np.arange(SIDE, dtype=np.float32)
    points = points.astype(np.float32)[..., None, None]
    for i, begin in enumerate(begins):
        if begin:
            continue
        a, d = points[:, i - 1], points[:, i] - points[:, i - 1]
        px, py = grid[None, None, :] - a[:, 0], grid[None, :, None] - a[:, 1]
        along = np.clip((px * d[:, 0] + py * d[:, 1]) / np.maximum((d**2).sum(1), 1e-6), 0, 1)
        distance = np.sqrt((px - along * d[:, 0]) ** 2 + (py - along * d[:, 1]) ** 2)
        np.maximum(canvas, np.clip((radius + edge / 2 - distance) / edge, 0, 1), out=canvas)
    return canvas


def draw_digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` drawn digits: images [count, 28, 28] from 0 to 1, and labels."""
    random = np.random.RandomState(seed)
    variants = _variants()
    labels = random.randint(0, CLASSES, count)
    images = np.zeros((count, SIDE, SIDE), np.float32)
    for digit in range(CLASSES):
        mine = [v for v in variants if v[0] == digit]
        weights = np.array([v[1] for v in mine])
        where = np.flatnonzero(labels == digit)
        chosen = random.choice(len(mine), len(where), p=weights / weights.sum())
        for number, (_, _, aspect, commands) in enumerate(mine):
            rows = where[chosen == number]
            if len(rows):
                traces, begins = _polylines(commands, random.uniform(0.02, 0.09, len(rows)), random)
                images[rows] = _ink(_distort(traces, aspect, random), begins, random)
    gain = random.uniform(0.85, 1.25, (count, 1, 1))
    grain = random.normal(0, 1, images.shape) * random.uniform(0, 0.1, (count, 1, 1))
    return np.clip(images * gain + grain * images, 0, 1).astype(np.float32), labels
