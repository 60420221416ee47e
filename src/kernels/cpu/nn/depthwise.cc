// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// DepthwiseConv2dNative and its gradients.
#include "kernels/cpu/vector/depthwise.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/nn/fused.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/transpose.h"

namespace millrace {
namespace {

constexpr int kToNhwc[4] = {0, 2, 3, 1};
constexpr int kToNchw[4] = {0, 3, 1, 2};

// The routines filter as many channels as there are outputs. With several filters for each input channel, its
// channels are repeated first, and the gradients of the repetitions are summed afterwards.
template <typename T>
void Repeat(const T* in, int64_t n, int64_t times, T* out, cpu::Parallel& parallel) {
  parallel.For(n, times, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::fill_n(out + i * times, times, in[i]);
  });
}
template <typename T>
void SumRepeats(const T* in, int64_t n, int64_t times, T* out, cpu::Parallel& parallel) {
  parallel.For(n, times, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T sum = 0;
      for (int64_t k = 0; k < times; ++k) sum += in[i * times + k];
      out[i] = sum;
    }
  });
}

class DepthwiseKernel : public OpKernel {
 public:
  explicit DepthwiseKernel(KernelConstruction& c)
      : OpKernel(c),
        dims_(ReadImageDims(c)),
        strides_(ReadSpatialAttr(c, "strides", dims_)),
        dilations_(ReadSpatialAttr(c, "dilations", dims_)),
        padding_(ReadPadding(c)) {}

 protected:
  struct Sizes {
    cpu::DepthwiseParams p;  // `channels` are those of the output
    int64_t multiplier = 1;
    TensorShape input, output;  // as NHWC
  };

  StatusOr<Sizes> MakeSizes(const TensorShape& image, const TensorShape& filter) const {
    if (image.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", image);
    if (filter.rank() != 4) return errors::InvalidArgument("filter must be 4-dimensional: ", filter);
    Sizes s;
    const int64_t in_c = image.dim(dims_.channel());
    if (filter.dim(2) != in_c) {
      return errors::InvalidArgument("input and filter must have the same depth: ", in_c, " vs ",
                                     filter.dim(2));
    }
    s.multiplier = filter.dim(3);
    cpu::DepthwiseParams& p = s.p;
    p.batch = image.dim(0);
    p.in_h = image.dim(dims_.height());
    p.in_w = image.dim(dims_.width());
    p.filter_h = filter.dim(0);
    p.filter_w = filter.dim(1);
    if (p.filter_h <= 0 || p.filter_w <= 0)
      return errors::InvalidArgument("filter must not be empty: ", filter);
    if (!MultiplyFits(in_c, s.multiplier, &p.channels))
      return errors::InvalidArgument("The output has too many channels");
    p.stride_h = strides_.h;
    p.stride_w = strides_.w;
    p.dilation_h = dilations_.h;
    p.dilation_w = dilations_.w;
    MR_ASSIGN_OR_RETURN(const WindowedOutput rows,
                        GetWindowedOutput(p.in_h + margins_.top + margins_.bottom, p.filter_h, p.dilation_h,
                                          p.stride_h, padding_));
    MR_ASSIGN_OR_RETURN(const WindowedOutput columns,
                        GetWindowedOutput(p.in_w + margins_.left + margins_.right, p.filter_w, p.dilation_w,
                                          p.stride_w, padding_));
    p.out_h = rows.size;
    p.out_w = columns.size;
    p.pad_top = rows.pad_before + margins_.top;
    p.pad_left = columns.pad_before + margins_.left;
    MR_RETURN_IF_ERROR(CheckImageSize("The convolution's output", p.batch, p.out_h, p.out_w, p.channels));
    MR_RETURN_IF_ERROR(CheckImageSize("The repeated input", p.batch, p.in_h, p.in_w, p.channels));
    s.input = TensorShape({p.batch, p.in_h, p.in_w, in_c});
    s.output = TensorShape({p.batch, p.out_h, p.out_w, p.channels});
    return s;
  }

  TensorShape OutputShape(const cpu::DepthwiseParams& p) const {
    return dims_.Shape(p.batch, p.out_h, p.out_w, p.channels);
  }
  Status CheckGradient(const Sizes& s, const Tensor& gradient) const {
    if (gradient.shape() == OutputShape(s.p)) return Status();
    return errors::InvalidArgument(op_name(), ": Size of out_backprop doesn't match computed: actual = ",
                                   gradient.shape(), ", computed = ", OutputShape(s.p));
  }

  static DataType WorkType(DataType t) {
    return t == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  }

  // An image as NHWC of float or double.
  StatusOr<Tensor> ImageToWork(KernelContext& context, const Tensor& image) const {
    Tensor work = image;
    if (image.dtype() != DataType::kDouble) {
      MR_ASSIGN_OR_RETURN(work, ToFloat(context, image));
    }
    if (!dims_.nchw) return work;
    const TensorShape nhwc({image.dim(0), image.dim(2), image.dim(3), image.dim(1)});
    MR_ASSIGN_OR_RETURN(Tensor moved, context.AllocateTemp(work.dtype(), nhwc));
    ContextParallel parallel(context);
    cpu::Transpose(work.raw_data(), work.shape().dims(), kToNhwc,
                   static_cast<int64_t>(ElementSize(work.dtype())), moved.raw_data(), parallel);
    return moved;
  }
  // The same with its channels repeated.
  template <typename T>
  StatusOr<Tensor> RepeatedInput(KernelContext& context, const Sizes& s, const Tensor& image) const {
    MR_ASSIGN_OR_RETURN(const Tensor work, ImageToWork(context, image));
    if (s.multiplier == 1) return work;
    const TensorShape shape({s.p.batch, s.p.in_h, s.p.in_w, s.p.channels});
    MR_ASSIGN_OR_RETURN(Tensor repeated, context.AllocateTemp(work.dtype(), shape));
    ContextParallel parallel(context);
    Repeat(work.data<T>(), work.num_elements(), s.multiplier, repeated.data<T>(), parallel);
    return repeated;
  }

  // Runs fn(T*) on memory that is then converted to `out`; it has the work type and, for images, NHWC.
  template <typename T, typename Fn>
  Status Produce(KernelContext& context, Tensor* out, const TensorShape& work_shape, bool image,
                 Fn fn) const {
    const DataType type = WorkType(out->dtype());
    const bool moves = image && dims_.nchw;
    Tensor work = *out;
    if (type != out->dtype() || moves) {
      MR_ASSIGN_OR_RETURN(work, context.AllocateTemp(type, work_shape));
    }
    ContextParallel parallel(context);
    MR_RETURN_IF_ERROR(fn(work.data<T>(), parallel));
    if (moves) {
      Tensor moved = *out;
      if (type != out->dtype()) {
        MR_ASSIGN_OR_RETURN(moved, context.AllocateTemp(type, out->shape()));
      }
      cpu::Transpose(work.raw_data(), work_shape.dims(), kToNchw, static_cast<int64_t>(ElementSize(type)),
                     moved.raw_data(), parallel);
      work = moved;
    }
    if (type != out->dtype()) FromFloat(context, work, out);
    return Status();
  }

  static StatusOr<TensorShape> SizesArgument(const Tensor& sizes, const char* name) {
    if (sizes.rank() != 1 || sizes.num_elements() != 4)
      return errors::InvalidArgument(name, " must be a vector of 4 values, got shape ", sizes.shape());
    return ShapeFromTensor(sizes, name);
  }

  const ImageDims dims_;
  // Zeros around the image, in addition to those of SAME.
  struct Margins {
    int64_t top = 0, bottom = 0, left = 0, right = 0;
  };
  Margins margins_;

 private:
  const SpatialAttr strides_, dilations_;
  const Padding padding_;
};

// Calls fn.template operator()<T>() with the work type of `t`.
template <typename Fn>
Status AsWork(DataType t, Fn fn) {
  return t == DataType::kDouble ? fn.template operator()<double>() : fn.template operator()<float>();
}

class DepthwiseForwardKernel final : public DepthwiseKernel {
 public:
  using DepthwiseKernel::DepthwiseKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    const Tensor& filter = context.input(1);
    MR_ASSIGN_OR_RETURN(const Sizes s, MakeSizes(image.shape(), filter.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, OutputShape(s.p)));
    if (out->num_elements() == 0) return Status();
    return AsWork(out->dtype(), [&]<typename T>() -> Status {
      MR_ASSIGN_OR_RETURN(const Tensor x, RepeatedInput<T>(context, s, image));
      Tensor w = filter;
      if (filter.dtype() != DataType::kDouble) {
        MR_ASSIGN_OR_RETURN(w, ToFloat(context, filter));
      }
      return Produce<T>(context, out, s.output, true, [&](T* to, cpu::Parallel& parallel) {
        cpu::Depthwise<T>(s.p, x.data<T>(), w.data<T>(), to, parallel);
        return Status();
      });
    });
  }
};

class FusedDepthwiseKernel final : public DepthwiseKernel {
 public:
  explicit FusedDepthwiseKernel(KernelConstruction& c) : DepthwiseKernel(c), epilogue_(c) {
    const auto margins = c.Attr<std::vector<int64_t>>("margins");
    if (margins.empty()) return;
    constexpr int64_t kMaxMargin = int64_t{1} << 30;
    if (margins.size() != 4 || c.Attr<std::string>("padding") != "VALID" ||
        std::any_of(margins.begin(), margins.end(), [](int64_t m) { return m < 0 || m > kMaxMargin; })) {
      c.SetError(errors::InvalidArgument("Margins must be four sizes, and the padding VALID"));
      return;
    }
    margins_ = {margins[0], margins[1], margins[2], margins[3]};
  }
  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    const Tensor& filter = context.input(1);
    MR_ASSIGN_OR_RETURN(const Sizes s, MakeSizes(image.shape(), filter.shape()));
    MR_ASSIGN_OR_RETURN(const FusedEpilogue::Bound bound,
                        epilogue_.Bind(context, 2, s.p.channels, OutputShape(s.p)));
    MR_ASSIGN_OR_RETURN(Tensor result, context.AllocateTemp(DataType::kFloat, OutputShape(s.p)));
    if (result.num_elements() > 0) {
      MR_ASSIGN_OR_RETURN(const Tensor x, RepeatedInput<float>(context, s, image));
      cpu::DepthwiseEpilogue<float> epilogue{bound.epilogue.scale, bound.epilogue.bias,
                                             bound.epilogue.rectify, bound.epilogue.rows};
      if (bound.epilogue.residual != nullptr)
        return errors::InvalidArgument(op_name(), ": a residual is not supported");
      Tensor ones;
      if (epilogue.shift != nullptr && epilogue.scale == nullptr) {
        MR_ASSIGN_OR_RETURN(ones, context.AllocateTemp(DataType::kFloat, {s.p.channels}));
        for (float& one : ones.flat<float>()) one = 1;
        epilogue.scale = ones.data<float>();
      }
      ContextParallel parallel(context);
      cpu::Depthwise<float>(s.p, x.data<float>(), filter.data<float>(), result.data<float>(), parallel,
                            epilogue);
    }
    return epilogue_.Finish(context, bound, std::move(result));
  }

 private:
  const FusedEpilogue epilogue_;
};

class DepthwiseBackpropInputKernel final : public DepthwiseKernel {
 public:
  using DepthwiseKernel::DepthwiseKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorShape image, SizesArgument(context.input(0), "input_sizes"));
    const Tensor& filter = context.input(1);
    const Tensor& gradient = context.input(2);
    MR_ASSIGN_OR_RETURN(const Sizes s, MakeSizes(image, filter.shape()));
    MR_RETURN_IF_ERROR(CheckGradient(s, gradient));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, image));
    if (out->num_elements() == 0) return Status();
    return AsWork(out->dtype(), [&]<typename T>() -> Status {
      MR_ASSIGN_OR_RETURN(const Tensor dy, ImageToWork(context, gradient));
      Tensor w = filter;
      if (filter.dtype() != DataType::kDouble) {
        MR_ASSIGN_OR_RETURN(w, ToFloat(context, filter));
      }
      return Produce<T>(context, out, s.input, true, [&](T* to, cpu::Parallel& parallel) -> Status {
        if (s.multiplier == 1) {
          cpu::DepthwiseBackpropInput<T>(s.p, w.data<T>(), dy.data<T>(), to, parallel);
          return Status();
        }
        const TensorShape shape({s.p.batch, s.p.in_h, s.p.in_w, s.p.channels});
        MR_ASSIGN_OR_RETURN(Tensor repeated, context.AllocateTemp(kDataTypeOf<T>, shape));
        cpu::DepthwiseBackpropInput<T>(s.p, w.data<T>(), dy.data<T>(), repeated.data<T>(), parallel);
        SumRepeats(repeated.data<T>(), s.input.num_elements(), s.multiplier, to, parallel);
        return Status();
      });
    });
  }
};

class DepthwiseBackpropFilterKernel final : public DepthwiseKernel {
 public:
  using DepthwiseKernel::DepthwiseKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    MR_ASSIGN_OR_RETURN(const TensorShape filter, SizesArgument(context.input(1), "filter_sizes"));
    const Tensor& gradient = context.input(2);
    MR_ASSIGN_OR_RETURN(const Sizes s, MakeSizes(image.shape(), filter));
    MR_RETURN_IF_ERROR(CheckGradient(s, gradient));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, filter));
    if (out->num_elements() == 0) return Status();
    return AsWork(out->dtype(), [&]<typename T>() -> Status {
      MR_ASSIGN_OR_RETURN(const Tensor x, RepeatedInput<T>(context, s, image));
      MR_ASSIGN_OR_RETURN(const Tensor dy, ImageToWork(context, gradient));
      return Produce<T>(context, out, filter, false, [&](T* to, cpu::Parallel& parallel) {
        cpu::DepthwiseBackpropFilter<T>(s.p, x.data<T>(), dy.data<T>(), to, parallel);
        return Status();
      });
    });
  }
};

}  // namespace

void RegisterNnDepthwiseKernels(KernelRegistry& registry) {
  const auto add = [&](const char* op) { return KernelDef(op).Types("T", FloatTypes()); };
  registry.Register<DepthwiseForwardKernel>(add("DepthwiseConv2dNative"));
  registry.Register<FusedDepthwiseKernel>(
      KernelDef("_FusedDepthwiseConv2dNative").Types("T", {DataType::kFloat}));
  registry.Register<DepthwiseBackpropInputKernel>(add("DepthwiseConv2dNativeBackpropInput"));
  registry.Register<DepthwiseBackpropFilterKernel>(add("DepthwiseConv2dNativeBackpropFilter"));
}

}  // namespace millrace
