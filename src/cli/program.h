// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace millrace::cli {

// Puts every command on the command line.
void AddAllCommands(Commands* commands);

// The program: `args` without its name. Returns what it ends with; context.json is set by --json.
int RunProgram(const std::vector<std::string>& args, Context context);

}  // namespace millrace::cli
