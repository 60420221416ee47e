// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Copy, CopyHost, DebugIdentity, DebugGradientIdentity, DebugNanCount and DebugNumericSummary.
#include <cmath>
#include <limits>

#include "kernels/cpu/debug/dump.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

// An op that writes its output to the folders of its debug_urls.
class DumpingKernel : public OpKernel {
 public:
  explicit DumpingKernel(KernelConstruction& c)
      : OpKernel(c),
        device_(c.Attr<std::string>("device_name")),
        tensor_(c.Attr<std::string>("tensor_name")),
        urls_(c.Attr<std::vector<std::string>>("debug_urls")) {
    if (Status status = CheckDumps(tensor_, urls_); !status.ok()) c.SetError(status);
  }

 protected:
  Status Give(KernelContext& context, Tensor value) const {
    if (!urls_.empty()) MR_RETURN_IF_ERROR(DumpTensor({device_, tensor_, op_name()}, urls_, value));
    context.set_output(0, std::move(value));
    return Status();
  }

 private:
  const std::string device_, tensor_;
  const std::vector<std::string> urls_;
};

class CopyKernel final : public OpKernel {
 public:
  explicit CopyKernel(KernelConstruction& c) : OpKernel(c) {
    if (!c.Attr<std::vector<std::string>>("debug_ops_spec").empty())
      c.SetError(errors::Unimplemented("Op ", c.props()->op->def.name,
                                       " does not publish to debuggers: 'debug_ops_spec' must be empty"));
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    ContextParallel parallel(context);
    if (in.num_elements() > 0)
      MoveElements(in.dtype(), in.raw_data(), out->raw_data(), in.num_elements(), parallel);
    return Status();
  }
};

class DebugIdentityKernel final : public DumpingKernel {
 public:
  using DumpingKernel::DumpingKernel;
  Status Compute(KernelContext& context) override { return Give(context, context.TakeInput(0)); }
};

class GradientIdentityKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    if (context.input_is_ref(0) && IsRefType(output_type(0))) {
      context.ForwardRef(0, 0);
    } else {
      context.set_output(0, context.TakeInput(0));
    }
    return Status();
  }
};

// Calls fn(double) for each element of a real type or bool.
template <typename Fn>
Status ForEachNumber(const KernelContext& context, const Tensor& in, Fn fn) {
  if (in.dtype() == DataType::kBool) {
    for (const bool x : in.flat<bool>()) fn(x ? 1.0 : 0.0);
    return Status();
  }
  return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
    for (const T& x : in.flat<T>()) {
      if constexpr (kIsSmallFloat<T>) {
        fn(static_cast<double>(static_cast<float>(x)));
      } else {
        fn(static_cast<double>(x));
      }
    }
    return Status();
  });
}

class NanCountKernel final : public DumpingKernel {
 public:
  using DumpingKernel::DumpingKernel;
  Status Compute(KernelContext& context) override {
    int64_t count = 0;
    MR_RETURN_IF_ERROR(
        ForEachNumber(context, context.input(0), [&](double x) { count += std::isnan(x) ? 1 : 0; }));
    return Give(context, Tensor::Vector<int64_t>({count}));
  }
};

// The numbers of DebugNumericSummary, except for the type and the shape.
struct Numbers {
  double nan = 0, lowest = 0, negative = 0, zero = 0, positive = 0, highest = 0;
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();
  double count = 0, sum = 0;  // of the finite ones
};

class NumericSummaryKernel final : public DumpingKernel {
 public:
  explicit NumericSummaryKernel(KernelConstruction& c)
      : DumpingKernel(c),
        lower_(static_cast<double>(c.Attr<float>("lower_bound"))),
        upper_(static_cast<double>(c.Attr<float>("upper_bound"))),
        mute_(c.Attr<bool>("mute_if_healthy")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    Numbers n;
    MR_RETURN_IF_ERROR(ForEachNumber(context, in, [&](double x) { Add(x, &n); }));
    if (mute_ && n.nan == 0 && n.lowest == 0 && n.highest == 0) {
      context.set_output(0, Tensor::Vector<double>({}));  // this output is not written to the folders
      return Status();
    }
    const double nan = std::numeric_limits<double>::quiet_NaN(), mean = n.count > 0 ? n.sum / n.count : nan;
    double squares = 0;
    MR_RETURN_IF_ERROR(ForEachNumber(context, in, [&](double x) {
      if (std::isfinite(x)) squares += (x - mean) * (x - mean);
    }));
    std::vector<double> out = {1,
                               static_cast<double>(in.num_elements()),
                               n.nan,
                               n.lowest,
                               n.negative,
                               n.zero,
                               n.positive,
                               n.highest,
                               n.min,
                               n.max,
                               mean,
                               n.count > 0 ? squares / n.count : nan,
                               static_cast<double>(in.dtype()),
                               static_cast<double>(in.rank())};
    for (const int64_t size : in.shape().dims()) out.push_back(static_cast<double>(size));
    return Give(context, Tensor::Vector<double>(out));
  }

 private:
  void Add(double x, Numbers* n) const {
    if (std::isnan(x)) {
      ++n->nan;
      return;
    }
    ++(x <= lower_   ? n->lowest
       : x >= upper_ ? n->highest
       : x < 0       ? n->negative
       : x > 0       ? n->positive
                     : n->zero);
    if (std::isinf(x)) return;
    n->min = std::min(n->min, x);
    n->max = std::max(n->max, x);
    n->sum += x;
    ++n->count;
  }

  const double lower_, upper_;
  const bool mute_;
};

}  // namespace

void RegisterDebugKernels(KernelRegistry& registry) {
  TypeList numbers = Concat(RealTypes(), {DataType::kBool});
  registry.Register<CopyKernel>(KernelDef("Copy"));
  registry.Register<CopyKernel>(KernelDef("CopyHost"));
  registry.Register<DebugIdentityKernel>(KernelDef("DebugIdentity"));
  registry.Register<GradientIdentityKernel>(KernelDef("DebugGradientIdentity"));
  registry.Register<GradientIdentityKernel>(KernelDef("DebugGradientRefIdentity"));
  registry.Register<NanCountKernel>(KernelDef("DebugNanCount").Types("T", numbers));
  registry.Register<NumericSummaryKernel>(KernelDef("DebugNumericSummary").Types("T", numbers));
}

}  // namespace millrace
