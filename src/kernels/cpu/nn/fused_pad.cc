// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// FusedPadConv2D and FusedResizeAndPadConv2D: run their component operations one after the other.
#include "kernels/cpu/array/mirror_pad.h"
#include "kernels/cpu/contract/conv.h"
#include "kernels/cpu/image/scaling.h"
#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

class FusedPadConvKernel final : public OpKernel {
 public:
  explicit FusedPadConvKernel(KernelConstruction& c)
      : OpKernel(c),
        resize_(num_inputs() == 4),
        corners_(resize_ && c.Attr<bool>("resize_align_corners")),
        mode_(ReadMirrorMode(c)),
        strides_(ReadSpatialAttr(c, "strides", {})),
        padding_(ReadPadding(c)) {}

  Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    if (input.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", input.shape());
    if (input.dtype() == DataType::kDouble)
      return Run<double>(context, input, context.input(num_inputs() - 1));
    MR_ASSIGN_OR_RETURN(const Tensor image, ToFloat(context, input));
    MR_ASSIGN_OR_RETURN(const Tensor filter, ToFloat(context, context.input(num_inputs() - 1)));
    return Run<float>(context, image, filter);
  }

 private:
  template <typename T>
  Status Run(KernelContext& context, Tensor image, const Tensor& filter) const {
    if (resize_) {
      MR_ASSIGN_OR_RETURN(image, Resize<T>(context, image));
    }
    MR_ASSIGN_OR_RETURN(const MirrorMap map, MakeMirrorMap(image.shape(), /*is_padded=*/false,
                                                           context.input(num_inputs() - 2), mode_));
    if (map.padded != map.bare) {
      MR_ASSIGN_OR_RETURN(Tensor padded, context.AllocateTemp(image.dtype(), map.padded));
      MirrorPad(context, map, image, &padded);
      image = std::move(padded);
    }
    MR_ASSIGN_OR_RETURN(const cpu::ConvParams p, MakeParams(image.shape(), filter.shape()));
    const TensorShape shape({p.batch, p.out_h, p.out_w, p.out_c});
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->num_elements() == 0) return Status();
    Tensor result = *out;
    if (out->dtype() != kDataTypeOf<T>) {
      MR_ASSIGN_OR_RETURN(result, context.AllocateTemp(kDataTypeOf<T>, shape));
    }
    ContextParallel parallel(context);
    cpu::ConvPlan(p).Forward(image.data<T>(), filter.data<T>(), result.data<T>(), parallel);
    if (out->dtype() != kDataTypeOf<T>) FromFloat(context, result, out);
    return Status();
  }

  template <typename T>
  StatusOr<Tensor> Resize(KernelContext& context, const Tensor& in) const {
    MR_ASSIGN_OR_RETURN(const image::ResizeSizes s, image::CheckResize(in, context.input(1)));
    MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateTemp(in.dtype(), s.OutputShape()));
    if (out.num_elements() == 0) return out;
    const auto ys = image::LinearTaps(s.in_h, s.out_h, {.corners = corners_});
    const auto xs = image::LinearTaps(s.in_w, s.out_w, {.corners = corners_});
    const int64_t row = s.out_w * s.channels;
    context.ParallelFor(s.batch * s.out_h, row * 3, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        image::BilinearRow(in.data<T>() + r / s.out_h * s.in_h * s.in_w * s.channels, s,
                           ys[static_cast<size_t>(r % s.out_h)], xs, out.data<T>() + r * row);
      }
    });
    return out;
  }

  StatusOr<cpu::ConvParams> MakeParams(const TensorShape& image, const TensorShape& filter) const {
    if (filter.rank() != 4) return errors::InvalidArgument("filter must be 4-dimensional: ", filter);
    if (filter.dim(2) != image.dim(3)) {
      return errors::InvalidArgument("input and filter must have the same depth: ", image.dim(3), " vs ",
                                     filter.dim(2));
    }
    if (filter.dim(0) <= 0 || filter.dim(1) <= 0)
      return errors::InvalidArgument("filter must not be empty: ", filter);
    cpu::ConvParams p;
    p.batch = image.dim(0);
    p.in_h = image.dim(1);
    p.in_w = image.dim(2);
    p.in_c = image.dim(3);
    p.filter_h = filter.dim(0);
    p.filter_w = filter.dim(1);
    p.out_c = filter.dim(3);
    p.stride_h = strides_.h;
    p.stride_w = strides_.w;
    MR_ASSIGN_OR_RETURN(const WindowedOutput rows,
                        GetWindowedOutput(p.in_h, p.filter_h, 1, p.stride_h, padding_));
    MR_ASSIGN_OR_RETURN(const WindowedOutput columns,
                        GetWindowedOutput(p.in_w, p.filter_w, 1, p.stride_w, padding_));
    p.out_h = rows.size;
    p.out_w = columns.size;
    p.pad_top = rows.pad_before;
    p.pad_left = columns.pad_before;
    MR_RETURN_IF_ERROR(CheckImageSize("The convolution's output", p.batch, p.out_h, p.out_w, p.out_c));
    return p;
  }

  const bool resize_, corners_;
  const MirrorMode mode_;
  const SpatialAttr strides_;
  const Padding padding_;
};

}  // namespace

void RegisterNnFusedPadKernels(KernelRegistry& registry) {
  registry.Register<FusedPadConvKernel>(KernelDef("FusedPadConv2D"));
  registry.Register<FusedPadConvKernel>(KernelDef("FusedResizeAndPadConv2D"));
}

}  // namespace millrace
