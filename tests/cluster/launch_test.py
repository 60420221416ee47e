#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The files of examples/cluster: launch_test.py EXAMPLES PROGRAM.

The Slurm script runs with an `srun` that starts the processes here, the commands of the Kubernetes containers and of
the systemd unit run here as one task each, and systemd verifies the unit where it is installed.
"""
from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any

import yaml

EXAMPLES, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])

# Starts so many processes as SLURM_NTASKS says, each with the environment of a process of a step.
SRUN = """#!/bin/bash
trap 'kill $(jobs -p) 2>/dev/null' TERM EXIT
while [[ $1 == --* ]]; do shift; done
for ((i = 0; i < SLURM_NTASKS; ++i)); do
  SLURM_STEP_NODELIST=localhost SLURM_STEP_TASKS_PER_NODE=$SLURM_NTASKS SLURM_PROCID=$i "$@" &
done
wait
"""


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that are free, below those of outgoing connections."""
    for _ in range(1000):
        port = random.randrange(10000, 30000 - count)
        try:
            for offset in range(count):
                with socket.socket() as each:
                    each.bind(("0.0.0.0", port + offset))
            return port
        except OSError:
            continue
    raise RuntimeError("no free ports")


class LaunchTest(unittest.TestCase):
    """Each file is used as it is, but for ports and the place of the program."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="millrace_launch_")
        self.addCleanup(shutil.rmtree, self.folder)
        os.symlink(PROGRAM, os.path.join(self.folder, "millrace"))
        self.token = self.write("token", "a-secret-of-24-characters\n")
        self.environment = {
            "PATH": self.folder + ":" + os.environ["PATH"],
            "HOME": self.folder,
            "MILLRACE_TOKEN_FILE": self.token,
        }

    def write(self, name: str, text: str, executable: bool = False) -> str:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        if executable:
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def read(self, name: str) -> str:
        with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
            return file.read()

    def check_task(self, command: list[str], environment: dict[str, str], task: str) -> None:
        """Runs a command that is a task, until it is ready, and ends it."""
        with subprocess.Popen(
            command, env={**self.environment, **environment}, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(30), 0, line)
        self.assertIn("millrace: %s is ready at" % task, line)
        self.assertIn("unencrypted", line)  # it has a token, and other machines reach it

    def status(self, port: int, environment: dict[str, str]) -> list[dict[str, Any]]:
        shown = subprocess.run(
            [PROGRAM, "cluster", "status", "grpc://localhost:%d" % port, "--json"],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return list(json.loads(shown.stdout)["tasks"]) if shown.returncode == 0 else []

    def test_slurm(self) -> None:
        self.write("srun", SRUN, executable=True)
        port = free_ports(3)
        environment = {
            **self.environment,
            "SLURM_JOB_ID": "7",
            "SLURM_NTASKS": "3",
            "FIRST_PORT": str(port),
        }
        del environment["MILLRACE_TOKEN_FILE"]
        secret = {"MILLRACE_TOKEN_FILE": os.path.join(self.folder, ".millrace_token_7")}
        seen = os.path.join(self.folder, "seen")
        client = self.write(
            "client",
            "#!/bin/bash\nwhile [[ ! -e %s ]]; do sleep 0.05; done\n" % shlex.quote(seen),
            executable=True,
        )
        with subprocess.Popen(
            ["bash", os.path.join(EXAMPLES, "slurm.sh"), client], env=environment, stdout=subprocess.DEVNULL
        ) as job:
            deadline = time.time() + 60
            tasks: list[dict[str, Any]] = []
            while time.time() < deadline and not (len(tasks) == 3 and all("error" not in t for t in tasks)):
                time.sleep(0.1)
                tasks = self.status(port, secret) if os.path.exists(secret["MILLRACE_TOKEN_FILE"]) else []
            names = [task["task"] for task in tasks]
            self.write("seen", "")
            self.assertEqual(job.wait(60), 0)
        wanted = ["/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"]
        self.assertEqual(names, wanted)
        self.assertFalse(os.path.exists(secret["MILLRACE_TOKEN_FILE"]), "the secret is removed with the job")

    def test_kubernetes(self) -> None:
        objects = list(yaml.safe_load_all(self.read("kubernetes.yaml")))
        by_kind: dict[str, dict[str, Any]] = {}
        for each in objects:
            by_kind.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
        self.assertEqual(set(by_kind), {"Secret", "ConfigMap", "Service", "StatefulSet"})
        cluster = by_kind["ConfigMap"]["millrace"]["data"]["CLUSTER"]
        self.assertGreaterEqual(len(by_kind["Secret"]["millrace"]["stringData"]["token"]), 16)
        pods = 0
        for name, each in by_kind["StatefulSet"].items():
            spec, service = each["spec"], by_kind["Service"][each["spec"]["serviceName"]]
            pod = spec["template"]
            labels = pod["metadata"]["labels"]
            self.assertEqual(spec["selector"]["matchLabels"], labels)
            self.assertEqual(service["spec"]["selector"], labels)
            self.assertEqual(service["spec"]["clusterIP"], "None")
            (container,) = pod["spec"]["containers"]
            for probe in ("readinessProbe", "livenessProbe"):
                self.assertEqual(container[probe]["grpc"]["port"], container["ports"][0]["containerPort"])
            self.assertEqual(container["volumeMounts"][0]["name"], pod["spec"]["volumes"][0]["name"])
            for index in range(spec["replicas"]):
                host = "%s-%d" % (name, index)
                self.assertRegex(
                    cluster, r"\b%s\.%s:%d\b" % (host, name, container["ports"][0]["containerPort"])
                )
                here = cluster.replace(":2222", ":%d" % free_ports(1))
                self.check_task(
                    container["command"],
                    {"CLUSTER": here, "HOSTNAME": host},
                    "/job:%s/replica:0/task:%d" % (name, index),
                )
                pods += 1
        self.assertEqual(len(re.findall(r":2222", cluster)), pods)

    def test_systemd(self) -> None:
        unit = self.read("millrace@.service")
        environment = dict(
            line.split("=", 1)
            for name in ("millrace.conf", "ps-0.env")
            for line in self.read(name).splitlines()
            if line and not line.startswith("#")
        )
        environment["CLUSTER"] = re.sub(r"(ps=[^:]+):\d+", r"\1:%d" % free_ports(1), environment["CLUSTER"])
        command = re.search(r"^ExecStart=(.*)$", unit, re.M)
        assert command is not None
        words = [
            re.sub(r"\$\{(\w+)\}", lambda m: environment[m.group(1)], w) for w in command.group(1).split()
        ]
        self.assertEqual(words[0], "/usr/bin/millrace")
        self.check_task([PROGRAM, *words[1:]], {}, "/job:ps/replica:0/task:0")
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd is not installed: its verification of the unit is left out")
        path = self.write("millrace@.service", unit.replace("/usr/bin/millrace", PROGRAM))
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", path.replace("@.", "@ps-0.")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SYSTEMD_UNIT_PATH": self.folder + ":"},
        )
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
