// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/env.h"

namespace millrace {

// A unique name for an unfinished file: `path` and the identity of the writer. It ends with
// ".tempstate<process>-<start of the process>-<host>.<number>".
std::string TemporaryName(const std::string& path);

// Deletes files in the folder of `path` that have such names and whose writers were killed. A writer on this
// host is identified by its process id and start time, so that a process which reuses its id is not mistaken
// for it. Writers elsewhere (other hosts of a shared file system, other containers, before a reboot) cannot
// be checked: their files are deleted after a day without a write. Files that cannot be deleted stay.
void DeleteStaleTemporaries(Env& env, const std::string& path);

}  // namespace millrace
