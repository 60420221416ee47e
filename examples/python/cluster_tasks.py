# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The tasks of a cluster as processes of this machine: they are started, their output is read, and they are killed and restarted."""
from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass, field


def free_addresses(count: int) -> list[str]:
    """Addresses with free ports."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    addresses = ["localhost:%d" % each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return addresses


@dataclass
class Task:
    """One task, and what its process has printed."""

    job: str
    index: int
    process: subprocess.Popen[str] | None = None
    started: float = 0.0
    ready: float = 0.0  # when it printed that it listens
    trained: float = 0.0  # when it last printed a step
    step: int = 0
    shown: float = 0.0
    result: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "%s:%d" % (self.job, self.index)


@dataclass
class Kill:
    """A task that was killed, and how long it took until all trained again."""

    task: str
    second: float  # of the run
    step: int
    ready: float = float("nan")
    training: float = float("nan")


class Tasks:
    """Starts `program` once for each task, with --cluster, --job and --task, and shows what the tasks print."""

    def __init__(self, program: Sequence[str], ps: int, workers: int, progress_secs: float) -> None:
        addresses = free_addresses(ps + workers)
        self._cluster = "ps=%s,worker=%s" % (",".join(addresses[:ps]), ",".join(addresses[ps:]))
        self._program = list(program)
        self._progress_secs = progress_secs
        self.tasks = [Task("ps", i) for i in range(ps)] + [Task("worker", i) for i in range(workers)]
        self.workers = [task for task in self.tasks if task.job == "worker"]
        self.began = time.time()
        for task in self.tasks:
            self.start(task)

    @property
    def chief(self) -> Task:
        return self.workers[0]

    @property
    def step(self) -> int:
        return max(task.step for task in self.workers)

    def start(self, task: Task) -> None:
        """Starts the process of a task, at the task's address."""
        task.started = time.time()
        arguments = ["--cluster=" + self._cluster, "--job=" + task.job, "--task=%d" % task.index]
        task.process = subprocess.Popen(
            self._program + arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._listen, args=(task, task.process), daemon=True).start()

    def _listen(self, task: Task, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            now = time.time()
            step = re.match(r"step (\d+) of", line)
            if process is not task.process:
                return  # the last lines of one that was killed
            if step:
                task.trained, task.step = now, int(step.group(1))
                if now - task.shown < self._progress_secs:
                    continue
                task.shown = now
            elif line.startswith("ready"):
                task.ready = now
            elif line.startswith("{"):
                task.result = json.loads(line)
            print("%-9s| %s" % (task.name, line.rstrip()), flush=True)

    def kill(self, task: Task) -> None:
        """Ends a process as the failure of its machine would."""
        assert task.process is not None
        task.process.send_signal(signal.SIGKILL)
        task.process.wait()

    def all_train(self, since: float) -> bool:
        """Whether every worker has done a step after that time."""
        return all(task.trained > since for task in self.workers)

    def await_training(self, patience: float) -> float:
        """Waits until every worker trains; the time."""
        wait_until(lambda: self.all_train(self.began) or self.is_over(), time.time() + patience)
        return time.time()

    def is_over(self) -> bool:
        """Whether the first worker has ended, or printed its result."""
        assert self.chief.process is not None
        return bool(self.chief.result) or self.chief.process.poll() is not None

    def wait(self, patience: float) -> int:
        """Waits for the workers, for all but the first at most `patience` seconds after it; 0 if all ended well."""
        assert self.chief.process is not None
        code = abs(self.chief.process.wait())
        deadline = time.time() + patience
        for task in self.workers[1:]:
            assert task.process is not None
            try:
                code = max(code, abs(task.process.wait(timeout=max(deadline - time.time(), 0.1))))
            except subprocess.TimeoutExpired:
                print("%-9s| has not ended %g s after the first worker" % (task.name, patience), flush=True)
                code = max(code, 1)
        return code

    def close(self) -> None:
        """Ends all processes."""
        for task in self.tasks:
            if task.process is not None:
                task.process.terminate()
        for task in self.tasks:
            if task.process is not None:
                try:
                    task.process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    self.kill(task)
        time.sleep(0.2)  # the last lines


def wait_until(condition: Callable[[], bool], deadline: float) -> bool:
    """Polls a function until it is true or the deadline has passed; returns whether it is true."""
    while not condition():
        if time.time() > deadline:
            return False
        time.sleep(0.02)
    return True


def run_chaos(
    tasks: Tasks, end: float, seed: int, kill_secs: float, restart_secs: float, patience: float
) -> list[Kill]:
    """Kills a task, starts it again, waits until every worker trains, pauses; until `end`.

    The choice is random; each task is killed once before any is killed again.
    """
    chance = random.Random(seed)
    kills: list[Kill] = []
    order: list[Task] = []
    while not wait_until(tasks.is_over, min(time.time() + kill_secs * chance.uniform(0.5, 1.5), end)):
        if time.time() >= end:
            break
        order = order or chance.sample(tasks.tasks, len(tasks.tasks))
        task = order.pop()
        killed = time.time()
        tasks.kill(task)
        kill = Kill(task.name, killed - tasks.began, tasks.step)
        kills.append(kill)
        print("chaos    | %s is killed at step %d" % (task.name, kill.step), flush=True)
        time.sleep(restart_secs)
        tasks.start(task)
        since = task.started
        if wait_until(lambda: task.ready > since or tasks.is_over(), killed + patience):
            kill.ready = task.ready - killed
        # A step that ends after the restart used a new session, or none of what was lost.
        if wait_until(lambda: tasks.all_train(since) or tasks.is_over(), killed + patience):
            kill.training = time.time() - killed
        print(
            "chaos    | %s listens after %.1f s, every worker trains after %.1f s"
            % (task.name, kill.ready, kill.training),
            flush=True,
        )
    return kills


def merge_traces(files: Sequence[str], output: str) -> int:
    """Joins the serialised RunMetadata of several steps into one, by devices; returns how many files existed."""
    import tensorflow as tf

    merged = tf.RunMetadata()
    devices: dict[str, object] = {}
    count = 0
    for path in files:
        if not os.path.exists(path):
            continue
        count += 1
        metadata = tf.RunMetadata()
        with open(path, "rb") as file:
            metadata.ParseFromString(file.read())
        for stats in metadata.step_stats.dev_stats:
            if stats.device not in devices:
                devices[stats.device] = merged.step_stats.dev_stats.add(device=stats.device)
            devices[stats.device].node_stats.extend(stats.node_stats)  # type: ignore[attr-defined]
    if count:
        with open(output, "wb") as file:
            file.write(merged.SerializeToString())
    return count


def program(arguments: Sequence[str]) -> list[str]:
    """The command of a task: this program, with more arguments."""
    return [sys.executable, "-m", "millrace", os.path.abspath(sys.argv[0]), *sys.argv[1:], *arguments]
