// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/output.h"
#include "millrace/scope.h"

// Learning rate schedules: scalar tensors for the constructors of optimizers. The names of the nodes and the
// formulas are those of TensorFlow's tf.train. `step` is the global step, an integer scalar; rates are
// floats, or of the type of the given tensor. Errors go to the scope's status.
namespace millrace {

struct DecayOptions {
  bool staircase = false;  // the rate is constant for each decay_steps steps
};

// rate * decay_rate ^ (step / decay_steps).
Output ExponentialDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                        const Input& decay_rate, const DecayOptions& options = {});
// rate * exp(-decay_rate * step / decay_steps).
Output NaturalExpDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                       const Input& decay_rate, const DecayOptions& options = {});
// rate / (1 + decay_rate * step / decay_steps).
Output InverseTimeDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                        const Input& decay_rate, const DecayOptions& options = {});

// values[i] for steps up to and including boundaries[i], the last value after the last boundary. There is one
// more value than boundaries, which are increasing.
Output PiecewiseConstant(const Scope& scope, const Output& step, const std::vector<int64_t>& boundaries,
                         const std::vector<double>& values);

struct PolynomialDecayOptions {
  double end_rate = 0.0001;
  double power = 1;
  bool cycle = false;  // decay_steps is multiplied so that it is not below the step
};
// (rate - end_rate) * (1 - step / decay_steps) ^ power + end_rate; end_rate after decay_steps.
Output PolynomialDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                       const PolynomialDecayOptions& options = {});

// Loshchilov and Hutter, SGDR: rate * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) / 2 + alpha).
Output CosineDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                   double alpha = 0);
struct CosineRestartOptions {
  double t_mul = 2;  // factor of the length of each period; at least 1
  double m_mul = 1;  // factor of the initial rate of each period
  double alpha = 0;
};
Output CosineDecayRestarts(const Scope& scope, const Input& rate, const Output& step,
                           const Input& first_decay_steps, const CosineRestartOptions& options = {});

// Bello and others, Neural Optimizer Search with Reinforcement Learning:
// rate * ((alpha + left + noise) * (1 + cos(2 pi num_periods * done)) / 2 + beta), done = step / decay_steps,
// left = 1 - done, all of it at most at decay_steps.
struct LinearCosineOptions {
  double num_periods = 0.5;
  double alpha = 0;
  double beta = 0.001;
};
Output LinearCosineDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                         const LinearCosineOptions& options = {});
struct NoisyLinearCosineOptions {
  double initial_variance = 1;  // of the noise; at step s: initial_variance / (1 + s) ^ variance_decay
  double variance_decay = 0.55;
  double num_periods = 0.5;
  double alpha = 0;
  double beta = 0.001;
  int64_t seed = 0;
};
Output NoisyLinearCosineDecay(const Scope& scope, const Input& rate, const Output& step,
                              const Input& decay_steps, const NoisyLinearCosineOptions& options = {});

}  // namespace millrace
