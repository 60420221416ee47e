// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/scaling/rows.h"
#include "millrace/client_session.h"
#include "millrace/scope.h"

namespace millrace::bench {

// What a step of a row feeds and fetches.
struct Program {
  std::vector<Output> placeholders;
  std::vector<Tensor> feeds;
  std::vector<Output> fetches;
  std::vector<Operation> targets;
  std::vector<Operation> initializers;
};

// A session of that many threads, initialised.
Step Prepare(const Scope& scope, Program program, int threads);

// Where the next step of a row writes its trace, as a RunMetadata; empty: it is not traced.
extern std::string trace_file;

// A placeholder that is fed with random numbers up to `limit`.
Output Input(const Scope& scope, Program* program, const TensorShape& shape, float limit = 1);

// Rows of whole networks (network_rows.cc).
Step SmallResnet(int threads);
Step Transformer(int threads);

}  // namespace millrace::bench
