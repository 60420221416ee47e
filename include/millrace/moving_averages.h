// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/saver.h"
#include "millrace/scope.h"
#include "millrace/variables.h"

namespace millrace {

// Averages of variables and tensors that forget: average -= (1 - decay) * (average - value). A model is often
// better with the averages of its variables than with what the last step left. Training:
//   ExponentialMovingAverage averages({.decay = 0.999, .num_updates = step});
//   const Operation update = averages.Apply(scope.WithControlDependencies({train}));
// Evaluation, where the variables get the values of the averages:
//   Saver saver(scope, averages.VariablesToRestore(scope), {});
// Averages are variables "W/ExponentialMovingAverage" beside the variables, which they begin as; those of
// tensors begin as zeros. One thread at a time; errors go to the scope's status.
class ExponentialMovingAverage {
 public:
  struct Options {
    Input decay = 0.999f;
    std::optional<Output> num_updates = {};  // with it the decay is at most (1 + n) / (10 + n)
    bool zero_debias = false;                // correct averages of tensors for having begun as zeros
    std::string name = "ExponentialMovingAverage";
  };
  explicit ExponentialMovingAverage(Options options) : options_(std::move(options)) {}

  // Makes the averages that are missing; the operation updates all of them. Without arguments: of all
  // trainable variables. InvalidArgument for what is no float.
  Operation Apply(const Scope& scope, std::vector<GraphVariable> variables = {},
                  const std::vector<Output>& tensors = {});
  // Unset when there is none.
  GraphVariable Average(const GraphVariable& variable) const { return Average(variable.ref()); }
  GraphVariable Average(const Output& tensor) const;
  // The name that the average of a variable has in checkpoints, made or not.
  std::string AverageName(const GraphVariable& variable) const;
  // All variables of the graph for a Saver, trainable and averaged ones under the names of their averages.
  std::vector<Saveable> VariablesToRestore(const Scope& scope) const;

 private:
  GraphVariable Make(const Scope& scope, const std::string& name, const Output& beside,
                     const GraphVariable* variable, const Output& tensor);

  Options options_;
  std::map<std::string, GraphVariable> averages_;  // by the name of the tensor
};

// variable -= (1 - decay) * (variable - value), and the new value. `decay` is a scalar. With zero_debias the
// variables "<name>/biased" and "<name>/local_step" keep the average that began as zeros, and the variable
// gets biased / (1 - decay^steps).
struct MovingAverageOptions {
  bool zero_debias = false;
};
Output AssignMovingAverage(const Scope& scope, const GraphVariable& variable, const Output& value,
                           const Input& decay, const MovingAverageOptions& options = {});

}  // namespace millrace
