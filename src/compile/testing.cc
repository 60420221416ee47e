// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/testing.h"

#include <algorithm>
#include <set>
#include <utility>

#include "graph/testing.h"

namespace millrace {
namespace {

class FakeDevice : public Device {
 public:
  using Device::Device;
  Allocator& allocator() override { return CpuAllocator(); }
};

class Interpreter {
 public:
  explicit Interpreter(const std::map<std::string, float>& feeds) : feeds_(feeds) {}

  // Tries all nodes repeatedly.
  StatusOr<std::map<std::string, float>> Run(const std::vector<const Graph*>& parts) {
    std::vector<const Node*> waiting;
    for (const Graph* part : parts) {
      for (const Node* node : part->OpNodes()) waiting.push_back(node);
    }
    while (!waiting.empty()) {
      std::vector<const Node*> still_waiting;
      for (const Node* node : waiting) {
        if (!IsReady(*node)) {
          still_waiting.push_back(node);
          continue;
        }
        MR_RETURN_IF_ERROR(RunNode(*node));
        done_.insert(node);
      }
      if (still_waiting.size() == waiting.size()) {
        return errors::Internal("Nothing can run, but '", waiting[0]->name(), "' has not");
      }
      waiting.swap(still_waiting);
    }
    return values_;
  }

 private:
  static std::string TransferKey(const Node& node) {
    return StrCat(*node.Attr<std::string>("send_device"), ";", *node.Attr<int64_t>("send_device_incarnation"),
                  ";", *node.Attr<std::string>("recv_device"), ";", *node.Attr<std::string>("tensor_name"));
  }
  bool IsReady(const Node& node) const {
    for (const Edge* edge : node.in_edges()) {
      if (edge->src->IsOp() && !done_.contains(edge->src)) return false;
    }
    return node.op_name() != "_Recv" || sent_.contains(TransferKey(node));
  }

  Status RunNode(const Node& node) {
    std::vector<float> in;
    for (const Edge* edge : node.data_in_edges()) {
      in.push_back(values_.at(StrCat(edge->src->name(), ":", edge->src_output)));
    }
    if (node.op_name() == "_Send") {
      if (!sent_.emplace(TransferKey(node), in[0]).second) {
        return errors::Internal("Sent twice: ", TransferKey(node));
      }
    } else if (node.op_name() == "_Retval") {
      values_[StrCat("retval:", *node.Attr<int64_t>("index"))] = in[0];
    } else if (node.op_name() == "Split") {
      for (int i = 0; i < node.num_outputs(); ++i) {
        values_[StrCat(node.name(), ":", i)] = in[0] + static_cast<float>(i);
      }
    } else if (node.op_name() != "NoOp") {
      MR_ASSIGN_OR_RETURN(values_[StrCat(node.name(), ":0")], Value(node, in));
    }
    return Status();
  }

  StatusOr<float> Value(const Node& node, const std::vector<float>& in) const {
    const std::string& op = node.op_name();
    if (op == "Add") return in[0] + in[1];
    if (op == "Sub") return in[0] - in[1];
    if (op == "Neg") return -in[0];
    if (op == "Identity") return in[0];
    if (op == "_Recv") return sent_.at(TransferKey(node));
    if (op == "Const") {
      MR_ASSIGN_OR_RETURN(const Tensor value, node.Attr<Tensor>("value"));
      if (value.dtype() == DataType::kFloat) return value.num_elements() == 0 ? 0 : value.data<float>()[0];
    }
    if (op == "Placeholder" || op == "_Arg") {
      const std::string key = op == "_Arg" ? StrCat("arg:", *node.Attr<int64_t>("index")) : node.name();
      if (feeds_.contains(key)) return feeds_.at(key);
    }
    return errors::Unimplemented("The interpreter can't run '", node.name(), "' (op ", op, ")");
  }

  const std::map<std::string, float>& feeds_;
  std::set<const Node*> done_;
  std::map<std::string, float> values_;
  std::map<std::string, float> sent_;
};

}  // namespace

std::string FakeDeviceName(std::string_view short_name) {
  const size_t slash = short_name.find('/');
  return StrCat("/job:a/replica:0/task:", short_name.substr(0, slash),
                "/device:", short_name.substr(slash + 1));
}

std::unique_ptr<DeviceSet> FakeDevices(const std::vector<std::string>& devices) {
  std::vector<std::unique_ptr<Device>> made;
  for (const std::string& name : devices) {
    const size_t slash = name.find('/');
    const std::string type = name.substr(slash + 1, name.find(':') - slash - 1);
    made.push_back(std::make_unique<FakeDevice>(DeviceAttributes{FakeDeviceName(name), type, 0, 1, ""}));
  }
  return std::make_unique<DeviceSet>(std::move(made));
}

HasKernelFn FakeKernels(std::vector<std::string> gpu_ops) {
  gpu_ops.push_back("GpuOnly");
  return [gpu_ops = std::move(gpu_ops)](std::string_view type, const NodeProps& props) {
    const std::string& op = props.op->def.name;
    if (type == "CPU") return op != "GpuOnly";
    return std::find(gpu_ops.begin(), gpu_ops.end(), op) != gpu_ops.end();
  };
}

StatusOr<std::map<std::string, float>> InterpretParts(const std::vector<const Graph*>& parts,
                                                      const std::map<std::string, float>& feeds) {
  return Interpreter(feeds).Run(parts);
}

StatusOr<std::map<std::string, float>> Interpret(const Graph& graph,
                                                 const std::map<std::string, float>& feeds) {
  return InterpretParts({&graph}, feeds);
}

StatusOr<std::vector<Tensor>> FakeEvaluator::Evaluate(std::unique_ptr<Graph> graph, int num_outputs) {
  ++calls;
  last_graph = GraphText(*graph);
  MR_RETURN_IF_ERROR(graph->Validate());
  if (!error.ok()) return error;
  MR_ASSIGN_OR_RETURN(const auto values, Interpret(*graph, {}));
  std::vector<Tensor> outputs;
  for (int i = 0; i < num_outputs; ++i) outputs.push_back(Tensor::Scalar(values.at(StrCat("retval:", i))));
  return outputs;
}

}  // namespace millrace
