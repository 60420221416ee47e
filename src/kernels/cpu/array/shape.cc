// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that read or change the shape without accessing elements.
#include <limits>

#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// Writes `values` as a vector of the output's type, int32 or int64.
Status SetIntOutput(KernelContext& context, int output, const TensorShape& shape,
                    std::span<const int64_t> values) {
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(output, shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if (out->dtype() == DataType::kInt32) {
      out->data<int32_t>()[i] = static_cast<int32_t>(values[i]);
    } else {
      out->data<int64_t>()[i] = values[i];
    }
  }
  return Status();
}

// Shape and ShapeN.
class ShapeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    for (int i = 0; i < context.num_inputs(); ++i) {
      const TensorShape& shape = context.input(i).shape();
      if (context.output_type(i) == DataType::kInt32) {
        for (int d = 0; d < shape.rank(); ++d) {
          if (shape.dim(d) > std::numeric_limits<int32_t>::max()) {
            return errors::InvalidArgument("Shape output type is 32-bit  but dim ", d, " is ", shape.dim(d));
          }
        }
      }
      MR_RETURN_IF_ERROR(SetIntOutput(context, i, TensorShape({shape.rank()}), shape.dims()));
    }
    return Status();
  }
};

class SizeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const int64_t size = context.input(0).num_elements();
    if (context.output_type(0) == DataType::kInt32 && size > std::numeric_limits<int32_t>::max()) {
      return errors::InvalidArgument(
          "Number of elements was larger than representable by 32-bit output type");
    }
    return SetIntOutput(context, 0, TensorShape(), std::span(&size, 1));
  }
};

class RankKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const int64_t rank = context.input(0).rank();
    return SetIntOutput(context, 0, TensorShape(), std::span(&rank, 1));
  }
};

class ReshapeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& sizes = context.input(1);
    if (!sizes.shape().IsVector()) {
      return errors::InvalidArgument("sizes input must be 1-D, not ", sizes.shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, NewShape(context.input(0).shape(), sizes));
    context.set_output(0, context.TakeInput(0).WithShape(shape));
    // For a quantized tensor the range is forwarded, too.
    for (int i = 1; i < num_outputs(); ++i) context.set_output(i, context.input(i + 1));
    return Status();
  }

 private:
  static StatusOr<TensorShape> NewShape(const TensorShape& in, const Tensor& sizes) {
    Dims dims;
    int64_t open = -1;
    bool zero = false;
    TensorShape given;  // the sizes above zero
    for (int64_t d = 0; d < sizes.num_elements(); ++d) {
      const int64_t size = IntValue(sizes, d);
      if (size == -1) {
        if (open >= 0) {
          return errors::InvalidArgument("Only one input size may be -1, not both ", open, " and ", d);
        }
        open = d;
      } else if (size < 0) {
        return errors::InvalidArgument("Size ", d, " must be non-negative, not ", size);
      } else if (size == 0) {
        zero = true;
      } else {
        MR_RETURN_IF_ERROR(given.TryAddDim(size));
      }
      dims.push_back(size == -1 ? 1 : size);
    }
    MR_ASSIGN_OR_RETURN(TensorShape shape, ShapeFromValues(dims));
    if (open >= 0) {
      MR_ASSIGN_OR_RETURN(const int64_t size, OpenSize(in, given.num_elements(), zero));
      MR_ASSIGN_OR_RETURN(shape, WithSize(std::move(dims), open, size));
    }
    if (shape.num_elements() != in.num_elements()) {
      return errors::InvalidArgument("Input to reshape is a tensor with ", in.num_elements(),
                                     " values, but the requested shape has ", shape.num_elements());
    }
    return shape;
  }

  static StatusOr<TensorShape> WithSize(Dims dims, int64_t open, int64_t size) {
    dims[static_cast<uint32_t>(open)] = size;
    return ShapeFromValues(dims);
  }

  // The inferred size. If one of the given sizes is 0, sizes of 0 of the input correspond to it, and the
  // others are distributed: [0,6] as [0,-1] is [0,6].
  static StatusOr<int64_t> OpenSize(const TensorShape& in, int64_t product, bool zero) {
    int64_t elements = in.num_elements();
    bool left_out = false;
    if (zero && elements == 0) {
      TensorShape rest;
      for (const int64_t size : in.dims()) {
        if (size > 0) MR_RETURN_IF_ERROR(rest.TryAddDim(size));
      }
      elements = rest.num_elements();
      left_out = true;
    }
    const int64_t missing = elements / product;
    if (!left_out && missing * product != elements) {
      return errors::InvalidArgument("Input to reshape is a tensor with ", elements,
                                     " values, but the requested shape requires a multiple of ", product);
    }
    return missing;
  }
};

class ExpandDimsKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& dim = context.input(1);
    if (dim.num_elements() != 1) return errors::InvalidArgument("'dim' must be a tensor with a single value");
    TensorShape shape = context.input(0).shape();
    const int64_t given = IntValue(dim);
    if (given < -1 - shape.rank() || given > shape.rank()) {
      return errors::InvalidArgument("Tried to expand dim index ", given, " for tensor with ", shape.rank(),
                                     " dimensions.");
    }
    if (shape.rank() == TensorShape::kMaxRank) return errors::InvalidArgument("Too many dimensions");
    shape.InsertDim(static_cast<int>(given < 0 ? given + shape.rank() + 1 : given), 1);
    context.set_output(0, context.TakeInput(0).WithShape(shape));
    return Status();
  }
};

class SqueezeKernel final : public OpKernel {
 public:
  explicit SqueezeKernel(KernelConstruction& c)
      : OpKernel(c), dims_(c.Attr<std::vector<int64_t>>("squeeze_dims")) {}
  Status Compute(KernelContext& context) override {
    const TensorShape& in = context.input(0).shape();
    SmallVector<bool, 8> wanted;
    wanted.resize(static_cast<uint32_t>(in.rank()), false);
    for (const int64_t given : dims_) {
      if (given < -in.rank() || given >= in.rank()) {
        return errors::InvalidArgument("Tried to squeeze dim index ", given, " for tensor with ", in.rank(),
                                       " dimensions.");
      }
      wanted[given < 0 ? given + in.rank() : given] = true;
    }
    TensorShape shape;
    for (int i = 0; i < in.rank(); ++i) {
      if (wanted[i] && in.dim(i) != 1) {
        return errors::InvalidArgument("Can not squeeze dim[", i, "], expected a dimension of 1, got ",
                                       in.dim(i));
      }
      if (in.dim(i) == 1 && (dims_.empty() || wanted[i])) continue;
      MR_RETURN_IF_ERROR(shape.TryAddDim(in.dim(i)));
    }
    context.set_output(0, context.TakeInput(0).WithShape(shape));
    return Status();
  }

 private:
  const std::vector<int64_t> dims_;
};

}  // namespace

void RegisterShapeKernels(KernelRegistry& registry) {
  registry.Register<ShapeKernel>(KernelDef("Shape"));
  registry.Register<ShapeKernel>(KernelDef("ShapeN"));
  registry.Register<SizeKernel>(KernelDef("Size"));
  registry.Register<RankKernel>(KernelDef("Rank"));
  registry.Register<ReshapeKernel>(KernelDef("Reshape"));
  registry.Register<ReshapeKernel>(
      KernelDef("QuantizedReshape").Types("T", {DataType::kQuint8, DataType::kQint32}));
  registry.Register<ExpandDimsKernel>(KernelDef("ExpandDims"));
  registry.Register<SqueezeKernel>(KernelDef("Squeeze"));
}

}  // namespace millrace
