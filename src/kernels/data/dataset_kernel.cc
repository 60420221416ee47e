// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/data/dataset_kernel.h"

#include "base/strings.h"
#include "op/op_registry.h"

namespace millrace::data {
namespace {

class DatasetKernel final : public NodeKernel {
 public:
  DatasetKernel(KernelConstruction& c, MakeDataset make) : NodeKernel(c), make_(make) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> dataset, make_(Args(context)));
    // Some give one that is there already.
    if (dataset->RefCountIsOne() && dataset->node().empty()) dataset->SetNode(context.kernel().name());
    Tensor out = DatasetToTensor(std::move(dataset));
    if (!out.IsInitialized()) return errors::ResourceExhausted("No memory for a dataset");
    context.set_output(0, std::move(out));
    return Status();
  }

 private:
  const MakeDataset make_;
};

}  // namespace

NodeKernel::NodeKernel(KernelConstruction& c) : OpKernel(c) {
  c.SetError(InferArgRanges(c.props()->op->def.inputs, c.attrs(), &ranges_));
}

void RegisterDataset(KernelRegistry& registry, std::string_view op, MakeDataset make) {
  const auto factory = [make](KernelConstruction& c) { return std::make_unique<DatasetKernel>(c, make); };
  registry.Register(KernelDef(op), factory);
  const std::string old = StrCat("Experimental", op);
  if (OpRegistry::Global().LookUp(old).ok()) registry.Register(KernelDef(old), factory);
}

std::string NodeArgs::Kind() const {
  std::string_view kind = context_.kernel().op_name();
  if (kind.starts_with("Experimental")) kind.remove_prefix(std::string_view("Experimental").size());
  if (kind.ends_with("V2")) kind.remove_suffix(2);
  if (kind.ends_with("Dataset")) kind.remove_suffix(std::string_view("Dataset").size());
  return std::string(kind);
}

StatusOr<ArgRange> NodeArgs::Range(std::string_view name) const {
  for (const ArgRange& range : ranges_) {
    if (range.name == name) return range;
  }
  return errors::Internal("Op ", context_.kernel().op_name(), " has no input '", name, "'");
}

StatusOr<Tensor> NodeArgs::Value(std::string_view name) const {
  MR_ASSIGN_OR_RETURN(const ArgRange range, Range(name));
  return context_.input(range.begin);
}

StatusOr<std::vector<Tensor>> NodeArgs::Values(std::string_view name) const {
  MR_ASSIGN_OR_RETURN(const ArgRange range, Range(name));
  std::vector<Tensor> values;
  for (int i = range.begin; i < range.end; ++i) values.push_back(context_.input(i));
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
  const bool old = props().attrs.Find("output_types") == nullptr;
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
