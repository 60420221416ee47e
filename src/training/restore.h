// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "millrace/meta_graph.h"
#include "millrace/session.h"
#include "millrace/status.h"

namespace millrace {

// Whether a saver has nodes that restore variables.
bool CanRestore(const SaverDef& saver);
// Restores variables from a checkpoint, with the nodes of the session's graph that the saver names. They are
// run with `feeds`. FailedPrecondition unless CanRestore.
Status RestoreVariables(Session& session, const RunOptions& options, const SaverDef& saver,
                        const std::string& checkpoint, Session::Feeds feeds = {});

}  // namespace millrace
