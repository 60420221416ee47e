// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the kernels of connectionist temporal classification share. Graves et al., "Connectionist
// Temporal Classification: Labelling Unsegmented Sequence Data with Recurrent Neural Networks".
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_util.h"

namespace millrace {

inline constexpr double kLogZero = -std::numeric_limits<double>::infinity();

inline double LogSum(double a, double b) {
  const double larger = std::max(a, b);
  if (larger == kLogZero) return kLogZero;
  return larger + std::log1p(std::exp(std::min(a, b) - larger));
}

// Scores of [time, batch, classes], the last class being the blank, and the number of steps of each sequence.
struct Scores {
  const Tensor* tensor;
  int64_t time, batch, classes;
  std::vector<int64_t> steps;

  int64_t blank() const { return classes - 1; }
  // The cost of a sequence, in ns, if each score costs `ns`.
  int64_t Cost(double ns) const {
    return static_cast<int64_t>(
               std::min(ns * static_cast<double>(time) * static_cast<double>(classes), 1e12)) +
           1;
  }
  // The scores of one step, in double.
  void Row(int64_t t, int64_t b, std::vector<double>* row) const {
    row->resize(static_cast<size_t>(classes));
    const int64_t at = (t * batch + b) * classes;
    for (int64_t c = 0; c < classes; ++c) {
      (*row)[static_cast<size_t>(c)] = tensor->dtype() == DataType::kDouble
                                           ? tensor->data<double>()[at + c]
                                           : static_cast<double>(tensor->data<float>()[at + c]);
    }
  }
  // Logarithms of the softmax.
  void LogProbabilities(int64_t t, int64_t b, std::vector<double>* row) const {
    Row(t, b, row);
    const double largest = *std::max_element(row->begin(), row->end());
    double sum = 0;
    for (const double v : *row) sum += std::exp(v - largest);
    const double offset = largest + std::log(sum);
    for (double& v : *row) v -= offset;
  }
};

inline StatusOr<Scores> ReadScores(const Tensor& inputs, const Tensor& lengths) {
  if (inputs.rank() != 3) return errors::InvalidArgument("inputs is not a 3-Tensor");
  if (!lengths.shape().IsVector()) return errors::InvalidArgument("sequence_length is not a vector");
  Scores s{&inputs, inputs.dim(0), inputs.dim(1), inputs.dim(2), {}};
  if (s.time == 0) return errors::InvalidArgument("Max time or first dimension of input cannot be 0.");
  if (s.classes == 0) return errors::InvalidArgument("num_classes cannot be 0");
  if (lengths.num_elements() != s.batch) {
    return errors::FailedPrecondition("len(sequence_length) != batch_size.  len(sequence_length):  ",
                                      lengths.num_elements(), " batch_size: ", s.batch);
  }
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t steps = IntValue(lengths, b);
    if (steps < 0 || steps > s.time)
      return errors::FailedPrecondition("sequence_length(", b, ") <= ", s.time);
    s.steps.push_back(steps);
  }
  return s;
}

}  // namespace millrace
