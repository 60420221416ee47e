// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

// Each function registers one command, or one with subcommands; <name>_command.cc implements it.
namespace millrace::cli {

void AddBenchCommand(Commands* commands);
void AddCheckpointCommand(Commands* commands);
void AddCompletionCommand(Commands* commands);
void AddDataCommand(Commands* commands);
void AddEventsCommand(Commands* commands);
void AddGraphCommand(Commands* commands);
void AddOpsCommand(Commands* commands);
void AddRecordsCommand(Commands* commands);
void AddRewriteCommands(Commands* commands);
void AddRunCommand(Commands* commands);
void AddServerCommands(Commands* commands);
void AddShowCommand(Commands* commands);
void AddTraceCommand(Commands* commands);
void AddWatchCommand(Commands* commands);

}  // namespace millrace::cli
