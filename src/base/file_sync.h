// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

// Whether WritableFile::Sync and renames of the process wait until the data is on the disk: yes, unless the
// environment variable MILLRACE_SYNC_FILES is 0. Then a file is complete for other processes, but may be lost
// at a power failure.
bool SyncsFiles();
void SetSyncsFiles(bool syncs);

}  // namespace millrace
