# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python, run briefly as their users run them."""

import itertools
import json
import os
import re
import subprocess
import sys
from concurrent import futures

import pytest

import millrace

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PROGRAMS = os.path.join(ROOT, "examples", "python")
ENVIRONMENT = dict(
    os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(os.path.abspath(millrace.__file__)))
)


def run(name, *options):
    """The output of a program. Its working folder has no data."""
    done = subprocess.run(
        [sys.executable, "-m", "millrace", os.path.join(PROGRAMS, name), *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=PROGRAMS,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "model, least",
    [
        ("softmax", 0.75),
        ("mlp_sigmoid", 0.2),
        ("mlp_relu", 0.8),
        ("mlp_dropout", 0.5),
        ("conv", 0.85),
        ("conv_dropout", 0.8),
    ],
)
def test_digits(model, least, tmp_path):
    result = tmp_path / "r.json"
    output = run(
        "mnist.py",
        "--model=" + model,
        "--data_dir=generated",
        "--steps=150",
        "--log_dir=%s" % tmp_path,
        "--json=%s" % result,
    )
    assert "step 150/150" in output and "checkpoint: %s/model.ckpt-150" % tmp_path in output
    found = json.loads(result.read_text())
    assert found["model"] == model and found["accuracy"] >= least
    assert os.path.exists(tmp_path / "model.ckpt-150.index") and list(tmp_path.glob("events.out.tfevents.*"))


def test_digits_without_steps_and_with_a_wrong_model():
    assert "accuracy" in run("mnist.py", "--model=softmax", "--data_dir=generated", "--steps=0")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "millrace",
            os.path.join(PROGRAMS, "mnist.py"),
            "--model=none",
            "--data_dir=generated",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode != 0 and "no model 'none'" in done.stderr


def test_drawn_digits_are_digits():
    sys.path.insert(0, PROGRAMS)
    try:
        import mnist_data
    finally:
        sys.path.remove(PROGRAMS)
    images, labels = mnist_data.draw_digits(300, seed=4)
    again, _ = mnist_data.draw_digits(300, seed=4)
    assert images.shape == (300, 28, 28) and (images == again).all()
    assert images.min() == 0.0 and 0.9 < images.max() <= 1.0 and set(labels) == set(range(10))
    ink = images.sum((1, 2))
    assert (ink > 10).all() and (ink < 300).all() and (images[:, 0, :] < 0.5).mean() > 0.99
    examples = mnist_data.Examples(images, labels)
    seen = [examples.next_batch(100)[1].argmax(1) for _ in range(3)]
    assert sorted(l for s in seen for l in s) == sorted(labels)


def test_linear_regression_finds_the_line(tmp_path):
    output = run("linear_regression_queues.py", "--steps=200", "--folder=%s" % tmp_path)
    weights = [float(w) for w in re.search(r"weights \[(.*)\], bias", output).group(1).split(",")]
    bias = float(re.search(r"bias ([-\d.]+)", output).group(1))
    assert all(abs(a - b) < 0.05 for a, b in zip(weights + [bias], [2.0, -3.0, 0.5, 1.25]))


def test_letters_are_learned():
    output = run("char_rnn.py", "--steps=120", "--units=32", "--sample=40")
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", output)]
    assert losses[0] > 2.5 and losses[-1] < 1.5 and len(output.splitlines()[-1]) == 40


def test_words_of_a_group_are_near_each_other():
    output = run("word2vec.py", "--steps=2500")
    groups = [{"red", "green", "blue", "yellow"}, {"one", "two", "three", "four"}]
    right = 0
    for line in output.splitlines():
        if line.startswith("near "):
            word, best = line[5:].split(": ")
            (group,) = [g for g in groups if word in g]
            right += len(group & set(best.split(", ")))
    assert right >= 21  # of 24


def test_cluster(tmp_path):
    output = run(
        "cluster.py",
        "--model=mlp_relu",
        "--data_dir=generated",
        "--steps=200",
        "--workers=2",
        "--log_dir=%s" % tmp_path,
        "--progress_secs=0.1",
    )
    result = json.loads(re.search(r"worker:0 \| (\{.*\})", output).group(1))
    assert result["steps"] >= 200 and result["accuracy"] >= 0.7
    assert "ps:0     | ready at grpc://localhost:" in output and "worker:1 | step " in output
    assert os.path.exists(tmp_path / "checkpoint")
    assert not os.path.exists(tmp_path / "hold")


def test_synchronous_workers_end_with_the_first(tmp_path):
    """A worker that left at its own last step would take a token with it, and the first would wait for gradients."""
    sys.path.insert(0, PROGRAMS)
    try:
        import cluster_tasks
    finally:
        sys.path.remove(PROGRAMS)
    ports = cluster_tasks.free_addresses(4)
    cluster = "--cluster=ps=%s,worker=%s" % (ports[0], ",".join(ports[1:]))

    hold = tmp_path / "hold"
    hold.write_text("")

    def start(job, task, *more):
        options = ["--model=softmax", "--data_dir=generated", "--sync=True", "--patience=40", "--steps=20"]
        options += ["--log_dir=%s" % tmp_path, "--job=" + job, "--task=%d" % task, *more]
        return subprocess.Popen(
            [sys.executable, "-m", "millrace", os.path.join(PROGRAMS, "cluster.py"), cluster, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=ENVIRONMENT,
        )

    server = start("ps", 0)
    workers = [start("worker", 0, "--hold=%s" % hold), start("worker", 1), start("worker", 2)]
    try:
        # A step beyond its last one is a line of a worker. Each read ends with the process, which deadlines of steps bound.
        for worker in workers[1:]:
            steps = (line for line in worker.stdout if line.startswith("step "))
            assert len(list(itertools.islice(steps, 10))) == 10
        hold.unlink()
        with futures.ThreadPoolExecutor() as pool:
            outputs = list(pool.map(lambda worker: worker.communicate()[0], workers))
    finally:
        for process in [server, *workers]:
            process.kill()
            process.wait()
            process.stdout.close()
    assert [worker.returncode for worker in workers] == [0, 0, 0], "\n".join(outputs)
    assert json.loads(re.search(r"\{.*\}", outputs[0]).group())["steps"] >= 20


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_cluster_survives_kills(tmp_path, mode):
    # Margins for a machine that does much else; ./run cluster --chaos has those that are promised.
    output = run(
        "cluster.py",
        "--model=mlp_relu",
        "--data_dir=generated",
        "--steps=300",
        "--chaos",
        "--seconds=12",
        "--kill_secs=1",
        "--recovery_secs=60",
        "--accuracy_margin=0.1",
        "--workers=%d" % (3 if mode == "sync" else 2),
        "--sync=%s" % (mode == "sync"),
        "--log_dir=%s" % tmp_path,
        "--trace=%s" % (tmp_path / "step.pb"),
    )
    kills = re.findall(
        r"chaos    \| (\w+:\d) listens after ([\d.]+) s, every worker trains after ([\d.]+) s", output
    )
    assert kills and "(at most 10.00), 0 of %d recoveries" % len(kills) in output
    metadata = millrace.RunMetadata()
    metadata.ParseFromString((tmp_path / "step.pb").read_bytes())
    devices = {stats.device for stats in metadata.step_stats.dev_stats}
    assert any("/job:ps" in device for device in devices)
    assert any("/job:worker/replica:0/task:1" in device for device in devices)
