// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/data/dataset_kernel.h"

#include <functional>
#include <map>

#include "base/mutex.h"
#include "base/strings.h"
#include "op/op_registry.h"

namespace millrace::data {
namespace {

// The functions that make datasets, by op. Filled while kernels are registered.
struct Makers {
  Mutex mu;
  std::map<std::string, MakeDataset, std::less<>> by_op MR_GUARDED_BY(mu);

  static Makers& Get() {
    static Makers& makers = *new Makers;
    return makers;
  }
  MakeDataset Find(std::string_view op) MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    const auto it = by_op.find(op);
    return it == by_op.end() ? nullptr : it->second;
  }
};

class DatasetKernel final : public NodeKernel {
 public:
  DatasetKernel(KernelConstruction& c, MakeDataset make)
      : NodeKernel(c), make_(make), attrs_(std::make_shared<const AttrMap>(c.attrs())) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> dataset, make_(Args(context)));
    // Some return an existing dataset.
    if (dataset->RefCountIsOne() && dataset->node().empty()) {
      dataset->SetNode(context.kernel().name());
      auto origin = std::make_shared<Origin>();
      origin->op = op_name();
      origin->attrs = attrs_;
      origin->inputs.reserve(static_cast<size_t>(context.num_inputs()));
      for (int i = 0; i < context.num_inputs(); ++i) origin->inputs.push_back(context.input(i));
      dataset->SetOrigin(std::move(origin));
    }
    Tensor out = DatasetToTensor(std::move(dataset));
    if (!out.IsInitialized()) return errors::ResourceExhausted("No memory for a dataset");
    context.set_output(0, std::move(out));
    return Status();
  }

 private:
  const MakeDataset make_;
  const std::shared_ptr<const AttrMap> attrs_;
};

}  // namespace

NodeKernel::NodeKernel(KernelConstruction& c) : OpKernel(c) {
  c.SetError(InferArgRanges(c.props()->op->def.inputs, c.attrs(), &ranges_));
}

void RegisterDataset(KernelRegistry& registry, std::string_view op, MakeDataset make) {
  const auto factory = [make](KernelConstruction& c) { return std::make_unique<DatasetKernel>(c, make); };
  registry.Register(KernelDef(op), factory);
  Makers& makers = Makers::Get();
  MutexLock lock(makers.mu);
  makers.by_op[std::string(op)] = make;
  const std::string old = StrCat("Experimental", op);
  if (OpRegistry::Global().LookUp(old).ok()) {
    registry.Register(KernelDef(old), factory);
    makers.by_op[old] = make;
  }
}

bool MakesDataset(std::string_view op) { return Makers::Get().Find(op) != nullptr; }

StatusOr<RefPtr<const Dataset>> Remake(KernelContext& context, std::shared_ptr<const Origin> origin) {
  const MakeDataset make = Makers::Get().Find(origin->op);
  if (make == nullptr) return errors::NotFound("Op ", origin->op, " has no kernel that makes a dataset");
  MR_ASSIGN_OR_RETURN(const OpRegistration* const op, OpRegistry::Global().LookUp(origin->op));
  std::vector<ArgRange> ranges;
  MR_RETURN_IF_ERROR(InferArgRanges(op->def.inputs, *origin->attrs, &ranges));
  const int n = ranges.empty() ? 0 : ranges.back().end;
  if (n != static_cast<int>(origin->inputs.size())) {
    return errors::InvalidArgument("Op ", origin->op, " takes ", n, " inputs, not ", origin->inputs.size());
  }
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> dataset, make(NodeArgs(context, ranges, *origin)));
  if (dataset->RefCountIsOne() && dataset->node().empty()) {
    dataset->SetNode(context.kernel().name());
    dataset->SetOrigin(std::move(origin));
  }
  return dataset;
}

std::string NodeArgs::Kind() const {
  std::string_view kind = NewName(op());
  if (kind.ends_with("V2")) kind.remove_suffix(2);
  if (kind.ends_with("Dataset")) kind.remove_suffix(std::string_view("Dataset").size());
  return std::string(kind);
}

StatusOr<ArgRange> NodeArgs::Range(std::string_view name) const {
  for (const ArgRange& range : ranges_) {
    if (range.name == name) return range;
  }
  return errors::Internal("Op ", op(), " has no input '", name, "'");
}

StatusOr<Tensor> NodeArgs::Value(std::string_view name) const {
  MR_ASSIGN_OR_RETURN(const ArgRange range, Range(name));
  return ValueAt(range.begin);
}

StatusOr<std::vector<Tensor>> NodeArgs::Values(std::string_view name) const {
  MR_ASSIGN_OR_RETURN(const ArgRange range, Range(name));
  std::vector<Tensor> values;
  for (int i = range.begin; i < range.end; ++i) values.push_back(ValueAt(i));
  return values;
}

StatusOr<RefPtr<const Dataset>> NodeArgs::Input(std::string_view name) const {
  MR_ASSIGN_OR_RETURN(const Tensor value, Value(name));
  return DatasetFromTensor(value);
}

StatusOr<std::vector<RefPtr<const Dataset>>> NodeArgs::Inputs(std::string_view name) const {
  MR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, Values(name));
  std::vector<RefPtr<const Dataset>> inputs;
  for (const Tensor& value : values) {
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, DatasetFromTensor(value));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

StatusOr<Dataset::Signature> NodeArgs::Signature() const {
  Dataset::Signature signature;
  const bool old = attrs().Find("output_types") == nullptr;
  MR_ASSIGN_OR_RETURN(signature.types, Attr<std::vector<DataType>>(old ? "Toutput_types" : "output_types"));
  MR_ASSIGN_OR_RETURN(signature.shapes, Attr<std::vector<PartialShape>>("output_shapes"));
  if (signature.types.size() != signature.shapes.size()) {
    return errors::InvalidArgument("output_types has ", signature.types.size(), " entries, output_shapes ",
                                   signature.shapes.size());
  }
  return signature;
}

StatusOr<std::unique_ptr<CapturedFunction>> NodeArgs::Function(std::string_view f,
                                                               std::string_view captured) const {
  MR_ASSIGN_OR_RETURN(NameAttrList name, Attr<NameAttrList>(f));
  MR_ASSIGN_OR_RETURN(std::vector<Tensor> values, Values(captured));
  return std::make_unique<CapturedFunction>(std::move(name), std::move(values));
}

}  // namespace millrace::data
