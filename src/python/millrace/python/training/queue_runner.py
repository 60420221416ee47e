# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Queue runners: threads that fill queues."""

from millrace.python.training.queue_runner_impl import QueueRunner
from millrace.python.training.queue_runner_impl import add_queue_runner
from millrace.python.training.queue_runner_impl import start_queue_runners

__all__ = ["QueueRunner", "add_queue_runner", "start_queue_runners"]
