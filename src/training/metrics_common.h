// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/metrics.h"
#include "training/formula.h"
#include "training/weights.h"

// Common code of the metrics.
namespace millrace::metrics {

#pragma GCC visibility push(hidden)

// A sum over batches: before and after this one.
struct Sum {
  Output now;
  Output after;
};
// `increment` is a float of that shape; the variable is called `name` in the scope.
Sum Accumulate(const Scope& scope, const char* name, const TensorShape& shape, const Output& increment);

Scope Enter(const Scope& scope, const MetricOptions& options, const char* default_name);

// The value of a metric from its sums before and after the update.
Metric From(const Scope& scope, const std::vector<Sum>& sums,
            const std::function<Formula(const std::vector<Formula>&)>& value);

// The weights broadcast to the values, as floats; ones if there are none.
Formula SpreadWeights(const Scope& scope, const std::optional<Input>& weights, const Output& values);

#pragma GCC visibility pop

}  // namespace millrace::metrics
