// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// FakeQuantWithMinMax…: values rounded to those that integers of few bits represent.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

// A range moved so that 0 is one of its steps.
struct Steps {
  Steps(float min, float max, int lowest, int highest) {
    const auto low = static_cast<float>(lowest), high = static_cast<float>(highest);
    scale = (max - min) / (high - low);
    const float from_min = low - min / scale;
    const float zero = from_min < low ? low : from_min > high ? high : std::round(from_min);
    least = (low - zero) * scale;
    most = (high - zero) * scale;
    none = min == 0 && max == 0;
  }
  float Nearest(float x) const { return none ? 0 : Nearest(x, scale, least, most); }
  static float Nearest(float x, float scale, float least, float most) {
    const float below = most < x ? most : x, clamped = below < least ? least : below;
    return Floor((clamped - least) / scale + 0.5f) * scale + least;
  }
  // Rounds a number of steps down. The baseline processor has no instruction for it.
  static float Floor(float x) {
    constexpr float kInteger = 0x1p23f;
    const float nearest = (x + kInteger) - kInteger;
    return nearest - (nearest > x ? 1.0f : 0.0f);  // without a branch
  }
  bool Inside(float x) const { return none || (x >= least && x <= most); }

  float scale, least, most;
  bool none;  // the range is empty
};

class FakeQuantKernel : public OpKernel {
 public:
  explicit FakeQuantKernel(KernelConstruction& c) : OpKernel(c) {
    const auto bits = c.Attr<int64_t>("num_bits");
    if (bits < 2 || bits > 16) {
      c.SetError(errors::InvalidArgument("num_bits must be between 2 and 16, inclusive"));
      return;
    }
    lowest_ = c.Attr<bool>("narrow_range") ? 1 : 0;
    highest_ = (1 << bits) - 1;
  }

 protected:
  Steps MakeSteps(float min, float max) const { return Steps(min, max, lowest_, highest_); }

  // Sets output 0 to fn of each element of an input, and of its number.
  template <typename Fn>
  static Status Map(KernelContext& context, int in, Fn fn) {
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, context.input(in).shape()));
    const float* from = context.input(in).data<float>();
    float* to = out->data<float>();
    context.ParallelFor(out->num_elements(), 4, [&](int64_t begin, int64_t end) {
      RunLoop([=]() MR_INLINE_LAMBDA {
        const Fn local = fn;
        for (int64_t i = begin; i < end; ++i) to[i] = local(from[i], i);
      });
    });
    return Status();
  }

 private:
  int lowest_ = 0, highest_ = 255;
};

class ArgsKernel : public FakeQuantKernel {
 public:
  explicit ArgsKernel(KernelConstruction& c)
      : FakeQuantKernel(c), min_(c.Attr<float>("min")), max_(c.Attr<float>("max")) {
    if (!(min_ < max_))
      c.SetError(errors::InvalidArgument("min has to be smaller than max, was: ", min_, " >= ", max_));
  }

 protected:
  const float min_, max_;
};

class ArgsForwardKernel final : public ArgsKernel {
 public:
  using ArgsKernel::ArgsKernel;
  Status Compute(KernelContext& context) override {
    const Steps steps = MakeSteps(min_, max_);
    return Map(context, 0, [steps](float x, int64_t) MR_INLINE_LAMBDA { return steps.Nearest(x); });
  }
};

class ArgsGradientKernel final : public ArgsKernel {
 public:
  using ArgsKernel::ArgsKernel;
  Status Compute(KernelContext& context) override {
    if (context.input(0).shape() != context.input(1).shape())
      return errors::InvalidArgument("gradient and input must be the same size");
    const Steps steps = MakeSteps(min_, max_);
    const float* grads = context.input(0).data<float>();
    return Map(context, 1, [steps, grads](float x, int64_t i) MR_INLINE_LAMBDA {
      return steps.Inside(x) ? grads[i] : 0.0f;
    });
  }
};

// The limits are inputs: scalars, or vectors with a value for each channel, the last dimension.
template <bool kChannels>
class VarsKernel : public FakeQuantKernel {
 public:
  using FakeQuantKernel::FakeQuantKernel;

 protected:
  // `first`: the input with the values; min and max follow.
  StatusOr<std::vector<Steps>> ReadSteps(const KernelContext& context, int first) const {
    const Tensor& in = context.input(first);
    if (kChannels && in.rank() < 1)
      return errors::InvalidArgument("inputs must be at least 1-D, got shape ", in.shape());
    const int64_t depth = kChannels ? in.dim(in.rank() - 1) : 1;
    for (int i = 1; i <= 2; ++i) {
      const Tensor& limit = context.input(first + i);
      const char* name = i == 1 ? "min" : "max";
      if (!kChannels) {
        MR_RETURN_IF_ERROR(RequireScalar(limit, name));
      } else if (!limit.shape().IsVector()) {
        return errors::InvalidArgument(name, " must be a vector, got shape ", limit.shape());
      } else if (limit.dim(0) != depth) {
        return errors::InvalidArgument(name, " has incorrect size, expected ", depth, " was ", limit.dim(0));
      }
    }
    std::vector<Steps> steps;
    for (int64_t c = 0; c < depth; ++c)
      steps.push_back(
          MakeSteps(context.input(first + 1).data<float>()[c], context.input(first + 2).data<float>()[c]));
    return steps;
  }
};

template <bool kChannels>
class VarsForwardKernel final : public VarsKernel<kChannels> {
 public:
  using VarsKernel<kChannels>::VarsKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const std::vector<Steps> steps, this->ReadSteps(context, 0));
    if (!kChannels) {
      const Steps all = steps[0];
      return this->Map(context, 0, [all](float x, int64_t) MR_INLINE_LAMBDA { return all.Nearest(x); });
    }
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, context.input(0).shape()));
    const size_t depth = steps.size();
    // An array for each part, so that loops over channels are vectorised.
    std::vector<float> scale(depth), least(depth), most(depth), ranges(depth);
    for (size_t c = 0; c < depth; ++c) {
      scale[c] = steps[c].scale;
      least[c] = steps[c].least;
      most[c] = steps[c].most;
      ranges[c] = steps[c].none ? 0.0f : 1.0f;
    }
    const int64_t rows = depth == 0 ? 0 : out->num_elements() / static_cast<int64_t>(depth);
    context.ParallelFor(rows, static_cast<int64_t>(depth) * 4, [&](int64_t begin, int64_t end) {
      const auto first = static_cast<size_t>(begin) * depth;
      const float* from = context.input(0).data<float>() + first;
      float* to = out->data<float>() + first;
      RunLoop([=, by = scale.data(), low = least.data(), high = most.data(), in_use = ranges.data()]()
                  MR_INLINE_LAMBDA {
                    const float* row = from;
                    float* out_row = to;
                    for (int64_t r = begin; r < end; ++r, row += depth, out_row += depth) {
                      for (size_t c = 0; c < depth; ++c) {
                        const float nearest = Steps::Nearest(row[c], by[c], low[c], high[c]);
                        out_row[c] = in_use[c] == 0 ? 0.0f : nearest;
                      }
                    }
                  });
    });
    return Status();
  }
};

template <bool kChannels>
class VarsGradientKernel final : public VarsKernel<kChannels> {
 public:
  using VarsKernel<kChannels>::VarsKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& grads = context.input(0);
    const Tensor& in = context.input(1);
    if (grads.shape() != in.shape())
      return errors::InvalidArgument("gradient and input must be the same size");
    MR_ASSIGN_OR_RETURN(const std::vector<Steps> steps, this->ReadSteps(context, 1));
    const size_t depth = steps.size();
    MR_ASSIGN_OR_RETURN(Tensor * min, context.AllocateOutput(1, context.input(2).shape()));
    MR_ASSIGN_OR_RETURN(Tensor * max, context.AllocateOutput(2, context.input(3).shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    std::vector<double> below(depth), above(depth);
    const int64_t n = in.num_elements();
    if (depth == 1) {
      Whole(steps[0], grads.data<float>(), in.data<float>(), n, out->data<float>(), &below[0], &above[0]);
    } else if (n > 0) {
      std::vector<float> least, most;
      for (const Steps& s : steps) {
        // With an empty range all values are inside.
        constexpr float kInf = std::numeric_limits<float>::infinity();
        least.push_back(s.none ? -kInf : s.least);
        most.push_back(s.none ? kInf : s.most);
      }
      Channels(steps, least.data(), most.data(), grads.data<float>(), in.data<float>(),
               n / static_cast<int64_t>(depth), out->data<float>(), below.data(), above.data());
    }
    for (size_t c = 0; c < depth; ++c) {
      min->data<float>()[c] = static_cast<float>(below[c]);
      max->data<float>()[c] = static_cast<float>(above[c]);
    }
    return Status();
  }

 private:
  // All elements have one range. The sums have kLanes parts.
  static void Whole(const Steps& s, const float* dy, const float* x, int64_t n, float* dx, double* below,
                    double* above) {
    constexpr int kLanes = 16;
    double lower[kLanes] = {}, upper[kLanes] = {};
    RunLoop([&, least = s.least, most = s.most, none = s.none]() MR_INLINE_LAMBDA {
      double less[kLanes] = {}, more[kLanes] = {};
      float low[kLanes], high[kLanes];
      const auto element = [&, dy, x, dx](int64_t i, int k) MR_INLINE_LAMBDA {
        const float d = dy[i], v = x[i];
        dx[i] = (none | ((v >= least) & (v <= most))) ? d : 0.0f;
        low[k] = (!none & (v < least)) ? d : 0.0f;
        high[k] = (!none & (v > most)) ? d : 0.0f;
      };
      int64_t i = 0;
      for (; i + kLanes <= n; i += kLanes) {
        ForLanes<kLanes>([&](int k) MR_INLINE_LAMBDA { element(i + k, k); });
        ForLanes<kLanes>([&](int k) MR_INLINE_LAMBDA { less[k] += static_cast<double>(low[k]); });
        ForLanes<kLanes>([&](int k) MR_INLINE_LAMBDA { more[k] += static_cast<double>(high[k]); });
      }
      for (int k = 0; i < n; ++i, ++k) {
        element(i, k);
        less[k] += static_cast<double>(low[k]);
        more[k] += static_cast<double>(high[k]);
      }
      for (int64_t k = 0; k < kLanes; ++k) {
        lower[k] = less[k];
        upper[k] = more[k];
      }
    });
    for (int64_t k = 0; k < kLanes; ++k) {
      *below += lower[k];
      *above += upper[k];
    }
  }
  // Rows of channels, each with a separate range.
  static void Channels(const std::vector<Steps>& steps, const float* least, const float* most,
                       const float* dy, const float* x, int64_t rows, float* dx, double* below,
                       double* above) {
    const auto depth = static_cast<int64_t>(steps.size());
    std::vector<float> none;
    for (const Steps& s : steps) none.push_back(s.none ? 1.0f : 0.0f);
    RunLoop([=, everywhere = none.data()]() MR_INLINE_LAMBDA {
      int64_t i = 0;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < depth; ++c, ++i) {
          const float d = dy[i], v = x[i];
          // Includes NaN values with an empty range.
          dx[i] = (((v >= least[c]) & (v <= most[c])) | (everywhere[c] != 0)) ? d : 0.0f;
          below[c] += static_cast<double>(v < least[c] ? d : 0.0f);
          above[c] += static_cast<double>(v > most[c] ? d : 0.0f);
        }
      }
    });
  }
};

}  // namespace

void RegisterFakeQuantKernels(KernelRegistry& registry) {
  registry.Register<ArgsForwardKernel>(KernelDef("FakeQuantWithMinMaxArgs"));
  registry.Register<ArgsGradientKernel>(KernelDef("FakeQuantWithMinMaxArgsGradient"));
  registry.Register<VarsForwardKernel<false>>(KernelDef("FakeQuantWithMinMaxVars"));
  registry.Register<VarsGradientKernel<false>>(KernelDef("FakeQuantWithMinMaxVarsGradient"));
  registry.Register<VarsForwardKernel<true>>(KernelDef("FakeQuantWithMinMaxVarsPerChannel"));
  registry.Register<VarsGradientKernel<true>>(KernelDef("FakeQuantWithMinMaxVarsPerChannelGradient"));
}

}  // namespace millrace
