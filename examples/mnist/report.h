// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataset.h"
#include "millrace/status.h"
#include "report_statistics.h"

namespace millrace::mnist {

// A quantity at some steps. REQUIRES: steps rise and both vectors are of one length.
struct Curve {
  std::vector<int64_t> steps{};
  std::vector<double> values{};

  void Add(int64_t step, double value) {
    steps.push_back(step);
    values.push_back(value);
  }
};

// A variable and how its values were spread over time.
struct ParameterHistory {
  std::string name{};
  std::vector<int64_t> shape{};
  std::vector<Distribution> snapshots{};
};

// A test digit that the report shows.
struct ShownDigit {
  int64_t index;  // in the test set
  uint8_t label;
  uint8_t predicted;
  float confidence;  // the probability given to `predicted`
};

// The results of a training run.
struct ReportData {
  std::string model{};
  std::string data{};  // Dataset::source
  int64_t steps = 0;
  int64_t batch = 0;
  uint64_t seed = 0;
  int threads = 0;
  double final_accuracy = 0;  // on the whole test set, like final_loss
  double final_loss = 0;
  double seconds = 0;
  Curve train_loss{}, train_accuracy{};  // of the batch at hand
  Curve test_loss{}, test_accuracy{};    // of the whole test set
  std::vector<ParameterHistory> parameters{};
  StepTimes step_times{};

  // Filled by AddTestPredictions. confusion[label][predicted] counts the whole test set.
  std::array<std::array<int64_t, kClasses>, kClasses> confusion{};
  std::vector<ShownDigit> digits{};
  std::vector<uint8_t> digit_pixels{};  // kPixels for each of digits
};

// Counts the confusions of the whole test set and chooses the digits that the report shows: the wrong ones
// (the first 1000) and the first 200 right ones, in the order of the test set. probabilities holds kClasses
// for each example.
void AddTestPredictions(const Examples& test, std::span<const float> probabilities, ReportData& report);

// The report as one HTML page that loads nothing else.
StatusOr<std::string> RenderReport(const ReportData& report);

// Renders and writes the report. The file at `path` is replaced at once or, on an error, left as it was.
Status WriteReport(const ReportData& report, const std::string& path);

}  // namespace millrace::mnist
