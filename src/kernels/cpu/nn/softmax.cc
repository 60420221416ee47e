// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/softmax.h"

#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

// Rows and columns of logits: the last dimension is the classes.
struct Rows {
  int64_t rows = 1;
  int64_t cols = 1;
};
Rows RowsOf(const TensorShape& shape) {
  return {ProductOf(shape.dims(), 0, shape.rank() - 1), shape.dim(shape.rank() - 1)};
}

template <bool kLog>
class SoftmaxKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& logits = context.input(0);
    if (logits.rank() < 1)
      return errors::InvalidArgument("logits must have >= 1 dimension, got ", logits.shape());
    const Rows r = RowsOf(logits.shape());
    const void* from = logits.raw_data();
    MR_ASSIGN_OR_RETURN(Tensor * out,
                        context.ForwardInputOrAllocateOutput({0}, 0, TensorShape(logits.shape())));
    if (out->num_elements() == 0) return Status();
    ContextParallel parallel(context);
    if constexpr (kLog) {
      cpu::LogSoftmax(out->dtype(), from, out->raw_data(), r.rows, r.cols, parallel);
    } else {
      cpu::Softmax(out->dtype(), from, out->raw_data(), r.rows, r.cols, parallel);
    }
    return Status();
  }
};

class SoftmaxXentKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& logits = context.input(0);
    const Tensor& labels = context.input(1);
    MR_ASSIGN_OR_RETURN(const TensorShape shape, CommonShape(logits.shape(), labels.shape()));
    MR_ASSIGN_OR_RETURN(const Tensor logit_rows, AsRows(context, logits, shape.dim(1)));
    MR_ASSIGN_OR_RETURN(const Tensor label_rows, AsRows(context, labels, shape.dim(1)));
    cpu::XentShape x;
    x.rows = shape.dim(0);
    x.cols = shape.dim(1);
    x.logits_row_stride = logit_rows.dim(0) == x.rows ? x.cols : 0;
    x.labels_row_stride = label_rows.dim(0) == x.rows ? x.cols : 0;
    const void* from = logit_rows.raw_data();
    const void* wanted = label_rows.raw_data();
    MR_ASSIGN_OR_RETURN(Tensor * loss, context.AllocateOutput(0, {x.rows}));
    MR_ASSIGN_OR_RETURN(Tensor * backprop, context.ForwardInputOrAllocateOutput({0}, 1, shape));
    if (x.rows == 0) return Status();
    if (x.cols == 0)
      return errors::InvalidArgument("Must have at least one class, but got logits shape ", shape);
    ContextParallel parallel(context);
    cpu::SoftmaxXent(loss->dtype(), x, from, wanted, loss->raw_data(), backprop->raw_data(), parallel);
    return Status();
  }

 private:
  static StatusOr<TensorShape> CommonShape(const TensorShape& logits, const TensorShape& labels) {
    if (logits == labels && logits.rank() == 2) return logits;
    auto shape = BroadcastShapes(logits, labels);
    if (!shape.ok()) {
      return errors::InvalidArgument("logits and labels must be broadcastable: logits_size=", logits,
                                     " labels_size=", labels);
    }
    if (shape->rank() != 2) {
      return errors::InvalidArgument(
          "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional");
    }
    return shape;
  }

  // `t` of rank 0 to 2 as rows of `columns` elements: one row, or its own number of rows.
  static StatusOr<Tensor> AsRows(KernelContext& context, const Tensor& t, int64_t columns) {
    const int64_t rows = t.rank() == 2 ? t.dim(0) : 1;
    const int64_t own = t.rank() == 0 ? 1 : t.dim(t.rank() - 1);
    if (own == columns) return t.WithShape({rows, columns});
    MR_ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemp(t.dtype(), {rows, columns}));
    const size_t size = ElementSize(t.dtype());
    for (int64_t i = 0; i < rows * columns; ++i) {
      std::memcpy(static_cast<char*>(wide.raw_data()) + static_cast<size_t>(i) * size,
                  static_cast<const char*>(t.raw_data()) + static_cast<size_t>(i / columns) * size, size);
    }
    return wide;
  }
};

// "0 7 2": all labels, up to a limit.
std::string Values(const Tensor& labels) {
  constexpr int64_t kMost = 100;
  std::string text;
  for (int64_t i = 0; i < std::min(labels.num_elements(), kMost); ++i) {
    text += StrCat(i == 0 ? "" : " ", IntValue(labels, i));
  }
  return labels.num_elements() > kMost ? text + "..." : text;
}

class SparseSoftmaxXentKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& logits = context.input(0);
    const Tensor& labels = context.input(1);
    if (logits.rank() != 2)
      return errors::InvalidArgument("logits must be 2-D, but got shape ", logits.shape());
    if (labels.rank() != 1)
      return errors::InvalidArgument("labels must be 1-D, but got shape ", labels.shape());
    if (logits.dim(0) != labels.dim(0)) {
      return errors::InvalidArgument(
          "logits and labels must have the same first dimension, got logits shape ", logits.shape(),
          " and labels shape ", labels.shape());
    }
    if (logits.dim(1) <= 0) {
      return errors::InvalidArgument("Must have at least one class, but got logits shape ", logits.shape());
    }
    const Rows r = RowsOf(logits.shape());
    const void* from = logits.raw_data();
    MR_ASSIGN_OR_RETURN(Tensor * loss, context.AllocateOutput(0, labels.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * backprop,
                        context.ForwardInputOrAllocateOutput({0}, 1, TensorShape(logits.shape())));
    if (r.rows == 0) return Status();
    ContextParallel parallel(context);
    const int64_t bad =
        cpu::SparseSoftmaxXent(loss->dtype(), from, labels.dtype(), labels.raw_data(), loss->raw_data(),
                               backprop->raw_data(), r.rows, r.cols, parallel);
    if (bad < 0) return Status();
    return errors::InvalidArgument("Received a label value of ", IntValue(labels, bad),
                                   " which is outside the valid range of [0, ", r.cols,
                                   ").  Label values: ", Values(labels));
  }
};

}  // namespace

void RegisterNnSoftmaxKernels(KernelRegistry& registry) {
  registry.Register<SoftmaxKernel<false>>(KernelDef("Softmax").Types("T", FloatTypes()));
  registry.Register<SoftmaxKernel<true>>(KernelDef("LogSoftmax").Types("T", FloatTypes()));
  registry.Register<SoftmaxXentKernel>(KernelDef("SoftmaxCrossEntropyWithLogits").Types("T", FloatTypes()));
  registry.Register<SparseSoftmaxXentKernel>(KernelDef("SparseSoftmaxCrossEntropyWithLogits")
                                                 .Types("T", FloatTypes())
                                                 .Types("Tlabels", IndexTypes()));
}

}  // namespace millrace
