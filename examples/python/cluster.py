# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Trains digits on a cluster: parameter servers and workers, each a process of its own on this machine.

    PYTHONPATH=build/release/python /usr/bin/python3 -m millrace examples/python/cluster.py --workers=2 --steps=2000

Without --job it starts all tasks, shows what they print and ends with the first worker's accuracy. With --job, --task and
--cluster it is one task, as one would start it on each machine:

    … cluster.py --cluster=ps=host1:2222,worker=host2:2222,host3:2222 --job=worker --task=1

--sync makes each update from the mean of the gradients of all workers but one. --chaos trains twice: once undisturbed, once
while tasks are killed and started again.
"""
from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from typing import Any

import tensorflow as tf

import cluster_tasks
import mnist_data
from mnist import FLAGS, Model, evaluate

flags = tf.app.flags
flags.DEFINE_integer("workers", 2, "workers to start")
flags.DEFINE_integer("ps", 1, "parameter servers to start")
flags.DEFINE_string("cluster", "", "jobs and their tasks: ps=host:port,worker=host:port,host:port")
flags.DEFINE_string("job", "", "ps or worker; without it all tasks are started here")
flags.DEFINE_integer("task", 0, "which task of its job this is")
flags.DEFINE_float("progress_secs", 2.0, "seconds between two lines of a worker")
flags.DEFINE_boolean("sync", False, "all workers make each update together, one of them being a backup")
flags.DEFINE_float("save_secs", 1.0, "seconds between two checkpoints")
flags.DEFINE_float("patience", 60.0, "seconds that a worker waits for a task that is gone")
flags.DEFINE_string("trace", "", "file for a step of each worker, for millrace trace")
flags.DEFINE_boolean("chaos", False, "kill tasks and start them again")
flags.DEFINE_float("seconds", 0.0, "seconds that the training of all workers lasts at least; with --chaos 20")
flags.DEFINE_string("hold", "", "file that keeps the training from ending while it exists")
flags.DEFINE_float("kill_secs", 4.0, "about so many seconds from a recovery to the next kill")
flags.DEFINE_float("restart_secs", 0.5, "seconds from a kill to the start of the task")
flags.DEFINE_float("recovery_secs", 10.0, "every worker must train again so long after a kill")
flags.DEFINE_float("accuracy_margin", 0.003, "by how much the accuracy of both runs may differ")

# Additional arguments of tasks, so that they find the examples.
DATA: list[str] = []


def parse_cluster(text: str) -> dict[str, list[str]]:
    """ps=a:1,worker=b:1,c:1 as {"ps": ["a:1"], "worker": ["b:1", "c:1"]}."""
    jobs: dict[str, list[str]] = {}
    for job, tasks in re.findall(r"(\w+)=([^=]+?)(?=,\w+=|$)", text):
        jobs[job] = tasks.split(",")
    if not jobs:
        raise ValueError("no jobs in --cluster=%r" % text)
    return jobs


class SessionCreator(tf.train.SessionCreator):
    """Creates sessions repeatedly, as MonitoredTrainingSession does, with short pauses between two attempts.

    The first worker restores what the parameter servers have lost, or initialises it; the others wait for that.
    """

    def __init__(self, scaffold: Any, master: str) -> None:
        self._scaffold = scaffold
        self._master = master
        # The session needs no other worker.
        self._config = tf.ConfigProto(
            device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task],
            operation_timeout_in_ms=int(1000 * FLAGS.patience),
        )

    def create_session(self) -> Any:
        scaffold = self._scaffold
        scaffold.finalize()
        manager = tf.train.SessionManager(
            local_init_op=scaffold.local_init_op,
            ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            recovery_wait_secs=0.5,
        )
        if FLAGS.task:
            return manager.wait_for_session(self._master, self._config, max_wait_secs=FLAGS.patience)
        return manager.prepare_session(
            self._master,
            init_op=scaffold.init_op,
            saver=scaffold.saver,
            checkpoint_dir=FLAGS.log_dir or None,
            config=self._config,
        )


def train(session: Any, model: Model, examples: mnist_data.Examples) -> int:
    """Trains until all workers together have done --steps, and no file holds them; the number of steps.

    In synchronous training only the first worker decides that. The others continue, so that it never waits for
    their gradients, until it closes the queue of tokens: OutOfRangeError then ends a step, and the session as usual.
    """
    follows = FLAGS.sync and FLAGS.task > 0
    started = last_report = time.time()
    done = step = 0
    traced = not FLAGS.trace
    while follows or step < FLAGS.steps or (FLAGS.hold and os.path.exists(FLAGS.hold)):
        images, labels = examples.next_batch(FLAGS.batch)
        feed = {model.images: images, model.labels: labels}
        options = metadata = None
        if not traced and step >= FLAGS.steps * 3 // 4:
            options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
        _, step, loss = session.run([model.train, model.step, model.loss], feed, options, metadata)
        if metadata is not None:
            traced = True
            with open("%s.%d" % (FLAGS.trace, FLAGS.task), "wb") as file:
                file.write(metadata.SerializeToString())
        done += 1
        if time.time() - last_report > FLAGS.progress_secs or step >= FLAGS.steps or done == 1:
            last_report = time.time()
            print(
                "step %d of %d  loss %.4f  %.0f steps a second here"
                % (step, FLAGS.steps, loss / FLAGS.batch, done / max(last_report - started, 1e-3)),
                flush=True,
            )
    return int(step)


def end_synchronous_training(target: str, step: Any) -> None:
    """Closes the queue of tokens, which is on the device of the step, so that the other workers end."""
    with tf.Graph().as_default(), tf.device(step.device):
        tokens = tf.FIFOQueue(-1, step.dtype.base_dtype, shapes=(), shared_name="sync_token_q")
        close = tokens.close()
        with tf.Session(target, config=tf.ConfigProto(device_filters=["/job:ps"])) as session:
            session.run(close)


def run_worker(spec: tf.train.ClusterSpec, server: tf.train.Server) -> None:
    """One worker; the first initialises, saves and evaluates."""
    examples, test, source = mnist_data.load(FLAGS.data_dir, FLAGS.seed + FLAGS.task)
    chief = FLAGS.task == 0
    workers = spec.num_tasks("worker")
    wrapped: list[Any] = []

    def wrap(optimizer: Any) -> Any:
        if FLAGS.sync:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, max(workers - 1, 1), workers)
            wrapped.append(optimizer)
        return optimizer

    with tf.device(
        tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % FLAGS.task, cluster=spec)
    ):
        tf.set_random_seed(FLAGS.seed)
        model = Model(FLAGS.model, wrap)
    print("%s: %d examples to train" % (source, len(examples.labels)), flush=True)
    scaffold = tf.train.Scaffold()
    hooks = [optimizer.make_session_run_hook(chief) for optimizer in wrapped]
    if chief and FLAGS.log_dir:
        hooks.append(
            tf.train.CheckpointSaverHook(FLAGS.log_dir, save_secs=FLAGS.save_secs, scaffold=scaffold)
        )
    with tf.train.MonitoredSession(
        SessionCreator(scaffold, server.target), hooks, stop_grace_period_secs=1
    ) as session:
        step = train(session, model, examples)
        if chief:
            accuracy, loss = evaluate(session, model, test)
            print(json.dumps({"model": FLAGS.model, "steps": step, "accuracy": accuracy}), flush=True)
    # After the session, whose thread adds tokens.
    if chief and FLAGS.sync:
        end_synchronous_training(server.target, model.step)


def run_task() -> None:
    spec = tf.train.ClusterSpec(parse_cluster(FLAGS.cluster))
    server = tf.train.Server(spec, job_name=FLAGS.job, task_index=FLAGS.task)
    print("ready at", server.target, flush=True)
    if FLAGS.job == "ps":
        server.join()
    else:
        run_worker(spec, server)


def train_once(folder: str, chaos: bool) -> tuple[int, dict[str, float], list[cluster_tasks.Kill]]:
    """Starts a process for each task, shows their lines, and ends when the workers have."""
    os.makedirs(folder, exist_ok=True)
    hold = os.path.join(folder, "hold")
    with open(hold, "w", encoding="utf-8"):
        pass
    arguments = [
        "--log_dir=" + folder,
        "--hold=" + hold,
        "--progress_secs=%g" % min(FLAGS.progress_secs, 0.1),
    ]
    tasks = cluster_tasks.Tasks(
        cluster_tasks.program(arguments + DATA), FLAGS.ps, FLAGS.workers, FLAGS.progress_secs
    )
    kills: list[cluster_tasks.Kill] = []
    try:
        seconds = FLAGS.seconds or (20.0 if FLAGS.chaos else 0.0)
        end = tasks.await_training(FLAGS.patience) + seconds
        if chaos:
            kills = cluster_tasks.run_chaos(
                tasks, end, FLAGS.seed, FLAGS.kill_secs, FLAGS.restart_secs, FLAGS.patience
            )
        else:
            cluster_tasks.wait_until(tasks.is_over, end)
        os.remove(hold)
        code = tasks.wait(FLAGS.patience)
    finally:
        tasks.close()
    return code, tasks.chief.result, kills


def compare(folder: str) -> int:
    """Trains without and with kills, and prints the differences; returns 0 if all limits hold."""
    print("train undisturbed", flush=True)
    code, undisturbed, _ = train_once(os.path.join(folder, "undisturbed"), False)
    print("train while tasks are killed", flush=True)
    chaos_code, disturbed, kills = train_once(os.path.join(folder, "chaos"), True)
    print("\n%-10s %8s %8s %12s %14s" % ("killed", "second", "at step", "listens", "all train"))
    for kill in kills:
        print(
            "%-10s %8.1f %8d %10.1f s %12.1f s"
            % (kill.task, kill.second, kill.step, kill.ready, kill.training)
        )
    if not (undisturbed and disturbed):
        print("no accuracy: a worker has failed")
        return max(code, chaos_code, 1)
    slow = [kill for kill in kills if not kill.training <= FLAGS.recovery_secs]
    difference = abs(disturbed["accuracy"] - undisturbed["accuracy"])
    for name, result in (("undisturbed", undisturbed), ("with %d kills" % len(kills), disturbed)):
        print("%-22s %8d steps, accuracy %.4f" % (name, result["steps"], result["accuracy"]))
    print(
        "accuracy differs by %.2f %% (at most %.2f), %d of %d recoveries took more than %g s"
        % (100 * difference, 100 * FLAGS.accuracy_margin, len(slow), len(kills), FLAGS.recovery_secs)
    )
    return max(code, chaos_code, int(bool(slow) or difference > FLAGS.accuracy_margin))


def start_all() -> int:
    """Starts all tasks; returns 0 if all succeeded."""
    folder = FLAGS.log_dir or tempfile.mkdtemp(prefix="millrace_cluster_")
    if not mnist_data.locate(FLAGS.data_dir):
        # Drawn once, not by each worker whenever it starts.
        DATA.append("--data_dir=" + os.path.join(folder, "digits"))
        mnist_data.write_drawn(os.path.join(folder, "digits"), FLAGS.seed)
    if FLAGS.chaos:
        code = compare(folder)
    else:
        code, _, _ = train_once(folder, False)
    print("checkpoints: %s" % folder)
    if FLAGS.trace:
        parts = ["%s.%d" % (FLAGS.trace, i) for i in range(FLAGS.workers)]
        count = cluster_tasks.merge_traces(parts, FLAGS.trace)
        print("traced steps of %d workers: %s" % (count, FLAGS.trace), flush=True)
    return code


def main(unused_argv: list[str]) -> None:
    if FLAGS.job:
        run_task()
    else:
        sys.exit(start_all())


if __name__ == "__main__":
    tf.app.run(main)
