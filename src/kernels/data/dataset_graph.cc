// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// DatasetToGraph and DatasetFromGraph.
#include "kernels/data/dataset_graph.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <map>
#include <set>

#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"
#include "op/attr_codec.h"
#include "op/op_registry.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace::data {
namespace {

// The most datasets in a chain of inputs.
constexpr int kMaxDepth = 500;
// The version of TensorFlow 1.15's graphs.
constexpr int kGraphVersion = 134;

void CollectNames(const AttrMap& attrs, int depth, std::set<std::string>* names);
void CollectNames(const NameAttrList& f, int depth, std::set<std::string>* names) {
  names->insert(f.name);
  if (f.attrs != nullptr && depth < kMaxAttrNesting) CollectNames(*f.attrs, depth + 1, names);
}
void CollectNames(const AttrMap& attrs, int depth, std::set<std::string>* names) {
  for (const auto& [name, value] : attrs) {
    if (const auto* f = value.As<NameAttrList>()) CollectNames(*f, depth, names);
    if (const auto* list = value.As<std::vector<NameAttrList>>()) {
      for (const NameAttrList& f : *list) CollectNames(f, depth, names);
    }
  }
}

// Serializes a dataset and its inputs.
class GraphWriter {
 public:
  StatusOr<std::string> Add(const Dataset& dataset, int depth) {
    if (const auto known = nodes_.find(&dataset); known != nodes_.end()) return known->second;
    if (dataset.origin() == nullptr || depth > kMaxDepth) {
      return errors::Unimplemented("Dataset ", dataset.kind(), " cannot be written as a graph");
    }
    const Origin& origin = *dataset.origin();
    std::vector<std::string> inputs;
    for (const Tensor& value : origin.inputs) {
      if (const auto read = DatasetFromTensor(value); read.ok()) {
        MR_ASSIGN_OR_RETURN(std::string input, Add(**read, depth + 1));
        inputs.push_back(std::move(input));
      } else if (value.dtype() == DataType::kResource || value.dtype() == DataType::kVariant) {
        return errors::Unimplemented("Dataset ", dataset.kind(), " reads a ", DataTypeName(value.dtype()),
                                     ", which cannot be written as a graph");
      } else {
        inputs.push_back(AddConst(value));
      }
    }
    tensorflow::NodeDef& node = AddNode(origin.op);
    for (std::string& input : inputs) node.add_input(std::move(input));
    AttrMapToProto(*origin.attrs, node.mutable_attr());
    CollectNames(*origin.attrs, 0, &functions_);
    return nodes_[&dataset] = node.name();
  }

  StatusOr<std::string> Finish(const std::string& output, FunctionCaller* functions) {
    tensorflow::NodeDef& node = *graph_.add_node();
    node.set_name("dataset");
    node.set_op("_Retval");
    node.add_input(output);
    AttrMapToProto(AttrMap{{"T", DataType::kVariant}, {"index", int64_t{0}}}, node.mutable_attr());
    graph_.mutable_versions()->set_producer(kGraphVersion);
    if (!functions_.empty()) {
      if (functions == nullptr) return errors::Internal("No function library is provided.");
      const std::vector<std::string> names(functions_.begin(), functions_.end());
      MR_RETURN_IF_ERROR(functions->ExportFunctions(names, graph_.mutable_library()));
    }
    if (graph_.ByteSizeLong() > INT32_MAX)
      return errors::ResourceExhausted("The graph of the dataset is larger than a message may be");
    std::string bytes;
    google::protobuf::io::StringOutputStream stream(&bytes);
    {
      // Equal datasets give equal bytes, whatever the order of attributes in memory.
      google::protobuf::io::CodedOutputStream coded(&stream);
      coded.SetSerializationDeterministic(true);
      if (!graph_.SerializeToCodedStream(&coded)) return errors::Internal("The graph cannot be written");
    }
    return bytes;
  }

 private:
  tensorflow::NodeDef& AddNode(const std::string& op) {
    tensorflow::NodeDef& node = *graph_.add_node();
    node.set_name(StrCat(op, "/_", graph_.node_size() - 1));
    node.set_op(op);
    return node;
  }
  std::string AddConst(const Tensor& value) {
    tensorflow::NodeDef& node = AddNode("Const");
    AttrMapToProto(AttrMap{{"dtype", value.dtype()}, {"value", value}}, node.mutable_attr());
    return node.name();
  }

  tensorflow::GraphDef graph_;
  std::map<const Dataset*, std::string> nodes_;
  std::set<std::string> functions_;
};

class ToGraphKernel final : public OpKernel {
 public:
  explicit ToGraphKernel(KernelConstruction& c) : OpKernel(c), functions_(c.functions()) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<const Dataset> dataset, DatasetFromTensor(context.input(0)));
    MR_ASSIGN_OR_RETURN(const std::string graph, GraphOf(*dataset, functions_));
    context.set_output(0, Tensor::Scalar(graph));
    return Status();
  }

 private:
  FunctionCaller* const functions_;
};

// Evaluates the nodes of a graph, each once.
class GraphReader {
 public:
  GraphReader(KernelContext& context, const tensorflow::GraphDef& graph) : context_(context) {
    for (const tensorflow::NodeDef& node : graph.node()) nodes_.emplace(node.name(), &node);
  }

  // The first output of a node.
  StatusOr<Tensor> Value(std::string_view input, int depth) {
    if (input.ends_with(":0")) input.remove_suffix(2);
    if (const auto known = values_.find(input); known != values_.end()) return known->second;
    const auto found = nodes_.find(input);
    if (found == nodes_.end()) return errors::InvalidArgument("The graph has no node '", input, "'");
    // Also detects cycles.
    if (depth > kMaxDepth)
      return errors::InvalidArgument("The graph of a dataset is too deep at '", input, "'");
    MR_ASSIGN_OR_RETURN(Tensor value, Make(*found->second, depth));
    values_.emplace(std::string(input), value);
    return value;
  }

 private:
  // The limit of the declared sizes of all tensors of a graph.
  static constexpr int64_t kMostBytes = int64_t{1} << 31;

  StatusOr<Tensor> Make(const tensorflow::NodeDef& node, int depth) {
    if (node.op() == "Identity" && node.input_size() > 0) return Value(node.input(0), depth + 1);
    MR_ASSIGN_OR_RETURN(AttrMap attrs, AttrMapFromProto(node.attr(), &bytes_left_));
    if (node.op() == "Const") {
      MR_ASSIGN_OR_RETURN(Tensor value, attrs.Get<Tensor>("value"));
      return value;
    }
    if (!MakesDataset(node.op())) {
      return errors::Unimplemented("Node '", node.name(), "' in the graph of a dataset: op ", node.op(),
                                   " neither makes a dataset nor is a constant");
    }
    auto origin = std::make_shared<Origin>();
    origin->op = node.op();
    for (const std::string& input : node.input()) {
      if (input.starts_with('^')) continue;
      MR_ASSIGN_OR_RETURN(Tensor value, Value(input, depth + 1));
      origin->inputs.push_back(std::move(value));
    }
    MR_RETURN_IF_ERROR(Check(node, origin->inputs, &attrs));
    origin->attrs = std::make_shared<const AttrMap>(std::move(attrs));
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> dataset, Remake(context_, std::move(origin)));
    Tensor out = DatasetToTensor(std::move(dataset));
    if (!out.IsInitialized()) return errors::ResourceExhausted("No memory for a dataset");
    return out;
  }

  // Checks attributes and inputs against the definition of the op.
  static Status Check(const tensorflow::NodeDef& node, const std::vector<Tensor>& inputs, AttrMap* attrs) {
    MR_ASSIGN_OR_RETURN(const OpRegistration* const op, OpRegistry::Global().LookUp(node.op()));
    MR_RETURN_IF_ERROR(AddDefaultAttrs(op->def, attrs));
    MR_RETURN_IF_ERROR(ValidateAttrs(op->def, *attrs));
    std::vector<DataType> types;
    std::vector<DataType> outputs;
    MR_RETURN_IF_ERROR(InferArgTypes(op->def, *attrs, &types, &outputs));
    if (types.size() != inputs.size()) {
      return errors::InvalidArgument("Node '", node.name(), "' in the graph of a dataset takes ",
                                     types.size(), " inputs, not ", inputs.size());
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (inputs[i].dtype() == types[i]) continue;
      return errors::InvalidArgument("Node '", node.name(), "' in the graph of a dataset takes a ",
                                     DataTypeName(types[i]), " as input ", i, ", not a ",
                                     DataTypeName(inputs[i].dtype()));
    }
    return Status();
  }

  KernelContext& context_;
  std::map<std::string, const tensorflow::NodeDef*, std::less<>> nodes_;
  std::map<std::string, Tensor, std::less<>> values_;
  int64_t bytes_left_ = kMostBytes;
};

class FromGraphKernel final : public OpKernel {
 public:
  explicit FromGraphKernel(KernelConstruction& c) : OpKernel(c), functions_(c.functions()) {}
  Status Compute(KernelContext& context) override {
    if (!context.input(0).shape().IsScalar()) return errors::InvalidArgument("graph_def must be a scalar");
    tensorflow::GraphDef graph;
    if (!graph.ParseFromString(context.input(0).scalar<std::string>()))
      return errors::InvalidArgument("graph_def is not a GraphDef message");
    std::string output;
    for (const tensorflow::NodeDef& node : graph.node()) {
      if (node.op() == "_Retval" && node.input_size() == 1) output = node.input(0);
    }
    if (output.empty()) return errors::NotFound("The graph of a dataset has no _Retval node");
    if (graph.library().function_size() > 0) {
      if (functions_ == nullptr) return errors::Internal("No function library is provided.");
      MR_RETURN_IF_ERROR(functions_->ImportFunctions(graph.library()));
    }
    MR_ASSIGN_OR_RETURN(Tensor value, GraphReader(context, graph).Value(output, 0));
    MR_RETURN_IF_ERROR(DatasetFromTensor(value).status());
    context.set_output(0, std::move(value));
    return Status();
  }

 private:
  FunctionCaller* const functions_;
};

}  // namespace

StatusOr<std::string> GraphOf(const Dataset& dataset, FunctionCaller* functions) {
  GraphWriter writer;
  MR_ASSIGN_OR_RETURN(const std::string output, writer.Add(dataset, 0));
  return writer.Finish(output, functions);
}

void RegisterDatasetGraphKernels(KernelRegistry& registry) {
  registry.Register<ToGraphKernel>(KernelDef("DatasetToGraph"));
  registry.Register<FromGraphKernel>(KernelDef("DatasetFromGraph"));
}

}  // namespace millrace::data
