// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ScaleAndTranslate and its gradient: each pixel of the output is a weighted mean of a window of the input.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/image/scaling.h"

namespace millrace {
namespace {

using image::ResizeSizes;

constexpr int64_t kCostPerTapNs = 2;
// What the windows of all rows, or of all columns, may have together.
constexpr int64_t kMostTaps = int64_t{1} << 28;

// A weight by the distance from the centre of the window.
struct Sampler {
  float radius;
  float (*weight)(float distance);
};

template <int kRadius>
float Lanczos(float x) {
  constexpr float kPi = 3.14159265359f;
  if (x > kRadius) return 0;
  if (x <= 1e-3f) return 1;
  return kRadius * std::sin(kPi * x) * std::sin(kPi * x / kRadius) / (kPi * kPi * x * x);
}
float Gaussian(float x) { return x >= 1.5f ? 0.0f : std::exp(-x * x / (2 * 0.5f * 0.5f)); }
float Box(float x) { return x < 0.5f ? 1.0f : x == 0.5f ? 0.5f : 0.0f; }
float Triangle(float x) { return x < 1 ? 1 - x : 0; }
float KeysCubic(float x) {
  if (x >= 2) return 0;
  return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : (1.5f * x - 2.5f) * x * x + 1;
}
float MitchellCubic(float x) {
  if (x >= 2) return 0;
  return x >= 1 ? ((-7.0f / 18 * x + 2) * x - 10.0f / 3) * x + 16.0f / 9
                : (7.0f / 6 * x - 2) * x * x + 8.0f / 9;
}

const Sampler* FindSampler(const std::string& name) {
  static constexpr std::pair<const char*, Sampler> kSamplers[] = {
      {"lanczos1", {1, Lanczos<1>}},
      {"lanczos3", {3, Lanczos<3>}},
      {"lanczos5", {5, Lanczos<5>}},
      {"gaussian", {1.5f, Gaussian}},
      {"box", {1, Box}},
      {"triangle", {1, Triangle}},
      {"keyscubic", {2, KeysCubic}},
      {"mitchellcubic", {2, MitchellCubic}},
  };
  for (const auto& [known, sampler] : kSamplers) {
    if (name == known) return &sampler;
  }
  return nullptr;
}

// The window of each pixel of the output: where it begins and its weights, none for pixels outside the input.
struct Windows {
  std::vector<int64_t> start;
  std::vector<int64_t> first_weight;  // and behind the last one their number
  std::vector<float> weights;
};

struct Axis {
  int64_t in, out;
  float scale, translation;
};

StatusOr<Windows> MakeWindows(const Sampler& sampler, bool antialias, const Axis& axis) {
  const float step = 1.0f / axis.scale, shift = -step * axis.translation;
  const float stretch = antialias ? std::max(step, 1.0f) : 1.0f;
  const float reach = sampler.radius * stretch;
  const float largest = static_cast<float>(axis.in) - 1;
  Windows w;
  for (int64_t i = 0; i < axis.out; ++i) {
    const float centre = (static_cast<float>(i) + 0.5f) * step + shift;
    w.first_weight.push_back(static_cast<int64_t>(w.weights.size()));
    w.start.push_back(0);
    if (!(centre >= 0 && centre <= static_cast<float>(axis.in))) continue;
    const auto begin = static_cast<int64_t>(std::clamp(std::ceil(centre - reach - 0.5f), 0.0f, largest));
    const auto last = static_cast<int64_t>(std::clamp(std::floor(centre + reach - 0.5f), 0.0f, largest));
    if (static_cast<int64_t>(w.weights.size()) + last - begin >= kMostTaps)
      return errors::ResourceExhausted("The windows would have more than ", kMostTaps, " weights");
    float sum = 0;
    std::vector<float> weights;
    for (int64_t k = begin; k <= last; ++k) {
      weights.push_back(sampler.weight(std::abs((static_cast<float>(k) + 0.5f - centre) / stretch)));
      sum += weights.back();
    }
    w.start.back() = begin;
    if (std::abs(sum) < 1000.0f * std::numeric_limits<float>::min()) continue;
    for (const float weight : weights) w.weights.push_back(weight / sum);
  }
  w.first_weight.push_back(static_cast<int64_t>(w.weights.size()));
  return w;
}

StatusOr<std::pair<float, float>> TwoFloats(const Tensor& t) {
  if (!t.shape().IsVector()) return errors::InvalidArgument("shape_t must be 1-dimensional", t.shape());
  if (t.num_elements() != 2) return errors::InvalidArgument("shape_t must have two elements", t.shape());
  return std::pair(t.data<float>()[0], t.data<float>()[1]);
}

class ScaleAndTranslateBase : public OpKernel {
 public:
  explicit ScaleAndTranslateBase(KernelConstruction& c)
      : OpKernel(c),
        sampler_(FindSampler(c.Attr<std::string>("kernel_type"))),
        antialias_(c.Attr<bool>("antialias")) {
    if (sampler_ == nullptr)
      c.SetError(errors::InvalidArgument("Unrecognized kernel type: ", c.Attr<std::string>("kernel_type")));
  }

 protected:
  // From inputs 2 and 3, of rows and of columns.
  StatusOr<std::pair<Windows, Windows>> ReadWindows(const KernelContext& context,
                                                    const ResizeSizes& s) const {
    MR_ASSIGN_OR_RETURN(const auto scale, TwoFloats(context.input(2)));
    MR_ASSIGN_OR_RETURN(const auto shift, TwoFloats(context.input(3)));
    if (!(scale.first > 0 && scale.second > 0))
      return errors::InvalidArgument("Scale must be greater than zero.");
    MR_ASSIGN_OR_RETURN(Windows rows,
                        MakeWindows(*sampler_, antialias_, {s.in_h, s.out_h, scale.first, shift.first}));
    MR_ASSIGN_OR_RETURN(Windows columns,
                        MakeWindows(*sampler_, antialias_, {s.in_w, s.out_w, scale.second, shift.second}));
    return std::pair(std::move(rows), std::move(columns));
  }

 private:
  const Sampler* const sampler_;
  const bool antialias_;
};

// Calls fn(from, to, weight) for each pair of an output's and an input's index along one dimension.
template <typename Fn>
void ForTaps(const Windows& w, Fn fn) {
  for (size_t i = 0; i < w.start.size(); ++i) {
    for (int64_t k = w.first_weight[i]; k < w.first_weight[i + 1]; ++k)
      fn(static_cast<int64_t>(i), w.start[i] + k - w.first_weight[i], w.weights[static_cast<size_t>(k)]);
  }
}

void AddScaled(const float* from, float weight, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i] * weight;
}

// Inputs: images, size, scale, translation.
class ScaleAndTranslateKernel final : public ScaleAndTranslateBase {
 public:
  using ScaleAndTranslateBase::ScaleAndTranslateBase;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const ResizeSizes s, image::CheckResize(context.input(0), context.input(1)));
    MR_ASSIGN_OR_RETURN(const auto windows, ReadWindows(context, s));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, s.OutputShape()));
    std::fill_n(out->data<float>(), out->num_elements(), 0.0f);
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor in, ToFloat(context, context.input(0)));
    // Rows first: [batch, out_h, in_w, channels].
    MR_RETURN_IF_ERROR(CheckImageSize("The image between", s.batch, s.out_h, s.in_w, s.channels));
    MR_ASSIGN_OR_RETURN(
        Tensor between,
        context.AllocateTemp(DataType::kFloat, TensorShape({s.batch, s.out_h, s.in_w, s.channels})));
    std::fill_n(between.data<float>(), between.num_elements(), 0.0f);
    const int64_t in_row = s.in_w * s.channels, out_row = s.out_w * s.channels;
    const auto& rows = windows.first;
    const auto& columns = windows.second;
    context.ParallelFor(s.batch, s.out_h * in_row * kCostPerTapNs * 4, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        ForTaps(rows, [&](int64_t to, int64_t from, float weight) {
          AddScaled(in.data<float>() + (b * s.in_h + from) * in_row, weight, in_row,
                    between.data<float>() + (b * s.out_h + to) * in_row);
        });
        for (int64_t y = b * s.out_h; y < (b + 1) * s.out_h; ++y) {
          ForTaps(columns, [&](int64_t to, int64_t from, float weight) {
            AddScaled(between.data<float>() + y * in_row + from * s.channels, weight, s.channels,
                      out->data<float>() + y * out_row + to * s.channels);
          });
        }
      }
    });
    return Status();
  }
};

// Inputs: the gradients of the output, the original image, scale, translation. What was read is added to.
class ScaleAndTranslateGradKernel final : public ScaleAndTranslateBase {
 public:
  using ScaleAndTranslateBase::ScaleAndTranslateBase;
  Status Compute(KernelContext& context) override {
    const Tensor& grads = context.input(0);
    const Tensor& original = context.input(1);
    if (grads.rank() != 4) return errors::InvalidArgument("input_grad must be 4-dimensional", grads.shape());
    if (original.rank() != 4)
      return errors::InvalidArgument("original_image must be 4-dimensional", original.shape());
    if (grads.dim(0) != original.dim(0) || grads.dim(3) != original.dim(3)) {
      return errors::InvalidArgument("grads and original_image must have the same batch and channels: ",
                                     grads.shape(), " vs. ", original.shape());
    }
    MR_ASSIGN_OR_RETURN(const ResizeSizes s,
                        image::CheckResize(original.shape(), grads.dim(1), grads.dim(2)));
    MR_ASSIGN_OR_RETURN(const auto windows, ReadWindows(context, s));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, original.shape()));
    std::fill_n(out->data<float>(), out->num_elements(), 0.0f);
    if (out->num_elements() == 0) return Status();
    const int64_t in_row = s.in_w * s.channels, out_row = s.out_w * s.channels;
    const auto& rows = windows.first;
    const auto& columns = windows.second;
    context.ParallelFor(s.batch, s.out_h * in_row * kCostPerTapNs * 4, [&](int64_t begin, int64_t end) {
      std::vector<float> wide(static_cast<size_t>(in_row));
      for (int64_t b = begin; b < end; ++b) {
        int64_t spread = -1;  // the row of the gradients that `wide` was made from
        ForTaps(rows, [&](int64_t from, int64_t to, float weight) {
          if (from != spread) {
            std::fill(wide.begin(), wide.end(), 0.0f);
            ForTaps(columns, [&](int64_t x, int64_t at, float share) {
              AddScaled(grads.data<float>() + (b * s.out_h + from) * out_row + x * s.channels, share,
                        s.channels, wide.data() + at * s.channels);
            });
            spread = from;
          }
          AddScaled(wide.data(), weight, in_row, out->data<float>() + (b * s.in_h + to) * in_row);
        });
      }
    });
    return Status();
  }
};

}  // namespace

void RegisterScaleAndTranslateKernels(KernelRegistry& registry) {
  registry.Register<ScaleAndTranslateKernel>(KernelDef("ScaleAndTranslate").Types("T", RealTypes()));
  registry.Register<ScaleAndTranslateGradKernel>(KernelDef("ScaleAndTranslateGrad"));
}

}  // namespace millrace
