// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dataset.h"
#include "millrace/status.h"
#include "report.h"

namespace millrace::mnist {

struct TrainOptions {
  std::string model = "conv";
  int64_t steps = 2000;
  int64_t batch = 100;
  uint64_t seed = 0;
  int threads = 0;  // 0: one per core
  // The file for the trace of the last training step, a serialised RunMetadata; "": none.
  std::string trace{};
  // Where to write the trained model as a SavedModel; "": nowhere. An existing one is replaced.
  std::string export_dir{};
  // Asked before each step: true ends the training there, with evaluation, report and model. Null: never.
  std::function<bool()> stop{};
};

// Whether the outputs can be written, as far as that can be checked before they exist.
Status CheckOutputs(const TrainOptions& options, const std::string& report);

// The progress of a run; losses are means over examples.
struct Progress {
  int64_t step = 0;  // steps done
  double train_accuracy = 0, train_loss = 0;
  double test_accuracy = 0, test_loss = 0;
};

// Trains a model and evaluates it: on the next training batch and on the whole test set, every 100 steps and
// after the last one. The report's numbers, times apart, depend on data, model, steps, batch and seed alone.
// Memory for evaluation is bounded: the test set goes through in pieces.
// The report has the steps that were done.
StatusOr<ReportData> Train(const Dataset& data, const TrainOptions& options,
                           const std::function<void(const Progress&)>& on_progress);

}  // namespace millrace::mnist
