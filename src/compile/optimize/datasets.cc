// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/datasets.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "compile/optimize/dataset_functions.h"

namespace millrace {
namespace {

constexpr DatasetRewrite kRewrites[] = {
    {"hoist_random_uniform", "random numbers come from a dataset of seeds, so that maps have no state"},
    {"filter_with_random_uniform_fusion", "a filter by a random number becomes a sample"},
    {"parallel_batch", "batches copy large elements by several threads"},
    {"make_sloppy", "stages with parallel calls give elements as they come"},
    {"slack", "the last prefetch leaves processors to the consumer for a while"},
    {"noop_elimination", "stages that pass all elements on are removed"},
    {"map_fusion", "two maps become one"},
    {"filter_fusion", "two filters become one"},
    {"map_and_filter_fusion", "a map returns which of its results a filter keeps"},
    {"map_vectorization",
     "a map before a batch becomes one of batches, where all of its ops have such a form"},
    {"map_and_batch_fusion", "a map and a batch become one stage"},
    {"map_parallelization", "maps without state call their functions in parallel"},
    {"shuffle_and_repeat_fusion", "shuffling continues from one epoch to the next"},
};

constexpr std::string_view kTriesBoth = "map_vectorization:use_choose_fastest:true";
constexpr std::string_view kSlackPeriod = "slack:slack_period:";

using Types = std::vector<DataType>;
using Shapes = std::vector<PartialShape>;

// The types and shapes of a dataset's elements.
struct Elements {
  Types types;
  Shapes shapes;
};

// The stage `producer` that is an input of stage `consumer`.
struct Link {
  Node* consumer;
  int input;
};

bool IsOneOf(const Node& node, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, node.op_name()) != ops.end();
}
bool IsMap(const Node& node) { return IsOneOf(node, {"MapDataset", "ExperimentalMapDataset"}); }

template <typename T>
std::optional<T> ScalarOf(const TensorRef& tensor) {
  const Tensor* const value = ConstTensorOf(*tensor.node);
  if (value == nullptr || !value->shape().IsScalar() || value->dtype() != kDataTypeOf<T>) return std::nullopt;
  return value->scalar<T>();
}

class Pass {
 public:
  Pass(Graph* graph, const OptimizeOptions& options) : graph_(graph), rewriter_(graph, options) {}

  int Run() {
    const std::vector<Node*> nodes = graph_->OpNodes();
    for (Node* node : nodes) {
      if (node->op_name() == "OptimizeDataset" && !rewriter_.MayBeDead(*node)) Optimize(node);
    }
    if (changes_ > 0) graph_->FixupSourceAndSinkEdges();
    return changes_;
  }

 private:
  void Optimize(Node* root) {
    const Tensor* const names = ConstTensorOf(*InputOf(*root, 1).node);
    if (names == nullptr || names->dtype() != DataType::kString) return;
    wanted_ = std::set<std::string>(names->flat<std::string>().begin(), names->flat<std::string>().end());
    const auto configs = root->attrs().Get<std::vector<std::string>>("optimization_configs");
    tries_both_ = configs.ok() && std::ranges::find(*configs, kTriesBoth) != configs->end();
    slack_period_ = 1;
    for (std::string_view config : configs.value_or(std::vector<std::string>())) {
      int64_t period = 0;
      if (!ConsumePrefix(&config, kSlackPeriod)) continue;
      const auto end = std::from_chars(config.data(), config.data() + config.size(), period);
      if (end.ec == std::errc() && period > 0) slack_period_ = period;
    }
    if (Wants("slack")) GiveSlack(root);
    std::vector<Link> links = {{root, 0}};
    while (!links.empty()) {
      const Link link = links.back();
      links.pop_back();
      while (Rewrite(link)) ++changes_;
      // Other consumers need it unchanged.
      Node* const producer = Producer(link);
      if (producer == nullptr || !IsOnlyFor(*producer, link)) continue;
      for (int i = 0; i < producer->num_inputs(); ++i) {
        if (producer->input_type(i) == DataType::kVariant) links.push_back({producer, i});
      }
    }
  }

  // Null if the producer is not a stage on the same device.
  static Node* Producer(const Link& link) {
    Node* const node = InputOf(*link.consumer, link.input).node;
    if (!node->op_name().ends_with("Dataset") && !node->op_name().ends_with("DatasetV2")) return nullptr;
    return node->assigned_device_index() == link.consumer->assigned_device_index() ? node : nullptr;
  }
  static bool IsOnlyFor(const Node& node, const Link& link) {
    return std::ranges::all_of(node.out_edges(), [&](const Edge* edge) {
      return !edge->dst->IsOp() || (edge->dst == link.consumer && edge->dst_input == link.input);
    });
  }

  bool Wants(const char* name) const { return wanted_.contains(name); }

  bool Rewrite(const Link& link) {
    Node* const stage = Producer(link);
    if (stage == nullptr || !Rewriter::ControlInputs(*stage).empty()) return false;
    if (Wants("noop_elimination") && DoesNothing(*stage)) {
      const TensorRef from = InputOf(*stage, 0);
      return Redirect(link, from.node, from.output);
    }
    if (stage->num_inputs() == 0 || stage->input_type(0) != DataType::kVariant) return false;
    if (Node* const made = RewriteStage(stage, Producer({stage, 0})); made != nullptr) {
      return Redirect(link, made, 0);
    }
    return false;
  }

  // A stage that replaces `stage` and its input `before`; null if there is none.
  Node* RewriteStage(Node* stage, Node* before) {
    if (before != nullptr && Rewriter::ControlInputs(*before).empty()) {
      if (IsMap(*stage) && IsMap(*before) && Wants("map_fusion")) return FuseMaps(stage, before);
      if (stage->op_name() == "FilterDataset") {
        if (before->op_name() == "FilterDataset" && Wants("filter_fusion")) return FuseFilters(stage, before);
        if (IsMap(*before) && Wants("map_and_filter_fusion")) return FuseMapAndFilter(stage, before);
      }
      if (IsOneOf(*stage, {"BatchDataset", "BatchDatasetV2"}) &&
          (IsMap(*before) || before->op_name() == "ParallelMapDataset")) {
        Node* made = nullptr;
        if (Wants("map_vectorization")) {
          made = tries_both_ ? TryBoth(stage, before) : Vectorize(stage, before);
        }
        if (made == nullptr && Wants("map_and_batch_fusion")) made = FuseMapAndBatch(stage, before);
        if (made != nullptr) return made;
      }
      if (stage->op_name() == "RepeatDataset" && before->op_name() == "ShuffleDataset" &&
          Wants("shuffle_and_repeat_fusion")) {
        return FuseShuffleAndRepeat(stage, before);
      }
    }
    if (IsMap(*stage) && Wants("hoist_random_uniform")) {
      if (Node* const made = HoistRandom(stage); made != nullptr) return made;
    }
    if (stage->op_name() == "FilterDataset" && Wants("filter_with_random_uniform_fusion")) {
      return FilterBySample(stage);
    }
    if (IsOneOf(*stage, {"BatchDatasetV2", "PaddedBatchDatasetV2"}) && Wants("parallel_batch") &&
        !IsSet(*stage, "parallel_copy")) {
      return Copy(*stage, "parallel_batch", "parallel_copy", true);
    }
    if (IsOneOf(*stage, {"ParallelMapDataset", "ParallelInterleaveDatasetV2", "ParseExampleDataset"}) &&
        Wants("make_sloppy") && !IsSet(*stage, "sloppy")) {
      return Copy(*stage, "sloppy", "sloppy", true);
    }
    if (IsMap(*stage) && Wants("map_parallelization")) return Parallelize(stage);
    return nullptr;
  }

  // Makes `to` the input of the consumer.
  bool Redirect(const Link& link, Node* to, int output) {
    Node* const old = InputOf(*link.consumer, link.input).node;
    graph_->UpdateInput(link.consumer, link.input, to, output);
    rewriter_.RemoveUnused(old);
    return true;
  }

  static bool DoesNothing(const Node& stage) {
    const std::string& op = stage.op_name();
    if (op == "ShardDataset") return ScalarOf<int64_t>(InputOf(stage, 1)) == 1;
    if (!IsOneOf(stage, {"TakeDataset", "SkipDataset", "RepeatDataset", "PrefetchDataset"})) return false;
    const auto count = ScalarOf<int64_t>(InputOf(stage, 1));
    if (op == "TakeDataset") return count < 0 && count.has_value();
    return count == (op == "RepeatDataset" ? 1 : 0);
  }

  // The elements of a stage, from its attributes.
  static std::optional<Elements> ElementsOf(const Node& stage) {
    if (IsOneOf(stage, {"TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset",
                        "FixedLengthRecordDatasetV2"})) {
      return Elements{{DataType::kString}, {PartialShape({})}};
    }
    auto types = stage.attrs().Get<Types>("output_types");
    if (!types.ok()) types = stage.attrs().Get<Types>("Toutput_types");
    auto shapes = stage.attrs().Get<Shapes>("output_shapes");
    if (!types.ok() || !shapes.ok() || types->size() != shapes->size()) return std::nullopt;
    return Elements{*std::move(types), *std::move(shapes)};
  }

  // The function of a stage, in attribute `attr`, and its captured tensors.
  struct Applied {
    ElementFunction f;
    std::vector<TensorRef> captured;
  };
  static std::optional<Applied> FunctionOf(const Node& stage, const char* attr) {
    const auto f = stage.attrs().Get<NameAttrList>(attr);
    const auto captured = stage.attrs().Get<Types>("Targuments");
    if (!f.ok() || !captured.ok()) return std::nullopt;
    Applied applied{{*f, *captured}, {}};
    for (size_t i = 0; i < captured->size(); ++i) {
      applied.captured.push_back(InputOf(stage, static_cast<int>(i) + 1));
    }
    return applied;
  }

  static std::vector<TensorRef> Inputs(const TensorRef& dataset, const std::vector<TensorRef>& a,
                                       const std::vector<TensorRef>& b = {}) {
    std::vector<TensorRef> all = {dataset};
    all.insert(all.end(), a.begin(), a.end());
    all.insert(all.end(), b.begin(), b.end());
    return all;
  }
  static Types Both(Types a, const Types& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  // A map over `source`, with the settings of `like`.
  Node* AddMap(const Node& like, const TensorRef& source, const NameAttrList& f, const Types& captured_types,
               const std::vector<TensorRef>& captured, const Elements& elements, const Node& settings) {
    AttrMap attrs = {{"f", f},
                     {"Targuments", captured_types},
                     {"output_types", elements.types},
                     {"output_shapes", elements.shapes}};
    for (const char* name : {"use_inter_op_parallelism", "preserve_cardinality"}) {
      if (const AttrValue* value = settings.attrs().Find(name)) attrs.Set(name, *value);
    }
    return rewriter_.Add(like, "map", "MapDataset", std::move(attrs), Inputs(source, captured));
  }

  bool AreStateless(const Applied& a, const Applied& b) const {
    return IsStatelessFunction(*graph_, a.f.f) && IsStatelessFunction(*graph_, b.f.f);
  }
  static bool KeepsCardinality(const Node& map) {
    return map.attrs().Get<bool>("preserve_cardinality").value_or(false);
  }

  Node* FuseMaps(Node* second, Node* first) {
    const auto f = FunctionOf(*first, "f"), g = FunctionOf(*second, "f");
    const auto elements = ElementsOf(*second);
    if (!f || !g || !elements || !AreStateless(*f, *g) ||
        KeepsCardinality(*first) != KeepsCardinality(*second))
      return nullptr;
    const auto both = ComposeFunctions(graph_, f->f, g->f);
    if (!both) return nullptr;
    std::vector<TensorRef> captured = f->captured;
    captured.insert(captured.end(), g->captured.begin(), g->captured.end());
    return AddMap(*second, InputOf(*first, 0), *both, Both(f->f.captured, g->f.captured), captured, *elements,
                  *first);
  }

  Node* FuseFilters(Node* second, Node* first) {
    const auto f = FunctionOf(*first, "predicate"), g = FunctionOf(*second, "predicate");
    const auto elements = ElementsOf(*second);
    if (!f || !g || !elements || !AreStateless(*f, *g)) return nullptr;
    const auto both = JoinPredicates(graph_, f->f, g->f);
    if (!both) return nullptr;
    return rewriter_.Add(*second, "filter", "FilterDataset",
                         {{"predicate", *both},
                          {"Targuments", Both(f->f.captured, g->f.captured)},
                          {"output_types", elements->types},
                          {"output_shapes", elements->shapes}},
                         Inputs(InputOf(*first, 0), f->captured, g->captured));
  }

  Node* FuseMapAndFilter(Node* filter, Node* map) {
    const auto f = FunctionOf(*map, "f"), p = FunctionOf(*filter, "predicate");
    auto elements = ElementsOf(*filter);
    if (!f || !p || !elements || !AreStateless(*f, *p)) return nullptr;
    const auto both = AppendPredicate(graph_, f->f, p->f);
    if (!both) return nullptr;
    Elements with_verdict = *elements;
    with_verdict.types.push_back(DataType::kBool);
    with_verdict.shapes.push_back(PartialShape({}));
    std::vector<TensorRef> captured = f->captured;
    captured.insert(captured.end(), p->captured.begin(), p->captured.end());
    Node* const mapped = AddMap(*filter, InputOf(*map, 0), *both, Both(f->f.captured, p->f.captured),
                                captured, with_verdict, *map);
    if (mapped == nullptr) return nullptr;
    Node* const kept = rewriter_.Add(*filter, "filter", "FilterByLastComponentDataset",
                                     {{"output_types", elements->types}, {"output_shapes", elements->shapes}},
                                     {{mapped, 0}});
    if (kept == nullptr) rewriter_.RemoveUnused(mapped);
    return kept;
  }

  // The drop_remainder of a batch: an input, or false for the older op.
  TensorRef DropRemainder(const Node& batch) {
    if (batch.op_name() == "BatchDatasetV2") return InputOf(batch, 2);
    return {rewriter_.AddConst(batch, "drop_remainder", Tensor::Scalar(false), {}), 0};
  }

  Node* FuseMapAndBatch(Node* batch, Node* map) {
    const auto f = FunctionOf(*map, "f");
    const auto elements = ElementsOf(*batch);
    if (!f || !elements) return nullptr;
    // Batches preserve the order of the elements.
    if (map->attrs().Get<bool>("sloppy").value_or(false)) return nullptr;
    TensorRef calls;
    if (map->op_name() == "ParallelMapDataset") {
      const auto number = ScalarOf<int32_t>(InputOf(*map, map->num_inputs() - 1));
      if (!number) return nullptr;
      calls = {rewriter_.AddConst(*batch, "calls", Tensor::Scalar(int64_t{*number}), {}), 0};
    } else {
      calls = {rewriter_.AddConst(*batch, "calls", Tensor::Scalar(int64_t{1}), {}), 0};
    }
    const TensorRef drop = DropRemainder(*batch);
    if (calls.node == nullptr || drop.node == nullptr) return nullptr;
    return rewriter_.Add(*batch, "map_and_batch", "MapAndBatchDataset",
                         {{"f", f->f.f},
                          {"Targuments", f->f.captured},
                          {"output_types", elements->types},
                          {"output_shapes", elements->shapes},
                          {"preserve_cardinality", KeepsCardinality(*map)}},
                         Inputs(InputOf(*map, 0), f->captured, {InputOf(*batch, 1), calls, drop}));
  }

  Node* Vectorize(Node* batch, Node* map) {
    const auto f = FunctionOf(*map, "f");
    const auto elements = ElementsOf(*batch);
    const TensorRef source = InputOf(*map, 0);
    const auto rows = ElementsOf(*source.node);
    if (!f || !elements || !rows) return nullptr;
    const auto of_batches = VectorizeFunction(graph_, f->f, rows->shapes);
    if (!of_batches) return nullptr;
    const Elements batches{rows->types, BatchShapes(rows->shapes)};
    const TensorRef drop = DropRemainder(*batch);
    if (drop.node == nullptr) return nullptr;
    Node* const batched = rewriter_.Add(*batch, "batch", "BatchDatasetV2",
                                        {{"output_types", batches.types}, {"output_shapes", batches.shapes}},
                                        {source, InputOf(*batch, 1), drop});
    if (batched == nullptr) return nullptr;
    if (map->op_name() != "ParallelMapDataset") {
      return AddMap(*batch, {batched, 0}, *of_batches, f->f.captured, f->captured, *elements, *map);
    }
    AttrMap attrs = map->attrs();
    attrs.Set("f", *of_batches);
    attrs.Set("output_types", elements->types);
    attrs.Set("output_shapes", elements->shapes);
    std::vector<TensorRef> inputs = Inputs({batched, 0}, f->captured);
    inputs.push_back(InputOf(*map, map->num_inputs() - 1));
    return rewriter_.Add(*batch, "map", "ParallelMapDataset", std::move(attrs), inputs);
  }

  Node* FuseShuffleAndRepeat(Node* repeat, Node* shuffle) {
    const auto elements = ElementsOf(*repeat);
    if (!elements || !shuffle->attrs().Get<bool>("reshuffle_each_iteration").value_or(true)) return nullptr;
    return rewriter_.Add(*repeat, "shuffle_and_repeat", "ShuffleAndRepeatDataset",
                         {{"output_types", elements->types}, {"output_shapes", elements->shapes}},
                         {InputOf(*shuffle, 0), InputOf(*shuffle, 1), InputOf(*shuffle, 2),
                          InputOf(*shuffle, 3), InputOf(*repeat, 1)});
  }

  Node* Parallelize(Node* map) {
    const auto f = FunctionOf(*map, "f");
    const auto elements = ElementsOf(*map);
    if (!f || !elements || !IsStatelessFunction(*graph_, f->f.f)) return nullptr;
    Node* const calls = rewriter_.AddConst(*map, "calls", Tensor::Scalar(int32_t{-1}), {});
    if (calls == nullptr) return nullptr;
    return rewriter_.Add(*map, "parallel_map", "ParallelMapDataset",
                         {{"f", f->f.f},
                          {"Targuments", f->f.captured},
                          {"output_types", elements->types},
                          {"output_shapes", elements->shapes},
                          {"preserve_cardinality", KeepsCardinality(*map)}},
                         Inputs(InputOf(*map, 0), f->captured, {{calls, 0}}));
  }

  // Moves a random op out of a map: the element and a random seed become inputs of a stateless map.
  Node* HoistRandom(Node* map) {
    const auto f = FunctionOf(*map, "f");
    const auto elements = ElementsOf(*map);
    const TensorRef source = InputOf(*map, 0);
    auto rows = ElementsOf(*source.node);
    if (!f || !elements || !rows) return nullptr;
    const auto hoisted = HoistRandomUniform(graph_, f->f);
    if (!hoisted) return nullptr;
    const auto number = [&](const char* name, int64_t value) {
      return TensorRef{rewriter_.AddConst(*map, name, Tensor::Scalar(value), {}), 0};
    };
    const TensorRef seed = number("seed", hoisted->seeds.seed), seed2 = number("seed2", hoisted->seeds.seed2);
    const TensorRef two = number("two", 2);
    Node* const drop = rewriter_.AddConst(*map, "drop_remainder", Tensor::Scalar(true), {});
    if (seed.node == nullptr || seed2.node == nullptr || two.node == nullptr || drop == nullptr)
      return nullptr;
    const Elements one{{DataType::kInt64}, {PartialShape({})}}, pair{{DataType::kInt64}, {PartialShape({2})}};
    Node* const numbers =
        rewriter_.Add(*map, "random", "RandomDataset",
                      {{"output_types", one.types}, {"output_shapes", one.shapes}}, {seed, seed2});
    if (numbers == nullptr) return nullptr;
    Node* const seeds = rewriter_.Add(*map, "seeds", "BatchDatasetV2",
                                      {{"output_types", pair.types}, {"output_shapes", pair.shapes}},
                                      {{numbers, 0}, two, {drop, 0}});
    if (seeds == nullptr) return nullptr;
    rows->types.push_back(pair.types[0]);
    rows->shapes.push_back(pair.shapes[0]);
    Node* const both =
        rewriter_.Add(*map, "zip", "ZipDataset",
                      {{"N", int64_t{2}}, {"output_types", rows->types}, {"output_shapes", rows->shapes}},
                      {source, {seeds, 0}});
    if (both == nullptr) return nullptr;
    return AddMap(*map, {both, 0}, hoisted->f, f->f.captured, f->captured, *elements, *map);
  }

  Node* FilterBySample(Node* filter) {
    const auto p = FunctionOf(*filter, "predicate");
    const auto elements = ElementsOf(*filter);
    if (!p || !elements) return nullptr;
    const auto random = FindRandomPredicate(*graph_, p->f.f);
    if (!random) return nullptr;
    Node* const rate = rewriter_.AddConst(*filter, "rate", Tensor::Scalar(random->rate), {});
    Node* const seed = rewriter_.AddConst(*filter, "seed", Tensor::Scalar(random->seeds.seed), {});
    Node* const seed2 = rewriter_.AddConst(*filter, "seed2", Tensor::Scalar(random->seeds.seed2), {});
    if (rate == nullptr || seed == nullptr || seed2 == nullptr) return nullptr;
    return rewriter_.Add(*filter, "sample", "SamplingDataset",
                         {{"output_types", elements->types}, {"output_shapes", elements->shapes}},
                         {InputOf(*filter, 0), {rate, 0}, {seed, 0}, {seed2, 0}});
  }

  // The same stage with another value of an attribute.
  Node* Copy(const Node& stage, const char* name, const char* attr, const AttrValue& value) {
    AttrMap attrs = stage.attrs();
    attrs.Set(attr, value);
    std::vector<TensorRef> inputs;
    for (int i = 0; i < stage.num_inputs(); ++i) inputs.push_back(InputOf(stage, i));
    return rewriter_.Add(stage, name, stage.op_name(), std::move(attrs), inputs);
  }
  static bool IsSet(const Node& stage, const char* attr) {
    return stage.attrs().Get<bool>(attr).value_or(false);
  }

  // Sets the slack period of the last prefetch, unless other stages follow it.
  void GiveSlack(Node* root) {
    Link link{root, 0};
    Node* stage = Producer(link);
    while (stage != nullptr &&
           IsOneOf(*stage, {"TakeDataset", "SkipDataset", "RepeatDataset", "ModelDataset", "OptimizeDataset",
                            "MaxIntraOpParallelismDataset", "PrivateThreadPoolDataset"})) {
      link = {stage, 0};
      stage = Producer(link);
    }
    if (stage == nullptr || stage->op_name() != "PrefetchDataset") return;
    if (Node* const made = Copy(*stage, "slack", "slack_period", slack_period_); made != nullptr) {
      Redirect(link, made, 0);
      ++changes_;
    }
  }

  // A stage that tries a map before the batch and a map of batches, and continues with the faster one.
  Node* TryBoth(Node* batch, Node* map) {
    const auto f = FunctionOf(*map, "f");
    const auto elements = ElementsOf(*batch), mapped = ElementsOf(*map);
    const TensorRef source = InputOf(*map, 0);
    const auto rows = ElementsOf(*source.node);
    if (!f || !elements || !mapped || !rows || !ScalarOf<int64_t>(InputOf(*batch, 1))) return nullptr;
    const auto of_batches = VectorizeFunction(graph_, f->f, rows->shapes);
    if (!of_batches) return nullptr;
    // Both take the map's captured tensors, its number of calls if it has one, the size and drop_remainder.
    std::vector<TensorRef> more = f->captured;
    Types types = f->f.captured;
    StageOfFunction mapping{
        map->op_name() == "ParallelMapDataset" ? "ParallelMapDataset" : "MapDataset", map->attrs(), {}};
    for (int i = 1; i < map->num_inputs(); ++i) mapping.inputs.push_back(i - 1);
    if (map->op_name() == "ParallelMapDataset") {
      more.push_back(InputOf(*map, map->num_inputs() - 1));
      types.push_back(DataType::kInt32);
    }
    const TensorRef drop = DropRemainder(*batch);
    if (drop.node == nullptr) return nullptr;
    const int size_at = static_cast<int>(more.size());
    more.insert(more.end(), {InputOf(*batch, 1), drop});
    types.insert(types.end(), {DataType::kInt64, DataType::kBool});
    StageOfFunction batching{"BatchDatasetV2",
                             {{"output_types", elements->types}, {"output_shapes", elements->shapes}},
                             {size_at, size_at + 1}};
    const auto plain = MakeDatasetFunction(graph_, StrCat("__batches_of_", f->f.f.name, "_", batch->name()),
                                           types, {mapping, batching});
    batching.attrs.Set("output_types", rows->types);
    batching.attrs.Set("output_shapes", BatchShapes(rows->shapes));
    mapping.attrs.Set("f", *of_batches);
    mapping.attrs.Set("output_types", elements->types);
    mapping.attrs.Set("output_shapes", elements->shapes);
    const auto of_rows = MakeDatasetFunction(graph_, StrCat("__of_batches_", f->f.f.name, "_", batch->name()),
                                             types, {batching, mapping});
    Node* const one = rewriter_.AddConst(*batch, "one", Tensor::Scalar(int64_t{1}), {});
    if (!plain || !of_rows || one == nullptr) return nullptr;
    const auto length = static_cast<int64_t>(more.size());
    constexpr int64_t kTrial = 10;  // batches of each
    return rewriter_.Add(*batch, "fastest", "ChooseFastestBranchDataset",
                         {{"Targuments", Both(types, types)},
                          {"num_elements_per_branch", kTrial},
                          {"branches", std::vector<NameAttrList>{*plain, *of_rows}},
                          {"other_arguments_lengths", std::vector<int64_t>{length, length}},
                          {"output_types", elements->types},
                          {"output_shapes", elements->shapes}},
                         Join({source, InputOf(*batch, 1), {one, 0}}, more, more));
  }
  static std::vector<TensorRef> Join(std::vector<TensorRef> a, const std::vector<TensorRef>& b,
                                     const std::vector<TensorRef>& c) {
    a.insert(a.end(), b.begin(), b.end());
    a.insert(a.end(), c.begin(), c.end());
    return a;
  }
  static Shapes BatchShapes(const Shapes& rows) {
    Shapes batches;
    for (const PartialShape& row : rows) {
      std::vector<int64_t> dims(row.dims().begin(), row.dims().end());
      dims.insert(dims.begin(), -1);
      batches.push_back(PartialShape(std::move(dims)));
    }
    return batches;
  }

  Graph* const graph_;
  Rewriter rewriter_;
  std::set<std::string> wanted_;
  bool tries_both_ = false;   // whether to try both ways to map batches
  int64_t slack_period_ = 1;  // elements per step
  int changes_ = 0;
};

}  // namespace

std::span<const DatasetRewrite> DatasetRewrites() { return kRewrites; }

StatusOr<int> RewriteDatasets(Graph* graph, const OptimizeOptions& options) {
  // Most graphs have no datasets.
  for (int id = 2; id < graph->num_node_ids(); ++id) {
    const Node* const node = graph->node(id);
    if (node != nullptr && node->op_name() == "OptimizeDataset") return Pass(graph, options).Run();
  }
  return 0;
}

}  // namespace millrace
