// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "millrace/status.h"

namespace millrace {

// A loss of the prediction wx for a label, times the weight of the example, with the updates of dual
// coordinate ascent (Shalev-Shwartz and Zhang, "Stochastic Dual Coordinate Ascent Methods for
// Regularized Loss Minimization"; Ma and others, "Adding vs. Averaging in Distributed Primal-Dual
// Optimization").
class SdcaLoss {
 public:
  virtual ~SdcaLoss() = default;
  // Converts the label to the form in the formulas, or returns InvalidArgument.
  virtual Status ConvertLabel(float* label) const = 0;
  // The value of the dual variable that maximises the dual objective. `curvature` is the number of partitions
  // times the squared norm of the example over the L2 regularisation.
  virtual double UpdatedDual(double curvature, double label, double weight, double dual, double wx) const = 0;
  virtual double DualLoss(double dual, double label, double weight) const = 0;
  virtual double PrimalLoss(double wx, double label, double weight) const = 0;
  virtual double PrimalLossDerivative(double wx, double label, double weight) const = 0;
  virtual double Smoothness() const = 0;
};

// By the value of the attribute loss_type; null for an unknown one.
std::unique_ptr<SdcaLoss> MakeSdcaLoss(std::string_view type);

}  // namespace millrace
