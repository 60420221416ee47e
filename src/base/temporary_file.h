// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/env.h"

namespace millrace {

// A name for a file that is not finished, unlike any other: `path`, and who writes it. It ends with
// ".tempstate<process>-<start of the process>-<host>.<number>".
std::string TemporaryName(const std::string& path);

// Deletes files in the folder of `path` that have such names and whose writers were killed. A writer on this
// host is looked for by its process id and start time, so that a process which got the id of a killed one is
// not taken for it. Writers elsewhere (other hosts of a shared file system, other containers, before a
// reboot) cannot be asked: their files go when they were not written for a day. What cannot be deleted stays.
void DeleteStaleTemporaries(Env& env, const std::string& path);

}  // namespace millrace
