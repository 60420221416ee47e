// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributed/master.h"
#include "millrace/session.h"

namespace millrace {

class Task;

// A session in this process with a master in this process. It holds a reference to the task.
std::unique_ptr<Session> MakeLocalSession(std::shared_ptr<Task> task, Master::SessionPtr session);

}  // namespace millrace
