# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Flags: definitions, parsing, validators, and the start of programs."""

import enum
import subprocess
import sys

import pytest

from millrace.python.platform import app
from millrace.python.platform import flags


@pytest.fixture
def values():
    """A registry of its own."""
    return flags.FlagValues()


class Colour(enum.Enum):
    red = 1
    blue = 2


def test_values_come_from_the_command_line(values):
    flags.DEFINE_string("name", "x", "A name.", flag_values=values)
    flags.DEFINE_integer("count", 3, "A count.", flag_values=values)
    flags.DEFINE_float("rate", 0.5, "A rate.", flag_values=values)
    flags.DEFINE_boolean("fast", True, "Fast?", flag_values=values)
    rest = values(["prog", "--name=y", "a", "--count", "0x10", "-rate=1e-3", "--nofast", "--", "--b"])
    assert rest == ["prog", "a", "--b"]
    assert (values.name, values.count, values.rate, values.fast) == ("y", 16, 1e-3, False)


def test_defaults_stay_where_nothing_is_given(values):
    flags.DEFINE_list("names", "a,b", "Names.", flag_values=values)
    flags.DEFINE_multi_integer("n", [1], "Numbers.", flag_values=values)
    flags.DEFINE_enum_class("colour", Colour.red, Colour, "Colour.", flag_values=values)
    values(["prog"])
    assert values.names == ["a", "b"] and values.n == [1] and values.colour is Colour.red


def test_repeated_flags_gather_values(values):
    flags.DEFINE_multi_integer("n", [1], "Numbers.", flag_values=values)
    values(["prog", "--n=2", "--n=3"])
    assert values.n == [2, 3]


@pytest.mark.parametrize("argument", ["--count=abc", "--count=11", "--kind=c", "--fast=maybe"])
def test_values_of_the_wrong_kind_are_refused(values, argument):
    flags.DEFINE_integer("count", 3, "A count.", lower_bound=0, upper_bound=10, flag_values=values)
    flags.DEFINE_enum("kind", "a", ["a", "b"], "Kind.", flag_values=values)
    flags.DEFINE_boolean("fast", True, "Fast?", flag_values=values)
    name, _, value = argument[2:].partition("=")
    with pytest.raises(flags.IllegalFlagValueError, match="flag --%s=%s: " % (name, value)):
        values(["prog", argument])


def test_unknown_flags_are_refused_or_left(values):
    flags.DEFINE_integer("count", 3, "A count.", flag_values=values)
    with pytest.raises(
        flags.UnrecognizedFlagError, match="Unknown command line flag 'coumt'. Did you mean: count"
    ):
        values(["prog", "--coumt=1"])
    assert values(["prog", "--coumt=1", "x"], known_only=True) == ["prog", "--coumt=1", "x"]


def test_a_flag_is_not_read_before_parsing(values):
    flags.DEFINE_integer("count", 3, "A count.", flag_values=values)
    with pytest.raises(flags.UnparsedFlagAccessError, match="--count before flags were parsed"):
        values.count
    with pytest.raises(AttributeError):
        values.other


def test_validators_run_after_parsing_and_assignment(values):
    flags.DEFINE_integer("even", 2, "Even.", flag_values=values)
    flags.register_validator("even", lambda v: v % 2 == 0, "must be even", flag_values=values)
    with pytest.raises(flags.IllegalFlagValueError, match="flag --even=3: must be even"):
        values(["prog", "--even=3"])
    values(["prog", "--even=4"])
    with pytest.raises(flags.IllegalFlagValueError):
        values.even = 5


def test_required_flags_must_be_given(values):
    flags.DEFINE_string("path", None, "A path.", flag_values=values)
    flags.mark_flag_as_required("path", flag_values=values)
    with pytest.raises(flags.IllegalFlagValueError, match="Flag --path must have a value other than None."):
        values(["prog"])
    assert values(["prog", "--path=/x"]) == ["prog"]


def test_two_flags_of_one_name_are_refused(values):
    flags.DEFINE_integer("count", 3, "A count.", flag_values=values, module_name="a")
    with pytest.raises(flags.DuplicateFlagError, match="The flag 'count' is defined twice."):
        flags.DEFINE_integer("count", 4, "Another.", flag_values=values, module_name="b")


def test_text_of_flags_parses_to_the_same_values(values):
    flags.DEFINE_list("names", ["a b", "c,d"], "Names.", flag_values=values)
    flags.DEFINE_boolean("fast", False, "Fast?", flag_values=values)
    values(["prog"])
    lines = values.flags_into_string().split("\n")[:-1]
    values.unparse_flags()
    values(["prog"] + lines)
    assert values.names == ["a b", "c,d"] and values.fast is False


def test_run_ends_the_program_with_the_result_of_main():
    got = []
    with pytest.raises(SystemExit) as end:
        app.run(main=lambda argv: got.append(argv) or 7, argv=["prog", "a", "--not_defined=1"])
    assert got == [["prog", "a", "--not_defined=1"]] and end.value.code == 7


def test_run_tells_of_bad_values_and_ends_with_one(capsys):
    flags.DEFINE_integer("test_run_count", 3, "A count.")
    try:
        with pytest.raises(SystemExit) as end:
            app.run(main=lambda argv: 0, argv=["prog", "--test_run_count=x"])
        assert end.value.code == 1
        assert "FATAL Flags parsing error" in capsys.readouterr().err
    finally:
        del flags.FLAGS.test_run_count


def test_flags_of_files(tmp_path):
    values = flags.FlagValues()
    flags.DEFINE_integer("size", 1, "a number", flag_values=values)
    flags.DEFINE_string("word", "", "a text", flag_values=values)
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text("# a comment\n\n--word=hello\n--flagfile=%s\n" % outer)
    outer.write_text("--size=3\n// another\n--flagfile=%s\n" % inner)
    assert values(["program", "--flagfile=%s" % outer, "rest"]) == ["program", "rest"]
    assert values.size == 3 and values.word == "hello"
    values(["program", "--flagfile", str(outer), "--size=5"])
    assert values.size == 5
    assert values(["program", "--", "--flagfile=x"]) == ["program", "--flagfile=x"]
    with pytest.raises(flags.CantOpenFlagFileError):
        values(["program", "--flagfile=/no/such/file"])
    with pytest.raises(flags.IllegalFlagValueError):
        values(["program", "--flagfile"])


def test_flags_that_need_not_be_defined():
    values = flags.FlagValues()
    flags.DEFINE_integer("size", 1, "a number", flag_values=values)
    assert values(["program", "--other=3", "--nothird", "--undefok=other,third", "--size=2"]) == ["program"]
    assert values.size == 2
    with pytest.raises(flags.UnrecognizedFlagError):
        values(["program", "--undefok=other", "--more=1"])


def test_old_programs_print_all_flags():
    flags.DEFINE_float("rate_to_print", 0.5, "A rate.")
    values = flags.FLAGS
    assert values._parse_flags(["--rate_to_print=0.25", "other"]) == ["other"]
    assert {name: flag.value for name, flag in values.__flags.items()}["rate_to_print"] == 0.25


_PROGRAM = """
import sys
if {without_absl}:
    sys.modules["absl"] = None
{imports}
import tensorflow as tf
tf.flags.DEFINE_integer("steps", 1, "Steps.")
tf.app.flags.DEFINE_string(flag_name="name", default_value="x", docstring="A name.")
{definitions}
def main(argv):
    print(argv[1:], tf.flags.FLAGS.steps, FLAGS.name, {shown})
{run}
"""


def _output_of(tmp_path, arguments, imports="", definitions="FLAGS = tf.flags.FLAGS", shown="0", run="tf.app.run(main)",
               without_absl=False):  # fmt: skip
    program = tmp_path / "program.py"
    program.write_text(
        _PROGRAM.format(
            imports=imports, definitions=definitions, shown=shown, run=run, without_absl=without_absl
        )
    )
    result = subprocess.run(
        [sys.executable, "-m", "millrace", str(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout or result.stderr


@pytest.mark.parametrize("without_absl", [False, True])
def test_flags_are_the_same_with_and_without_absl(tmp_path, without_absl):
    arguments = ["--steps=3", "rest", "--name", "y", "--unknown=1"]
    assert _output_of(tmp_path, arguments, without_absl=without_absl) == "['rest', '--unknown=1'] 3 y 0\n"
    text = _output_of(tmp_path, ["--steps=a"], without_absl=without_absl)
    assert "FATAL Flags parsing error" in text and "flag --steps=a" in text
    assert "Steps." in _output_of(tmp_path, ["--help"], without_absl=without_absl)


@pytest.mark.parametrize("run", ["absl.app.run(main)", "tf.app.run(main)", "tf.app.run()"])
def test_programs_define_flags_through_absl_too(tmp_path, run):
    pytest.importorskip("absl")
    definitions = 'absl.flags.DEFINE_float("rate", 0.5, "Rate.")\nFLAGS = absl.flags.FLAGS'
    for imports in ("import absl.app, absl.flags, absl.logging", "import absl.flags"):
        if "absl.app" not in imports and "absl.app" in run:
            continue
        arguments = ["--steps=3", "--rate=0.25", "rest"]
        text = _output_of(tmp_path, arguments, imports, definitions, "tf.flags.FLAGS.rate", run)
        assert text == "['rest'] 3 x 0.25\n"
