// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ScatterUpdate, ScatterAdd and their like on reference variables.
#include "kernels/cpu/scatter.h"

#include "kernels/cpu/register.h"
#include "kernels/cpu/variable_util.h"

namespace millrace {
namespace {

template <typename T>
void ApplyRow(ScatterOp op, T* into, const T* from, int64_t n, int64_t step) {
  for (int64_t i = 0; i < n; ++i)
    into[i] = op == ScatterOp::kAdd ? Plus(into[i], from[i * step]) : Minus(into[i], from[i * step]);
}

}  // namespace

TypeList ScatterTypes(ScatterOp op) {
  if (op != ScatterOp::kAssign) return NumberTypes();
  return Concat(NumberTypes(), {DataType::kBool, DataType::kString, DataType::kQint8, DataType::kQuint8,
                                DataType::kQint16, DataType::kQuint16, DataType::kQint32});
}

void ScatterRows(const ScatterRowsArgs& args) {
  cpu::SerialParallel serial;
  if (args.op == ScatterOp::kAssign) {
    for (size_t i = 0; i < args.offsets.size(); ++i) {
      void* to = ElementAt(args.into, args.dtype, args.offsets[i] * args.row);
      if (args.repeat) {
        FillElements(args.dtype, args.updates, to, args.row, serial);
      } else {
        MoveElements(args.dtype, ElementAt(args.updates, args.dtype, static_cast<int64_t>(i) * args.row), to,
                     args.row, serial);
      }
    }
    return;
  }
  VisitNumber(args.dtype, false, [&]<typename T>() {
    for (size_t i = 0; i < args.offsets.size(); ++i) {
      const T* from =
          static_cast<const T*>(args.updates) + (args.repeat ? 0 : static_cast<int64_t>(i) * args.row);
      ApplyRow(args.op, static_cast<T*>(args.into) + args.offsets[i] * args.row, from, args.row,
               args.repeat ? 0 : 1);
    }
    return true;
  });
}

Status CheckScatter(const Tensor& params, const Tensor& indices, const Tensor& updates) {
  if (params.rank() < 1)
    return errors::InvalidArgument("params must be at least 1-D, got shape ", params.shape());
  bool fits = updates.rank() == indices.rank() + params.rank() - 1;
  for (int i = 0; fits && i < updates.rank(); ++i) {
    fits = updates.dim(i) == (i < indices.rank() ? indices.dim(i) : params.dim(i - indices.rank() + 1));
  }
  if (!fits && !updates.shape().IsScalar()) {
    return errors::InvalidArgument(
        "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
        "updates.shape ",
        updates.shape(), ", indices.shape ", indices.shape(), ", params.shape ", params.shape());
  }
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    const int64_t index = IntValue(indices, i);
    if (index < 0 || index >= params.dim(0)) {
      return errors::InvalidArgument("indices", IndexText(indices.shape(), i), " = ", index,
                                     " is not in [0, ", params.dim(0), ")");
    }
  }
  return Status();
}

void Scatter(ScatterOp op, Tensor& params, const Tensor& indices, const Tensor& updates) {
  if (indices.num_elements() == 0 || params.num_elements() == 0) return;
  const Dims offsets = IntValues(indices);
  ScatterRowsArgs args;
  args.op = op;
  args.dtype = params.dtype();
  args.into = params.raw_data();
  args.updates = updates.raw_data();
  args.offsets = offsets;
  args.row = params.num_elements() / params.dim(0);
  args.repeat = updates.shape().IsScalar();
  ScatterRows(args);
}

namespace {

class ScatterKernel final : public OpKernel {
 public:
  ScatterKernel(KernelConstruction& c, ScatterOp op) : OpKernel(c), op_(op) {}
  Status Compute(KernelContext& context) override {
    const auto change = [&](Tensor& var) -> Status {
      MR_RETURN_IF_ERROR(CheckScatter(var, context.input(1), context.input(2)));
      MR_RETURN_IF_ERROR(MakeWritable(context, var));
      Scatter(op_, var, context.input(1), context.input(2));
      return Status();
    };
    MR_RETURN_IF_ERROR(UpdateRef(context, 0, change));
    context.ForwardRef(0, 0);
    return Status();
  }

 private:
  const ScatterOp op_;
};

}  // namespace

void RegisterScatterKernels(KernelRegistry& registry) {
  for (const auto& [name, op] :
       {std::pair("ScatterUpdate", ScatterOp::kAssign), std::pair("ScatterAdd", ScatterOp::kAdd),
        std::pair("ScatterSub", ScatterOp::kSub)}) {
    registry.Register(KernelDef(name).Types("T", ScatterTypes(op)).Types("Tindices", IndexTypes()),
                      [op = op](KernelConstruction& c) { return std::make_unique<ScatterKernel>(c, op); });
  }
}

}  // namespace millrace
