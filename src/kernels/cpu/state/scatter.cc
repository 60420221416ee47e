// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ScatterUpdate, ScatterAdd and similar ops on variables of both kinds.
#include "kernels/cpu/state/scatter.h"

#include "kernel/kernel_registry.h"
#include "kernels/cpu/row_function.h"
#include "kernels/cpu/state/variable_util.h"

namespace millrace {
namespace {

// Applies `op` to n elements; false if an integer is divided by zero.
template <typename T>
bool ApplyRow(ScatterOp op, T* into, const T* from, int64_t n, int64_t step) {
  bool fine = true;
  for (int64_t i = 0; i < n; ++i) {
    const T x = from[i * step];
    switch (op) {
      case ScatterOp::kAdd:
        into[i] = Plus(into[i], x);
        break;
      case ScatterOp::kSub:
        into[i] = Minus(into[i], x);
        break;
      case ScatterOp::kMul:
        into[i] = Times(into[i], x);
        break;
      case ScatterOp::kDiv:
        if constexpr (kIsSmallFloat<T>) {
          into[i] = T(float(into[i]) / float(x));
        } else if constexpr (std::is_integral_v<T>) {
          if (x == T{0}) {
            fine = false;
          } else if (std::is_signed_v<T> && x == static_cast<T>(-1)) {
            into[i] = Minus(T{0}, into[i]);  // lowest / -1 wraps
          } else {
            into[i] = static_cast<T>(into[i] / x);
          }
        } else {
          into[i] = into[i] / x;
        }
        break;
      case ScatterOp::kMin:
      case ScatterOp::kMax:
        if constexpr (!kIsComplex<T>) {
          if (op == ScatterOp::kMin ? LessThan(x, into[i]) : LessThan(into[i], x)) into[i] = x;
        }
        break;
      case ScatterOp::kAssign:
        into[i] = x;
        break;
    }
  }
  return fine;
}

cpu::BinaryOp FunctionOf(ScatterOp op, DataType dtype) {
  switch (op) {
    case ScatterOp::kAdd:
      return cpu::BinaryOp::kAdd;
    case ScatterOp::kSub:
      return cpu::BinaryOp::kSub;
    case ScatterOp::kMul:
      return cpu::BinaryOp::kMul;
    case ScatterOp::kDiv:  // integers: elements stay unchanged for a zero
      return IsFloatingType(dtype) || IsComplexType(dtype) ? cpu::BinaryOp::kDiv : cpu::BinaryOp::kCount;
    case ScatterOp::kMin:
      return cpu::BinaryOp::kMinimum;
    case ScatterOp::kMax:
      return cpu::BinaryOp::kMaximum;
    default:
      return cpu::BinaryOp::kCount;
  }
}

// Uses a vectorised function. False if there is none.
bool ApplyRows(const ScatterRowsArgs& args) {
  const cpu::BinaryOp op = FunctionOf(args.op, args.dtype);
  if (op == cpu::BinaryOp::kCount) return false;
  const cpu::BinaryFns* const fns = RowFunction(op, args.dtype, args.row);
  if (fns == nullptr || (args.repeat && fns->scalar_right == nullptr)) return false;
  const size_t row_bytes = static_cast<size_t>(args.row) * ElementSize(args.dtype), n = args.offsets.size();
  for (size_t i = 0; i < n; ++i) {
    if (i + kPrefetchRows < n) {
      PrefetchRow(ElementAt(args.into, args.dtype, args.offsets[i + kPrefetchRows] * args.row), row_bytes);
    }
    void* const to = ElementAt(args.into, args.dtype, args.offsets[i] * args.row);
    if (args.repeat) {
      fns->scalar_right(to, args.updates, to, args.row);
    } else {
      const void* const from = ElementAt(args.updates, args.dtype, static_cast<int64_t>(i) * args.row);
      fns->same(to, from, to, args.row);
    }
  }
  return true;
}

}  // namespace

TypeList ScatterTypes(ScatterOp op) {
  switch (op) {
    case ScatterOp::kAssign:
      return Concat(NumberTypes(), {DataType::kBool, DataType::kString, DataType::kQint8, DataType::kQuint8,
                                    DataType::kQint16, DataType::kQuint16, DataType::kQint32});
    case ScatterOp::kMin:
    case ScatterOp::kMax:
      return RealTypes();
    default:
      return NumberTypes();
  }
}

Status ScatterRows(const ScatterRowsArgs& args) {
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
    return Status();
  }
  if (args.dtype == DataType::kBool && args.op == ScatterOp::kAdd) {
    // The sum of bools: or.
    for (size_t i = 0; i < args.offsets.size(); ++i) {
      bool* const to = static_cast<bool*>(args.into) + args.offsets[i] * args.row;
      const bool* const from =
          static_cast<const bool*>(args.updates) + (args.repeat ? 0 : static_cast<int64_t>(i) * args.row);
      for (int64_t k = 0; k < args.row; ++k) to[k] = to[k] || from[args.repeat ? 0 : k];
    }
    return Status();
  }
  if (ApplyRows(args)) return Status();
  const bool fine = VisitNumber(args.dtype, false, [&]<typename T>() {
    bool ok = true;
    for (size_t i = 0; i < args.offsets.size(); ++i) {
      const T* from =
          static_cast<const T*>(args.updates) + (args.repeat ? 0 : static_cast<int64_t>(i) * args.row);
      ok &= ApplyRow(args.op, static_cast<T*>(args.into) + args.offsets[i] * args.row, from, args.row,
                     args.repeat ? 0 : 1);
    }
    return ok;
  });
  return fine ? Status() : errors::InvalidArgument("Integer division by zero");
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

Status Scatter(ScatterOp op, Tensor& params, const Tensor& indices, const Tensor& updates) {
  if (indices.num_elements() == 0 || params.num_elements() == 0) return Status();
  const Dims offsets = IntValues(indices);
  ScatterRowsArgs args;
  args.op = op;
  args.dtype = params.dtype();
  args.into = params.raw_data();
  args.updates = updates.raw_data();
  args.offsets = offsets;
  args.row = params.num_elements() / params.dim(0);
  args.repeat = updates.shape().IsScalar();
  return ScatterRows(args);
}

namespace {

// The variable in input 0 is a reference or a resource.
class ScatterKernel final : public OpKernel {
 public:
  ScatterKernel(KernelConstruction& c, ScatterOp op) : OpKernel(c), op_(op) {}
  Status Compute(KernelContext& context) override {
    const auto change = [&](Tensor& var) -> Status {
      MR_RETURN_IF_ERROR(CheckScatter(var, context.input(1), context.input(2)));
      MR_RETURN_IF_ERROR(MakeWritable(context, var));
      return Scatter(op_, var, context.input(1), context.input(2));
    };
    return UpdateVariable(context, 0, input_type(2), change);
  }

 private:
  const ScatterOp op_;
};

}  // namespace

void RegisterScatterKernels(KernelRegistry& registry) {
  for (const auto& [name, op] :
       {std::pair("ScatterUpdate", ScatterOp::kAssign), std::pair("ScatterAdd", ScatterOp::kAdd),
        std::pair("ScatterSub", ScatterOp::kSub), std::pair("ScatterMul", ScatterOp::kMul),
        std::pair("ScatterDiv", ScatterOp::kDiv), std::pair("ScatterMin", ScatterOp::kMin),
        std::pair("ScatterMax", ScatterOp::kMax)}) {
    const auto make = [op = op](KernelConstruction& c) { return std::make_unique<ScatterKernel>(c, op); };
    registry.Register(KernelDef(name).Types("T", ScatterTypes(op)).Types("Tindices", IndexTypes()), make);
    registry.Register(KernelDef(std::string("Resource") + name)
                          .Types("dtype", ScatterTypes(op))
                          .Types("Tindices", IndexTypes()),
                      make);
  }
}

}  // namespace millrace
