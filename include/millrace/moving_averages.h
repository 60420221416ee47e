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

// Exponential moving averages of variables and tensors: average -= (1 - decay) * (average - value). A model
// is often better with the averages of its variables than with their last values. Training:
//   ExponentialMovingAverage averages({.decay = 0.999, .num_updates = step});
//   const Operation update = averages.Apply(scope.WithControlDependencies({train}));
// Evaluation, in which the variables are restored from their averages:
//   Saver saver(scope, averages.VariablesToRestore(scope), {});
// Averages are variables "W/ExponentialMovingAverage", initialised with the variables; those of tensors start
// at zero. Not thread-safe; errors go to the scope's status.
class ExponentialMovingAverage {
 public:
  struct Options {
    Input decay = 0.999f;
    std::optional<Output> num_updates = {};  // if set, the decay is at most (1 + n) / (10 + n)
    bool zero_debias = false;                // correct averages of tensors for their start at zero
    std::string name = "ExponentialMovingAverage";
  };
  explicit ExponentialMovingAverage(Options options) : options_(std::move(options)) {}

  // Creates missing averages; the operation updates all of them. Without arguments: of all trainable
  // variables. InvalidArgument for types other than floats, and for another graph than the first.
  Operation Apply(const Scope& scope, std::vector<GraphVariable> variables = {},
                  const std::vector<Output>& tensors = {});
  // Unset if there is none.
  GraphVariable Average(const GraphVariable& variable) const { return Average(variable.ref()); }
  GraphVariable Average(const Output& tensor) const;
  // The name of the average of a variable in checkpoints, whether it exists or not.
  std::string AverageName(const GraphVariable& variable) const;
  // All variables of the graph for a Saver; trainable and averaged ones have the names of their averages.
  std::vector<Saveable> VariablesToRestore(const Scope& scope) const;

 private:
  GraphVariable Make(const Scope& scope, const std::string& name, const Output& beside,
                     const GraphVariable* variable, const Output& tensor);

  Options options_;
  std::optional<Scope> scope_;                     // of the averages, whose graph stays valid
  std::map<std::string, GraphVariable> averages_;  // by the name of the tensor
};

// variable -= (1 - decay) * (variable - value), and the new value. `decay` is a scalar. With zero_debias the
// variables "<name>/biased" and "<name>/local_step" keep the average that starts at zero, and the variable is
// set to biased / (1 - decay^steps).
struct MovingAverageOptions {
  bool zero_debias = false;
};
Output AssignMovingAverage(const Scope& scope, const GraphVariable& variable, const Output& value,
                           const Input& decay, const MovingAverageOptions& options = {});

}  // namespace millrace
