// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// OneHot and Where.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

int64_t IndexValue(const Tensor& t, int64_t i) {
  return t.dtype() == DataType::kUint8 ? t.data<uint8_t>()[i] : IntValue(t, i);
}

class OneHotKernel final : public OpKernel {
 public:
  explicit OneHotKernel(KernelConstruction& c) : OpKernel(c), axis_(c.Attr<int64_t>("axis")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& depth_tensor = context.input(1);
    const Tensor& on = context.input(2);
    const Tensor& off = context.input(3);
    const int rank = indices.rank();
    if (axis_ < -1 || axis_ > rank) {
      return errors::InvalidArgument("Expected axis to be -1 or between [0, ", rank + 1,
                                     ").  But received: ", axis_);
    }
    if (!depth_tensor.shape().IsScalar()) {
      return errors::InvalidArgument("depth must be a scalar, but got: ", depth_tensor.shape());
    }
    if (!on.shape().IsScalar())
      return errors::InvalidArgument("on_value must be a scalar, but got: ", on.shape());
    if (!off.shape().IsScalar())
      return errors::InvalidArgument("off_value must be a scalar, but got: ", off.shape());
    const int64_t depth = IntValue(depth_tensor);
    if (depth < 0) return errors::InvalidArgument("depth must be non-negative, got: ", depth);
    const int axis = static_cast<int>(axis_ < 0 ? rank : axis_);
    Dims dims;
    for (int i = 0; i <= rank; ++i) dims.push_back(i == axis ? depth : indices.dim(i < axis ? i : i - 1));
    if (rank == TensorShape::kMaxRank) return errors::InvalidArgument("Too many dimensions");
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    FillElements(off.dtype(), off.raw_data(), out->raw_data(), shape.num_elements(), parallel);
    if (shape.num_elements() == 0) return Status();
    // [outer, depth, inner]; for an index outside [0, depth) all values are off.
    const int64_t inner = ProductOf(indices.shape().dims(), axis, rank);
    return VisitDataType(on.dtype(), NoSuchType(context, on.dtype()), [&]<typename T>() {
      T* to = out->data<T>();
      const T& value = on.scalar<T>();
      for (int64_t i = 0; i < indices.num_elements(); ++i) {
        const int64_t index = IndexValue(indices, i);
        if (index < 0 || index >= depth) continue;
        to[(i / inner * depth + index) * inner + i % inner] = value;
      }
      return Status();
    });
  }

 private:
  const int64_t axis_;
};

// The coordinates of the elements that aren't zero, in row-major order.
class WhereKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.dtype() == DataType::kBool) return Run<bool>(context, in);
    return VisitNumber(in.dtype(), NoSuchType(context, in.dtype()),
                       [&]<typename T>() { return Run<T>(context, in); });
  }

 private:
  template <typename T>
  static bool IsTrue(const T& v) {
    if constexpr (kIsSmallFloat<T>) {
      return float(v) != 0.0f;
    } else {
      return v != T(0);
    }
  }

  template <typename T>
  static Status Run(KernelContext& context, const Tensor& in) {
    const T* from = in.data<T>();
    const int64_t n = in.num_elements();
    int64_t found = 0;
    for (int64_t i = 0; i < n; ++i) found += IsTrue(from[i]) ? 1 : 0;
    const int rank = in.rank();
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(Dims{found, rank}));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    int64_t* to = out->data<int64_t>();
    if (rank == 1) {
      // Without a branch, which would be mispredicted; the last element that is written is a selected one.
      for (int64_t i = 0, k = 0; k < found; ++i) {
        to[k] = i;
        k += IsTrue(from[i]) ? 1 : 0;
      }
      return Status();
    }
    Dims index;
    index.resize(static_cast<uint32_t>(rank));
    for (int64_t i = 0; i < n; ++i) {
      if (IsTrue(from[i])) to = std::copy(index.begin(), index.end(), to);
      for (int d = rank - 1; d >= 0 && ++index[d] == in.dim(d); --d) index[d] = 0;
    }
    return Status();
  }
};

}  // namespace

void RegisterOneHotKernels(KernelRegistry& registry) {
  registry.Register<OneHotKernel>(
      KernelDef("OneHot").Types("TI", {DataType::kUint8, DataType::kInt32, DataType::kInt64}));
  registry.Register<WhereKernel>(KernelDef("Where"));
}

}  // namespace millrace
