# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ports for the servers of tests."""
import random
import socket

import pytest


def find_ports(count):
    """Unused ports of this machine."""
    # Below the ports of outgoing connections, so that none of those comes between.
    sockets = []
    while len(sockets) < count:
        each = socket.socket()
        try:
            each.bind(("localhost", random.randrange(10000, 30000)))
            sockets.append(each)
        except OSError:
            each.close()
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="session")
def free_ports():
    return find_ports
