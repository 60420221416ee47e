// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the kernels that make datasets share.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/function.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "op/op_def.h"
#include "tensor/resource_handle.h"

namespace millrace::data {

// The inputs and attributes of a node, by name. Errors contain the name.
class NodeArgs {
 public:
  NodeArgs(KernelContext& context, const std::vector<ArgRange>& ranges)
      : context_(context), ranges_(ranges) {}
  // The inputs and attributes of another node, within the context of this one.
  NodeArgs(KernelContext& context, const std::vector<ArgRange>& ranges, const Origin& origin)
      : context_(context), ranges_(ranges), origin_(&origin) {}
  KernelContext& context() const { return context_; }
  const AttrMap& attrs() const {
    return origin_ != nullptr ? *origin_->attrs : context_.kernel().props().attrs;
  }
  std::string_view op() const {
    return origin_ != nullptr ? std::string_view(origin_->op) : context_.kernel().op_name();
  }
  // The op without "Dataset" and the suffix of its version.
  std::string Kind() const;

  StatusOr<RefPtr<const Dataset>> Input(std::string_view name = "input_dataset") const;
  StatusOr<std::vector<RefPtr<const Dataset>>> Inputs(std::string_view name) const;
  StatusOr<Tensor> Value(std::string_view name) const;
  StatusOr<std::vector<Tensor>> Values(std::string_view name) const;
  template <typename T>
  StatusOr<T> Scalar(std::string_view name) const {
    MR_ASSIGN_OR_RETURN(const Tensor value, Value(name));
    if (!value.shape().IsScalar() || value.dtype() != kDataTypeOf<T>) {
      return errors::InvalidArgument(name, " must be a scalar");
    }
    return value.scalar<T>();
  }
  // A scalar counts as a vector of one.
  template <typename T>
  StatusOr<std::vector<T>> Vector(std::string_view name) const {
    MR_ASSIGN_OR_RETURN(const Tensor value, Value(name));
    if (value.rank() > 1 || value.dtype() != kDataTypeOf<T>) {
      return errors::InvalidArgument(name, " must be a scalar or a vector.");
    }
    return std::vector<T>(value.flat<T>().begin(), value.flat<T>().end());
  }
  template <typename T>
  StatusOr<T> Attr(std::string_view name) const {
    return attrs().Get<T>(name);
  }
  // The signature in output_types (or Toutput_types) and output_shapes.
  StatusOr<Dataset::Signature> Signature() const;
  // The function in attribute `f`, with the inputs `captured`.
  StatusOr<std::unique_ptr<CapturedFunction>> Function(std::string_view f,
                                                       std::string_view captured = "other_arguments") const;

 private:
  StatusOr<ArgRange> Range(std::string_view name) const;
  KernelContext& context_;
  const std::vector<ArgRange>& ranges_;
  const Origin* const origin_ = nullptr;
  // REQUIRES: `i` is within a range.
  const Tensor& ValueAt(int i) const {
    return origin_ != nullptr ? origin_->inputs[static_cast<size_t>(i)] : context_.input(i);
  }
};

using MakeDataset = StatusOr<RefPtr<const Dataset>> (*)(const NodeArgs& args);
// Registers kernels that make a dataset; also under the name with the prefix "Experimental", if there is such
// an op.
void RegisterDataset(KernelRegistry& registry, std::string_view op, MakeDataset make);

// Creates a dataset again from its `origin`. NotFound for an op that makes no dataset or has no
// kernel.
StatusOr<RefPtr<const Dataset>> Remake(KernelContext& context, std::shared_ptr<const Origin> origin);
// Whether one of these kernels makes a dataset for the op of that name.
bool MakesDataset(std::string_view op);
// The name of an op without the prefix "Experimental".
inline std::string_view NewName(std::string_view op) {
  constexpr std::string_view kOld = "Experimental";
  return op.starts_with(kOld) ? op.substr(kOld.size()) : op;
}

// A kernel whose work uses NodeArgs.
class NodeKernel : public OpKernel {
 public:
  explicit NodeKernel(KernelConstruction& c);

 protected:
  NodeArgs Args(KernelContext& context) const { return NodeArgs(context, ranges_); }

 private:
  std::vector<ArgRange> ranges_;
};

// A dataset with one input dataset.
class UnaryDataset : public Dataset {
 public:
  UnaryDataset(std::string kind, Signature signature, RefPtr<const Dataset> input)
      : Dataset(std::move(kind), std::move(signature)), input_(std::move(input)) {}
  const Dataset& input() const { return *input_; }
  int64_t Cardinality() const override { return input_->Cardinality(); }

 private:
  const RefPtr<const Dataset> input_;
};

// Whether each element is one string.
inline bool AreTexts(const Dataset& dataset) {
  const Dataset::Signature& s = dataset.signature();
  return s.types == std::vector<DataType>{DataType::kString} && s.shapes.size() == 1 &&
         !s.shapes[0].unknown_rank() && s.shapes[0].rank() == 0;
}

// Its iterator. Null input: its end was reached.
template <typename D>
class UnaryIterator : public Iterator {
 public:
  UnaryIterator(const D& dataset, std::unique_ptr<Iterator> input)
      : dataset_(dataset), input_(std::move(input)) {}
  bool MayWait(int64_t n) const override { return input_ != nullptr && input_->MayWait(n); }
  Status Save(Context& ctx, StateWriter& state) override { return state.Save(ctx, "input", input_.get()); }
  Status Restore(Context& ctx, const StateReader& state) override {
    if (!state.HasIterator("input")) {
      input_.reset();
      return Status();
    }
    if (input_ == nullptr) {
      MR_ASSIGN_OR_RETURN(input_, dataset_.input().NewIterator(ctx));
    }
    return state.Restore(ctx, "input", *input_);
  }

 protected:
  // The next element of the input; releases the input at its end.
  Status NextInput(Context& ctx, Element* out, bool* end) {
    if (input_ == nullptr) {
      *end = true;
      return Status();
    }
    MR_RETURN_IF_ERROR(input_->GetNext(ctx, out, end));
    if (*end) input_.reset();
    return Status();
  }

  bool InputGivesRows() const { return input_ == nullptr || input_->GivesRows(); }
  // As NextInput. REQUIRES: InputGivesRows().
  Status NextRows(Context& ctx, int64_t n, Element* out, int64_t* got) {
    *got = 0;
    if (input_ == nullptr || n == 0) return Status();
    MR_RETURN_IF_ERROR(input_->GetRows(ctx, n, out, got));
    if (*got < n) input_.reset();
    return Status();
  }

  Status NextTexts(Context& ctx, int64_t n, TextSink& sink, int64_t* got) {
    *got = 0;
    if (input_ == nullptr || n == 0) return Status();
    MR_RETURN_IF_ERROR(input_->GetTexts(ctx, n, sink, got));
    if (*got < n) input_.reset();
    return Status();
  }

  const D& dataset_;
  std::unique_ptr<Iterator> input_;
};

template <typename It, typename D>
StatusOr<std::unique_ptr<Iterator>> MakeUnary(const D& dataset, Context& ctx) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> input, dataset.input().NewIterator(ctx));
  return std::unique_ptr<Iterator>(std::make_unique<It>(dataset, std::move(input)));
}

// Makes a dataset of class D, as a function in RegisterDataset's rows.
template <typename D, typename... Args>
RefPtr<const Dataset> MakeRefDataset(Args&&... args) {
  return RefPtr<const Dataset>(MakeRef<D>(std::forward<Args>(args)...).release());
}

}  // namespace millrace::data
