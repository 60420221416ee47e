// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/pipeline.h"

#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "base/strings.h"
#include "display/text.h"
#include "graph/graph.h"
#include "op/attr_codec.h"
#include "op/op_registry.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace::cli {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using Clock = std::chrono::steady_clock;

constexpr char kSource[] = "millrace_data/pipeline";
constexpr char kFactory[] = "millrace_data/factory";
constexpr char kRead[] = "millrace_data/read";
constexpr char kOneShot[] = "OneShotIterator";

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// ---- Choosing

// An op that describes elements: "MapDataset", "BatchDatasetV2"; not one that reads them.
bool MakesDataset(const std::string& op) {
  std::string_view name = op;
  if (name.size() > 2 && name[name.size() - 2] == 'V') name.remove_suffix(2);
  if (!name.ends_with("Dataset")) return false;
  const auto known = OpRegistry::Global().LookUp(op);
  return known.ok() && (*known)->def.outputs.size() == 1 &&
         (*known)->def.outputs[0].type == DataType::kVariant;
}

class PipelineChooser {
 public:
  explicit PipelineChooser(const GraphDef& graph) {
    for (const NodeDef& node : graph.node()) {
      nodes_.emplace(node.name(), &node);
      if (node.op() == "MakeIterator" && node.input_size() >= 2) {
        makers_[SourceOf(node.input(1))].push_back(&node);
      }
      if (MakesDataset(node.op())) {
        for (const std::string& input : node.input()) read_.insert(SourceOf(input));
      }
    }
    for (const NodeDef& node : graph.node()) {
      const bool is_last = MakesDataset(node.op()) && !read_.contains(node.name());
      if (is_last || node.op() == kOneShot) pipelines_.push_back(&node);
    }
  }

  StatusOr<PipelineChoice> Choose(const std::string& name) const {
    if (name.empty()) {
      if (pipelines_.size() == 1) return ChoiceOf(*pipelines_[0]);
      if (pipelines_.empty()) return errors::NotFound("there is no dataset in the graph");
      return errors::InvalidArgument("there are ", pipelines_.size(),
                                     " datasets; choose one with --node: ", NamesText());
    }
    const TensorId id = ParseTensorId(name);
    const NodeDef* const node = Find(std::string(id.name));
    if (node == nullptr) {
      return errors::NotFound("there is no node ", Quoted(name, 200),
                              pipelines_.empty() ? "" : StrCat("; datasets are ", NamesText()));
    }
    if (node->op().starts_with("IteratorGetNext") || node->op() == "IteratorToStringHandle") {
      return node->input_size() == 0 ? errors::InvalidArgument(Quoted(name, 200), " has no input")
                                     : OfIterator(SourceOf(node->input(0)));
    }
    if (node->op() == "MakeIterator" && node->input_size() > 0) return ChoiceOfTensor(node->input(0));
    if (node->op() == "Iterator" || node->op() == "IteratorV2") return OfIterator(node->name());
    if (node->op() == kOneShot) return ChoiceOf(*node);
    return ChoiceOfTensor(name);
  }

 private:
  static std::string SourceOf(const std::string& input) { return std::string(ParseTensorId(input).name); }
  const NodeDef* Find(const std::string& name) const {
    const auto found = nodes_.find(name);
    return found == nodes_.end() ? nullptr : found->second;
  }
  static PipelineChoice ChoiceOfTensor(const std::string& tensor) {
    return {SourceOf(tensor), ParseTensorId(tensor).ToString(), ""};
  }
  static PipelineChoice ChoiceOf(const NodeDef& node) {
    if (node.op() != kOneShot) return ChoiceOfTensor(node.name());
    const auto attr = node.attr().find("dataset_factory");
    return {node.name(), StrCat(kFactory, ":0"), attr == node.attr().end() ? "" : attr->second.func().name()};
  }
  // The dataset that an iterator is made of.
  StatusOr<PipelineChoice> OfIterator(const std::string& iterator) const {
    const NodeDef* const node = Find(iterator);
    if (node != nullptr && node->op() == kOneShot) return ChoiceOf(*node);
    const auto makers = makers_.find(iterator);
    if (makers == makers_.end()) {
      return errors::NotFound("no MakeIterator starts the iterator ", Quoted(iterator, 200));
    }
    if (makers->second.size() == 1) return ChoiceOfTensor(makers->second[0]->input(0));
    std::string names;
    for (const NodeDef* maker : makers->second) {
      names += StrCat(names.empty() ? "" : ", ", Quoted(SourceOf(maker->input(0)), 200));
    }
    return errors::InvalidArgument("the iterator ", Quoted(iterator, 200),
                                   " is started with several datasets; choose one with --node: ", names);
  }
  std::string NamesText() const {
    constexpr size_t kMost = 10;
    std::string text;
    for (size_t i = 0; i < pipelines_.size() && i < kMost; ++i) {
      text += StrCat(i == 0 ? "" : ", ", Quoted(pipelines_[i]->name(), 200));
    }
    return pipelines_.size() > kMost ? text + ", …" : text;
  }

  std::map<std::string, const NodeDef*> nodes_;
  std::map<std::string, std::vector<const NodeDef*>> makers_;  // MakeIterator nodes by their iterator
  std::set<std::string> read_;                                 // what datasets are made of
  std::vector<const NodeDef*> pipelines_;                      // datasets that no other one reads
};

// ---- Reading

// One element, which is made by reading another dataset up to the limits: the number of its elements.
class ReadAllDataset final : public data::Dataset {
 public:
  ReadAllDataset(RefPtr<const Dataset> input, const PipelineLimits& limits, std::shared_ptr<PipelineRun> run)
      : Dataset("ReadAll", {{DataType::kInt64}, {PartialShape({})}}),
        input_(std::move(input)),
        limits_(limits),
        run_(std::move(run)) {}

 protected:
  class It final : public data::Iterator {
   public:
    It(const ReadAllDataset& dataset, std::unique_ptr<Iterator> input)
        : limits_(dataset.limits_), run_(*dataset.run_), input_(std::move(input)) {}
    bool MayWait(int64_t /*n*/) const override { return true; }
    Status GetNext(data::Context& ctx, data::Element* out, bool* end) override {
      *end = std::exchange(done_, true);
      if (*end) return Status();
      const Clock::time_point start = Clock::now();
      Status status;
      while (status.ok() && !ctx.cancelled() && (limits_.elements < 0 || run_.elements < limits_.elements)) {
        data::Element element;
        status = input_->GetNext(ctx, &element, &run_.ended);
        run_.seconds = SecondsSince(start);
        if (!status.ok() || run_.ended) break;
        if (run_.elements++ == 0) run_.first = run_.seconds;
        if (std::cmp_less(run_.shown.size(), limits_.shown)) run_.shown.push_back(std::move(element));
        if (run_.seconds >= limits_.seconds) break;
      }
      input_.reset();  // the threads of its stages end here
      if (!status.ok()) return status.WithContext(StrCat("; after ", run_.elements, " elements"));
      if (ctx.cancelled()) return data::CancelledStatus();
      *out = {Tensor::Scalar(run_.elements)};
      return Status();
    }
    Status Save(data::Context&, data::StateWriter&) override { return errors::Unimplemented("ReadAll"); }
    Status Restore(data::Context&, const data::StateReader&) override {
      return errors::Unimplemented("ReadAll");
    }

   private:
    const PipelineLimits& limits_;
    PipelineRun& run_;
    std::unique_ptr<Iterator> input_;
    bool done_ = false;
  };
  StatusOr<std::unique_ptr<data::Iterator>> MakeIterator(data::Context& ctx) const override {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<data::Iterator> input, input_->NewIterator(ctx));
    return std::unique_ptr<data::Iterator>(std::make_unique<It>(*this, std::move(input)));
  }

 private:
  const RefPtr<const Dataset> input_;
  const PipelineLimits limits_;
  const std::shared_ptr<PipelineRun> run_;
};

void AddNode(GraphDef* graph, const char* name, const char* op, const std::vector<std::string>& inputs,
             const AttrMap& attrs) {
  NodeDef* const node = graph->add_node();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  AttrMapToProto(attrs, node->mutable_attr());
}

// The nodes that the program needs beside those of the graph.
GraphDef NodesToRead(const PipelineChoice& choice) {
  GraphDef graph;
  AddNode(&graph, kSource, "Placeholder", {}, {{"dtype", DataType::kVariant}, {"shape", PartialShape()}});
  AddNode(&graph, kRead, "DatasetToSingleElement", {kSource},
          {{"output_types", std::vector<DataType>{DataType::kInt64}},
           {"output_shapes", std::vector<PartialShape>{PartialShape({})}}});
  if (choice.factory.empty()) return graph;
  AddNode(&graph, kFactory, "StatefulPartitionedCall", {},
          {{"f", NameAttrList{choice.factory, std::make_shared<const AttrMap>()}},
           {"Tin", std::vector<DataType>{}},
           {"Tout", std::vector<DataType>{DataType::kVariant}}});
  return graph;
}

}  // namespace

StatusOr<PipelineChoice> ChoosePipeline(const GraphDef& graph, const std::string& name) {
  return PipelineChooser(graph).Choose(name);
}

StatusOr<PipelineRun> ReadPipeline(Session& session, const PipelineChoice& choice,
                                   const Session::Feeds& feeds, const PipelineLimits& limits) {
  RunOptions options;
  options.timeout_in_ms = static_cast<int64_t>(limits.timeout * 1000);
  MR_RETURN_IF_ERROR(session.Extend(NodesToRead(choice)));
  std::vector<Tensor> fetched;
  MR_RETURN_IF_ERROR(session.Run(options, feeds, {choice.tensor}, {}, &fetched, nullptr));
  auto dataset = data::DatasetFromTensor(fetched[0]);
  if (!dataset.ok()) {
    return errors::InvalidArgument(Quoted(choice.node, 200),
                                   " is not a dataset: ", dataset.status().message());
  }
  const auto monitor = std::make_shared<data::PipelineMonitor>();
  const auto run = std::make_shared<PipelineRun>();
  run->signature = (*dataset)->signature();
  run->cardinality = (*dataset)->Cardinality();
  auto reads = MakeRef<ReadAllDataset>(data::Monitored(*std::move(dataset), monitor), limits, run);
  const Tensor source = data::DatasetToTensor(std::move(reads));
  MR_RETURN_IF_ERROR(session.Run(options, {{kSource, source}}, {kRead}, {}, &fetched, nullptr));
  run->stages = monitor->Stages();
  for (data::PipelineMonitor::Stage& stage : run->stages) {
    std::string_view name = stage.node;
    if (ConsumePrefix(&name, StrCat(kFactory, "/"))) stage.node = std::string(name);
  }
  return std::move(*run);
}

}  // namespace millrace::cli
