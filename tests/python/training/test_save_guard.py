# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Of two chiefs only the later one saves."""
import os

import pytest

import millrace as tf
from millrace.python.training import _save_guard
from millrace.python.training import chief_lease


def test_the_latest_chief_saves(tmp_path):
    folder = str(tmp_path / "new")
    a, b = _save_guard.SaveGuard(folder), _save_guard.SaveGuard(folder)
    with pytest.raises(tf.errors.AbortedError):
        a.check()
    a.take()
    a.take()
    a.check()
    b.take()
    b.check()
    with pytest.raises(tf.errors.AbortedError, match="another one has taken over in"):
        a.check()
    assert os.listdir(folder) == ["chief-2"]
    for odd in ("chief-", "chief-x", "chief--9", "chief-99999999999999999999", "chief-\u0663", "chief"):
        (tmp_path / "new" / odd).write_text("x")
    c = _save_guard.SaveGuard(folder)
    c.take()
    assert os.path.exists(os.path.join(folder, "chief-3"))
    with pytest.raises(tf.errors.AbortedError):
        b.check()


class SaidLease(chief_lease.ChiefLease):
    """Says what the test says."""

    def __init__(self):
        pass

    def is_chief(self):
        return True


def open_session(folder):
    graph = tf.Graph()
    with graph.as_default():
        step = tf.train.get_or_create_global_step()
        add = tf.assign_add(step, 1)
        session = tf.train.MonitoredTrainingSession(
            is_chief=SaidLease(), checkpoint_dir=folder, save_checkpoint_steps=1, save_summaries_steps=None
        )
    return session, add


def test_a_former_chief_does_not_save(tmp_path):
    folder = str(tmp_path)
    former, add_a = open_session(folder)
    for _ in range(3):
        former.run(add_a)
    assert tf.train.latest_checkpoint(folder).endswith("model.ckpt-3")
    latter, add_b = open_session(folder)
    latter.run(add_b)
    assert tf.train.latest_checkpoint(folder).endswith("model.ckpt-4")
    saving = next(
        hook._hook for hook in former._hooks if hasattr(getattr(hook, "_hook", None), "_save_guard")
    )
    state = open(os.path.join(folder, "checkpoint")).read()
    with pytest.raises(tf.errors.AbortedError, match="another one has taken over"):
        saving._save(former._tf_sess(), 100)
    # In the middle of a save.
    saver = saving._get_saver()
    checks = iter([None])
    saver._save_guard = type("Guard", (), {"check": lambda self: next(checks)})()
    with pytest.raises(StopIteration):
        saver.save(former._tf_sess(), os.path.join(folder, "model.ckpt"), global_step=100)
    assert open(os.path.join(folder, "checkpoint")).read() == state
    latter.run(add_b)
    assert tf.train.latest_checkpoint(folder).endswith("model.ckpt-5")
    latter.close()
