# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Flags of the package's distribution."""
USE_OSS = True
