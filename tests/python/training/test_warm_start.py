# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Warm starts: values of an earlier model, by names and by words."""

import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import gen_checkpoint_ops
from millrace.python.training import checkpoint_ops

OLD = np.arange(12, dtype=np.float32).reshape(4, 3)
ROWS_OLD, ROWS_NEW = ["knitting", "eminem", "mmm", "last"], ["mmm", "new", "knitting"]
COLS_OLD, COLS_NEW = ["a", "b", "c"], ["c", "other", "a"]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def files(tmp_path):
    class Files:
        folder = str(tmp_path)

        @staticmethod
        def lines(name, words):
            (tmp_path / name).write_text("\n".join(words) + "\n")
            return str(tmp_path / name)

        @staticmethod
        def checkpoint(**values):
            with tf.Graph().as_default(), tf.Session() as sess:
                for name, value in values.items():
                    tf.get_variable(name, initializer=value)
                sess.run(tf.global_variables_initializer())
                return tf.train.Saver().save(sess, str(tmp_path / "model"))

    return Files


def run(fetch):
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetch)


def test_where_words_were(files):
    new, old = files.lines("new", ROWS_NEW), files.lines("old", ROWS_OLD)
    table = [
        ((0, 3, -1), [2, -1, 0], 2),
        ((1, 2, -1), [-1, 0], 1),
        ((0, 3, 2), [-1, -1, 0], 1),
        ((0, 0, -1), [], 0),
    ]
    for (offset, count, size), wanted, present in table:
        remapping, found = run(gen_checkpoint_ops.generate_vocab_remapping(new, old, offset, count, size))
        assert remapping.tolist() == wanted and found == present
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Requested"):
            sess.run(gen_checkpoint_ops.generate_vocab_remapping(new, old, 2, 2))
        with pytest.raises(tf.errors.NotFoundError):
            sess.run(gen_checkpoint_ops.generate_vocab_remapping(new, files.folder + "/none", 0, 1))
        with pytest.raises(ValueError):
            gen_checkpoint_ops.generate_vocab_remapping(new, old, 0, -1)


def load(path, rows, cols, values, num_rows, num_cols):
    return gen_checkpoint_ops.load_and_remap_matrix(
        path, "w", tf.constant(rows, tf.int64), tf.constant(cols, tf.int64), tf.constant(values, tf.float32),
        num_rows=num_rows, num_cols=num_cols)  # fmt: skip


def test_matrices_in_a_new_order(files):
    path = files.checkpoint(w=OLD)
    assert run(load(path, [2, 0], [], [], 2, 3)).tolist() == OLD[[2, 0]].tolist()
    assert run(load(path, [1, 3], [2, 0], [], 2, 2)).tolist() == OLD[[1, 3]][:, [2, 0]].tolist()
    got = run(load(path, [-1, 1], [0, -1], [10, 20, 30], 2, 2))
    assert got.tolist() == [[10, 20], [3, 30]]
    bad = [
        ([9], [], [], 1, 3, "not in the old matrix"),
        ([0, 0], [], [], 2, 3, "more than once"),
        ([0], [], [], 2, 3, "but should be"),
        ([0], [], [], 1, 2, "Number of columns"),
        ([-1], [], [1.0], 1, 3, "elements are missing"),
        ([0], [], [1.0], 1, 3, "left over"),
    ]
    for rows, cols, values, num_rows, num_cols, text in bad:
        with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError), match=text):
            run(load(path, rows, cols, values, num_rows, num_cols))


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_initializer_by_words_and_in_parts(files, parts):
    path = files.checkpoint(w=OLD)
    make = checkpoint_ops._load_and_remap_matrix_initializer(
        ckpt_path=path, old_tensor_name="w", new_row_vocab_size=3, new_col_vocab_size=3,
        old_row_vocab_file=files.lines("ro", ROWS_OLD), new_row_vocab_file=files.lines("rn", ROWS_NEW),
        old_col_vocab_file=files.lines("co", COLS_OLD), new_col_vocab_file=files.lines("cn", COLS_NEW),
        num_row_oov_buckets=1, num_col_oov_buckets=1, initializer=tf.constant_initializer(42.0))  # fmt: skip
    v = tf.get_variable("v", [4, 4], initializer=make, partitioner=tf.fixed_size_partitioner(parts))
    wanted = np.full((4, 4), 42.0)
    for i, row in enumerate(ROWS_NEW):
        for j, col in enumerate(COLS_NEW):
            if row in ROWS_OLD and col in COLS_OLD:
                wanted[i, j] = OLD[ROWS_OLD.index(row), COLS_OLD.index(col)]
    np.testing.assert_array_equal(run(tf.convert_to_tensor(v)), wanted)


def test_embedding_initializer(files):
    path = files.checkpoint(w=OLD)
    make = checkpoint_ops._load_embedding_initializer(
        path, "w", 3, 3, files.lines("old", ROWS_OLD), files.lines("new", ROWS_NEW), num_oov_buckets=2)  # fmt: skip
    got = run(tf.get_variable("v", [5, 3], initializer=make))
    assert got[0].tolist() == OLD[2].tolist() and got[2].tolist() == OLD[0].tolist()
    assert np.abs(got[[1, 3, 4]]).max() <= 2 / np.sqrt(3) and np.count_nonzero(got[[1, 3, 4]]) == 9


def test_wrong_arguments(files):
    with pytest.raises(TypeError, match="initializer must be callable"):
        checkpoint_ops._load_and_remap_matrix_initializer("p", "w", 1, 1, initializer=3.0)
    make = checkpoint_ops._load_and_remap_matrix_initializer("p", "w", 1, 1)
    with pytest.raises(ValueError):
        make([3])
    with pytest.raises(TypeError):
        make([3, 3], dtype=tf.float64)
    for options in ({"num_row_oov_buckets": -1}, {"num_col_oov_buckets": -1}, {"new_row_vocab_file": "x"}):
        with pytest.raises(ValueError):
            checkpoint_ops._load_and_remap_matrix("p", "w", 0, 1, 1, tf.zeros_initializer(), **options)
    with pytest.raises(ValueError, match="only supported values for the axis"):
        tf.train.VocabInfo("a", 1, 0, "b", axis=2)


@pytest.mark.parametrize("resource", [False, True])
def test_warm_start_by_names(files, resource):
    path = files.checkpoint(w=OLD, b=np.float32(5), other=np.float32(7))
    with tf.variable_scope("", use_resource=resource):
        w = tf.get_variable("w", [4, 3], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", initializer=0.0)
        renamed = tf.get_variable("renamed", initializer=0.0)
    tf.train.warm_start(
        path, vars_to_warm_start="^w$|renamed", var_name_to_prev_var_name={"renamed": "other"}
    )
    got = run([w, b, renamed])
    assert got[0].tolist() == OLD.tolist() and got[1] == 0.0 and got[2] == 7.0


def test_warm_start_of_embeddings(files):
    files.checkpoint(w=OLD)
    w = tf.get_variable("w", [4, 3], initializer=tf.constant_initializer(-1.0))
    info = tf.train.VocabInfo(
        new_vocab=files.lines("new", ROWS_NEW), new_vocab_size=3, num_oov_buckets=1,
        old_vocab=files.lines("old", ROWS_OLD), backup_initializer=tf.constant_initializer(9.0))  # fmt: skip
    tf.train.warm_start(files.folder, var_name_to_vocab_info={"w": info})
    wanted = np.full((4, 3), 9.0)
    wanted[0], wanted[2] = OLD[2], OLD[0]
    np.testing.assert_array_equal(run(w), wanted)


def test_warm_start_of_columns(files):
    files.checkpoint(w=OLD)
    w = tf.get_variable("w", [4, 3], initializer=tf.constant_initializer(-1.0))
    info = tf.train.VocabInfo(
        new_vocab=files.lines("new", COLS_NEW), new_vocab_size=3, num_oov_buckets=0,
        old_vocab=files.lines("old", COLS_OLD), backup_initializer=tf.zeros_initializer(), axis=1)  # fmt: skip
    tf.train.warm_start(files.folder, var_name_to_vocab_info={"w": info})
    wanted = np.zeros((4, 3))
    wanted[:, 0], wanted[:, 2] = OLD[:, 2], OLD[:, 0]
    np.testing.assert_array_equal(run(w), wanted)
