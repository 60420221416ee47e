// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/data_flow/accumulator.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/data_flow/access_kernel.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/state/variable_util.h"
#include "kernels/cpu/stored_type.h"

namespace millrace {
namespace {

template <typename T>
T DividedBy(T value, int64_t n) {
  if constexpr (kIsSmallFloat<T>) {
    return T(static_cast<float>(value) / static_cast<float>(n));
  } else if constexpr (kIsComplex<T>) {
    return value / T(static_cast<typename T::value_type>(n));
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return value / static_cast<uint64_t>(n);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(int64_t{value} / n);
  } else {
    return value / static_cast<T>(n);
  }
}

void Divide(DataType dtype, void* data, int64_t n, int64_t by) {
  if (by == 1) return;
  VisitNumber(StoredType(dtype), false, [&]<typename T>() {
    for (T& value : std::span(static_cast<T*>(data), static_cast<size_t>(n))) value = DividedBy(value, by);
    return true;
  });
}

void AddTo(DataType dtype, void* sum, const void* value, int64_t n) {
  VisitNumber(StoredType(dtype), false, [&]<typename T>() {
    auto* to = static_cast<T*>(sum);
    for (int64_t i = 0; i < n; ++i) to[i] = Plus(to[i], static_cast<const T*>(value)[i]);
    return true;
  });
}

template <typename Want, typename Got>
Status Mismatch(const Want& want, const Got& got) {
  return errors::InvalidArgument("Shape mismatch: expected ", want, ", got ", got);
}

}  // namespace

int32_t Accumulator::num_accumulated() const {
  MutexLock lock(mu_);
  return static_cast<int32_t>(count_);
}

void Accumulator::SetGlobalStep(int64_t step) {
  MutexLock lock(mu_);
  global_step_ = step;
}

std::string Accumulator::DebugString() const {
  return StrCat("accumulator of ", DataTypeName(spec_.dtype), ", ", num_accumulated(), " gradients");
}

bool Accumulator::Try(Attempt& attempt, Status* status) {
  if (count_ < attempt.number) return false;
  *status = TakeSum(&attempt.tensors);
  if (!status->ok()) return true;
  count_ = 0;
  ++global_step_;
  return true;
}

Status Accumulator::CancelledStatus(const Attempt& /*attempt*/) const {
  return errors::Cancelled("TakeGrad operation was cancelled");
}

Status DenseAccumulator::Apply(KernelContext& context, int64_t local_step, int input) {
  std::vector<Finished> finished;
  {
    MutexLock lock(mu_);
    if (local_step < global_step_) return Status();
    const Tensor& gradient = context.input(input);
    if (count_ > 0 && gradient.shape() != sum_.shape()) return Mismatch(sum_.shape(), gradient.shape());
    if (!spec_.shape.IsCompatibleWith(gradient.shape())) return Mismatch(spec_.shape, gradient.shape());
    if (count_ == 0) {
      MR_RETURN_IF_ERROR(StoreInput(context, input, sum_));
    } else {
      MR_RETURN_IF_ERROR(
          UpdateBy(context, *cpu::FindBinary(cpu::BinaryOp::kAdd, StoredType(spec_.dtype)), sum_, gradient));
    }
    ++count_;
    AdvanceAll(&finished);
  }
  Finish(finished);
  return Status();
}

Status DenseAccumulator::TakeSum(std::vector<Tensor>* tensors) {
  if (!spec_.sum) Divide(spec_.dtype, sum_.raw_data(), sum_.num_elements(), count_);
  tensors->push_back(std::exchange(sum_, Tensor()));
  return Status();
}

Status SparseAccumulator::Check(const Tensor& indices, const Tensor& values, const Tensor* shape) const {
  if (!indices.shape().IsVector()) {
    return errors::InvalidArgument("Input indices should be vector but received shape: ", indices.shape());
  }
  if (values.rank() < 1 || values.dim(0) != indices.dim(0)) {
    return errors::InvalidArgument("Values must have a row for each of the ", indices.dim(0),
                                   " indices, but received shape: ", values.shape());
  }
  std::vector<int64_t> dims(values.shape().dims().begin(), values.shape().dims().end());
  dims[0] = -1;
  PartialShape whole(dims);
  if (shape != nullptr) {
    MR_ASSIGN_OR_RETURN(const TensorShape given, ShapeFromTensor(*shape, "gradient_shape"));
    if (!whole.IsCompatibleWith(given)) return Mismatch(whole, given);
    whole = given;
  }
  // The declaration is about the first dimensions; a gradient may have more.
  PartialShape declared = spec_.shape;
  if (declared.rank() >= 0 && declared.rank() < whole.rank()) {
    dims.assign(declared.dims().begin(), declared.dims().end());
    dims.resize(static_cast<size_t>(whole.rank()), -1);
    declared = PartialShape(dims);
  }
  if (!declared.IsCompatibleWith(whole)) return Mismatch(spec_.shape, whole);
  if (!rows_.empty()) {
    TensorShape row = values.shape();
    row.RemoveDim(0);
    if (row != row_shape_) return Mismatch(row_shape_, row);
  }
  MR_ASSIGN_OR_RETURN(whole, whole.MergeWith(declared));
  for (const int64_t i : indices.flat<int64_t>()) {
    if (i < 0 || (whole.dim(0) >= 0 && i >= whole.dim(0)))
      return errors::InvalidArgument("Index ", i, " of a gradient is not in a tensor of shape ", whole);
  }
  return Status();
}

Status SparseAccumulator::Apply(int64_t local_step, const Tensor& indices, const Tensor& values,
                                const Tensor* shape) {
  std::vector<Finished> finished;
  {
    MutexLock lock(mu_);
    if (local_step < global_step_) return Status();
    MR_RETURN_IF_ERROR(Check(indices, values, shape));
    row_shape_ = values.shape();
    row_shape_.RemoveDim(0);
    const int64_t n = row_shape_.num_elements();
    const size_t bytes = static_cast<size_t>(n) * ElementSize(spec_.dtype);
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      const char* from = static_cast<const char*>(values.raw_data()) + static_cast<size_t>(i) * bytes;
      Row& row = rows_[indices.data<int64_t>()[i]];
      if (row.count++ == 0) {
        row.at = sums_.size();
        sums_.insert(sums_.end(), from, from + bytes);
      } else {
        AddTo(spec_.dtype, sums_.data() + row.at, from, n);
      }
    }
    ++count_;
    AdvanceAll(&finished);
  }
  Finish(finished);
  return Status();
}

Status SparseAccumulator::TakeSum(std::vector<Tensor>* tensors) {
  const auto n = static_cast<int64_t>(rows_.size());
  Dims dims = {n};
  for (const int64_t size : row_shape_.dims()) dims.push_back(size);
  MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
  MR_ASSIGN_OR_RETURN(Tensor indices, Tensor::Allocate(DataType::kInt64, TensorShape({n})));
  MR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(spec_.dtype, shape));
  MR_ASSIGN_OR_RETURN(Tensor whole, Tensor::Allocate(DataType::kInt64, TensorShape({shape.rank()})));
  const int64_t row_elements = row_shape_.num_elements();
  const size_t bytes = static_cast<size_t>(row_elements) * ElementSize(spec_.dtype);
  int64_t i = 0;
  for (const auto& [index, row] : rows_) {
    indices.data<int64_t>()[i] = index;
    char* to = static_cast<char*>(values.raw_data()) + static_cast<size_t>(i) * bytes;
    if (bytes > 0) std::memcpy(to, sums_.data() + row.at, bytes);
    if (!spec_.sum) Divide(spec_.dtype, to, row_elements, row.count);
    ++i;
  }
  for (int d = 0; d < shape.rank(); ++d) whole.data<int64_t>()[d] = shape.dim(d);
  whole.data<int64_t>()[0] = spec_.shape.rank() > 0 ? spec_.shape.dim(0) : -1;
  rows_.clear();
  sums_.clear();
  *tensors = {std::move(indices), std::move(values), std::move(whole)};
  return Status();
}

namespace {

class AccumulatorKernel final : public ResourceOpKernel<Accumulator> {
 public:
  AccumulatorKernel(KernelConstruction& c, bool sparse) : ResourceOpKernel(c, Unnamed::kNodeName) {
    spec_.name = place().name;
    spec_.dtype = c.Attr<DataType>("dtype");
    spec_.shape = c.Attr<PartialShape>("shape");
    spec_.sum = c.HasAttr("reduction_type") && c.Attr<std::string>("reduction_type") == "SUM";
    spec_.sparse = sparse;
  }

 private:
  StatusOr<RefPtr<Accumulator>> Make(KernelContext& /*context*/) override {
    if (spec_.sparse) return RefPtr<Accumulator>(MakeRef<SparseAccumulator>(spec_));
    return RefPtr<Accumulator>(MakeRef<DenseAccumulator>(spec_));
  }
  Status Verify(Accumulator& shared) override {
    const AccumulatorSpec& s = shared.spec();
    if (s.dtype != spec_.dtype || s.shape != spec_.shape || s.sum != spec_.sum || s.sparse != spec_.sparse) {
      return errors::InvalidArgument("Shared accumulator '", spec_.name,
                                     "' was declared in another way than node '", name(), "' requests");
    }
    return Status();
  }

  AccumulatorSpec spec_;
};

StatusOr<int64_t> ScalarArgument(const KernelContext& context, int i, std::string_view name) {
  const Tensor& t = context.input(i);
  if (t.shape().IsScalar()) return IntValue(t);
  return errors::InvalidArgument("Argument ", name, " must be scalar but had bad shape ", t.shape());
}

Status CheckKind(const Accumulator& accumulator, bool sparse, DataType dtype) {
  if (accumulator.spec().sparse == sparse && accumulator.spec().dtype == dtype) return Status();
  return errors::InvalidArgument("Accumulator '", accumulator.spec().name, "' is ",
                                 accumulator.spec().sparse ? "a sparse" : "a dense", " one of ",
                                 DataTypeName(accumulator.spec().dtype), ", not ",
                                 sparse ? "a sparse" : "a dense", " one of ", DataTypeName(dtype));
}

class ApplyGradientKernel final : public OpKernel {
 public:
  ApplyGradientKernel(KernelConstruction& c, bool sparse) : OpKernel(c), sparse_(sparse) {
    if (sparse) has_known_shape_ = c.Attr<bool>("has_known_shape");
  }
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Accumulator> found, FindResource<Accumulator>(context, 0));
    MR_RETURN_IF_ERROR(CheckKind(*found, sparse_, input_type(sparse_ ? 3 : 2)));
    MR_ASSIGN_OR_RETURN(const int64_t step, ScalarArgument(context, 1, "local_step"));
    if (!sparse_) return static_cast<DenseAccumulator&>(*found).Apply(context, step, 2);
    return static_cast<SparseAccumulator&>(*found).Apply(step, context.input(2), context.input(3),
                                                         has_known_shape_ ? &context.input(4) : nullptr);
  }

 private:
  const bool sparse_;
  bool has_known_shape_ = false;
};

class TakeGradientKernel final : public AccessKernel<Accumulator> {
 public:
  TakeGradientKernel(KernelConstruction& c, bool sparse) : AccessKernel(c), sparse_(sparse) {}

 private:
  Status Prepare(const KernelContext& context, Accumulator& accumulator, Attempt& attempt,
                 bool& /*nothing_to_do*/) override {
    MR_RETURN_IF_ERROR(CheckKind(accumulator, sparse_, output_type(sparse_ ? 1 : 0)));
    MR_ASSIGN_OR_RETURN(attempt.number, ScalarArgument(context, 1, "num_required"));
    if (attempt.number > 0) return Status();
    return errors::InvalidArgument("Argument num_required must be positive, but was ", attempt.number);
  }
  Status Deliver(KernelContext& context, Accumulator& /*accumulator*/, Attempt& attempt) override {
    for (int i = 0; i < num_outputs(); ++i)
      context.set_output(i, std::move(attempt.tensors[static_cast<size_t>(i)]));
    return Status();
  }

  const bool sparse_;
};

class SetGlobalStepKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Accumulator> accumulator, FindResource<Accumulator>(context, 0));
    MR_ASSIGN_OR_RETURN(const int64_t step, ScalarArgument(context, 1, "new_global_step"));
    accumulator->SetGlobalStep(step);
    return Status();
  }
};

class NumAccumulatedKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<Accumulator> accumulator, FindResource<Accumulator>(context, 0));
    context.set_output(0, Tensor::Scalar<int32_t>(accumulator->num_accumulated()));
    return Status();
  }
};

template <typename K>
void RegisterNumbers(KernelRegistry& registry, const std::string& op, bool sparse) {
  KernelDef def(op);
  def.Types("dtype", Concat(NumberTypes(), {DataType::kQint8, DataType::kQuint8, DataType::kQint32}))
      .Async(std::is_base_of_v<AsyncOpKernel, K>);
  registry.Register(std::move(def),
                    [sparse](KernelConstruction& c) { return std::make_unique<K>(c, sparse); });
}

}  // namespace

void RegisterAccumulatorKernels(KernelRegistry& registry) {
  RegisterNumbers<AccumulatorKernel>(registry, "SparseConditionalAccumulator", true);
  RegisterNumbers<ApplyGradientKernel>(registry, "SparseAccumulatorApplyGradient", true);
  RegisterNumbers<TakeGradientKernel>(registry, "SparseAccumulatorTakeGradient", true);
  for (const std::string prefix : {"", "Resource"}) {
    RegisterNumbers<AccumulatorKernel>(registry, prefix + "ConditionalAccumulator", false);
    RegisterNumbers<ApplyGradientKernel>(registry, prefix + "AccumulatorApplyGradient", false);
    RegisterNumbers<TakeGradientKernel>(registry, prefix + "AccumulatorTakeGradient", false);
    registry.Register<SetGlobalStepKernel>(KernelDef(prefix + "AccumulatorSetGlobalStep"));
    registry.Register<NumAccumulatedKernel>(KernelDef(prefix + "AccumulatorNumAccumulated"));
  }
}

}  // namespace millrace
