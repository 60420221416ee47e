// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_registry.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/state/scatter.h"
#include "kernels/cpu/state/variable_util.h"

namespace millrace {
namespace {

// The rows that `indices` select in a tensor of shape `shape`, whose first indices.dim(-1) dimensions they
// index.
struct NdRows {
  Dims offsets;  // in rows
  int64_t row = 1;
};

// The errors of the ops that make a tensor; ops that write to a variable have other ones, in FindRows.
Status CheckUpdates(const TensorShape& shape, const TensorShape& indices, const TensorShape& updates) {
  if (indices.rank() < 1 || updates.rank() < 1) return Status();  // FindRows returns the error
  const int batch = indices.rank() - 1;
  const int64_t depth = indices.dim(batch);
  for (int i = 0; i < batch; ++i) {
    if (i < updates.rank() && indices.dim(i) == updates.dim(i)) continue;
    return errors::InvalidArgument("Outer dimensions of indices and update must match. Indices shape: ",
                                   indices, ", updates shape:", updates);
  }
  if (updates.rank() - batch != shape.rank() - depth) {
    return errors::InvalidArgument(
        "Inner dimensions of output shape must match inner dimensions of updates shape. Output: ", shape,
        " updates: ", updates);
  }
  for (int i = 0; i + batch < updates.rank(); ++i) {
    if (updates.dim(i + batch) == shape.dim(static_cast<int>(depth) + i)) continue;
    return errors::InvalidArgument("The inner ", shape.rank() - depth, " dimensions of output.shape=", shape,
                                   " must match the inner ", updates.rank() - batch,
                                   " dimensions of updates.shape=", updates);
  }
  return Status();
}

StatusOr<NdRows> FindRows(const TensorShape& shape, const Tensor& indices, const Tensor& updates) {
  if (indices.rank() < 1)
    return errors::InvalidArgument("Indices shape must have rank at least one. Found:", indices.shape());
  if (updates.rank() < 1)
    return errors::InvalidArgument("Updates shape must have rank at least one. Found:", updates.shape());
  if (indices.rank() > 1 && updates.dim(0) != indices.dim(0)) {
    return errors::InvalidArgument(
        "The outermost dimension of updates and indices must match. Got indices.shape ", indices.shape(),
        ", updates.shape ", updates.shape());
  }
  const int batch = indices.rank() - 1;
  const int64_t depth = indices.dim(batch);
  const auto mismatch = [&] {
    return errors::InvalidArgument(
        "Must have updates.shape = indices.shape[:batch_dim] + params_shape[slice_dim:], got updates.shape: ",
        updates.shape(), ", indices.shape: ", indices.shape(), ", params_shape: ", shape,
        ", slice_dim: ", depth, ", and batch_dim: ", batch);
  };
  if (depth > shape.rank() || updates.rank() != batch + shape.rank() - depth) return mismatch();
  for (int i = 0; i < updates.rank(); ++i) {
    const int64_t wanted = i < batch ? indices.dim(i) : shape.dim(static_cast<int>(depth) + i - batch);
    if (updates.dim(i) != wanted) return mismatch();
  }
  NdRows rows;
  rows.row = ProductOf(shape.dims(), static_cast<int>(depth), shape.rank());
  if (depth == 0 && updates.num_elements() == 0) return rows;  // there may be very many empty rows
  const int64_t count = ProductOf(indices.shape().dims(), 0, batch);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t size = shape.dim(static_cast<int>(d)), index = IntValue(indices, i * depth + d);
      if (index < 0 || index >= size) {
        TensorShape outer = indices.shape();
        outer.RemoveDim(batch);
        Dims values;
        for (int64_t k = 0; k < depth; ++k) values.push_back(IntValue(indices, i * depth + k));
        return errors::InvalidArgument("indices", IndexText(outer, i), " = [", JoinInts(values, ", "),
                                       "] does not index into shape ", shape);
      }
      offset = offset * size + index;
    }
    rows.offsets.push_back(offset);
  }
  return rows;
}

Status Apply(ScatterOp op, Tensor& into, const NdRows& rows, const Tensor& updates) {
  if (updates.num_elements() == 0) return Status();
  ScatterRowsArgs args;
  args.op = op;
  args.dtype = into.dtype();
  args.into = into.raw_data();
  args.updates = updates.raw_data();
  args.offsets = rows.offsets;
  args.row = rows.row;
  return ScatterRows(args);
}

// A tensor of zeros to which rows are added.
class ScatterNdKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& updates = context.input(1);
    if (!context.input(2).shape().IsVector()) {
      return errors::InvalidArgument("Shape must be a vector");
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromTensor(context.input(2), "Shape"));
    if (shape.num_elements() == 0 && (indices.num_elements() > 0 || updates.num_elements() > 0)) {
      return errors::InvalidArgument("Indices and updates specified for empty output shape");
    }
    MR_RETURN_IF_ERROR(CheckUpdates(shape, indices.shape(), updates.shape()));
    MR_ASSIGN_OR_RETURN(const NdRows rows, FindRows(shape, indices, updates));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    ZeroElements(out->dtype(), out->raw_data(), shape.num_elements(), parallel);
    return Apply(out->dtype() == DataType::kString ? ScatterOp::kAssign : ScatterOp::kAdd, *out, rows,
                 updates);
  }
};

// Changes rows of a variable, a reference or a resource.
class ScatterNdVariableKernel final : public OpKernel {
 public:
  ScatterNdVariableKernel(KernelConstruction& c, ScatterOp op) : OpKernel(c), op_(op) {}
  Status Compute(KernelContext& context) override {
    return UpdateVariable(context, 0, input_type(2), [&](Tensor& var) -> Status {
      MR_ASSIGN_OR_RETURN(const NdRows rows, FindRows(var.shape(), context.input(1), context.input(2)));
      MR_RETURN_IF_ERROR(MakeWritable(context, var));
      return Apply(op_, var, rows, context.input(2));
    });
  }

 private:
  const ScatterOp op_;
};

// Changes rows of a tensor: in place if there is no other reference, else in a copy.
class TensorScatterKernel final : public OpKernel {
 public:
  TensorScatterKernel(KernelConstruction& c, ScatterOp op) : OpKernel(c), op_(op) {}
  Status Compute(KernelContext& context) override {
    const TensorShape shape = context.input(0).shape();
    const Tensor& indices = context.input(1);
    const Tensor& updates = context.input(2);
    if (shape.rank() < 1) return errors::InvalidArgument("Input must be at least 1-D, got shape: ", shape);
    MR_RETURN_IF_ERROR(CheckUpdates(shape, indices.shape(), updates.shape()));
    MR_ASSIGN_OR_RETURN(const NdRows rows, FindRows(shape, indices, updates));
    Tensor* out = context.TryForward(0, 0);
    if (out == nullptr) {
      MR_ASSIGN_OR_RETURN(out, context.AllocateOutput(0, shape));
      ContextParallel parallel(context);
      MoveElements(out->dtype(), context.input(0).raw_data(), out->raw_data(), shape.num_elements(),
                   parallel);
    }
    return Apply(op_, *out, rows, updates);
  }

 private:
  const ScatterOp op_;
};

}  // namespace

void RegisterScatterNdKernels(KernelRegistry& registry) {
  for (const auto& [name, op] :
       {std::pair("TensorScatterUpdate", ScatterOp::kAssign), std::pair("TensorScatterAdd", ScatterOp::kAdd),
        std::pair("ScatterNdNonAliasingAdd", ScatterOp::kAdd),
        std::pair("TensorScatterSub", ScatterOp::kSub)}) {
    registry.Register(
        KernelDef(name)
            .Types("T",
                   op == ScatterOp::kAdd ? Concat(ScatterTypes(op), {DataType::kBool}) : ScatterTypes(op))
            .Types("Tindices", IndexTypes()),
        [op = op](KernelConstruction& c) { return std::make_unique<TensorScatterKernel>(c, op); });
  }
  registry.Register<ScatterNdKernel>(
      KernelDef("ScatterNd")
          .Types("T", Concat(NumberTypes(), {DataType::kString, DataType::kBool}))
          .Types("Tindices", IndexTypes()));
  for (const auto& [name, op] :
       {std::pair("ScatterNdUpdate", ScatterOp::kAssign), std::pair("ScatterNdAdd", ScatterOp::kAdd),
        std::pair("ScatterNdSub", ScatterOp::kSub)}) {
    for (const char* kind : {"", "Resource"}) {
      registry.Register(
          KernelDef(std::string(kind) + name).Types("T", ScatterTypes(op)).Types("Tindices", IndexTypes()),
          [op = op](KernelConstruction& c) { return std::make_unique<ScatterNdVariableKernel>(c, op); });
    }
  }
}

}  // namespace millrace
