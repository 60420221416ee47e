// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ScaleAndTranslate and its gradient: each pixel of the output is a weighted mean of a window of the input.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/image/scaling.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

using image::ResizeSizes;

constexpr double kCostPerTapNs = 0.2;
// The most taps of the windows of all rows, or of all columns.
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

// The window of each pixel of the output: its start and its weights, none for pixels outside the input.
struct Windows {
  std::vector<int64_t> start;
  std::vector<int64_t> first_weight;  // followed by the total number
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
    const size_t first = w.weights.size();
    for (int64_t k = begin; k <= last; ++k) {
      w.weights.push_back(sampler.weight(std::abs((static_cast<float>(k) + 0.5f - centre) / stretch)));
      sum += w.weights.back();
    }
    w.start.back() = begin;
    if (std::abs(sum) < 1000.0f * std::numeric_limits<float>::min()) {
      w.weights.resize(first);
      continue;
    }
    for (size_t k = first; k < w.weights.size(); ++k) w.weights[k] /= sum;
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
  // From inputs 2 and 3, for rows and for columns.
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

// For each of `in` pixels the outputs whose windows contain it, which are consecutive, with the same weights.
StatusOr<Windows> Transposed(const Windows& w, int64_t in) {
  const auto out = static_cast<int64_t>(w.start.size());
  const auto taps = [&](int64_t i) {
    return w.first_weight[static_cast<size_t>(i) + 1] - w.first_weight[static_cast<size_t>(i)];
  };
  std::vector<int64_t> ends(static_cast<size_t>(in), 0);
  Windows t;
  t.start.assign(static_cast<size_t>(in), 0);
  for (int64_t i = 0; i < out; ++i) {
    const int64_t start = w.start[static_cast<size_t>(i)];
    for (int64_t k = start; k < start + taps(i); ++k) {
      const auto pixel = static_cast<size_t>(k);
      if (ends[pixel] == 0) t.start[pixel] = i;
      ends[pixel] = i + 1;
    }
  }
  int64_t total = 0;
  for (size_t pixel = 0; pixel < ends.size(); ++pixel) {
    t.first_weight.push_back(total);
    if (ends[pixel] > 0) total += ends[pixel] - t.start[pixel];
    if (total > kMostTaps)
      return errors::ResourceExhausted("The windows have more than ", kMostTaps, " weights");
  }
  t.first_weight.push_back(total);
  t.weights.assign(static_cast<size_t>(total), 0.0f);  // also for outputs between these without weights
  for (int64_t i = 0; i < out; ++i) {
    for (int64_t k = 0; k < taps(i); ++k) {
      const auto pixel = static_cast<size_t>(w.start[static_cast<size_t>(i)] + k);
      t.weights[static_cast<size_t>(t.first_weight[pixel] + i - t.start[pixel])] =
          w.weights[static_cast<size_t>(w.first_weight[static_cast<size_t>(i)] + k)];
    }
  }
  return t;
}

// to[i] = the sum of weights[k] * from[k * stride + i] for k < taps, i < n.
inline MR_INLINE_LAMBDA void WeightedSum(const float* from, int64_t stride, const float* weights,
                                         int64_t taps, int64_t n, float* to) {
  const auto block = [&](auto lanes, int64_t i) MR_INLINE_LAMBDA {
    float sums[lanes()];
    ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { sums[l] = 0; });
    const float* x = from + i;
    for (int64_t k = 0; k < taps; ++k, x += stride)
      ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { sums[l] += x[l] * weights[k]; });
    ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { to[i + l] = sums[l]; });
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) block(std::integral_constant<int, 16>(), i);
  for (; i + 4 <= n; i += 4) block(std::integral_constant<int, 4>(), i);
  for (; i < n; ++i) block(std::integral_constant<int, 1>(), i);
}

// images: [batch, in_h, in_w, channels]; out: [batch, windows of rows, windows of columns, channels].
struct Images {
  int64_t batch, in_h, in_w, channels;
};
void Resample(const KernelContext& context, const Images& s, const Windows& rows, const Windows& columns,
              const float* images, float* out) {
  const auto out_h = static_cast<int64_t>(rows.start.size()),
             out_w = static_cast<int64_t>(columns.start.size());
  const int64_t in_row = s.in_w * s.channels;
  const double row_taps = static_cast<double>(rows.weights.size()) / static_cast<double>(out_h);
  const double cost =
      kCostPerTapNs * (row_taps * static_cast<double>(in_row) +
                       static_cast<double>(columns.weights.size()) * static_cast<double>(s.channels));
  context.ParallelFor(
      s.batch * out_h, static_cast<int64_t>(std::min(cost, 1e9)) + 1, [&](int64_t begin, int64_t end) {
        std::vector<float> wide(static_cast<size_t>(in_row));
        for (int64_t r = begin; r < end; ++r) {
          const auto y = static_cast<size_t>(r % out_h);
          const float* const from = images + (r / out_h * s.in_h + rows.start[y]) * in_row;
          const int64_t first = rows.first_weight[y], taps = rows.first_weight[y + 1] - first;
          RunLoop([=, weights = rows.weights.data(), row = wide.data(), to = out + r * out_w * s.channels,
                   starts = columns.start.data(), firsts = columns.first_weight.data(),
                   shares = columns.weights.data(), channels = s.channels]() MR_INLINE_LAMBDA {
            WeightedSum(from, in_row, weights + first, taps, in_row, row);
            for (int64_t x = 0; x < out_w; ++x) {
              WeightedSum(row + starts[x] * channels, channels, shares + firsts[x], firsts[x + 1] - firsts[x],
                          channels, to + x * channels);
            }
          });
        }
      });
}

// Inputs: images, size, scale, translation.
class ScaleAndTranslateKernel final : public ScaleAndTranslateBase {
 public:
  using ScaleAndTranslateBase::ScaleAndTranslateBase;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const ResizeSizes s, image::CheckResize(context.input(0), context.input(1)));
    MR_ASSIGN_OR_RETURN(const auto windows, ReadWindows(context, s));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, s.OutputShape()));
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor in, ToFloat(context, context.input(0)));
    Resample(context, {s.batch, s.in_h, s.in_w, s.channels}, windows.first, windows.second, in.data<float>(),
             out->data<float>());
    return Status();
  }
};

// Inputs: the gradients of the output, the original image, scale, translation. Uses the transposed windows.
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
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Windows rows, Transposed(windows.first, s.in_h));
    MR_ASSIGN_OR_RETURN(const Windows columns, Transposed(windows.second, s.in_w));
    Resample(context, {s.batch, s.out_h, s.out_w, s.channels}, rows, columns, grads.data<float>(),
             out->data<float>());
    return Status();
  }
};

}  // namespace

void RegisterScaleAndTranslateKernels(KernelRegistry& registry) {
  registry.Register<ScaleAndTranslateKernel>(KernelDef("ScaleAndTranslate").Types("T", RealTypes()));
  registry.Register<ScaleAndTranslateGradKernel>(KernelDef("ScaleAndTranslateGrad"));
}

}  // namespace millrace
