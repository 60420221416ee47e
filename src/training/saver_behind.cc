// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Checkpoints that a thread writes while steps go on.
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/logging.h"
#include "graph/graph.h"
#include "millrace/ops.h"
#include "millrace/saver.h"

namespace millrace {
namespace {

// What the nodes behind `save` write: the tensors by their names in the graph, and the names and slices that
// they have in the checkpoint.
struct Values {
  std::vector<std::string> tensors, names, slices;
};

Status AddTexts(const Node& node, int input, std::vector<std::string>* texts) {
  MR_ASSIGN_OR_RETURN(const Edge* const edge, node.InputEdge(input));
  MR_ASSIGN_OR_RETURN(const Tensor value, edge->src->Attr<Tensor>("value"));
  if (edge->src->op_name() != "Const" || value.dtype() != DataType::kString) {
    return errors::InvalidArgument("'", node.name(), "' does not have constant names of tensors");
  }
  const auto all = value.flat<std::string>();
  texts->insert(texts->end(), all.begin(), all.end());
  return Status();
}

StatusOr<Values> FindValues(const Graph& graph, const std::string& save_tensor) {
  const Node* const save = graph.FindNode(ParseTensorId(save_tensor).name);
  if (save == nullptr) return errors::NotFound("There is no node '", save_tensor, "' in the graph");
  Values values;
  std::vector<const Node*> pending = {save};
  std::set<const Node*> seen;
  constexpr int kFirstTensor = 3;  // behind the file, the names and the slices
  while (!pending.empty()) {
    const Node* const node = pending.back();
    pending.pop_back();
    if (!node->IsOp() || !seen.insert(node).second) continue;
    if (node->op_name() == "SaveV2") {
      MR_RETURN_IF_ERROR(AddTexts(*node, 1, &values.names));
      MR_RETURN_IF_ERROR(AddTexts(*node, 2, &values.slices));
      for (int i = kFirstTensor; i < node->num_inputs(); ++i) {
        MR_ASSIGN_OR_RETURN(const Edge* const edge, node->InputEdge(i));
        values.tensors.push_back(StrCat(edge->src->name(), ":", edge->src_output));
      }
      continue;
    }
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr) pending.push_back(edge->src);
    }
  }
  if (values.tensors.empty() || values.names.size() != values.tensors.size() ||
      values.slices.size() != values.tensors.size()) {
    return errors::InvalidArgument(
        "'", save_tensor, "' does not save a checkpoint of version 2, which alone is written behind");
  }
  return values;
}

// Writes the tensors by a graph of its own.
Status WriteValues(const std::string& checkpoint, const Values& values, const std::vector<Tensor>& tensors) {
  const Scope scope = Scope::NewRootScope();
  const Output path = ops::Placeholder(scope, DataType::kString);
  ClientSession::Feeds feeds = {{path, Tensor::Scalar(checkpoint)}};
  std::vector<Output> inputs;
  for (const Tensor& tensor : tensors) {
    inputs.push_back(ops::Placeholder(scope, tensor.dtype()));
    feeds.push_back({inputs.back(), tensor});
  }
  const Operation save = ops::SaveV2(scope, path, Tensor::Vector(values.names), Tensor::Vector(values.slices),
                                     InputList(inputs));
  MR_RETURN_IF_ERROR(scope.status());
  return ClientSession(scope).Run(feeds, {}, {save}, nullptr);
}

}  // namespace

// The thread at work. One at a time.
class Saver::Behind {
 public:
  Behind() = default;
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;
  ~Behind() {
    const Status status = Finish();
    if (!status.ok()) MR_LOG(Error) << "A checkpoint was not written: " << status;
  }
  Status Start(std::string checkpoint, std::function<Status()> write) {
    checkpoint_ = std::move(checkpoint);
    try {
      thread_ = std::thread([this, run = std::move(write)] { status_ = run(); });
    } catch (const std::system_error& e) {
      return errors::ResourceExhausted("No thread to write a checkpoint: ", e.what());
    }
    return Status();
  }
  Status Finish() {
    if (!thread_.joinable()) return Status();
    thread_.join();
    return std::exchange(status_, Status());
  }
  const std::string& checkpoint() const { return checkpoint_; }

 private:
  std::thread thread_;
  std::string checkpoint_;
  Status status_;  // of the thread; read after it has ended
};

Status Saver::Finish() {
  if (behind_ == nullptr) return Status();
  const Status status = behind_->Finish();
  if (!status.ok()) {
    std::erase_if(last_, [&](const Kept& kept) { return kept.path == behind_->checkpoint(); });
  }
  return status;
}

StatusOr<std::string> Saver::SaveBehind(Session& session, const std::string& checkpoint,
                                        const SaveOptions& options) {
  MR_ASSIGN_OR_RETURN(Values values, FindValues(scope_.graph(), def_.save_tensor_name));
  std::vector<Tensor> tensors;
  MR_RETURN_IF_ERROR(session.Run({}, values.tensors, {}, &tensors));
  MR_RETURN_IF_ERROR(WriteMetaGraph(checkpoint, options));
  std::optional<Update> update;
  if (options.write_state) update = Record(checkpoint, options);
  if (behind_ == nullptr) behind_ = std::make_shared<Behind>();
  MR_RETURN_IF_ERROR(behind_->Start(
      checkpoint,
      [checkpoint, values = std::move(values), tensors = std::move(tensors), update]() mutable -> Status {
        MR_RETURN_IF_ERROR(WriteValues(checkpoint, values, tensors));
        tensors.clear();
        return update ? update->Do() : Status();
      }));
  return checkpoint;
}

}  // namespace millrace
