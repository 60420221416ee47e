// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace millrace::cli {

// Registers all commands.
void AddAllCommands(Commands* commands);

// The program: `args` without its name. Returns the exit code; --json sets context.json.
int RunProgram(const std::vector<std::string>& args, Context context);

}  // namespace millrace::cli
