// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/contract/bf16.h"
#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/nn/fused.h"
#include "kernels/cpu/nn/packed_weights.h"
#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

// One product of dense row-major matrices of any supported type.
template <typename T>
void Multiply(const cpu::GemmShape& shape, const void* a, const void* b, void* c, cpu::Parallel& parallel) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    cpu::Gemm(shape, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c), parallel);
  } else {
    cpu::GemmGeneric(shape, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c), parallel);
  }
}

// The product with the processor's instructions for bfloat16, of tensors of that type, or of floats that are
// rounded to it. False: there are none, or they would not be faster.
bool MultiplyBf16(DataType type, const cpu::GemmShape& shape, const void* a, const void* b, void* c,
                  cpu::Parallel& parallel) {
  if (type == DataType::kFloat) {
    return cpu::GemmBf16(shape, static_cast<const float*>(a), static_cast<const float*>(b),
                         static_cast<float*>(c), parallel);
  }
  return type == DataType::kBfloat16 &&
         cpu::GemmBf16(shape, static_cast<const uint16_t*>(a), static_cast<const uint16_t*>(b),
                       static_cast<uint16_t*>(c), parallel);
}

using MultiplyFn = void (*)(const cpu::GemmShape&, const void*, const void*, void*, cpu::Parallel&);

// Half types are multiplied as float.
MultiplyFn FindMultiply(DataType t) {
  switch (t) {
    case DataType::kFloat:
    case DataType::kHalf:
    case DataType::kBfloat16:
      return Multiply<float>;
    case DataType::kDouble:
      return Multiply<double>;
    case DataType::kInt32:
      return Multiply<int32_t>;
    case DataType::kInt64:
      return Multiply<int64_t>;
    case DataType::kComplex64:
      return Multiply<complex64>;
    case DataType::kComplex128:
      return Multiply<complex128>;
    default:
      return nullptr;
  }
}

TypeList MatMulTypes() {
  return {DataType::kHalf,  DataType::kBfloat16, DataType::kFloat,     DataType::kDouble,
          DataType::kInt32, DataType::kInt64,    DataType::kComplex64, DataType::kComplex128};
}

bool IsSmallFloat(DataType t) { return t == DataType::kHalf || t == DataType::kBfloat16; }

// The product of two matrices of these shapes.
StatusOr<cpu::GemmShape> ProductOf(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b) {
  if (a.rank() != 2) {
    return errors::InvalidArgument("In[0] is not a matrix. Instead it has shape ", a.shape());
  }
  if (b.rank() != 2) {
    return errors::InvalidArgument("In[1] is not a matrix. Instead it has shape ", b.shape());
  }
  cpu::GemmShape shape;
  shape.trans_a = trans_a;
  shape.trans_b = trans_b;
  shape.m = a.dim(trans_a ? 1 : 0);
  shape.k = a.dim(trans_a ? 0 : 1);
  shape.n = b.dim(trans_b ? 0 : 1);
  if (shape.k != b.dim(trans_b ? 1 : 0)) {
    return errors::InvalidArgument("Matrix size-incompatible: In[0]: ", a.shape(), ", In[1]: ", b.shape());
  }
  return shape;
}

class MatMulKernel final : public OpKernel {
 public:
  explicit MatMulKernel(KernelConstruction& c)
      : OpKernel(c),
        trans_a_(c.Attr<bool>("transpose_a")),
        trans_b_(c.Attr<bool>("transpose_b")),
        rounds_(RoundsFactors(c) || input_type(0) == DataType::kBfloat16),
        multiply_(FindMultiply(input_type(0))) {}

  Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    MR_ASSIGN_OR_RETURN(const cpu::GemmShape shape, ProductOf(a, b, trans_a_, trans_b_));
    MR_ASSIGN_OR_RETURN(TensorShape out_shape,
                        ShapeFromValues(std::initializer_list<int64_t>{shape.m, shape.n}));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, out_shape));
    ContextParallel parallel(context);
    if (rounds_ && MultiplyBf16(a.dtype(), shape, a.raw_data(), b.raw_data(), out->raw_data(), parallel))
      return Status();
    if (!IsSmallFloat(a.dtype())) {
      multiply_(shape, a.raw_data(), b.raw_data(), out->raw_data(), parallel);
      return Status();
    }
    MR_ASSIGN_OR_RETURN(const Tensor fa, ToFloat(context, a));
    MR_ASSIGN_OR_RETURN(const Tensor fb, ToFloat(context, b));
    MR_ASSIGN_OR_RETURN(Tensor product, context.AllocateTemp(DataType::kFloat, out_shape));
    multiply_(shape, fa.raw_data(), fb.raw_data(), product.raw_data(), parallel);
    FromFloat(context, product, out);
    return Status();
  }

 private:
  const bool trans_a_, trans_b_, rounds_;
  const MultiplyFn multiply_;
};

// A product of matrices with hints that many elements are 0, which are ignored.
class SparseMatMulKernel final : public OpKernel {
 public:
  explicit SparseMatMulKernel(KernelConstruction& c)
      : OpKernel(c), trans_a_(c.Attr<bool>("transpose_a")), trans_b_(c.Attr<bool>("transpose_b")) {}
  Status Compute(KernelContext& context) override {
    const Tensor &a = context.input(0), &b = context.input(1);
    if (a.rank() != 2) return errors::InvalidArgument("a is not a matrix");
    if (b.rank() != 2) return errors::InvalidArgument("b is not a matrix");
    if (a.dim(trans_a_ ? 0 : 1) != b.dim(trans_b_ ? 1 : 0))
      return errors::InvalidArgument("Matrix size incompatible: a: ", a.shape(), ", b: ", b.shape());
    MR_ASSIGN_OR_RETURN(const cpu::GemmShape shape, ProductOf(a, b, trans_a_, trans_b_));
    MR_ASSIGN_OR_RETURN(const TensorShape out_shape,
                        ShapeFromValues(std::initializer_list<int64_t>{shape.m, shape.n}));
    Tensor factors[2] = {a, b};
    for (Tensor& factor : factors) {
      if (!IsSmallFloat(factor.dtype())) continue;
      MR_ASSIGN_OR_RETURN(factor, ToFloat(context, factor));
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, out_shape));
    ContextParallel parallel(context);
    Multiply<float>(shape, factors[0].raw_data(), factors[1].raw_data(), out->raw_data(), parallel);
    return Status();
  }

 private:
  const bool trans_a_, trans_b_;
};

int64_t PackedElementsOf(const cpu::GemmShape& shape) {
  return shape.k > 0 && shape.n > 0 ? cpu::PackedElements<float>({shape.k, 1, shape.n}) : 0;
}

class PackMatrixKernel final : public OpKernel {
 public:
  explicit PackMatrixKernel(KernelConstruction& c) : OpKernel(c), transpose_(c.Attr<bool>("transpose")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& b = context.input(0);
    if (b.rank() != 2) return errors::InvalidArgument("b must be a matrix, got shape ", b.shape());
    const cpu::GemmShape shape{.n = b.dim(transpose_ ? 0 : 1), .k = b.dim(transpose_ ? 1 : 0)};
    MR_ASSIGN_OR_RETURN(Tensor * packed, context.AllocateOutput(0, TensorShape({PackedElementsOf(shape)})));
    if (packed->num_elements() == 0) return Status();
    cpu::PackMatrix({shape.k, 1, shape.n}, b.data<float>(), b.dim(1), transpose_, packed->data<float>());
    return Status();
  }

 private:
  const bool transpose_;
};

class FusedMatMulKernel final : public OpKernel {
 public:
  explicit FusedMatMulKernel(KernelConstruction& c)
      : OpKernel(c),
        trans_a_(c.Attr<bool>("transpose_a")),
        trans_b_(c.Attr<bool>("transpose_b")),
        keep_weights_(c.Attr<bool>("keep_weights")),
        takes_packed_(c.Attr<bool>("packed")),
        rounds_(RoundsFactors(c)),
        epilogue_(c, takes_packed_ ? 1 : 0),
        packed_(c.device().allocator()) {}

  Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    MR_ASSIGN_OR_RETURN(cpu::GemmShape shape, ProductOf(a, b, trans_a_, trans_b_));
    MR_ASSIGN_OR_RETURN(TensorShape out_shape,
                        ShapeFromValues(std::initializer_list<int64_t>{shape.m, shape.n}));
    MR_ASSIGN_OR_RETURN(FusedEpilogue::Bound bound, epilogue_.Bind(context, 2, shape.n, out_shape));
    MR_ASSIGN_OR_RETURN(const Tensor packed, PackedOf(context, shape, b));
    // A residual without other references is the sum's place: the product is added to it.
    const bool in_place = epilogue_.only_adds() && bound.epilogue.residual != nullptr && !rounds_ &&
                          packed.num_elements() == 0 && cpu::AddsOnce(shape);
    const std::initializer_list<int> sum{2}, none{};
    MR_ASSIGN_OR_RETURN(Tensor product, context.ForwardInputOrAllocateTemp(in_place ? sum : none,
                                                                           DataType::kFloat, out_shape));
    if (product.data<float>() == bound.epilogue.residual) {
      bound.epilogue.residual = nullptr;
      shape.accumulate = true;
    }
    ContextParallel parallel(context);
    if (rounds_ && MultiplyRounded(shape, a, b, &product, parallel, bound.epilogue))
      return epilogue_.Finish(context, bound, std::move(product));
    cpu::Gemm(shape, a.data<float>(), b.data<float>(), product.data<float>(), parallel, bound.epilogue,
              packed.num_elements() > 0 ? packed.data<float>() : nullptr);
    return epilogue_.Finish(context, bound, std::move(product));
  }

 private:
  // B as packed by _PackMatrix or by the kernel, or no elements.
  StatusOr<Tensor> PackedOf(KernelContext& context, const cpu::GemmShape& shape, const Tensor& b) {
    Tensor none(DataType::kFloat, TensorShape({0}));
    if (takes_packed_) {
      const Tensor& packed = context.input(context.num_inputs() - 1);
      const int64_t elements = PackedElementsOf(shape);
      if (packed.rank() != 1 || packed.dim(0) != elements) {
        return errors::InvalidArgument("A packed matrix must be a vector of ", elements,
                                       " values, got shape ", packed.shape());
      }
      return shape.m > 1 ? packed : none;
    }
    if (rounds_ || !keep_weights_ || !PackingPays(shape)) return none;
    return packed_.Find(b, {shape.k, 1, shape.n}, b.dim(1), trans_b_);
  }

  bool MultiplyRounded(const cpu::GemmShape& shape, const Tensor& a, const Tensor& b, Tensor* product,
                       cpu::Parallel& parallel, const cpu::GemmEpilogue<float>& epilogue) {
    if (cpu::ActiveBf16Unit() == cpu::Bf16Unit::kNone) return false;
    Tensor packed;
    if (keep_weights_ && shape.k > 0 && shape.n > 0)
      packed = packed_.FindBf16(b, shape.k, shape.n, trans_b_, parallel);
    return cpu::GemmBf16(shape, a.data<float>(), b.data<float>(), product->data<float>(), parallel, epilogue,
                         packed.num_elements() > 0 ? Bf16Bits(std::as_const(packed)) : nullptr);
  }

  // With few rows, packing B in each step takes long in comparison with the product; with transposed B,
  // always. Packing a large B reads it across many pages.
  bool PackingPays(const cpu::GemmShape& s) const {
    constexpr int64_t kMaxRows = 256, kMaxElements = 1 << 23;
    return s.m > 1 && s.k > 0 && s.n > 0 && (s.m <= kMaxRows || trans_b_) && s.k * s.n <= kMaxElements;
  }

  const bool trans_a_, trans_b_, keep_weights_, takes_packed_, rounds_;
  const FusedEpilogue epilogue_;
  PackedWeights packed_;
};

// Conjugates in place for the adjoint of a complex matrix.
void Conjugate(Tensor* t) {
  if (t->dtype() == DataType::kComplex64) {
    for (complex64& v : t->flat<complex64>()) v = std::conj(v);
  } else if (t->dtype() == DataType::kComplex128) {
    for (complex128& v : t->flat<complex128>()) v = std::conj(v);
  }
}

class BatchMatMulKernel final : public OpKernel {
 public:
  explicit BatchMatMulKernel(KernelConstruction& c)
      : OpKernel(c),
        adj_x_(c.Attr<bool>("adj_x")),
        adj_y_(c.Attr<bool>("adj_y")),
        broadcasts_(op_name() == "BatchMatMulV2"),
        rounds_(RoundsFactors(c) || input_type(0) == DataType::kBfloat16),
        multiply_(FindMultiply(input_type(0))) {}

  Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& y = context.input(1);
    MR_ASSIGN_OR_RETURN(TensorShape out_shape, BatchShape(x, y));
    const int rx = x.rank(), ry = y.rank();
    cpu::GemmShape shape;
    shape.trans_a = adj_x_;
    shape.trans_b = adj_y_;
    shape.m = x.dim(adj_x_ ? rx - 1 : rx - 2);
    shape.k = x.dim(adj_x_ ? rx - 2 : rx - 1);
    shape.n = y.dim(adj_y_ ? ry - 2 : ry - 1);
    if (shape.k != y.dim(adj_y_ ? ry - 1 : ry - 2)) {
      return errors::InvalidArgument("In[0] mismatch In[1] shape: ", shape.k, " vs. ",
                                     y.dim(adj_y_ ? ry - 1 : ry - 2), ": ", x.shape(), " ", y.shape(), " ",
                                     adj_x_, " ", adj_y_);
    }
    const TensorShape batch = out_shape;
    MR_RETURN_IF_ERROR(out_shape.TryAddDim(shape.m));
    MR_RETURN_IF_ERROR(out_shape.TryAddDim(shape.n));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, out_shape));
    if (out_shape.num_elements() == 0) return Status();  // there may be very many empty matrices
    const std::vector<int64_t> of_x = Repeated(x, batch);
    std::vector<int64_t> of_y = Repeated(y, batch);
    int64_t batches = batch.num_elements();
    if (!adj_x_ && of_x.empty() && y.num_elements() == shape.k * shape.n) {
      // One matrix for all: the rows of the others are combined to one matrix.
      shape.m *= batches;
      batches = 1;
      of_y.clear();
    }
    const bool small = IsSmallFloat(x.dtype());
    Tensor a = x, b = y, c = *out;
    if (rounds_ && MultiplyAllBf16(context, shape, batches, x, y, of_x, of_y, out)) return Status();
    if (small) {
      MR_ASSIGN_OR_RETURN(a, ToFloat(context, x));
      MR_ASSIGN_OR_RETURN(b, ToFloat(context, y));
      MR_ASSIGN_OR_RETURN(c, context.AllocateTemp(DataType::kFloat, out_shape));
    }
    if (IsComplexType(x.dtype())) {
      if (adj_x_) Conjugate(&(a = a.DeepCopy()));
      if (adj_y_) Conjugate(&(b = b.DeepCopy()));
    }
    MultiplyAll(context, shape, batches, a, b, of_x, of_y, &c);
    if (small) FromFloat(context, c, out);
    return Status();
  }

 private:
  // The shape of the result except for its last two dimensions.
  StatusOr<TensorShape> BatchShape(const Tensor& x, const Tensor& y) const {
    if (!broadcasts_ && x.rank() != y.rank()) {
      return errors::InvalidArgument("In[0] and In[1] has different ndims: ", x.shape(), " vs. ", y.shape());
    }
    if (!broadcasts_ && x.rank() < 2) {
      return errors::InvalidArgument("In[0] and In[1] ndims must be >= 2: ", x.rank());
    }
    if (x.rank() < 2) return errors::InvalidArgument("In[0] ndims must be >= 2: ", x.rank());
    if (y.rank() < 2) return errors::InvalidArgument("In[1] ndims must be >= 2: ", y.rank());
    const TensorShape batch_x = BatchOf(x), batch_y = BatchOf(y);
    if (broadcasts_) {
      auto both = BroadcastShapes(batch_x, batch_y);
      if (both.ok()) return both;
      return errors::InvalidArgument("In[0] and In[1] must have compatible batch dimensions: ", x.shape(),
                                     " vs. ", y.shape());
    }
    for (int i = 0; i < batch_x.rank(); ++i) {
      if (batch_x.dim(i) != batch_y.dim(i)) {
        return errors::InvalidArgument("In[0].dim(", i, ") and In[1].dim(", i,
                                       ") must be the same: ", x.shape(), " vs ", y.shape());
      }
    }
    return batch_x;
  }
  static TensorShape BatchOf(const Tensor& t) {
    TensorShape shape = t.shape();
    shape.RemoveDim(t.rank() - 1);
    shape.RemoveDim(t.rank() - 2);
    return shape;
  }

  // For each matrix of the batch the index of the matrix in `t`; empty if they are the same.
  static std::vector<int64_t> Repeated(const Tensor& t, const TensorShape& batch) {
    const TensorShape own = BatchOf(t);
    std::vector<int64_t> numbers;
    if (own == batch) return numbers;
    numbers.assign(1, 0);
    // From the first dimension on: each index is expanded by the size of the dimension.
    for (int i = 0; i < batch.rank(); ++i) {
      const int j = i - (batch.rank() - own.rank());
      const int64_t dim = j < 0 ? 1 : own.dim(j);
      std::vector<int64_t> next;
      next.reserve(numbers.size() * static_cast<size_t>(batch.dim(i)));
      for (const int64_t number : numbers) {
        for (int64_t k = 0; k < batch.dim(i); ++k) next.push_back(number * dim + (dim == 1 ? 0 : k));
      }
      numbers = std::move(next);
    }
    return numbers;
  }

  // Calls `one` for one matrix of the batch after the other, or for several in parallel.
  template <typename One>
  static void ForEachMatrix(const KernelContext& context, const cpu::GemmShape& shape, int64_t batches,
                            double products_per_ns, const One& one) {
    ContextParallel within(context);
    if (batches < 4) {
      for (int64_t i = 0; i < batches; ++i) one(i, within);
      return;
    }
    const double cost_ns = static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                           static_cast<double>(shape.k) / products_per_ns;
    context.ParallelFor(batches, static_cast<int64_t>(std::min(cost_ns, 1e12)) + 1,
                        [&](int64_t begin, int64_t end) {
                          cpu::SerialParallel serial;
                          for (int64_t i = begin; i < end; ++i) one(i, serial);
                        });
  }

  // The start of matrix i of the batch in an operand.
  static const char* MatrixOf(const Tensor& t, const std::vector<int64_t>& numbers, int64_t i,
                              int64_t elements) {
    const int64_t number = numbers.empty() ? i : numbers[static_cast<size_t>(i)];
    return static_cast<const char*>(t.raw_data()) +
           number * elements * static_cast<int64_t>(ElementSize(t.dtype()));
  }

  void MultiplyAll(const KernelContext& context, const cpu::GemmShape& shape, int64_t batches,
                   const Tensor& a, const Tensor& b, const std::vector<int64_t>& of_a,
                   const std::vector<int64_t>& of_b, Tensor* c) const {
    const int64_t result = shape.m * shape.n * static_cast<int64_t>(ElementSize(c->dtype()));
    ForEachMatrix(context, shape, batches, 32, [&](int64_t i, cpu::Parallel& parallel) {
      multiply_(shape, MatrixOf(a, of_a, i, shape.m * shape.k), MatrixOf(b, of_b, i, shape.k * shape.n),
                static_cast<char*>(c->raw_data()) + i * result, parallel);
    });
  }

  // Multiplies all of them; false if one failed.
  static bool MultiplyAllBf16(const KernelContext& context, const cpu::GemmShape& shape, int64_t batches,
                              const Tensor& a, const Tensor& b, const std::vector<int64_t>& of_a,
                              const std::vector<int64_t>& of_b, Tensor* c) {
    const int64_t result = shape.m * shape.n * static_cast<int64_t>(ElementSize(c->dtype()));
    std::atomic<bool> done{true};
    ForEachMatrix(context, shape, batches, 200, [&](int64_t i, cpu::Parallel& parallel) {
      if (!done.load(std::memory_order_relaxed)) return;  // relaxed: the results are not used then
      if (!MultiplyBf16(a.dtype(), shape, MatrixOf(a, of_a, i, shape.m * shape.k),
                        MatrixOf(b, of_b, i, shape.k * shape.n),
                        static_cast<char*>(c->raw_data()) + i * result, parallel)) {
        done.store(false, std::memory_order_relaxed);
      }
    });
    return done.load();
  }

  const bool adj_x_, adj_y_;
  const bool broadcasts_, rounds_;
  const MultiplyFn multiply_;
};

}  // namespace

void RegisterNnMatMulKernels(KernelRegistry& registry) {
  registry.Register<MatMulKernel>(KernelDef("MatMul").Types("T", MatMulTypes()));
  registry.Register<FusedMatMulKernel>(KernelDef("_FusedMatMul").Types("T", {DataType::kFloat}));
  registry.Register<PackMatrixKernel>(KernelDef("_PackMatrix").Types("T", {DataType::kFloat}));
  const TypeList factors = {DataType::kFloat, DataType::kBfloat16};
  registry.Register<SparseMatMulKernel>(KernelDef("SparseMatMul").Types("Ta", factors).Types("Tb", factors));
  registry.Register<BatchMatMulKernel>(KernelDef("BatchMatMul").Types("T", MatMulTypes()));
  registry.Register<BatchMatMulKernel>(KernelDef("BatchMatMulV2").Types("T", MatMulTypes()));
}

}  // namespace millrace
