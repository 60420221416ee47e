# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The debugger's command line."""
from __future__ import annotations

import argparse
import re
import shlex
import sys
from typing import Any

import numpy as np

from millrace.python.debug.lib import debug_data, debug_graphs

_HELP = """\
run [-n] [-t N] [-f FILTER [-e NODES]] [-p]   continue: watched, not watched (-n), N times of which the last is
    [--node_name_filter R] [--op_type_filter R] [--tensor_dtype_filter R]
                                              watched, until a tensor passes a filter, traced (-p)
lt [-f FILTER] [-n NODES] [-t TYPES] [-s timestamp|tensor_name|op_type|dump_size] [-r]   tensors
pt TENSOR[SLICE] [-n NUMBER] [-a] [-s]        the value of a tensor, all of it (-a), with numbers about it (-s)
ni NODE [-a] [-d] [-t]                        a node, with attributes, tensors, the lines that made it
li NODE [-c] [-d N] [-r]                      what a node depends on, to a depth, of control (-c), all (-r)
lo NODE [-c] [-d N] [-r]                      what depends on a node
filters, run_info, help, exit"""


class _Parser(argparse.ArgumentParser):
    """Raises where argparse ends the process."""

    def error(self, message: str) -> Any:
        raise ValueError("%s: %s" % (self.prog, message))

    def exit(self, status: int = 0, message: Any = None) -> Any:
        raise ValueError(message or "")


def run_parser() -> argparse.ArgumentParser:
    """The options of "run"."""
    parser = _Parser(prog="run", add_help=False)
    parser.add_argument("-t", "--times", type=int, default=1)
    parser.add_argument("-n", "--no_debug", action="store_true")
    parser.add_argument("-f", "--till_filter_pass", default="")
    parser.add_argument("-e", "--filter_exclude_node_names", "-fenn", default="")
    parser.add_argument("--node_name_filter", default="")
    parser.add_argument("--op_type_filter", default="")
    parser.add_argument("--tensor_dtype_filter", default="")
    parser.add_argument("-p", "--profile", action="store_true")
    return parser


class DebugCLI:
    """Reads commands and prints their results.

    Args:
      filters: the filters of tensors, by name.
      intro: the text that is printed first.
      dump: the DebugDumpDir of the run; None before a run.
      error: the error with which the run ended.
      passed_filter: the name of the filter that a tensor of the run has passed.
    """

    def __init__(
        self,
        filters: dict[str, Any],
        intro: str,
        dump: Any = None,
        error: Any = None,
        passed_filter: Any = None,
    ) -> None:
        self._filters = filters
        self._intro = intro
        self._dump = dump
        self._error = error
        self._passed_filter = passed_filter

    def run_ui(self) -> Any:
        """Reads commands until one resumes the run: the options of "run"; None to end the program."""
        print("tfdbg: " + self._intro)
        if self._error is not None:
            print("The run ended with an error:\n%s" % self._error)
        if self._passed_filter:
            print("A tensor has passed the filter %s:" % self._passed_filter)
            print(self.list_tensors(["-f", self._passed_filter]))
        try:
            import readline  # noqa: F401  # lines may be edited
        except ImportError:
            pass
        while True:
            try:
                line = input("tfdbg> ")
            except EOFError:
                return None
            except KeyboardInterrupt:
                print()
                continue
            try:
                words = shlex.split(line)
                if not words:
                    continue
                if words[0] in ("exit", "quit"):
                    return None
                if words[0] in ("run", "r"):
                    return self._run_options(words[1:])
                print(self.command(words))
            except (ValueError, LookupError) as error:
                print("ERROR: %s" % error)
            sys.stdout.flush()

    def _run_options(self, words: list[str]) -> Any:
        options = run_parser().parse_args(words)
        if options.times < 1:
            raise ValueError("run: -t must be at least 1")
        if options.till_filter_pass and options.till_filter_pass not in self._filters:
            raise ValueError('There is no tensor filter named "%s"' % options.till_filter_pass)
        return options

    def command(self, words: list[str]) -> str:
        """The text that a command prints."""
        name, rest = words[0], words[1:]
        if name in ("help", "h"):
            return _HELP
        if name in ("run_info", "ri"):
            return self._intro
        if name == "filters":
            return "\n".join(sorted(self._filters))
        commands = {
            "lt": self.list_tensors, "list_tensors": self.list_tensors,
            "pt": self.print_tensor, "print_tensor": self.print_tensor,
            "ni": self.node_info, "node_info": self.node_info,
            "li": self.list_inputs, "list_inputs": self.list_inputs,
            "lo": self.list_outputs, "list_outputs": self.list_outputs,
        }  # fmt: skip
        if name not in commands:
            raise ValueError('No command "%s"; "help" lists all commands' % name)
        if self._dump is None:
            raise ValueError("Nothing has been run yet: begin with run")
        return commands[name](rest)

    def list_tensors(self, words: list[str]) -> str:
        """The tensors that were written, a line each."""
        parser = _Parser(prog="lt", add_help=False)
        parser.add_argument("-f", "--tensor_filter")
        parser.add_argument("-fenn", "--filter_exclude_node_names")
        parser.add_argument("-n", "--node_name_filter")
        parser.add_argument("-t", "--op_type_filter")
        parser.add_argument("-s", "--sort_by", default="timestamp")
        parser.add_argument("-r", "--reverse", action="store_true")
        options = parser.parse_args(words)
        if options.tensor_filter:
            if options.tensor_filter not in self._filters:
                raise ValueError('There is no tensor filter named "%s"' % options.tensor_filter)
            data = self._dump.find(
                self._filters[options.tensor_filter], exclude_node_names=options.filter_exclude_node_names
            )
        else:
            data = self._dump.dumped_tensor_data
        kept = [
            datum
            for datum in data
            if (not options.node_name_filter or re.match(options.node_name_filter, datum.node_name))
            and (not options.op_type_filter or re.match(options.op_type_filter, self._type_of(datum)))
        ]
        keys: dict[str, Any] = {
            "timestamp": lambda datum: datum.timestamp,
            "tensor_name": lambda datum: datum.tensor_name,
            "op_type": self._type_of,
            "dump_size": lambda datum: datum.dump_size_bytes,
        }
        if options.sort_by not in keys:
            raise ValueError("Unsupported key to sort tensors by: %s" % options.sort_by)
        kept.sort(key=keys[options.sort_by], reverse=options.reverse)
        lines = ["%d tensor(s)" % len(kept), "%10s %10s  %-20s %s" % ("t (ms)", "size", "op type", "tensor")]
        for datum in kept:
            since = (datum.timestamp - self._dump.t0) / 1000.0
            lines.append(
                "[%8.3f] %10d  %-20s %s"
                % (since, datum.dump_size_bytes, self._type_of(datum), datum.tensor_name)
            )
        return "\n".join(lines)

    def _type_of(self, datum: Any) -> str:
        try:
            return str(self._dump.node_op_type(datum.node_name, device_name=datum.device_name))
        except (LookupError, ValueError):
            return "?"

    def print_tensor(self, words: list[str]) -> str:
        """The value of a tensor."""
        parser = _Parser(prog="pt", add_help=False)
        parser.add_argument("tensor")
        parser.add_argument("-n", "--number", type=int, default=-1)
        parser.add_argument("-a", "--print_all", action="store_true")
        parser.add_argument("-s", "--numeric_summary", action="store_true")
        options = parser.parse_args(words)
        name, bracket, rest = options.tensor.partition("[")
        node, slot = debug_graphs.parse_node_or_tensor_name(name)
        if slot is None:
            watched = self._dump.debug_watch_keys(node)
            if len(watched) > 1:
                raise ValueError('Node "%s" has several outputs: %s' % (node, ", ".join(watched)))
            slot = 0
        values = self._dump.get_tensors(node, slot, "DebugIdentity")
        if len(values) > 1 and options.number == -1:
            lines = [
                "%s:%d was computed %d times; pt -n NUMBER shows one of them" % (node, slot, len(values))
            ]
            return "\n".join(lines + ["#%d: %s" % (i, _head(value)) for i, value in enumerate(values)])
        if options.number >= len(values):
            raise ValueError("There are only %d values" % len(values))
        value = values[max(options.number, 0)]
        if isinstance(value, debug_data.InconvertibleTensorProto):
            return "%s:%d: %s" % (node, slot, value)
        head = '"%s:%d" %s' % (node, slot, _head(value))
        lines = [head] + (numeric_summary(value) if options.numeric_summary else [])
        if bracket:
            value = value[_parse_slice(bracket + rest)]
        shown = np.array2string(np.asarray(value), threshold=sys.maxsize if options.print_all else 1000)
        return "\n".join(lines + [shown])

    def node_info(self, words: list[str]) -> str:
        """The properties of a node."""
        parser = _Parser(prog="ni", add_help=False)
        parser.add_argument("node")
        parser.add_argument("-a", "--attributes", action="store_true")
        parser.add_argument("-d", "--dumps", action="store_true")
        parser.add_argument("-t", "--traceback", action="store_true")
        options = parser.parse_args(words)
        node = debug_graphs.get_node_name(options.node)
        if not self._dump.node_exists(node):
            raise ValueError('There is no node named "%s" in the partition graphs' % node)
        lines = ["Node %s" % node, "  Op: %s" % self._dump.node_op_type(node)]
        lines.append("  Device: %s" % self._dump.node_device(node))
        for what, names in (
            ("input", self._dump.node_inputs(node)),
            ("control input", self._dump.node_inputs(node, is_control=True)),
            ("recipient", self._dump.node_recipients(node)),
            ("control recipient", self._dump.node_recipients(node, is_control=True)),
        ):
            lines.append("  %d %s(s)" % (len(names), what))
            lines += ["    " + name for name in names]
        if options.attributes:
            attributes = self._dump.node_attributes(node)
            lines += ["  %s: %s" % (key, str(attributes[key]).strip()) for key in sorted(attributes)]
        if options.dumps:
            keys = self._dump.debug_watch_keys(node)
            lines += ["  %s: %d time(s)" % (key, len(self._dump.watch_key_to_data(key))) for key in keys]
        if options.traceback:
            lines += ["  %s:%d in %s" % tuple(frame[:3]) for frame in self._dump.node_traceback(node)]
        return "\n".join(lines)

    def list_inputs(self, words: list[str]) -> str:
        """The nodes on which a node depends."""
        return self._list("li", words, self._dump.node_inputs)

    def list_outputs(self, words: list[str]) -> str:
        """What depends on a node."""
        return self._list("lo", words, self._dump.node_recipients)

    def _list(self, command: str, words: list[str], next_to: Any) -> str:
        parser = _Parser(prog=command, add_help=False)
        parser.add_argument("node")
        parser.add_argument("-c", "--control", action="store_true")
        parser.add_argument("-d", "--depth", type=int, default=1)
        parser.add_argument("-r", "--recursive", action="store_true")
        options = parser.parse_args(words)
        node = debug_graphs.get_node_name(options.node)
        if not self._dump.node_exists(node):
            raise ValueError('There is no node named "%s" in the partition graphs' % node)
        deepest = 20 if options.recursive and options.depth == 1 else options.depth
        lines = [node]
        seen = {node}

        def add(name: str, depth: int) -> None:
            names = [debug_graphs.get_node_name(text) for text in next_to(name)]
            if options.control:
                names += next_to(name, is_control=True)
            for other in names:
                if not self._dump.node_exists(other):
                    continue
                lines.append("  " * depth + "|- " + other + (" ..." if other in seen else ""))
                if other not in seen and depth < deepest:
                    seen.add(other)
                    add(other, depth + 1)

        add(node, 1)
        return "\n".join(lines)


def _head(value: Any) -> str:
    if isinstance(value, debug_data.InconvertibleTensorProto):
        return "no array"
    return "%s %s" % (value.dtype, list(value.shape))


def _parse_slice(text: str) -> Any:
    """ "[1, 2:4]" as an index."""
    if not text.endswith("]") or not re.fullmatch(r"[\d\s:,.\-]*", text[1:-1]):
        raise ValueError("Not a slice: %s" % text)

    def item(part: str) -> Any:
        if part.strip() == "...":
            return Ellipsis
        if ":" in part:
            return slice(*(int(p) if p.strip() else None for p in part.split(":")))
        return int(part)

    return tuple(item(part) for part in text[1:-1].split(","))


def numeric_summary(value: Any) -> list[str]:
    """Lines with counts of values by kind, and extremes, mean and standard deviation."""
    if value.dtype.kind not in "biuf" or value.size == 0:
        return ["no numbers"]
    if value.dtype.kind == "b":
        return ["%d false, %d true" % (value.size - np.count_nonzero(value), np.count_nonzero(value))]
    numbers = value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    counts = [
        ("nan", np.isnan(numbers)), ("-inf", np.isneginf(numbers)), ("-", finite < 0), ("0", finite == 0),
        ("+", finite > 0), ("+inf", np.isposinf(numbers)),
    ]  # fmt: skip
    lines = [", ".join("%s: %d" % (name, np.count_nonzero(of)) for name, of in counts)]
    if finite.size:
        lines.append(
            "min %g, max %g, mean %g, std %g" % (finite.min(), finite.max(), finite.mean(), finite.std())
        )
    return lines
