# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The former place of millrace.python.util.object_identity."""
from millrace.python.util.object_identity import *  # noqa: F401,F403
from millrace.python.util.object_identity import (  # noqa: F401
    ObjectIdentityDictionary,
    ObjectIdentitySet,
    ObjectIdentityWeakKeyDictionary,
    ObjectIdentityWeakSet,
)
