// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kernels/cpu/contract/bf16.h"
#include "kernels/cpu/contract/conv.h"
#include "kernels/cpu/nn/fused.h"
#include "kernels/cpu/nn/packed_weights.h"
#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

// The common attributes of the three convolution ops, and plans for recent shapes.
class ConvKernel : public OpKernel {
 public:
  explicit ConvKernel(KernelConstruction& c)
      : OpKernel(c),
        dims_(ReadImageDims(c)),
        strides_(ReadSpatialAttr(c, "strides", dims_)),
        dilations_(c.HasAttr("dilations") ? ReadSpatialAttr(c, "dilations", dims_) : SpatialAttr{}),
        padding_(ReadPadding(c)),
        rounds_(RoundsFactors(c)) {
    if (padding_ == Padding::kExplicit) ReadExplicitPaddings(c);
  }

 protected:
  // `image` and `filter` are the shapes of the forward input and the filter.
  StatusOr<cpu::ConvParams> MakeParams(const TensorShape& image, const TensorShape& filter) const {
    if (image.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", image);
    if (filter.rank() != 4) return errors::InvalidArgument("filter must be 4-dimensional: ", filter);
    cpu::ConvParams p;
    p.layout = dims_.nchw ? cpu::ImageLayout::kNchw : cpu::ImageLayout::kNhwc;
    p.batch = image.dim(dims_.batch());
    p.in_h = image.dim(dims_.height());
    p.in_w = image.dim(dims_.width());
    p.in_c = image.dim(dims_.channel());
    p.filter_h = filter.dim(0);
    p.filter_w = filter.dim(1);
    p.out_c = filter.dim(3);
    if (filter.dim(2) != p.in_c) return DepthError(p.in_c, filter.dim(2));
    if (p.filter_h <= 0 || p.filter_w <= 0)
      return errors::InvalidArgument("filter must not be empty: ", filter);
    p.stride_h = strides_.h;
    p.stride_w = strides_.w;
    p.dilation_h = dilations_.h;
    p.dilation_w = dilations_.w;
    const Padding windows = padding_ == Padding::kExplicit ? Padding::kValid : padding_;
    MR_ASSIGN_OR_RETURN(const WindowedOutput rows,
                        GetWindowedOutput(p.in_h + margins_.top + margins_.bottom, p.filter_h, p.dilation_h,
                                          p.stride_h, windows));
    MR_ASSIGN_OR_RETURN(const WindowedOutput columns,
                        GetWindowedOutput(p.in_w + margins_.left + margins_.right, p.filter_w, p.dilation_w,
                                          p.stride_w, windows));
    p.out_h = rows.size;
    p.out_w = columns.size;
    p.pad_top = rows.pad_before + margins_.top;
    p.pad_left = columns.pad_before + margins_.left;
    MR_RETURN_IF_ERROR(CheckImageSize("The convolution's output", p.batch, p.out_h, p.out_w, p.out_c));
    return p;
  }

  TensorShape OutputShape(const cpu::ConvParams& p) const {
    return dims_.Shape(p.batch, p.out_h, p.out_w, p.out_c);
  }

  // Checks that the gradient has the shape of the forward output. The texts and the order of the checks are
  // TensorFlow's.
  StatusOr<cpu::ConvParams> MakeGradientParams(const TensorShape& image, const TensorShape& filter,
                                               const TensorShape& gradient) const {
    const std::string label =
        op_name() == "Conv2DBackpropInput" ? "Conv2DCustomBackpropInput" : "Conv2DCustomBackpropFilter";
    if (image.rank() != 4) return errors::InvalidArgument(label, ": input must be 4-dimensional");
    if (filter.rank() != 4) return errors::InvalidArgument(label, ": filter must be 4-dimensional");
    if (gradient.rank() != 4) return errors::InvalidArgument(label, ": out_backprop must be 4-dimensional");
    const int64_t batch = image.dim(dims_.batch());
    if (gradient.dim(dims_.batch()) != batch) {
      return errors::InvalidArgument(
          label, ": input and out_backprop must have the same batch sizeinput batch: ", batch,
          "outbackprop batch: ", gradient.dim(dims_.batch()), " batch_dim: ", dims_.batch());
    }
    const int64_t depth = image.dim(dims_.channel()), filter_depth = filter.dim(2);
    if (filter_depth == 0 ? depth != 0 : depth % filter_depth != 0) {
      return errors::InvalidArgument(label, ": input depth must be evenly divisible by filter depth");
    }
    if (gradient.dim(dims_.channel()) != filter.dim(3)) {
      return errors::InvalidArgument(label, ": filter and out_backprop must have the same out_depth");
    }
    if (depth != filter_depth) {
      return errors::Unimplemented(
          "Gradients for grouped convolutions are not supported on CPU. Please file a feature request if you "
          "run "
          "into this issue. Computed input depth ",
          depth, " doesn't match filter input depth ", filter_depth);
    }
    MR_ASSIGN_OR_RETURN(const cpu::ConvParams p, MakeParams(image, filter));
    if (gradient == OutputShape(p)) return p;
    const bool rows = gradient.dim(dims_.height()) != p.out_h;
    const int axis = rows ? dims_.height() : dims_.width();
    const int64_t actual = gradient.dim(axis);
    return errors::InvalidArgument(
        label, ": Size of out_backprop doesn't match computed: actual = ", actual,
        ", computed = ", rows ? p.out_h : p.out_w, " spatial_dim: ", axis, " input: ", rows ? p.in_h : p.in_w,
        " filter: ", rows ? p.filter_h : p.filter_w, " output: ", actual,
        " stride: ", rows ? p.stride_h : p.stride_w, " dilation: ", rows ? p.dilation_h : p.dilation_w);
  }

  static Status DepthError(int64_t depth, int64_t filter_depth) {
    if (filter_depth == 0 || depth % filter_depth != 0) {
      return errors::InvalidArgument("input depth must be evenly divisible by filter depth: ", depth, " vs ",
                                     filter_depth);
    }
    return errors::Unimplemented(
        "The Conv2D op currently does not support grouped convolutions on the CPU. A grouped convolution was "
        "attempted "
        "to be run because the input depth of ",
        depth, " does not match the filter input depth of ", filter_depth);
  }

  // Keeps plans for recent shapes.
  std::shared_ptr<const cpu::ConvPlan> PlanFor(const cpu::ConvParams& p) {
    MutexLock lock(mu_);
    for (const auto& plan : plans_) {
      if (plan->params() == p) return plan;
    }
    if (plans_.size() == kMaxPlans) plans_.erase(plans_.begin());
    return plans_.emplace_back(std::make_shared<const cpu::ConvPlan>(p));
  }

  // Explicit padding, in addition to that of SAME.
  struct Margins {
    int64_t top = 0, bottom = 0, left = 0, right = 0;
  };
  static constexpr int64_t kMaxMargin = int64_t{1} << 30;

  const ImageDims dims_;
  const SpatialAttr strides_, dilations_;
  const Padding padding_;
  const bool rounds_;  // rounds factors from float to bfloat16
  Margins margins_;

 private:
  // Two for each dimension of the image.
  void ReadExplicitPaddings(KernelConstruction& c) {
    const auto given = c.Attr<std::vector<int64_t>>("explicit_paddings");
    if (!c.status().ok()) return;
    const auto at = [&](int dim, int side) { return given[static_cast<size_t>(2 * dim + side)]; };
    const bool possible =
        given.size() == 8 &&
        std::all_of(given.begin(), given.end(), [](int64_t m) { return m >= 0 && m <= kMaxMargin; }) &&
        at(dims_.batch(), 0) + at(dims_.batch(), 1) + at(dims_.channel(), 0) + at(dims_.channel(), 1) == 0;
    if (!possible) {
      c.SetError(errors::InvalidArgument(
          "explicit_paddings must be two sizes for each dimension, zero for batch and depth"));
      return;
    }
    margins_ = {at(dims_.height(), 0), at(dims_.height(), 1), at(dims_.width(), 0), at(dims_.width(), 1)};
  }

  static constexpr size_t kMaxPlans = 4;
  Mutex mu_;
  std::vector<std::shared_ptr<const cpu::ConvPlan>> plans_ MR_GUARDED_BY(mu_);
};

// Runs `compute(a, b, out)` on float or double pointers; half types go through float.
template <typename Fn>
Status RunAsReal(KernelContext& context, const Tensor& a, const Tensor& b, Tensor* out, Fn compute) {
  if (a.dtype() == DataType::kFloat) {
    compute(a.data<float>(), b.data<float>(), out->data<float>());
  } else if (a.dtype() == DataType::kDouble) {
    compute(a.data<double>(), b.data<double>(), out->data<double>());
  } else {
    MR_ASSIGN_OR_RETURN(const Tensor fa, ToFloat(context, a));
    MR_ASSIGN_OR_RETURN(const Tensor fb, ToFloat(context, b));
    MR_ASSIGN_OR_RETURN(Tensor result, context.AllocateTemp(DataType::kFloat, out->shape()));
    compute(fa.data<float>(), fb.data<float>(), result.data<float>());
    FromFloat(context, result, out);
  }
  return Status();
}

// Runs `compute(a, b, out)` on the bits of bfloat16 tensors, or with `rounds` on floats; false if it returns
// false, or if neither applies: another algorithm is needed.
template <typename Fn>
bool RunAsBf16(bool rounds, const Tensor& a, const Tensor& b, Tensor* out, Fn compute) {
  if (a.dtype() == DataType::kBfloat16) return compute(Bf16Bits(a), Bf16Bits(b), Bf16Bits(*out));
  return rounds && a.dtype() == DataType::kFloat &&
         compute(a.data<float>(), b.data<float>(), out->data<float>());
}

class Conv2DKernel final : public ConvKernel {
 public:
  using ConvKernel::ConvKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Tensor& filter = context.input(1);
    MR_ASSIGN_OR_RETURN(const cpu::ConvParams p, MakeParams(input.shape(), filter.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, OutputShape(p)));
    if (out->num_elements() == 0) return Status();
    ContextParallel parallel(context);
    if (RunAsBf16(rounds_, input, filter, out, [&](const auto* x, const auto* w, auto* y) {
          return cpu::ConvBf16(p, x, w, y, parallel);
        })) {
      return Status();
    }
    const auto plan = PlanFor(p);
    return RunAsReal(context, input, filter, out,
                     [&](const auto* x, const auto* w, auto* y) { plan->Forward(x, w, y, parallel); });
  }
};

class FusedConv2DKernel final : public ConvKernel {
 public:
  explicit FusedConv2DKernel(KernelConstruction& c)
      : ConvKernel(c),
        keep_weights_(c.Attr<bool>("keep_weights")),
        epilogue_(c),
        packed_(c.device().allocator()) {
    const auto margins = c.Attr<std::vector<int64_t>>("margins");
    if (margins.empty()) return;
    if (margins.size() != 4 || padding_ != Padding::kValid ||
        std::any_of(margins.begin(), margins.end(), [](int64_t m) { return m < 0 || m > kMaxMargin; })) {
      c.SetError(errors::InvalidArgument("Margins must be four sizes, and the padding VALID"));
      return;
    }
    margins_ = {margins[0], margins[1], margins[2], margins[3]};
  }
  Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Tensor& filter = context.input(1);
    MR_ASSIGN_OR_RETURN(const cpu::ConvParams p, MakeParams(input.shape(), filter.shape()));
    MR_ASSIGN_OR_RETURN(const FusedEpilogue::Bound bound,
                        epilogue_.Bind(context, 2, p.out_c, OutputShape(p)));
    MR_ASSIGN_OR_RETURN(Tensor result, context.AllocateTemp(DataType::kFloat, OutputShape(p)));
    if (result.num_elements() > 0) {
      ContextParallel parallel(context);
      if (rounds_ && ConvolveRounded(p, input, filter, &result, parallel, bound.epilogue))
        return epilogue_.Finish(context, bound, std::move(result));
      const auto plan = PlanFor(p);
      Tensor packed;
      if (const auto shape = plan->packing(); keep_weights_ && shape.has_value()) {
        packed = packed_.Find(filter, *shape, p.out_c, /*transposed=*/false);
        if (shape->winograd && packed.num_elements() == 0) {  // so that all steps give the same bits
          MR_ASSIGN_OR_RETURN(
              packed,
              context.AllocateTemp(DataType::kFloat, TensorShape({cpu::PackedElements<float>(*shape)})));
          cpu::PackMatrix(*shape, filter.data<float>(), p.out_c, /*transposed=*/false, packed.data<float>());
        }
      }
      plan->Forward(input.data<float>(), filter.data<float>(), result.data<float>(), parallel, bound.epilogue,
                    packed.num_elements() > 0 ? packed.data<float>() : nullptr);
    }
    return epilogue_.Finish(context, bound, std::move(result));
  }

 private:
  bool ConvolveRounded(const cpu::ConvParams& p, const Tensor& input, const Tensor& filter, Tensor* result,
                       cpu::Parallel& parallel, const cpu::GemmEpilogue<float>& epilogue) {
    const int64_t depth = p.filter_h * p.filter_w * p.in_c;
    if (cpu::ActiveBf16Unit() == cpu::Bf16Unit::kNone) return false;
    Tensor packed;
    if (keep_weights_ && depth > 0)
      packed = packed_.FindBf16(filter, depth, p.out_c, /*transposed=*/false, parallel);
    return cpu::ConvBf16(p, input.data<float>(), filter.data<float>(), result->data<float>(), parallel,
                         epilogue, packed.num_elements() > 0 ? Bf16Bits(std::as_const(packed)) : nullptr);
  }

  const bool keep_weights_;
  const FusedEpilogue epilogue_;
  PackedWeights packed_;
};

// `who`: the start of TensorFlow's message.
StatusOr<TensorShape> SizesArgument(const Tensor& sizes, std::string_view who, const char* name) {
  if (sizes.rank() != 1)
    return errors::InvalidArgument(who, ": ", name, " input must be 1-dim, not ", sizes.rank());
  return ShapeFromTensor(sizes, name);
}

class Conv2DBackpropInputKernel final : public ConvKernel {
 public:
  using ConvKernel::ConvKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorShape image,
                        SizesArgument(context.input(0), "Conv2DBackpropInput", "input_sizes"));
    const Tensor& filter = context.input(1);
    const Tensor& gradient = context.input(2);
    MR_ASSIGN_OR_RETURN(const cpu::ConvParams p, MakeGradientParams(image, filter.shape(), gradient.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, image));
    if (out->num_elements() == 0) return Status();
    ContextParallel parallel(context);
    if (RunAsBf16(rounds_, filter, gradient, out, [&](const auto* w, const auto* dy, auto* dx) {
          return cpu::ConvBackpropInputBf16(p, w, dy, dx, parallel);
        })) {
      return Status();
    }
    const auto plan = PlanFor(p);
    return RunAsReal(context, filter, gradient, out, [&](const auto* w, const auto* dy, auto* dx) {
      plan->BackpropInput(w, dy, dx, parallel);
    });
  }
};

class Conv2DBackpropFilterKernel final : public ConvKernel {
 public:
  using ConvKernel::ConvKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    MR_ASSIGN_OR_RETURN(const TensorShape filter,
                        SizesArgument(context.input(1), "Conv2DCustomBackpropFilter", "filter_sizes"));
    const Tensor& gradient = context.input(2);
    MR_ASSIGN_OR_RETURN(const cpu::ConvParams p, MakeGradientParams(input.shape(), filter, gradient.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, filter));
    if (out->num_elements() == 0) return Status();
    ContextParallel parallel(context);
    if (RunAsBf16(rounds_, input, gradient, out, [&](const auto* x, const auto* dy, auto* dw) {
          return cpu::ConvBackpropFilterBf16(p, x, dy, dw, parallel);
        })) {
      return Status();
    }
    const auto plan = PlanFor(p);
    return RunAsReal(context, input, gradient, out, [&](const auto* x, const auto* dy, auto* dw) {
      plan->BackpropFilter(x, dy, dw, parallel);
    });
  }
};

}  // namespace

void RegisterNnConvKernels(KernelRegistry& registry) {
  registry.Register<Conv2DKernel>(KernelDef("Conv2D").Types("T", FloatTypes()));
  registry.Register<FusedConv2DKernel>(KernelDef("_FusedConv2D").Types("T", {DataType::kFloat}));
  registry.Register<Conv2DBackpropInputKernel>(KernelDef("Conv2DBackpropInput").Types("T", FloatTypes()));
  registry.Register<Conv2DBackpropFilterKernel>(KernelDef("Conv2DBackpropFilter").Types("T", FloatTypes()));
}

}  // namespace millrace
