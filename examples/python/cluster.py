# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Trains digits on a cluster: one parameter server and workers, each a process of its own on this machine.

    PYTHONPATH=build/release/python /usr/bin/python3 -m millrace examples/python/cluster.py --workers=2 --steps=2000

Without --job it starts all tasks, shows what they print and ends with the first worker's accuracy. With --job, --task and
--cluster it is one task, as one would start it on each machine:

    … cluster.py --cluster=ps=host1:2222,worker=host2:2222,host3:2222 --job=worker --task=1
"""
from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

import tensorflow as tf

import mnist_data
from mnist import FLAGS, Model, evaluate

tf.app.flags.DEFINE_integer("workers", 2, "workers to start")
tf.app.flags.DEFINE_string("cluster", "", "jobs and their tasks: ps=host:port,worker=host:port,host:port")
tf.app.flags.DEFINE_string("job", "", "ps or worker; without it all tasks are started here")
tf.app.flags.DEFINE_integer("task", 0, "which task of its job this is")
tf.app.flags.DEFINE_float("progress_secs", 2.0, "seconds between two lines of a worker")


def parse_cluster(text: str) -> dict[str, list[str]]:
    """ps=a:1,worker=b:1,c:1 as {"ps": ["a:1"], "worker": ["b:1", "c:1"]}."""
    jobs: dict[str, list[str]] = {}
    for job, tasks in re.findall(r"(\w+)=([^=]+?)(?=,\w+=|$)", text):
        jobs[job] = tasks.split(",")
    if not jobs:
        raise ValueError("no jobs in --cluster=%r" % text)
    return jobs


def run_worker(spec: tf.train.ClusterSpec, server: tf.train.Server) -> None:
    """Trains until all workers together have done --steps; the first worker initialises, saves and evaluates."""
    train, test, source = mnist_data.load(FLAGS.data_dir, FLAGS.seed + FLAGS.task)
    chief = FLAGS.task == 0
    setter = tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % FLAGS.task, cluster=spec)
    with tf.device(setter):
        tf.set_random_seed(FLAGS.seed)
        model = Model(FLAGS.model)
    print("%s: %d examples to train" % (source, len(train.labels)), flush=True)
    started = told = time.time()
    done = step = 0
    # Workers do not wait for one another, only for the variables, which the first one initialises or restores.
    supervisor = tf.train.Supervisor(
        is_chief=chief,
        logdir=FLAGS.log_dir or None,
        global_step=model.step,
        summary_op=None,
        recovery_wait_secs=1,
    )
    with supervisor.managed_session(server.target) as session:
        while step < FLAGS.steps:
            images, labels = train.next_batch(FLAGS.batch)
            feed = {model.images: images, model.labels: labels}
            _, step, loss = session.run([model.train, model.step, model.loss], feed)
            done += 1
            if time.time() - told > FLAGS.progress_secs or step >= FLAGS.steps:
                told = time.time()
                print(
                    "step %d of %d  loss %.4f  %.0f steps a second here"
                    % (step, FLAGS.steps, loss / FLAGS.batch, done / (told - started)),
                    flush=True,
                )
        if chief:
            accuracy, loss = evaluate(session, model, test)
            print(json.dumps({"model": FLAGS.model, "steps": int(step), "accuracy": accuracy}), flush=True)


def run_task() -> None:
    spec = tf.train.ClusterSpec(parse_cluster(FLAGS.cluster))
    server = tf.train.Server(spec, job_name=FLAGS.job, task_index=FLAGS.task)
    if FLAGS.job == "ps":
        print("ready at", server.target, flush=True)
        server.join()
    else:
        run_worker(spec, server)


def free_addresses(count: int) -> list[str]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    addresses = ["localhost:%d" % each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def start_all() -> int:
    """Starts a process for each task, shows their lines, and ends when the workers have; 0 when all of them did well."""
    addresses = free_addresses(1 + FLAGS.workers)
    cluster = "ps=%s,worker=%s" % (addresses[0], ",".join(addresses[1:]))
    tasks = [("ps", 0)] + [("worker", i) for i in range(FLAGS.workers)]
    processes = []
    folder = FLAGS.log_dir or tempfile.mkdtemp(prefix="millrace_cluster_")
    for job, task in tasks:
        arguments = ["--cluster=" + cluster, "--job=" + job, "--task=%d" % task, "--log_dir=" + folder]
        command = [sys.executable, "-m", "millrace", __file__, *sys.argv[1:], *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        processes.append(process)

        def show(name: str = "%s:%d" % (job, task), stream: object = process.stdout) -> None:
            for line in stream:  # type: ignore[attr-defined]
                print("%-9s| %s" % (name, line.rstrip()), flush=True)

        threading.Thread(target=show, daemon=True).start()
    try:
        codes = [process.wait() for process in processes[1:]]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
    time.sleep(0.2)  # the last lines
    print("checkpoints: %s" % folder)
    return max(abs(code) for code in codes)


def main(unused_argv: list[str]) -> None:
    if FLAGS.job:
        run_task()
    else:
        sys.exit(start_all())


if __name__ == "__main__":
    tf.app.run(main)
