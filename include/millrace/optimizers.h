// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "millrace/gradient_value.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/status.h"
#include "millrace/variables.h"

namespace millrace {

struct GradientAndVariable {
  GradientValue gradient;  // a tensor or slices; unset: the loss does not depend on the variable
  GraphVariable variable;
};

// Updates variables to minimise a loss. Errors go to the scope's status; results are unset then.
//
// Every update waits for all gradients: variables are changed in place, and a gradient may still read one
// that another update is about to change. Therefore the values after a step do not depend on the number of
// threads.
//
// For gradients that are slices, as of variables whose rows are looked up, only these rows are read and
// changed: SparseApply…, ResourceSparseApply… and ScatterSub; only Adam decays the moments of all rows, as
// TensorFlow does.
//
// Learning rates and other parameters are scalars: literals, or tensors, for example a placeholder for a rate
// that differs at each step.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Adds the gradients of `loss` and the updates. Without `variables`: all trainable ones. The returned
  // operation is one step; it increments a global step after all updates.
  Operation Minimize(const Scope& scope, const Output& loss, const std::vector<GraphVariable>& variables = {},
                     const GraphVariable& global_step = {}) const;
  std::vector<GradientAndVariable> ComputeGradients(const Scope& scope, const Output& loss,
                                                    const std::vector<GraphVariable>& variables = {}) const;
  // InvalidArgument if no gradient is set.
  Operation ApplyGradients(const Scope& scope, const std::vector<GradientAndVariable>& gradients,
                           const GraphVariable& global_step = {}) const;

 protected:
  // A number that the updates use; its name is that of the tensor.
  struct Parameter {
    std::string name;
    Input value;
  };
  // The state of one ApplyGradients call.
  struct Step {
    Scope scope;                       // for the nodes, named after the optimizer
    std::vector<Output> parameters;    // in the order given to the constructor, float
    std::vector<GraphVariable> state;  // created by Prepare
    GraphVariable first;               // the first variable by name: shared state is colocated with it
    // Casts a scalar to the variable's type.
    Output Scalar(const Output& scalar, const GraphVariable& variable) const;
  };
  // All parameters, in the variable's type.
  static std::vector<Input> Scalars(const Step& step, const GraphVariable& variable);

  Optimizer(std::string name, std::vector<Parameter> parameters)
      : name_(std::move(name)), parameters_(std::move(parameters)) {}

  // The number of slots per variable: variables of its shape, "W/<optimizer>", "W/<optimizer>_1", …
  virtual int num_slots() const { return 0; }
  // The initial value of all elements of slot i.
  virtual float first_value(int /*slot*/) const { return 0; }
  // Adds the variables that all updates share. `scope` is that of the caller.
  virtual void Prepare(const Scope& /*scope*/, Step& /*step*/) const {}
  // Adds the update of one variable.
  virtual Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                           const std::vector<GraphVariable>& slots) const = 0;
  // Adds operations that run after all updates; `scope` waits for them.
  virtual std::vector<Operation> Finish(const Scope& /*scope*/, const Step& /*step*/) const { return {}; }
  // For Prepare: a shared variable, such as the powers of Adam's betas.
  static GraphVariable SharedState(const Scope& scope, const Step& step, const char* name,
                                   const Output& first_value);

 private:
  Status CheckGradients(const std::vector<GradientAndVariable>& gradients) const;
  Operation UpdateVariable(const Scope& ready, const Step& step, const GradientAndVariable& gradient) const;

  std::string name_;
  std::vector<Parameter> parameters_;
};

// w -= rate * g.
class GradientDescentOptimizer final : public Optimizer {
 public:
  explicit GradientDescentOptimizer(const Input& learning_rate)
      : Optimizer("GradientDescent", {{"learning_rate", learning_rate}}) {}

 private:
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;
};

// a = momentum * a + g; w -= rate * a, or with Nesterov momentum w -= rate * (g + momentum * a).
class MomentumOptimizer final : public Optimizer {
 public:
  struct Options {
    bool use_nesterov = false;
  };
  MomentumOptimizer(const Input& learning_rate, const Input& momentum)
      : MomentumOptimizer(learning_rate, momentum, Options()) {}
  MomentumOptimizer(const Input& learning_rate, const Input& momentum, const Options& options)
      : Optimizer("Momentum", {{"learning_rate", learning_rate}, {"momentum", momentum}}),
        options_(options) {}

 private:
  int num_slots() const override { return 1; }
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;

  Options options_;
};

// Kingma and Ba, Adam: A Method for Stochastic Optimization, in the form with epsilon outside the correction:
// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// w -= rate sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon).
class AdamOptimizer final : public Optimizer {
 public:
  struct Options {
    Input beta1 = 0.9f;
    Input beta2 = 0.999f;
    Input epsilon = 1e-8f;
  };
  AdamOptimizer() : AdamOptimizer(0.001f) {}
  explicit AdamOptimizer(const Input& learning_rate) : AdamOptimizer(learning_rate, Options()) {}
  AdamOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("Adam", {{"learning_rate", learning_rate},
                           {"beta1", options.beta1},
                           {"beta2", options.beta2},
                           {"epsilon", options.epsilon}}) {}

 private:
  int num_slots() const override { return 2; }
  void Prepare(const Scope& scope, Step& step) const override;
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;
  Operation UpdateRows(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                       const std::vector<GraphVariable>& slots) const;
  std::vector<Operation> Finish(const Scope& scope, const Step& step) const override;
};

// Duchi, Hazan and Singer, Adaptive Subgradient Methods: a += g^2; w -= rate g / sqrt(a).
class AdagradOptimizer final : public Optimizer {
 public:
  struct Options {
    float initial_accumulator_value = 0.1f;
  };
  explicit AdagradOptimizer(const Input& learning_rate) : AdagradOptimizer(learning_rate, Options()) {}
  AdagradOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("Adagrad", {{"learning_rate", learning_rate}}), options_(options) {}

 private:
  int num_slots() const override { return 1; }
  float first_value(int /*slot*/) const override { return options_.initial_accumulator_value; }
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;

  Options options_;
};

// Zeiler, ADADELTA: a = rho a + (1 - rho) g^2; u = sqrt(d + epsilon) / sqrt(a + epsilon) g;
// d = rho d + (1 - rho) u^2; w -= rate u.
class AdadeltaOptimizer final : public Optimizer {
 public:
  struct Options {
    Input rho = 0.95f;
    Input epsilon = 1e-8f;
  };
  explicit AdadeltaOptimizer(const Input& learning_rate) : AdadeltaOptimizer(learning_rate, Options()) {}
  AdadeltaOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("Adadelta", {{"lr", learning_rate}, {"rho", options.rho}, {"epsilon", options.epsilon}}) {}

 private:
  int num_slots() const override { return 2; }
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;
};

// Hinton's lectures: s = decay s + (1 - decay) g^2; m = momentum m + rate g / sqrt(s + epsilon); w -= m. s is
// initially one. Centered, after Graves (arXiv:1308.0850): c = decay c + (1 - decay) g, and s - c^2 instead
// of s under the root.
class RmsPropOptimizer final : public Optimizer {
 public:
  struct Options {
    Input decay = 0.9f;
    Input momentum = 0.0f;
    Input epsilon = 1e-10f;
    bool centered = false;
  };
  explicit RmsPropOptimizer(const Input& learning_rate) : RmsPropOptimizer(learning_rate, Options()) {}
  RmsPropOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("RMSProp", {{"learning_rate", learning_rate},
                              {"decay", options.decay},
                              {"momentum", options.momentum},
                              {"epsilon", options.epsilon}}),
        centered_(options.centered) {}

 private:
  int num_slots() const override { return centered_ ? 3 : 2; }
  float first_value(int slot) const override { return slot == 0 ? 1 : 0; }
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;

  bool centered_;
};

// McMahan and others, Ad Click Prediction: a View from the Trenches. Weights whose sum of gradients stays
// below l1 are 0.
class FtrlOptimizer final : public Optimizer {
 public:
  struct Options {
    Input learning_rate_power = -0.5f;
    float initial_accumulator_value = 0.1f;
    Input l1_regularization_strength = 0.0f;
    Input l2_regularization_strength = 0.0f;
    float l2_shrinkage_regularization_strength = 0;  // a penalty on the magnitude of the weights in each step
  };
  explicit FtrlOptimizer(const Input& learning_rate) : FtrlOptimizer(learning_rate, Options()) {}
  FtrlOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("Ftrl",
                  {{"learning_rate", learning_rate},
                   {"l1_regularization_strength", options.l1_regularization_strength},
                   {"l2_regularization_strength", options.l2_regularization_strength},
                   {"l2_shrinkage_regularization_strength", options.l2_shrinkage_regularization_strength},
                   {"learning_rate_power", options.learning_rate_power}}),
        initial_accumulator_value_(options.initial_accumulator_value),
        shrinks_(options.l2_shrinkage_regularization_strength > 0) {}

 private:
  int num_slots() const override { return 2; }
  float first_value(int slot) const override { return slot == 0 ? initial_accumulator_value_ : 0; }
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;

  float initial_accumulator_value_;
  bool shrinks_;
};

// Duchi and others, with dual averaging, for sparse linear models:
// a += g; b += g^2; w = -sign(a) rate max(|a| - l1 t, 0) / (l2 rate t + sqrt(b)), t = step + 1.
class AdagradDaOptimizer final : public Optimizer {
 public:
  struct Options {
    float initial_gradient_squared_accumulator_value = 0.1f;
    Input l1_regularization_strength = 0.0f;
    Input l2_regularization_strength = 0.0f;
  };
  AdagradDaOptimizer(const Input& learning_rate, const GraphVariable& global_step)
      : AdagradDaOptimizer(learning_rate, global_step, Options()) {}
  AdagradDaOptimizer(const Input& learning_rate, const GraphVariable& global_step, const Options& options)
      : Optimizer("AdagradDA", {{"learning_rate", learning_rate},
                                {"l1_regularization_strength", options.l1_regularization_strength},
                                {"l2_regularization_strength", options.l2_regularization_strength}}),
        global_step_(global_step),
        initial_value_(options.initial_gradient_squared_accumulator_value) {}

 private:
  int num_slots() const override { return 2; }
  float first_value(int slot) const override { return slot == 1 ? initial_value_ : 0; }
  void Prepare(const Scope& scope, Step& step) const override;
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;

  GraphVariable global_step_;
  float initial_value_;
};

// Duchi and Singer, Efficient Learning using Forward-Backward Splitting: p = w - rate g;
// w = sign(p) max(|p| - rate l1, 0) / (1 + rate l2).
class ProximalGradientDescentOptimizer final : public Optimizer {
 public:
  struct Options {
    Input l1_regularization_strength = 0.0f;
    Input l2_regularization_strength = 0.0f;
  };
  explicit ProximalGradientDescentOptimizer(const Input& learning_rate)
      : ProximalGradientDescentOptimizer(learning_rate, Options()) {}
  ProximalGradientDescentOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("ProximalGradientDescent",
                  {{"learning_rate", learning_rate},
                   {"l1_regularization_strength", options.l1_regularization_strength},
                   {"l2_regularization_strength", options.l2_regularization_strength}}) {}

 private:
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;
};

// The same with Adagrad's rates: a += g^2, rate / sqrt(a) instead of rate.
class ProximalAdagradOptimizer final : public Optimizer {
 public:
  struct Options {
    float initial_accumulator_value = 0.1f;
    Input l1_regularization_strength = 0.0f;
    Input l2_regularization_strength = 0.0f;
  };
  explicit ProximalAdagradOptimizer(const Input& learning_rate)
      : ProximalAdagradOptimizer(learning_rate, Options()) {}
  ProximalAdagradOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("ProximalAdagrad", {{"learning_rate", learning_rate},
                                      {"l1_regularization_strength", options.l1_regularization_strength},
                                      {"l2_regularization_strength", options.l2_regularization_strength}}),
        initial_accumulator_value_(options.initial_accumulator_value) {}

 private:
  int num_slots() const override { return 1; }
  float first_value(int /*slot*/) const override { return initial_accumulator_value_; }
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;

  float initial_accumulator_value_;
};

// Kingma and Ba's variant of Adam with the largest gradient: m = beta1 m + (1 - beta1) g;
// v = max(beta2 v, |g|); w -= rate / (1 - beta1^t) m / (v + epsilon). Of slices only the rows change.
class AdaMaxOptimizer final : public Optimizer {
 public:
  struct Options {
    Input beta1 = 0.9f;
    Input beta2 = 0.999f;
    Input epsilon = 1e-8f;
  };
  AdaMaxOptimizer() : AdaMaxOptimizer(0.001f) {}
  explicit AdaMaxOptimizer(const Input& learning_rate) : AdaMaxOptimizer(learning_rate, Options()) {}
  AdaMaxOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("AdaMax", {{"learning_rate", learning_rate},
                             {"beta1", options.beta1},
                             {"beta2", options.beta2},
                             {"epsilon", options.epsilon}}) {}

 private:
  int num_slots() const override { return 2; }
  void Prepare(const Scope& scope, Step& step) const override;
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;
  std::vector<Operation> Finish(const Scope& scope, const Step& step) const override;
};

// Bello and others, Neural Optimizer Search with Reinforcement Learning: m = beta m + (1 - beta) g; w -= rate
// (alpha + decay sign(g) sign(m)) g. Slices are converted to tensors.
class AddSignOptimizer final : public Optimizer {
 public:
  struct Options {
    Input alpha = 1.0f;
    Input beta = 0.9f;
    Input sign_decay = 1.0f;
  };
  AddSignOptimizer() : AddSignOptimizer(0.1f) {}
  explicit AddSignOptimizer(const Input& learning_rate) : AddSignOptimizer(learning_rate, Options()) {}
  AddSignOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("AddSign", {{"learning_rate", learning_rate},
                              {"alpha", options.alpha},
                              {"sign_decay", options.sign_decay},
                              {"beta", options.beta}}) {}

 private:
  int num_slots() const override { return 1; }
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;
};

// The same with w -= rate base^(decay sign(g) sign(m)) g; the parameter is the logarithm of the base.
class PowerSignOptimizer final : public Optimizer {
 public:
  struct Options {
    Input logbase = 1.0f;
    Input beta = 0.9f;
    Input sign_decay = 1.0f;
  };
  PowerSignOptimizer() : PowerSignOptimizer(0.1f) {}
  explicit PowerSignOptimizer(const Input& learning_rate) : PowerSignOptimizer(learning_rate, Options()) {}
  PowerSignOptimizer(const Input& learning_rate, const Options& options)
      : Optimizer("PowerSign", {{"learning_rate", learning_rate},
                                {"logbase", options.logbase},
                                {"sign_decay", options.sign_decay},
                                {"beta", options.beta}}) {}

 private:
  int num_slots() const override { return 1; }
  Operation Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                   const std::vector<GraphVariable>& slots) const override;
};

}  // namespace millrace
