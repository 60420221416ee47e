// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

// Whether WritableFile::Sync and renames of the process wait until the disk has the bytes: yes, unless the
// environment says MILLRACE_SYNC_FILES=0. Without it a file is complete for other processes, and may be lost
// with the power.
bool SyncsFiles();
void SetSyncsFiles(bool syncs);

}  // namespace millrace
