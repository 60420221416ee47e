// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "millrace/saver.h"

namespace millrace {

// The variables of the scope's graph, with their slices.
std::vector<Saveable> AllSaveables(const Scope& scope);

// Adds the nodes that save and restore, and returns their names. REQUIRES: there is a saveable.
StatusOr<SaverDef> AddSaverNodes(const Scope& scope, std::vector<Saveable> saveables,
                                 const Saver::Options& options);

}  // namespace millrace
