#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of bench_scaling.

usage: plot.py FIGURES.json PICTURE.svg

FIGURES.json is what `bench_scaling --out=FIGURES.json` wrote. The picture shows, for each row, how many times
faster the step is with the most threads than with one, beside the baseline's. The same figures go to the
standard output as a Markdown table.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from xml.sax.saxutils import escape

ENGINES = {"millrace": "#2563eb", "libtorch": "#d97706"}
LABEL_WIDTH, PLOT_WIDTH, ROW_HEIGHT, TOP = 170, 470, 34, 56


def times(row: dict[str, Any], engine: str) -> dict[int, float]:
    """Microseconds by the number of threads."""
    return {case["threads"]: case["us"] for case in row["cases"] if case["engine"] == engine}


def speedup(of_threads: dict[int, float]) -> float:
    return of_threads[1] / of_threads[max(of_threads)]


def table(rows: list[dict[str, Any]], threads: int) -> str:
    lines = [
        f"| row | 1 thread, us | {threads} threads, us | faster by | libtorch, 1 / {threads} | of libtorch's best |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        own, baseline = times(row, "millrace"), times(row, "libtorch")
        beside = f"{baseline[1]:,.0f} / {baseline[threads]:,.0f}" if baseline else "-"
        ratio = f"{min(own.values()) / min(baseline.values()):.2f}" if baseline else "-"
        lines.append(
            f"| {row['name']}: {row['what']} | {own[1]:,.0f} | {own[threads]:,.0f} | {speedup(own):.2f} "
            f"| {beside} | {ratio} |"
        )
    return "\n".join(lines)


def picture(rows: list[dict[str, Any]], threads: int) -> str:
    height = TOP + ROW_HEIGHT * len(rows) + 10
    width = LABEL_WIDTH + PLOT_WIDTH + 20
    top_value = threads * 1.1

    def x(value: float) -> float:
        return LABEL_WIDTH + PLOT_WIDTH * min(value, top_value) / top_value

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="10" y="20" font-size="14">Times faster with {threads} threads than with one</text>',
    ]
    for i, (engine, color) in enumerate(ENGINES.items()):
        left = LABEL_WIDTH + 110 * i
        out.append(f'<rect x="{left}" y="29" width="12" height="12" fill="{color}"/>')
        out.append(f'<text x="{left + 17}" y="40">{"Millrace" if engine == "millrace" else engine}</text>')
    value = 0.0
    while value <= threads:
        out.append(
            f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{TOP - 4}" y2="{height - 8}" '
            f'stroke="{"#333" if value == 1 else "#ddd"}"/>'
        )
        out.append(
            f'<text x="{x(value):.1f}" y="{TOP - 7}" text-anchor="middle" fill="#666">{value:g}</text>'
        )
        value += threads / 4
    for i, row in enumerate(rows):
        y = TOP + ROW_HEIGHT * i
        out.append(f'<text x="{LABEL_WIDTH - 8}" y="{y + 19}" text-anchor="end">{escape(row["name"])}</text>')
        for k, (engine, color) in enumerate(ENGINES.items()):
            of_threads = times(row, engine)
            if not of_threads:
                continue
            faster = speedup(of_threads)
            out.append(
                f'<rect x="{LABEL_WIDTH}" y="{y + 3 + 13 * k}" width="{x(faster) - LABEL_WIDTH:.1f}" height="12" '
                f'fill="{color}"><title>{escape(row["what"])}: {faster:.2f}</title></rect>'
            )
            out.append(
                f'<text x="{x(faster) + 4:.1f}" y="{y + 13 + 13 * k}" font-size="10">{faster:.2f}</text>'
            )
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main(args: list[str]) -> int:
    if len(args) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with open(args[0], encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    threads = max(case["threads"] for row in rows for case in row["cases"])
    print(table(rows, threads))
    with open(args[1], "w", encoding="utf-8") as file:
        file.write(picture(rows, threads))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
