// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/conv.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/contract/conv_plain.h"
#include "kernels/cpu/contract/conv_planar.h"

namespace millrace::cpu {

struct ConvPlan::Impl {
  explicit Impl(const ConvParams& p) : params(p) {
    const int64_t smallest =
        std::min({p.batch, p.in_h, p.in_w, p.in_c, p.filter_h, p.filter_w, p.out_h, p.out_w, p.out_c});
    if (smallest > 0) planar.emplace(p);
    if (planar && !planar->worthwhile()) planar.reset();
  }

  template <typename T>
  void Forward(const T* input, const T* filter, T* output, Parallel& parallel,
               const ConvEpilogue<T>& epilogue) const {
    if (planar && planar->Forward(input, filter, output, parallel, epilogue)) return;
    PlainForward(params, input, filter, output, parallel, epilogue);
  }
  template <typename T>
  void BackpropInput(const T* filter, const T* out_grad, T* in_grad, Parallel& parallel) const {
    if (planar && planar->BackpropInput(filter, out_grad, in_grad, parallel)) return;
    PlainBackpropInput(params, filter, out_grad, in_grad, parallel);
  }
  template <typename T>
  void BackpropFilter(const T* input, const T* out_grad, T* filter_grad, Parallel& parallel) const {
    if (planar && planar->BackpropFilter(input, out_grad, filter_grad, parallel)) return;
    PlainBackpropFilter(params, input, out_grad, filter_grad, parallel);
  }

  ConvParams params;
  std::optional<PlanarConv> planar;
};

ConvPlan::ConvPlan(const ConvParams& params) : impl_(std::make_unique<Impl>(params)) {}
ConvPlan::~ConvPlan() = default;
ConvPlan::ConvPlan(ConvPlan&&) noexcept = default;
ConvPlan& ConvPlan::operator=(ConvPlan&&) noexcept = default;

const ConvParams& ConvPlan::params() const { return impl_->params; }

void ConvPlan::Forward(const float* input, const float* filter, float* output, Parallel& parallel,
                       const ConvEpilogue<float>& epilogue) const {
  impl_->Forward(input, filter, output, parallel, epilogue);
}
void ConvPlan::Forward(const double* input, const double* filter, double* output, Parallel& parallel,
                       const ConvEpilogue<double>& epilogue) const {
  impl_->Forward(input, filter, output, parallel, epilogue);
}
void ConvPlan::BackpropInput(const float* filter, const float* out_grad, float* in_grad,
                             Parallel& parallel) const {
  impl_->BackpropInput(filter, out_grad, in_grad, parallel);
}
void ConvPlan::BackpropInput(const double* filter, const double* out_grad, double* in_grad,
                             Parallel& parallel) const {
  impl_->BackpropInput(filter, out_grad, in_grad, parallel);
}
void ConvPlan::BackpropFilter(const float* input, const float* out_grad, float* filter_grad,
                              Parallel& parallel) const {
  impl_->BackpropFilter(input, out_grad, filter_grad, parallel);
}
void ConvPlan::BackpropFilter(const double* input, const double* out_grad, double* filter_grad,
                              Parallel& parallel) const {
  impl_->BackpropFilter(input, out_grad, filter_grad, parallel);
}

}  // namespace millrace::cpu
