#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A model of synchronous training with parameter servers, from 1 to 64 workers.

usage: training_model.py [--svg=PICTURE.svg] [--json=FIGURES.json]

The network is like Inception-v3: 25 million parameters of 4 bytes in 128 tensors, 0.5 s of computing a step, one
third of it forward. In each step every worker
  - pulls all tensors, and computes a layer forward when its tensor is there;
  - computes backward and pushes the gradient of each tensor as soon as it is computed;
the update is made when all gradients have arrived, and the next step begins then. A transfer passes the
connections of its sender and of its receiver at once; each carries transfers one after the other, in the order in
which they become ready; a time for the message comes on top. The time that a worker computes varies from step to
step (log-normal), and the step waits for the slowest. A worker alone keeps its parameters: there is no network.

Figures are images a second divided by those of one worker: speedup = workers * step(1) / step(workers).
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import statistics
from dataclasses import dataclass, replace

WORKERS = [1, 2, 4, 8, 16, 32, 64]
# Announced with TensorFlow 1.0 for Inception-v3 on 64 GPUs.
PUBLISHED = (64, 58.0)


@dataclass(frozen=True)
class Assumptions:
    """What a curve is drawn for."""

    parameters: int = 25_000_000
    tensors: int = 128
    compute_s: float = 0.5
    forward_part: float = 1 / 3
    variation: float = 0.02  # standard deviation of the computing time of a step, relative
    bytes_per_second: float = 1.2e9  # of a connection, each way: 10 Gbit/s less overhead
    message_s: float = 200e-6  # of a transfer, beside its bytes
    update_s: float = 0.003  # that the parameter servers take to apply the mean
    workers_per_server: float = 1.0  # how many workers there are for a parameter server
    steps: int = 12
    partitioned: bool = True  # into parts of the same size, so that all parameter servers have as much to do
    seed: int = 1


def sizes(a: Assumptions) -> list[int]:
    """Bytes of the tensors: without partitions they grow towards the end of the network, as convolutions do, and
    the last one, of the classifier, has 8 % of all."""
    if a.partitioned:
        return [4 * a.parameters // a.tensors] * a.tensors
    weights = [(i + 1) ** 1.5 for i in range(a.tensors - 1)]
    weights.append(sum(weights) * 0.08 / 0.92)
    return [int(4 * a.parameters * weight / sum(weights)) for weight in weights]


class Connection:
    """One direction of a network connection."""

    def __init__(self) -> None:
        self.free = 0.0


def transfer(ready: float, size: int, a: Assumptions, sender: Connection, receiver: Connection) -> float:
    """When a transfer that is ready then has ended."""
    begin = max(ready, sender.free)
    sender.free = begin + size / a.bytes_per_second
    receiver.free = max(begin, receiver.free) + size / a.bytes_per_second
    return receiver.free + a.message_s


def step_time(workers: int, a: Assumptions) -> float:
    """Seconds of a step, the mean of several."""
    if workers == 1:
        return a.compute_s + a.update_s
    chance = random.Random(a.seed)
    servers = max(1, round(workers / a.workers_per_server))
    of_tensor = sizes(a)
    # The largest first, to the server with the least: the byte-size strategy.
    load = [0] * servers
    place = [0] * a.tensors
    for i in sorted(range(a.tensors), key=lambda i: -of_tensor[i]):
        place[i] = load.index(min(load))
        load[place[i]] += of_tensor[i]
    spread = math.sqrt(math.log(1 + a.variation**2))
    times = []
    for _ in range(a.steps):
        compute = [a.compute_s * chance.lognormvariate(-(spread**2) / 2, spread) for _ in range(workers)]
        pulled = [[0.0] * a.tensors for _ in range(workers)]
        down, up = [Connection() for _ in range(workers)], [Connection() for _ in range(servers)]
        for i in range(a.tensors):
            # Each worker begins with another one, so that they do not all wait for the same server.
            for k in range(workers):
                worker = (k + i) % workers
                pulled[worker][i] = transfer(0.0, of_tensor[i], a, up[place[i]], down[worker])
        ready: list[tuple[float, int, int]] = []
        for worker in range(workers):
            layer = compute[worker] / a.tensors
            now = 0.0
            for i in range(a.tensors):
                now = max(now, pulled[worker][i]) + a.forward_part * layer
            for i in reversed(range(a.tensors)):
                now += (1 - a.forward_part) * layer
                ready.append((now, worker, i))
        heapq.heapify(ready)
        out, into = [Connection() for _ in range(workers)], [Connection() for _ in range(servers)]
        end = 0.0
        while ready:
            when, worker, i = heapq.heappop(ready)
            end = max(end, transfer(when, of_tensor[i], a, out[worker], into[place[i]]))
        times.append(end + a.update_s)
    return statistics.mean(times)


def curve(a: Assumptions) -> dict[int, float]:
    """Speedup by the number of workers."""
    alone = step_time(1, a)
    return {workers: workers * alone / step_time(workers, a) for workers in WORKERS}


BASE = Assumptions()
CURVES = {
    "a server for each worker": BASE,
    "the same, variables whole": replace(BASE, partitioned=False),
    "a server for 4 workers": replace(BASE, workers_per_server=4),
    "a server for 8 workers": replace(BASE, workers_per_server=8),
    "times vary by 10 % instead of 2 %": replace(BASE, variation=0.10),
}
COLORS = ["#2563eb", "#7c3aed", "#d97706", "#b91c1c", "#059669"]


def picture(curves: dict[str, dict[int, float]]) -> str:
    """The curves as SVG, both axes logarithmic."""
    left, top, size, width, height = 50, 40, 360, 700, 450

    def x(value: float) -> float:
        return left + size * math.log2(value) / 6

    def y(value: float) -> float:
        return top + size - size * math.log2(value) / 6

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="20" font-size="14">Synchronous training, times faster than one worker (model)</text>',
    ]
    for value in WORKERS:
        out.append(
            f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{top}" y2="{top + size}" stroke="#e5e5e5"/>'
        )
        out.append(
            f'<line x1="{left}" x2="{left + size}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e5e5e5"/>'
        )
        out.append(f'<text x="{x(value):.1f}" y="{top + size + 16}" text-anchor="middle">{value}</text>')
        out.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    out.append(f'<text x="{left + size / 2:.0f}" y="{top + size + 36}" text-anchor="middle">workers</text>')
    out.append(
        f'<line x1="{x(1):.1f}" y1="{y(1):.1f}" x2="{x(64):.1f}" y2="{y(64):.1f}" stroke="#999" '
        f'stroke-dasharray="4 4"/>'
    )
    for i, (name, points) in enumerate(curves.items()):
        path = " ".join(f"{x(n):.1f},{y(faster):.1f}" for n, faster in points.items())
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[i]}" stroke-width="2"/>')
        row = top + 20 + 22 * i
        out.append(
            f'<line x1="{left + size + 16}" x2="{left + size + 40}" y1="{row - 4}" y2="{row - 4}" '
            f'stroke="{COLORS[i]}" stroke-width="2"/>'
        )
        out.append(f'<text x="{left + size + 46}" y="{row}">{name}: {points[64]:.1f}</text>')
    workers, faster = PUBLISHED
    out.append(f'<circle cx="{x(workers):.1f}" cy="{y(faster):.1f}" r="5" fill="none" stroke="#000"/>')
    row = top + 20 + 22 * len(curves)
    out.append(f'<circle cx="{left + size + 28}" cy="{row - 4}" r="5" fill="none" stroke="#000"/>')
    out.append(f'<text x="{left + size + 46}" y="{row}">published: {faster:g}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--svg", help="file for the picture")
    parser.add_argument("--json", help="file for the figures")
    arguments = parser.parse_args()
    curves = {name: curve(assumptions) for name, assumptions in CURVES.items()}
    print("| workers | " + " | ".join(curves) + " |")
    print("|---|" + "---|" * len(curves))
    for workers in WORKERS:
        print(f"| {workers} | " + " | ".join(f"{points[workers]:.1f}" for points in curves.values()) + " |")
    if arguments.svg:
        with open(arguments.svg, "w", encoding="utf-8") as file:
            file.write(picture(curves))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(curves, file, indent=1)


if __name__ == "__main__":
    main()
