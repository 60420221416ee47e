# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reading and writing of event files, by names of earlier versions."""

from millrace.python.summary.summary_iterator import summary_iterator
from millrace.python.summary.writer.writer import FileWriter as SummaryWriter
from millrace.python.summary.writer.writer_cache import FileWriterCache as SummaryWriterCache

__all__ = ["SummaryWriter", "SummaryWriterCache", "summary_iterator"]
