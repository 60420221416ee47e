// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string_view>

namespace millrace::bench {

// One step of a row with a number of threads. Random inputs; the same sizes in each engine.
using Step = std::function<void()>;

struct ScalingRow {
  std::string_view name;
  std::string_view what;
  Step (*make)(int threads);
};

// The rows of this engine.
std::span<const ScalingRow> ScalingRows();

// The same step in libtorch, with its own threads; null where there is no baseline for the row.
Step MakeTorchStep(std::string_view row, int threads);

// Sizes that both sides use.
struct LstmSize {
  int64_t time, batch, inputs, units;
};
inline constexpr LstmSize kSmallLstm{50, 1, 32, 32};
inline constexpr LstmSize kLargeLstm{50, 32, 128, 128};
inline constexpr LstmSize kLanguageLstm{50, 32, 256, 256};
inline constexpr int64_t kResnetBatch = 64, kResnetSide = 32, kResnetClasses = 10;
inline constexpr int64_t kTransformerBatch = 2, kTransformerTokens = 128, kTransformerWidth = 768,
                         kTransformerHeads = 12;
inline constexpr int64_t kMatrixSide = 1000;
inline constexpr int64_t kBranches = 8, kBranchDepth = 4, kBranchRows = 64, kBranchWidth = 256;
inline constexpr int64_t kWords = 10'000, kManyWords = 50'000, kWordDepth = 128, kWordBatch = 128,
                         kNegatives = 64;

}  // namespace millrace::bench
