// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/pool.h"

#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/cast.h"
#include "kernels/cpu/vector/transpose.h"

namespace millrace {
namespace {

// The attributes of the pooling ops. The routines work on NHWC in float or double: other layouts are
// transposed, and other types go through a type that holds their values exactly.
class PoolKernel : public OpKernel {
 public:
  explicit PoolKernel(KernelConstruction& c)
      : OpKernel(c),
        dims_(ReadImageDims(c)),
        windows_are_inputs_(!c.HasAttr("ksize")),
        window_(windows_are_inputs_ ? SpatialAttr{} : ReadSpatialAttr(c, "ksize", dims_)),
        strides_(windows_are_inputs_ ? SpatialAttr{} : ReadSpatialAttr(c, "strides", dims_)),
        padding_(ReadPadding(c)) {
    if (padding_ == Padding::kExplicit)
      c.SetError(errors::Unimplemented("Explicit padding is not supported"));
  }

 protected:
  StatusOr<cpu::PoolParams> MakeParams(const KernelContext& context, const TensorShape& image) const {
    if (image.rank() != 4) return NotAnImage(image.rank(), dims_.nchw);
    cpu::PoolParams p;
    p.batch = image.dim(dims_.batch());
    p.in_h = image.dim(dims_.height());
    p.in_w = image.dim(dims_.width());
    p.channels = image.dim(dims_.channel());
    SpatialAttr window = window_, strides = strides_;
    if (windows_are_inputs_) {
      MR_ASSIGN_OR_RETURN(window, FromInput(context.input(num_inputs() - 2), "ksize"));
      MR_ASSIGN_OR_RETURN(strides, FromInput(context.input(num_inputs() - 1), "strides"));
    }
    p.window_h = window.h;
    p.window_w = window.w;
    p.stride_h = strides.h;
    p.stride_w = strides.w;
    MR_ASSIGN_OR_RETURN(const WindowedOutput rows,
                        GetWindowedOutput(p.in_h, p.window_h, 1, p.stride_h, padding_));
    MR_ASSIGN_OR_RETURN(const WindowedOutput columns,
                        GetWindowedOutput(p.in_w, p.window_w, 1, p.stride_w, padding_));
    p.out_h = rows.size;
    p.out_w = columns.size;
    p.pad_top = rows.pad_before;
    p.pad_left = columns.pad_before;
    MR_RETURN_IF_ERROR(CheckImageSize("The pooled image", p.batch, p.out_h, p.out_w, p.channels));
    return p;
  }
  TensorShape OutputShape(const cpu::PoolParams& p) const {
    return dims_.Shape(p.batch, p.out_h, p.out_w, p.channels);
  }
  Status CheckGradient(const cpu::PoolParams& p, const Tensor& gradient) const {
    if (gradient.shape() == OutputShape(p)) return Status();
    return errors::InvalidArgument("Expected grad shape to be ", OutputShape(p), ", but got ",
                                   gradient.shape());
  }

  // Reads ksize and strides in the ops that take them as inputs.
  StatusOr<SpatialAttr> FromInput(const Tensor& t, const char* name) const {
    if (!t.shape().IsVector() || t.num_elements() != 4)
      return errors::InvalidArgument("Sliding window ", name, " field must specify 4 dimensions");
    if (IntValue(t, dims_.batch()) != 1 || IntValue(t, dims_.channel()) != 1)
      return errors::Unimplemented("Pooling is not yet supported on the batch and channel dimensions.");
    const SpatialAttr s{IntValue(t, dims_.height()), IntValue(t, dims_.width())};
    if (s.h <= 0 || s.w <= 0) {
      return errors::InvalidArgument("Sliding window ", name, " must be positive, got ", s.h, " and ", s.w);
    }
    return s;
  }

  static DataType WorkType(DataType t) {
    switch (t) {
      case DataType::kDouble:
      case DataType::kInt32:
      case DataType::kUint32:
        return DataType::kDouble;
      case DataType::kInt64:
        return DataType::kInt64;
      default:
        return DataType::kFloat;
    }
  }

  // `t` as NHWC elements of the work type.
  StatusOr<Tensor> ToWork(KernelContext& context, const Tensor& t) const {
    Tensor work = t;
    const DataType type = WorkType(t.dtype());
    ContextParallel parallel(context);
    if (type != t.dtype()) {
      MR_ASSIGN_OR_RETURN(work, context.AllocateTemp(type, t.shape()));
      cpu::RunUnary(cpu::FindCast(t.dtype(), type), t.raw_data(), Size(t.dtype()), work.raw_data(),
                    Size(type), t.num_elements(), 0.5, parallel);
    }
    if (!dims_.nchw) return work;
    MR_ASSIGN_OR_RETURN(Tensor moved, context.AllocateTemp(type, {t.dim(0), t.dim(2), t.dim(3), t.dim(1)}));
    cpu::Transpose(work.raw_data(), work.shape().dims(), kToNhwc, Size(type), moved.raw_data(), parallel);
    return moved;
  }

  // Runs `fn(T*)` on memory that is then converted to `out`, NHWC of the work type.
  template <typename Fn>
  Status Produce(KernelContext& context, Tensor* out, const TensorShape& nhwc, Fn fn) const {
    const DataType type = WorkType(out->dtype());
    ContextParallel parallel(context);
    Tensor work = *out;
    if (type != out->dtype() || dims_.nchw) {
      MR_ASSIGN_OR_RETURN(work, context.AllocateTemp(type, nhwc));
    }
    if (type == DataType::kFloat) {
      fn(work.data<float>(), parallel);
    } else if (type == DataType::kInt64) {
      fn(work.data<int64_t>(), parallel);
    } else {
      fn(work.data<double>(), parallel);
    }
    if (dims_.nchw) {
      Tensor moved = *out;
      if (type != out->dtype()) {
        MR_ASSIGN_OR_RETURN(moved, context.AllocateTemp(type, out->shape()));
      }
      cpu::Transpose(work.raw_data(), nhwc.dims(), kToNchw, Size(type), moved.raw_data(), parallel);
      work = moved;
    }
    if (type != out->dtype()) {
      cpu::RunUnary(cpu::FindCast(type, out->dtype()), work.raw_data(), Size(type), out->raw_data(),
                    Size(out->dtype()), out->num_elements(), 0.5, parallel);
    }
    return Status();
  }

  static TensorShape InNhwc(const cpu::PoolParams& p) { return {p.batch, p.in_h, p.in_w, p.channels}; }
  static TensorShape OutNhwc(const cpu::PoolParams& p) { return {p.batch, p.out_h, p.out_w, p.channels}; }

  const SpatialAttr& window() const { return window_; }

  const ImageDims dims_;

 private:
  static int64_t Size(DataType t) { return static_cast<int64_t>(ElementSize(t)); }
  static constexpr int kToNhwc[4] = {0, 2, 3, 1};
  static constexpr int kToNchw[4] = {0, 3, 1, 2};

  const bool windows_are_inputs_;
  const SpatialAttr window_, strides_;
  const Padding padding_;
};

template <typename T>
struct ElementOf;
template <typename T>
struct ElementOf<T*> {
  using type = T;
};

template <bool kMax>
class PoolForwardKernel final : public PoolKernel {
 public:
  explicit PoolForwardKernel(KernelConstruction& c)
      : PoolKernel(c), depth_window_(DepthOf(c, "ksize")), depth_stride_(DepthOf(c, "strides")) {}

  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    if (depth_window_ != 1 || depth_stride_ != 1) return PoolOverDepth(context, image);
    MR_ASSIGN_OR_RETURN(const cpu::PoolParams p, MakeParams(context, image.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, OutputShape(p)));
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor in, ToWork(context, image));
    return Produce(context, out, OutNhwc(p), [&](auto* to, cpu::Parallel& parallel) {
      using T = typename ElementOf<decltype(to)>::type;
      if constexpr (kMax) {
        cpu::MaxPool<T>(p, in.data<T>(), to, parallel);
      } else if constexpr (std::is_floating_point_v<T>) {
        cpu::AvgPool<T>(p, in.data<T>(), to, parallel);
      }
    });
  }

 private:
  int64_t DepthOf(KernelConstruction& c, const char* attr) const {
    if (!c.HasAttr(attr)) return 1;
    const auto values = c.Attr<std::vector<int64_t>>(attr);
    return values.size() == 4 ? values[static_cast<size_t>(dims_.channel())] : 1;
  }

  // Maxima of adjacent channels. The restrictions and the texts are those of TensorFlow's kernel.
  Status PoolOverDepth(KernelContext& context, const Tensor& image) const {
    if (image.rank() != 4) return NotAnImage(image.rank(), dims_.nchw);
    if (window().h != 1 || window().w != 1) {
      return errors::Unimplemented(
          "MaxPooling supports exactly one of pooling across depth or pooling across width/height.");
    }
    const int64_t depth = image.dim(dims_.channel());
    if (depth_window_ <= 0 || depth % depth_window_ != 0) {
      return errors::Unimplemented(
          "Depthwise max pooling requires the depth window to evenly divide the input depth");
    }
    if (depth_window_ != depth_stride_) {
      return errors::Unimplemented(
          "Depthwise max pooling requires the depth window to equal the depth stride");
    }
    // Each pixel is a column of channels: windows over depth are windows over the height of a one-channel
    // image.
    cpu::PoolParams p;
    p.batch = 1;
    p.in_h = image.num_elements();
    p.in_w = p.channels = p.out_w = 1;
    p.out_h = p.in_h / depth_window_;
    p.window_h = p.stride_h = depth_window_;
    const int64_t batch = image.dim(dims_.batch()), rows = image.dim(dims_.height()),
                  columns = image.dim(dims_.width());
    const int64_t out_depth = depth / depth_window_;
    MR_ASSIGN_OR_RETURN(Tensor * out,
                        context.AllocateOutput(0, dims_.Shape(batch, rows, columns, out_depth)));
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor in, ToWork(context, image));
    return Produce(context, out, {batch, rows, columns, out_depth}, [&](auto* to, cpu::Parallel& parallel) {
      using T = typename ElementOf<decltype(to)>::type;
      cpu::MaxPool<T>(p, in.data<T>(), to, parallel);
    });
  }

  const int64_t depth_window_, depth_stride_;
};

Status CheckRanks(const Tensor& image, const Tensor& pooled, const Tensor& gradient) {
  if (image.rank() != 4) return errors::InvalidArgument("tensor_in must be 4-dimensional");
  if (pooled.rank() != 4) return errors::InvalidArgument("tensor_out must be 4-dimensional");
  if (gradient.rank() != 4) return errors::InvalidArgument("out_backprop must be 4-dimensional");
  return Status();
}

class MaxPoolGradKernel final : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    const Tensor& pooled = context.input(1);
    const Tensor& gradient = context.input(2);
    MR_RETURN_IF_ERROR(CheckRanks(image, pooled, gradient));
    MR_ASSIGN_OR_RETURN(const cpu::PoolParams p, MakeParams(context, image.shape()));
    if (pooled.shape() != OutputShape(p)) {
      return errors::InvalidArgument("Expected orig_output shape to be ", OutputShape(p), ", but got ",
                                     pooled.shape());
    }
    MR_RETURN_IF_ERROR(CheckGradient(p, gradient));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, image.shape()));
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor in, ToWork(context, image));
    MR_ASSIGN_OR_RETURN(const Tensor dy, ToWork(context, gradient));
    return Produce(context, out, InNhwc(p), [&](auto* to, cpu::Parallel& parallel) {
      using T = typename ElementOf<decltype(to)>::type;
      cpu::MaxPoolGrad<T>(p, in.data<T>(), dy.data<T>(), to, parallel);
    });
  }
};

class MaxPoolGradGradKernel final : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& image = context.input(0);
    const Tensor& pooled = context.input(1);
    const Tensor& gradient = context.input(2);
    MR_RETURN_IF_ERROR(CheckRanks(image, pooled, gradient));
    MR_ASSIGN_OR_RETURN(const cpu::PoolParams p, MakeParams(context, image.shape()));
    if (pooled.shape() != OutputShape(p)) {
      return errors::InvalidArgument("Expected orig_output shape to be ", OutputShape(p), ", but got ",
                                     pooled.shape());
    }
    if (gradient.shape() != image.shape()) {
      return errors::InvalidArgument("Expected grad shape to be ", image.shape(), ", but got ",
                                     gradient.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, OutputShape(p)));
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor in, ToWork(context, image));
    MR_ASSIGN_OR_RETURN(const Tensor dx, ToWork(context, gradient));
    return Produce(context, out, OutNhwc(p), [&](auto* to, cpu::Parallel& parallel) {
      using T = typename ElementOf<decltype(to)>::type;
      cpu::MaxPoolGradGrad<T>(p, in.data<T>(), dx.data<T>(), to, parallel);
    });
  }
};

class AvgPoolGradKernel final : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& sizes = context.input(0);
    const Tensor& gradient = context.input(1);
    if (sizes.rank() != 1 || sizes.num_elements() != 4) {
      return errors::InvalidArgument("out_backprop must be 1-dimensional and 4 elements");
    }
    if (gradient.rank() != 4) return errors::InvalidArgument("out_backprop must be 4-dimensional");
    MR_ASSIGN_OR_RETURN(const TensorShape image, ShapeFromTensor(sizes, "orig_input_shape"));
    MR_ASSIGN_OR_RETURN(const cpu::PoolParams p, MakeParams(context, image));
    MR_RETURN_IF_ERROR(CheckGradient(p, gradient));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, image));
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor dy, ToWork(context, gradient));
    return Produce(context, out, InNhwc(p), [&](auto* to, cpu::Parallel& parallel) {
      using T = typename ElementOf<decltype(to)>::type;
      if constexpr (std::is_floating_point_v<T>) cpu::AvgPoolGrad<T>(p, dy.data<T>(), to, parallel);
    });
  }
};

}  // namespace

void RegisterNnPoolKernels(KernelRegistry& registry) {
  const TypeList types = Filter(RealTypes(), [](DataType t) { return t != DataType::kUint64; });
  registry.Register<PoolForwardKernel<true>>(KernelDef("MaxPool").Types("T", types));
  registry.Register<MaxPoolGradKernel>(KernelDef("MaxPoolGrad").Types("T", types));
  registry.Register<MaxPoolGradGradKernel>(KernelDef("MaxPoolGradGrad").Types("T", types));
  registry.Register<PoolForwardKernel<true>>(KernelDef("MaxPoolV2").Types("T", types));
  registry.Register<MaxPoolGradKernel>(KernelDef("MaxPoolGradV2").Types("T", types));
  registry.Register<MaxPoolGradGradKernel>(KernelDef("MaxPoolGradGradV2").Types("T", types));
  registry.Register<PoolForwardKernel<false>>(KernelDef("AvgPool").Types("T", FloatTypes()));
  registry.Register<AvgPoolGradKernel>(KernelDef("AvgPoolGrad").Types("T", FloatTypes()));
}

}  // namespace millrace
