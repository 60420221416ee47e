// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// In-place updates of rows, ParallelConcat, Empty, Fingerprint, Timestamp and UnravelIndex.
#include <array>
#include <chrono>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/state/scatter.h"
#include "kernels/shared/fingerprint.h"

namespace millrace {
namespace {

// y = x except for the rows with the indices in i, modulo the number of rows.
class InplaceKernel final : public OpKernel {
 public:
  InplaceKernel(KernelConstruction& c, ScatterOp op) : OpKernel(c), op_(op) {}
  Status Compute(KernelContext& context) override {
    const TensorShape shape = context.input(0).shape();
    const Tensor& rows = context.input(1);
    const Tensor& values = context.input(2);
    if (!rows.shape().IsVector()) {
      return errors::InvalidArgument("i must be a vector. ", rows.shape());
    }
    if (shape.rank() < 1 || values.rank() != shape.rank()) {
      return errors::InvalidArgument("x and v shape doesn't match (ranks differ): ", shape, " vs. ",
                                     values.shape());
    }
    for (int d = 1; d < shape.rank(); ++d) {
      if (values.dim(d) != shape.dim(d)) {
        return errors::InvalidArgument("x and v shape doesn't match at index ", d, " : ", shape.dim(d),
                                       " vs ", values.dim(d));
      }
    }
    if (values.dim(0) != rows.num_elements()) {
      return errors::InvalidArgument("i and x shape doesn't match at index 0: ", rows.num_elements(), " vs ",
                                     values.dim(0));
    }
    const int64_t count = shape.dim(0);
    if (count == 0 && rows.num_elements() > 0) return errors::InvalidArgument("x has no rows");
    Tensor* out = context.TryForward(0, 0);
    if (out == nullptr) {
      MR_ASSIGN_OR_RETURN(out, context.AllocateOutput(0, shape));
      ContextParallel parallel(context);
      MoveElements(out->dtype(), context.input(0).raw_data(), out->raw_data(), shape.num_elements(),
                   parallel);
    }
    if (values.num_elements() == 0) return Status();
    Dims offsets;
    for (int64_t i = 0; i < rows.num_elements(); ++i) {
      offsets.push_back((IntValue(rows, i) % count + count) % count);
    }
    ScatterRowsArgs args;
    args.op = op_;
    args.dtype = out->dtype();
    args.into = out->raw_data();
    args.updates = values.raw_data();
    args.offsets = offsets;
    args.row = shape.num_elements() / count;
    return ScatterRows(args);
  }

 private:
  const ScatterOp op_;
};

// Concatenates rows [1, ...] to one tensor of the shape in the attribute.
class ParallelConcatKernel final : public OpKernel {
 public:
  explicit ParallelConcatKernel(KernelConstruction& c) : OpKernel(c) {
    const auto shape = c.Attr<PartialShape>("shape").ToTensorShape();
    if (!shape.ok()) {
      c.SetError(errors::InvalidArgument("shape attr must be fully defined."));
    } else if (shape->rank() < 1 || shape->dim(0) != num_inputs()) {
      c.SetError(errors::InvalidArgument("shape attr must have a row for each of ", num_inputs(),
                                         " inputs, got ", *shape));
    } else {
      shape_ = *shape;
    }
  }
  Status Compute(KernelContext& context) override {
    TensorShape row = shape_;
    row.SetDim(0, 1);
    for (int i = 0; i < num_inputs(); ++i) {
      if (context.input(i).shape() != row) {
        return errors::InvalidArgument("Input ", i, " has shape ", context.input(i).shape(), ", expected ",
                                       row);
      }
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape_));
    ContextParallel parallel(context);
    const int64_t n = row.num_elements();
    for (int i = 0; i < num_inputs(); ++i) {
      MoveElements(out->dtype(), context.input(i).raw_data(), ElementAt(out->raw_data(), out->dtype(), i * n),
                   n, parallel);
    }
    return Status();
  }

 private:
  TensorShape shape_;
};

// Returns zeros, with or without `init`: earlier contents of memory are never visible.
class EmptyKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromTensor(context.input(0), "shape"));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    ZeroElements(out->dtype(), out->raw_data(), shape.num_elements(), parallel);
    return Status();
  }
};

class DeepCopyKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    ContextParallel parallel(context);
    MoveElements(in.dtype(), in.raw_data(), out->raw_data(), in.num_elements(), parallel);
    return Status();
  }
};

// Eight bytes for each row. The hash of a row of strings is the hash of their hashes.
class FingerprintKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& data = context.input(0);
    const Tensor& method = context.input(1);
    if (!method.shape().IsScalar()) {
      return errors::InvalidArgument("`method` should be a scalar string: ", method.shape());
    }
    if (method.scalar<std::string>() != "farmhash64") {
      return errors::InvalidArgument("Unsupported fingerprint method: ", method.scalar<std::string>());
    }
    if (data.rank() < 1)
      return errors::InvalidArgument("`data` should have at least one dimension: ", data.shape());
    if (OwnsMemory(data.dtype()) && data.dtype() != DataType::kString)
      return NoSuchType(context, data.dtype());
    const int64_t rows = data.dim(0);
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(Dims{rows, 8}));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const int64_t row = rows == 0 ? 0 : data.num_elements() / rows;
    context.ParallelFor(rows, row + 20, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const uint64_t hash =
            data.dtype() == DataType::kString ? OfStrings(data, r * row, row) : OfBytes(data, r * row, row);
        // Little-endian, as in TensorFlow on the machines that it supports.
        for (int k = 0; k < 8; ++k) {
          out->data<uint8_t>()[r * 8 + k] = static_cast<uint8_t>(hash >> (8 * k));
        }
      }
    });
    return Status();
  }

 private:
  static uint64_t OfBytes(const Tensor& data, int64_t at, int64_t n) {
    const auto* bytes = static_cast<const char*>(ElementAt(data.raw_data(), data.dtype(), at));
    return FarmFingerprint64({bytes, static_cast<size_t>(n) * ElementSize(data.dtype())});
  }
  static uint64_t OfStrings(const Tensor& data, int64_t at, int64_t n) {
    if (data.rank() == 1) return FarmFingerprint64(data.data<std::string>()[at]);
    std::string hashes;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t hash = FarmFingerprint64(data.data<std::string>()[at + i]);
      for (int k = 0; k < 8; ++k) hashes.push_back(static_cast<char>(hash >> (8 * k)));
    }
    return FarmFingerprint64(hashes);
  }
};

// Seconds since 1970.
class TimestampKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    context.set_output(0, Tensor::Scalar(std::chrono::duration<double>(now).count()));
    return Status();
  }
};

// The coordinates of flat indices.
class UnravelIndexKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& dims = context.input(1);
    if (indices.rank() > 1) {
      return errors::InvalidArgument("The indices can only be scalar or vector, got \"", indices.shape(),
                                     "\"");
    }
    if (dims.rank() != 1)
      return errors::InvalidArgument("The indices can only be 1-D, got \"", dims.shape(), "\"");
    int64_t size = 1;
    for (int64_t d = 0; d < dims.num_elements(); ++d) {
      const int64_t dim = IntValue(dims, d);
      if (dim == 0) {
        return errors::InvalidArgument("Input dims cannot contain a dim of zero, but contains zero at index ",
                                       d);
      }
      if (dim < 0 || !MultiplyFits(size, dim, &size)) {
        return errors::InvalidArgument("Input dims are not the sizes of a tensor: ", dim, " at index ", d);
      }
    }
    const int64_t n = indices.num_elements(), rank = dims.num_elements();
    MR_ASSIGN_OR_RETURN(const TensorShape shape,
                        ShapeFromValues(indices.rank() == 0 ? Dims{rank} : Dims{rank, n}));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const Dims sizes = IntValues(dims);
    const bool inside = out->dtype() == DataType::kInt32
                            ? Unravel(indices.data<int32_t>(), n, sizes, size, out->data<int32_t>())
                            : Unravel(indices.data<int64_t>(), n, sizes, size, out->data<int64_t>());
    if (!inside) return errors::InvalidArgument("index is out of bound as with dims");
    return Status();
  }

 private:
  // Row d of `to`: the coordinates along dimension d. False: an index is not below `size`.
  template <typename T>
  static bool Unravel(const T* indices, int64_t n, const Dims& sizes, int64_t size, T* to) {
    constexpr int64_t kExact = int64_t{1} << 52;  // all smaller numbers are exact as double
    constexpr int64_t kBlock = 256;
    std::array<int64_t, kBlock> rest;
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t count = std::min(kBlock, n - first);
      bool inside = true;
      for (int64_t i = 0; i < count; ++i) {
        rest[static_cast<size_t>(i)] = indices[first + i];
        inside &= indices[first + i] >= 0 && static_cast<int64_t>(indices[first + i]) < size;
      }
      if (!inside) return false;
      for (size_t d = sizes.size(); d-- > 0;) {
        T* const row = to + static_cast<int64_t>(d) * n + first;
        size <= kExact ? DivideByInverse(rest.data(), count, sizes[d], row)
                       : Divide(rest.data(), count, sizes[d], row);
      }
    }
    return true;
  }
  // Quotients to `rest`, remainders to `to`.
  template <typename T>
  static void Divide(int64_t* rest, int64_t count, int64_t divisor, T* to) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<T>(rest[i] % divisor);
      rest[i] /= divisor;
    }
  }
  // The product differs from the quotient by less than 1, so the quotient by at most 1.
  template <typename T>
  static void DivideByInverse(int64_t* rest, int64_t count, int64_t divisor, T* to) {
    const double inverse = 1 / static_cast<double>(divisor);
    for (int64_t i = 0; i < count; ++i) {
      const auto quotient = static_cast<int64_t>(static_cast<double>(rest[i]) * inverse);
      const int64_t remainder = rest[i] - quotient * divisor;
      const int64_t missing = (remainder >= divisor ? 1 : 0) - (remainder < 0 ? 1 : 0);
      rest[i] = quotient + missing;
      to[i] = static_cast<T>(remainder - missing * divisor);
    }
  }
};

}  // namespace

void RegisterInplaceKernels(KernelRegistry& registry) {
  for (const auto& [name, op] :
       {std::pair("InplaceUpdate", ScatterOp::kAssign), std::pair("InplaceAdd", ScatterOp::kAdd),
        std::pair("InplaceSub", ScatterOp::kSub)}) {
    registry.Register(KernelDef(name).Types("T", ScatterTypes(op)),
                      [op = op](KernelConstruction& c) { return std::make_unique<InplaceKernel>(c, op); });
  }
  registry.Register<ParallelConcatKernel>(KernelDef("ParallelConcat"));
  registry.Register<EmptyKernel>(KernelDef("Empty"));
  registry.Register<DeepCopyKernel>(KernelDef("DeepCopy"));
  registry.Register<FingerprintKernel>(KernelDef("Fingerprint"));
  registry.Register<TimestampKernel>(KernelDef("Timestamp"));
  registry.Register<UnravelIndexKernel>(KernelDef("UnravelIndex").Types("Tidx", IndexTypes()));
}

}  // namespace millrace
