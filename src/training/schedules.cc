// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/schedules.h"

#include <cmath>
#include <numbers>

#include "millrace/ops.h"
#include "training/formula.h"

namespace millrace {
namespace {

// The common start of all schedules: their scope, and the inputs in the type of the rate.
struct Schedule {
  Schedule(const Scope& outer, const char* name, const Input& initial, const Output& at)
      : scope(outer.NewSubScope(name)),
        rate(scope,
             AsTensor(scope, "initial_learning_rate", initial,
                      initial.literal() != nullptr ? DataType::kFloat : Scope::TypeOf(initial.output()))),
        step(scope, CastTo(scope, at, rate.dtype())) {
    if (!at.IsSet()) scope.UpdateStatus(errors::InvalidArgument(name, ": the step is unset"));
  }

  Formula In(const char* name, const Input& value) const {
    return {scope, CastTo(scope, AsTensor(scope, name, value, rate.dtype()), rate.dtype())};
  }
  // The last node is named like the scope.
  Output Result(const char* op, const Output& x, const Output& y) const {
    return AddOp(scope.WithOpName("/"), op, {x, y});
  }
  Formula HalfCosine(const Formula& angle) const { return 0.5 * (1.0 + angle.Call("Cos")); }

  Scope scope;
  Formula rate;
  Formula step;
};

Formula Progress(const Schedule& s, const Input& decay_steps, const DecayOptions& options) {
  const Formula done = s.step / s.In("decay_steps", decay_steps);
  return options.staircase ? done.Call("Floor") : done;
}

Output LinearCosine(const Schedule& s, const Input& decay_steps, double num_periods, double alpha,
                    double beta, const NoisyLinearCosineOptions* noisy) {
  const Formula steps = s.In("decay_steps", decay_steps);
  const Formula step = Minimum(s.step, steps);
  Formula linear = (steps - step) / steps;
  if (noisy != nullptr) {
    const Formula variance = noisy->initial_variance / Pow(1.0 + step, noisy->variance_decay);
    const Output one =
        initializers::RandomNormal(0, 1, noisy->seed)(s.scope, {.shape = {}, .dtype = s.rate.dtype()});
    linear = linear + Formula(s.scope, one) * variance.Call("Sqrt");
  }
  const Formula done = 2 * num_periods * (step / steps);
  const Formula cosine = s.HalfCosine(std::numbers::pi * done);
  return s.Result("Mul", s.rate, (alpha + linear) * cosine + beta);
}

}  // namespace

Output ExponentialDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                        const Input& decay_rate, const DecayOptions& options) {
  const Schedule s(scope, "ExponentialDecay", rate, step);
  const Formula base = s.In("decay_rate", decay_rate);
  return s.Result("Mul", s.rate, Pow(base, Progress(s, decay_steps, options)));
}

Output NaturalExpDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                       const Input& decay_rate, const DecayOptions& options) {
  const Schedule s(scope, "ExponentialDecay", rate, step);
  const Formula base = s.In("decay_rate", decay_rate).Call("Neg").Call("Exp");
  return s.Result("Mul", s.rate, Pow(base, Progress(s, decay_steps, options)));
}

Output InverseTimeDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                        const Input& decay_rate, const DecayOptions& options) {
  const Schedule s(scope, "InverseTimeDecay", rate, step);
  const Formula factor = s.In("decay_rate", decay_rate);
  return s.Result("RealDiv", s.rate, 1.0 + factor * Progress(s, decay_steps, options));
}

Output PiecewiseConstant(const Scope& scope, const Output& step, const std::vector<int64_t>& boundaries,
                         const std::vector<double>& values) {
  if (boundaries.empty()) {
    scope.UpdateStatus(errors::InvalidArgument("There must be at least one boundary"));
  } else if (boundaries.size() + 1 != values.size()) {
    scope.UpdateStatus(
        errors::InvalidArgument("The length of boundaries should be 1 less than the length of values"));
  }
  if (!scope.ok()) return {};
  const Scope own = scope.NewSubScope("PiecewiseConstant");
  // The number of passed boundaries is the index of the value.
  const Formula at(own, CastTo(own, step, DataType::kInt64));
  const Output limits = ops::Const(own.WithOpName("boundaries"), Tensor::Vector(boundaries));
  const Formula passed = at.Call("Greater", limits).To(DataType::kInt32).Reduce("Sum", {0});
  const std::vector<float> floats(values.begin(), values.end());
  const Output all = ops::Const(own.WithOpName("values"), Tensor::Vector(floats));
  return ops::GatherV2(own.WithOpName("rate"), all, passed.tensor(), 0);
}

Output PolynomialDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                       const PolynomialDecayOptions& options) {
  const Schedule s(scope, "PolynomialDecay", rate, step);
  Formula steps = s.In("decay_steps", decay_steps);
  Formula at = s.step;
  if (options.cycle) {
    // At step 0 the first cycle has begun.
    steps = steps * Maximum((at / steps).Call("Ceil"), 1.0);
  } else {
    at = Minimum(at, steps);
  }
  const Formula left = Pow(1.0 - at / steps, options.power);
  const Output end = Number(s.scope.WithOpName("end_learning_rate"), options.end_rate, s.rate.dtype());
  return s.Result("Add", (s.rate - end) * left, end);
}

Output CosineDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                   double alpha) {
  const Schedule s(scope, "CosineDecay", rate, step);
  const Formula steps = s.In("decay_steps", decay_steps);
  const Formula done = Minimum(s.step, steps) / steps;
  const Formula cosine = s.HalfCosine(std::numbers::pi * done);
  return s.rate * ((1 - alpha) * cosine + alpha);
}

Output CosineDecayRestarts(const Scope& scope, const Input& rate, const Output& step,
                           const Input& first_decay_steps, const CosineRestartOptions& options) {
  if (!(options.t_mul >= 1)) {
    scope.UpdateStatus(errors::InvalidArgument("t_mul must be at least 1, got ", options.t_mul));
  }
  if (!scope.ok()) return {};
  const Schedule s(scope, "SGDRDecay", rate, step);
  const double t_mul = options.t_mul;
  const Formula periods = s.step / s.In("first_decay_steps", first_decay_steps);
  Formula restarts = periods.Call("Floor");
  Formula done = periods - restarts;
  if (t_mul != 1) {
    // After n periods t_mul^0 + … + t_mul^(n - 1) first periods have passed.
    restarts = ((1.0 - periods * (1 - t_mul)).Call("Log") / std::log(t_mul)).Call("Floor");
    const Formula length = Pow(t_mul, restarts);
    done = (periods - (1.0 - length) / (1 - t_mul)) / length;
  }
  const Formula cosine = Pow(options.m_mul, restarts) * s.HalfCosine(std::numbers::pi * done);
  return s.Result("Mul", s.rate, (1 - options.alpha) * cosine + options.alpha);
}

Output LinearCosineDecay(const Scope& scope, const Input& rate, const Output& step, const Input& decay_steps,
                         const LinearCosineOptions& options) {
  const Schedule s(scope, "LinearCosineDecay", rate, step);
  return LinearCosine(s, decay_steps, options.num_periods, options.alpha, options.beta, nullptr);
}

Output NoisyLinearCosineDecay(const Scope& scope, const Input& rate, const Output& step,
                              const Input& decay_steps, const NoisyLinearCosineOptions& options) {
  const Schedule s(scope, "NoisyLinearCosineDecay", rate, step);
  return LinearCosine(s, decay_steps, options.num_periods, options.alpha, options.beta, &options);
}

}  // namespace millrace
