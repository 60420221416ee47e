// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// MapDefun: calls a function for each row of tensors.
#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/cpu/functional/call_chain.h"
#include "kernels/cpu/functional/functional.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

struct MapLogic {
  explicit MapLogic(KernelConstruction& c)
      : caller(c.functions()),
        num_rows_inputs(c.Attr<std::vector<DataType>>("Targuments").size()),
        types(c.Attr<std::vector<DataType>>("output_types")),
        shapes(c.Attr<std::vector<PartialShape>>("output_shapes")),
        f(c, c.Attr<NameAttrList>("f")) {
    if (shapes.size() != types.size()) {
      c.SetError(errors::InvalidArgument("`output_shapes` must be the same length as `output_types` (",
                                         shapes.size(), " vs. ", types.size(), ")"));
    }
  }
  FunctionCaller* const caller;
  const size_t num_rows_inputs;  // the other inputs are passed on unchanged
  const std::vector<DataType> types;
  const std::vector<PartialShape> shapes;  // of one call
  const BoundFunction f;
};

class MapChain final : public CallChain {
 public:
  MapChain(const MapLogic& logic, KernelContext& context, AsyncOpKernel::Done done)
      : CallChain(*logic.caller, context, std::move(done)), logic_(logic) {}

 private:
  Next Prepare(Status ended) override {
    if (!ended.ok()) return End(std::move(ended));
    if (function_ == nullptr) {
      if (Status status = Start(); !status.ok()) return End(std::move(status));
    } else {
      if (Status status = Keep(); !status.ok()) return End(std::move(status));
      ++row_;
    }
    if (row_ == rows_) return End(Finish());
    for (size_t i = 0; i < args_.size(); ++i) {
      if (i < logic_.num_rows_inputs) {
        auto row = Row(context().input(static_cast<int>(i)), row_);
        if (!row.ok()) return End(row.status());
        arg_values_[i] = *std::move(row);
      }
    }
    return {function_, args_, rets_};
  }

  Status Start() {
    const auto n = static_cast<size_t>(context().num_inputs());
    for (size_t i = 0; i < logic_.num_rows_inputs; ++i) {
      const Tensor& t = context().input(static_cast<int>(i));
      if (t.rank() == 0) {
        return errors::InvalidArgument("All inputs must have rank at least 1. Input ", i,
                                       " has a rank of 0.");
      }
      if (i == 0) rows_ = t.dim(0);
      if (t.dim(0) != rows_) {
        return errors::InvalidArgument("All inputs must have the same dimension 0. Input ", i,
                                       " has leading dimension ", t.dim(0),
                                       ", while all previous inputs have leading dimension ", rows_, ".");
      }
    }
    const NodeProps& props = context().kernel().props();
    MR_ASSIGN_OR_RETURN(function_, logic_.f.Get(props.input_types, props.output_types));
    arg_values_.resize(logic_.num_rows_inputs);
    for (size_t i = 0; i < n; ++i)
      args_.push_back(i < logic_.num_rows_inputs ? &arg_values_[i] : &context().input(static_cast<int>(i)));
    rets_.resize(logic_.types.size());
    outputs_.resize(logic_.types.size());
    return Status();
  }

  static StatusOr<Tensor> Row(const Tensor& from, int64_t i) {
    TensorShape shape = from.shape();
    shape.RemoveDim(0);
    MR_ASSIGN_OR_RETURN(Tensor row, Tensor::Allocate(from.dtype(), shape));
    Copy(row.num_elements(), from, i * row.num_elements(), &row, 0);
    return row;
  }
  static void Copy(int64_t n, const Tensor& from, int64_t from_at, Tensor* to, int64_t to_at) {
    if (n == 0) return;
    cpu::SerialParallel serial;
    MoveElements(from.dtype(), ElementAt(from.raw_data(), from.dtype(), from_at),
                 ElementAt(to->raw_data(), to->dtype(), to_at), n, serial);
  }

  StatusOr<Tensor> Output(const TensorShape& row, size_t i) const {
    Dims dims{rows_};
    for (const int64_t d : row.dims()) dims.push_back(d);
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
    return Tensor::Allocate(logic_.types[i], shape);
  }

  // Stores the results of a call as a row of the outputs.
  Status Keep() {
    for (size_t i = 0; i < rets_.size(); ++i) {
      const Tensor& value = rets_[i];
      if (!logic_.shapes[i].IsCompatibleWith(value.shape())) {
        return errors::InvalidArgument("Mismatch in function retval shape, ", value.shape(),
                                       ", and expected output shape, ", logic_.shapes[i], ".");
      }
      if (!outputs_[i].has_value()) {
        MR_ASSIGN_OR_RETURN(Tensor made, Output(value.shape(), i));
        outputs_[i] = std::move(made);
      }
      TensorShape row = outputs_[i]->shape();
      row.RemoveDim(0);
      if (row != value.shape()) {
        return errors::InvalidArgument("Mismatch in function retval shape, ", value.shape(),
                                       ", and expected output shape, ", row, ".");
      }
      Copy(value.num_elements(), value, 0, &*outputs_[i], row_ * value.num_elements());
      rets_[i] = Tensor();
    }
    return Status();
  }

  Status Finish() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].has_value()) {
        // Without calls an unknown size is 0.
        Dims dims;
        if (!logic_.shapes[i].unknown_rank()) {
          for (const int64_t d : logic_.shapes[i].dims()) dims.push_back(std::max<int64_t>(d, 0));
        }
        MR_ASSIGN_OR_RETURN(const TensorShape row, TensorShape::Make(dims));
        MR_ASSIGN_OR_RETURN(Tensor made, Output(row, i));
        outputs_[i] = std::move(made);
      }
      context().set_output(static_cast<int>(i), *std::move(outputs_[i]));
    }
    return Status();
  }

  const MapLogic& logic_;
  const FunctionCaller::Function* function_ = nullptr;
  int64_t rows_ = 0, row_ = 0;
  std::vector<Tensor> arg_values_;
  std::vector<const Tensor*> args_;
  std::vector<Tensor> rets_;
  std::vector<std::optional<Tensor>> outputs_;
};

class SyncMapKernel final : public OpKernel {
 public:
  explicit SyncMapKernel(KernelConstruction& c) : OpKernel(c), logic_(c) {}
  Status Compute(KernelContext& context) override { return MapChain(logic_, context, nullptr).Run(); }

 private:
  const MapLogic logic_;
};

class AsyncMapKernel final : public AsyncOpKernel {
 public:
  explicit AsyncMapKernel(KernelConstruction& c) : AsyncOpKernel(c), logic_(c) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    (new MapChain(logic_, context, std::move(done)))->Go();
  }

 private:
  const MapLogic logic_;
};

}  // namespace

void RegisterMapDefunKernels(KernelRegistry& registry) {
  RegisterCalling<SyncMapKernel, AsyncMapKernel>(registry, "MapDefun");
}

}  // namespace millrace
