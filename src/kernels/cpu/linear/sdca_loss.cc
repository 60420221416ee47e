// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linear/sdca_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace {
namespace {

constexpr double kNotFeasible = std::numeric_limits<double>::max();
// Newton's method doubles the number of correct digits with each step.
constexpr int kNewtonSteps = 10;

// Labels 0 and 1 become -1 and 1.
class BinaryLoss : public SdcaLoss {
 public:
  Status ConvertLabel(float* label) const final {
    if (*label == 0) {
      *label = -1;
    } else if (*label != 1) {
      return errors::InvalidArgument(
          "Only labels of 0.0 or 1.0 are supported right now. Found example with label: ", *label);
    }
    return Status();
  }
};

// log(1 + exp(-label wx))
class LogisticLoss final : public BinaryLoss {
 public:
  double UpdatedDual(double curvature, double label, double weight, double dual, double wx) const override {
    // The substitution dual = (1 + tanh(x)) / 2 / label removes the constraints.
    double x = 0;
    for (int i = 0; i < kNewtonSteps; ++i) {
      const double t = std::tanh(x);
      const double value = -2 * label * x - wx - curvature * weight * (0.5 * (1 + t) / label - dual);
      const double slope = -2 * label - curvature * weight * (1 - t * t) * 0.5 / label;
      x -= value / slope;
    }
    return 0.5 * (1 + std::tanh(x)) / label;
  }
  double DualLoss(double dual, double label, double weight) const override {
    const double a = dual * label;
    const double log_a = a > 0 ? std::log(a) : 0, log_rest = a < 1 ? std::log(1 - a) : 0;
    return (a * log_a + (1 - a) * log_rest) * weight;
  }
  double PrimalLoss(double wx, double label, double weight) const override {
    const double margin = label * wx;
    return (margin > 0 ? std::log1p(std::exp(-margin)) : std::log1p(std::exp(margin)) - margin) * weight;
  }
  double PrimalLossDerivative(double wx, double label, double weight) const override {
    const double margin = label * wx;
    const double chance =
        margin > 0 ? std::exp(-margin) / (1 + std::exp(-margin)) : 1 / (1 + std::exp(margin));
    return -chance * label * weight;
  }
  double Smoothness() const override { return 4; }
};

// (wx - label)^2 / 2
class SquaredLoss final : public SdcaLoss {
 public:
  Status ConvertLabel(float* /*label*/) const override { return Status(); }
  double UpdatedDual(double curvature, double label, double weight, double dual, double wx) const override {
    return dual + (label - dual - wx) / (1 + curvature * weight);
  }
  double DualLoss(double dual, double label, double weight) const override {
    return dual * (0.5 * dual - label) * weight;
  }
  double PrimalLoss(double wx, double label, double weight) const override {
    return (wx - label) * (wx - label) * weight * 0.5;
  }
  double PrimalLossDerivative(double wx, double label, double weight) const override {
    return (wx - label) * weight;
  }
  double Smoothness() const override { return 1; }
};

// max(0, 1 - label wx), smoothed at the corner by a parabola of width `gamma`.
class HingeLoss final : public BinaryLoss {
 public:
  explicit HingeLoss(double gamma) : gamma_(gamma) {}
  double UpdatedDual(double curvature, double label, double weight, double dual, double wx) const override {
    const double candidate = dual + (label - wx - gamma_ * dual) / (curvature * weight + gamma_);
    if (label * candidate < 0) return 0;
    return label * candidate > 1 ? label : candidate;
  }
  double DualLoss(double dual, double label, double weight) const override {
    const double a = dual * label;
    if (a < 0 || a > 1) return kNotFeasible;
    return (0.5 * gamma_ * dual * dual - a) * weight;
  }
  double PrimalLoss(double wx, double label, double weight) const override {
    const double missing = 1 - label * wx;
    if (missing <= 0) return 0;
    return (missing >= gamma_ ? missing - gamma_ / 2 : missing * missing * 0.5 / gamma_) * weight;
  }
  double PrimalLossDerivative(double wx, double label, double weight) const override {
    const double missing = 1 - label * wx;
    if (missing <= 0) return 0;
    return (missing >= gamma_ ? -label : -missing * label / gamma_) * weight;
  }
  double Smoothness() const override { return gamma_; }

 private:
  const double gamma_;
};

// exp(wx) - wx label
class PoissonLoss final : public SdcaLoss {
 public:
  Status ConvertLabel(float* label) const override {
    if (*label >= 0) return Status();
    return errors::InvalidArgument(
        "Only non-negative labels can be used with the Poisson log loss. Found example with label: ", *label);
  }
  double UpdatedDual(double curvature, double label, double weight, double dual, double wx) const override {
    // The substitution dual = label - exp(x) removes the constraints.
    const double rest = label - dual;
    double x = rest > 0 ? std::log(rest) : 0;
    for (int i = 0; i < kNewtonSteps; ++i) {
      const double e = std::exp(x);
      x -= (x - wx - curvature * weight * (rest - e)) / (1 + curvature * weight * e);
    }
    return label - std::exp(x);
  }
  double DualLoss(double dual, double label, double weight) const override {
    const double rest = label - dual;
    if (rest == 0) return 0;
    return rest < 0 ? kNotFeasible : rest * (std::log(rest) - 1) * weight;
  }
  double PrimalLoss(double wx, double label, double weight) const override {
    return (std::exp(wx) - wx * label) * weight;
  }
  double PrimalLossDerivative(double wx, double label, double weight) const override {
    return (std::exp(wx) - label) * weight;
  }
  double Smoothness() const override { return 1; }
};

}  // namespace

std::unique_ptr<SdcaLoss> MakeSdcaLoss(std::string_view type) {
  if (type == "logistic_loss") return std::make_unique<LogisticLoss>();
  if (type == "squared_loss") return std::make_unique<SquaredLoss>();
  if (type == "hinge_loss") return std::make_unique<HingeLoss>(0);
  if (type == "smooth_hinge_loss") return std::make_unique<HingeLoss>(1);
  if (type == "poisson_loss") return std::make_unique<PoissonLoss>();
  return nullptr;
}

}  // namespace millrace
