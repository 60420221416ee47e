// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/data.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cc/scope_state.h"
#include "millrace/functions.h"
#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "training/apply.h"
#include "training/formula.h"

namespace millrace {
namespace {

std::vector<DataType> TypesOf(const std::vector<Output>& tensors) {
  std::vector<DataType> types;
  types.reserve(tensors.size());
  for (const Output& tensor : tensors) types.push_back(Scope::TypeOf(tensor));
  return types;
}

InputList AsList(const std::vector<Output>& tensors) { return tensors; }

Input Number64(int64_t value) { return Tensor::Scalar(value); }

// 0, false or an empty string.
Tensor ZeroOf(DataType dtype) {
  Tensor zero(dtype, TensorShape());
  if (DataTypeSize(dtype) > 0 && zero.IsInitialized()) std::memset(zero.raw_data(), 0, zero.num_bytes());
  return zero;
}

// [n, ...] without n.
PartialShape RowShape(const PartialShape& shape) {
  if (shape.unknown_rank() || shape.rank() == 0) return PartialShape();
  return PartialShape(std::vector<int64_t>(shape.dims().begin() + 1, shape.dims().end()));
}

}  // namespace

Dataset::Dataset(const Scope& scope, const Output& handle, std::vector<DataType> types,
                 std::vector<PartialShape> shapes)
    : scope_(scope), handle_(handle), types_(std::move(types)), shapes_(std::move(shapes)) {}

Dataset Dataset::Add(const Scope& scope, const char* op, const std::vector<Input>& inputs, OpAttrs attrs,
                     std::vector<DataType> types, std::vector<PartialShape> shapes) {
  attrs.Set("output_types", types);
  attrs.Set("output_shapes", shapes);
  const Output handle = AddOp(scope, op, inputs, attrs);
  return {scope, handle, std::move(types), std::move(shapes)};
}

Dataset Dataset::Same(const char* op, const std::vector<Input>& more, OpAttrs attrs) const {
  if (!ok()) return *this;
  std::vector<Input> inputs = {handle_};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return Add(*scope_, op, inputs, std::move(attrs), types_, shapes_);
}

Dataset Dataset::Range(const Scope& scope, const Input& start, const Input& stop, const Input& step) {
  return Add(scope, "RangeDataset", {start, stop, step}, {}, {DataType::kInt64}, {PartialShape({})});
}

Dataset Dataset::FromTensors(const Scope& scope, const std::vector<Output>& components) {
  std::vector<PartialShape> shapes;
  shapes.reserve(components.size());
  for (const Output& component : components) shapes.push_back(scope.ShapeOf(component));
  OpMaker maker(scope, "TensorDataset", {});
  maker.Add(AsList(components));
  maker.SetAttr("output_shapes", shapes);
  maker.Finish();
  return {scope, maker.output(0), TypesOf(components), std::move(shapes)};
}

Dataset Dataset::FromTensorSlices(const Scope& scope, const std::vector<Output>& components) {
  std::vector<PartialShape> shapes;
  shapes.reserve(components.size());
  for (const Output& component : components) shapes.push_back(RowShape(scope.ShapeOf(component)));
  const Output handle = ops::TensorSliceDataset(scope, AsList(components), shapes);
  return {scope, handle, TypesOf(components), std::move(shapes)};
}

Dataset Dataset::OfFiles(const Scope& scope, const char* op, const std::vector<Input>& inputs) {
  return {scope, AddOp(scope, op, inputs), {DataType::kString}, {PartialShape({})}};
}

Dataset Dataset::TFRecord(const Scope& scope, const Input& filenames, std::string_view compression,
                          int64_t buffer_size) {
  return OfFiles(scope, "TFRecordDataset", {filenames, compression, Number64(buffer_size)});
}

Dataset Dataset::TextLine(const Scope& scope, const Input& filenames, std::string_view compression,
                          int64_t buffer_size) {
  return OfFiles(scope, "TextLineDataset", {filenames, compression, Number64(buffer_size)});
}

Dataset Dataset::FixedLengthRecord(const Scope& scope, const Input& filenames, int64_t record_bytes,
                                   int64_t header_bytes, int64_t footer_bytes, int64_t buffer_size) {
  return OfFiles(scope, "FixedLengthRecordDataset",
                 {filenames, Number64(header_bytes), Number64(record_bytes), Number64(footer_bytes),
                  Number64(buffer_size)});
}

Dataset Dataset::Sql(const Scope& scope, const Input& data_source_name, const Input& query,
                     std::vector<DataType> types) {
  std::vector<PartialShape> shapes(types.size(), PartialShape({}));
  return Add(scope, "SqlDataset", {Input("sqlite"), data_source_name, query}, {}, std::move(types),
             std::move(shapes));
}

Dataset Dataset::ListFiles(const Scope& scope, const Input& patterns) {
  return OfFiles(scope, "MatchingFilesDataset", {patterns});
}

Dataset Dataset::Csv(const Scope& scope, const Input& filenames, const std::vector<Tensor>& defaults,
                     bool header, const std::vector<int64_t>& select_columns) {
  std::vector<DataType> types;
  std::vector<Output> values;
  for (const Tensor& value : defaults) {
    types.push_back(value.dtype());
    values.push_back(ops::Const(scope, value.shape().IsScalar() ? value.WithShape(TensorShape({1})) : value));
  }
  std::vector<PartialShape> shapes(types.size(), PartialShape({}));
  OpMaker maker(scope, "CSVDataset", {});
  maker.Add(filenames);
  maker.Add(Input(""));
  maker.Add(Number64(int64_t{4} << 20));
  maker.Add(Input(header));
  maker.Add(Input(","));
  maker.Add(Input(true));
  maker.Add(Input(""));
  maker.Add(Input(Tensor::Vector(select_columns)));
  maker.Add(AsList(values));
  maker.SetAttr("output_shapes", shapes);
  maker.Finish();
  return {scope, maker.output(0), std::move(types), std::move(shapes)};
}

Dataset Dataset::Zip(const Scope& scope, const std::vector<Dataset>& datasets) {
  std::vector<Output> handles;
  std::vector<DataType> types;
  std::vector<PartialShape> shapes;
  for (const Dataset& dataset : datasets) {
    handles.push_back(dataset.handle_);
    types.insert(types.end(), dataset.types_.begin(), dataset.types_.end());
    shapes.insert(shapes.end(), dataset.shapes_.begin(), dataset.shapes_.end());
  }
  const Output handle = ops::ZipDataset(scope, AsList(handles), types, shapes);
  return {scope, handle, std::move(types), std::move(shapes)};
}

Dataset Dataset::Map(const ElementFn& fn, const MapOptions& options) const {
  if (!ok()) return *this;
  const GraphFunction function = MakeGraphFunction(*scope_, "Dataset_map", types_, shapes_, fn);
  OpMaker maker(*scope_, options.num_parallel_calls ? "ParallelMapDataset" : "MapDataset", {});
  maker.Add(Input(handle_));
  maker.Add(AsList(function.captured));
  if (options.num_parallel_calls) maker.Add(Input(static_cast<int32_t>(*options.num_parallel_calls)));
  if (options.num_parallel_calls) maker.SetAttr("sloppy", options.sloppy);
  maker.SetAttr("f", function.name);
  maker.SetAttr("output_types", function.types);
  maker.SetAttr("output_shapes", function.shapes);
  // As many elements are output as are input.
  maker.SetAttr("preserve_cardinality", true);
  maker.Finish();
  return {*scope_, maker.output(0), function.types, function.shapes};
}

Dataset Dataset::WithPredicate(const char* op, const char* name, const ElementFn& predicate) const {
  if (!ok()) return *this;
  const GraphFunction function = MakeGraphFunction(*scope_, name, types_, shapes_, predicate);
  if (ok() && function.types != std::vector<DataType>{DataType::kBool}) {
    scope_->UpdateStatus(errors::InvalidArgument("`predicate` must return a scalar boolean tensor."));
  }
  OpMaker maker(*scope_, op, {});
  maker.Add(Input(handle_));
  maker.Add(AsList(function.captured));
  maker.SetAttr("predicate", function.name);
  maker.SetAttr("output_types", types_);
  maker.SetAttr("output_shapes", shapes_);
  maker.Finish();
  return {*scope_, maker.output(0), types_, shapes_};
}

Dataset Dataset::Filter(const ElementFn& predicate) const {
  return WithPredicate("FilterDataset", "Dataset_filter", predicate);
}

Dataset Dataset::TakeWhile(const ElementFn& predicate) const {
  return WithPredicate("TakeWhileDataset", "Dataset_take_while", predicate);
}

Dataset Dataset::Unbatch() const {
  if (!ok()) return *this;
  std::vector<PartialShape> rows;
  for (const PartialShape& shape : shapes_) rows.push_back(RowShape(shape));
  return Add(*scope_, "UnbatchDataset", {handle_}, {}, types_, std::move(rows));
}

Dataset Dataset::Enumerate(int64_t start) const {
  if (!ok()) return *this;
  return Zip(*scope_, {Range(*scope_, start, std::numeric_limits<int64_t>::max()), *this});
}

Dataset Dataset::Window(const WindowOptions& options, const WindowFn& fn) const {
  if (!ok()) return *this;
  const size_t n = types_.size();
  const Dataset windows =
      Add(*scope_, "WindowDataset",
          {handle_, Number64(options.size), Number64(options.shift), Number64(options.stride),
           Input(options.drop_remainder)},
          {}, std::vector<DataType>(n, DataType::kVariant), std::vector<PartialShape>(n, PartialShape({})));
  if (fn == nullptr) return windows.FlatMap(nullptr);
  return windows.FlatMap([&](const Scope& scope, const std::vector<Output>& handles) {
    std::vector<Dataset> parts;
    for (size_t i = 0; i < n; ++i) {
      parts.push_back({scope, handles[i], std::vector{types_[i]}, std::vector{shapes_[i]}});
    }
    return fn(scope, parts);
  });
}

Dataset Dataset::GroupByWindow(const ElementFn& key, const ReduceFn& reduce, const KeyFn& window_size) const {
  if (!ok()) return *this;
  const auto call = [](const auto& fn, auto body) { return fn == nullptr ? FunctionBodyFn() : body; };
  const std::vector<DataType> number = {DataType::kInt64};
  const std::vector<PartialShape> scalar = {PartialShape({})};
  const GraphFunction key_of = MakeGraphFunction(*scope_, "Dataset_key", types_, shapes_,
                                                 key == nullptr ? FunctionBodyFn() : FunctionBodyFn(key));
  Dataset made = *this;
  const GraphFunction reduced = MakeGraphFunction(
      *scope_, "Dataset_reduce", {DataType::kInt64, DataType::kVariant}, {PartialShape({}), PartialShape({})},
      call(reduce, FunctionBodyFn([&](const Scope& scope, const std::vector<Output>& in) {
             made = reduce(scope, in[0], Dataset(scope, in[1], types_, shapes_));
             return std::vector<Output>{made.handle_};
           })));
  const GraphFunction size_of = MakeGraphFunction(
      *scope_, "Dataset_window_size", number, scalar,
      call(window_size, FunctionBodyFn([&](const Scope& scope, const std::vector<Output>& in) {
             return std::vector<Output>{window_size(scope, in[0])};
           })));
  if (!ok()) return *this;
  OpAttrs attrs;
  attrs.Set("key_func", key_of.name);
  attrs.Set("reduce_func", reduced.name);
  attrs.Set("window_size_func", size_of.name);
  attrs.Set("output_types", made.types_);
  attrs.Set("output_shapes", made.shapes_);
  OpMaker maker(*scope_, "GroupByWindowDataset", attrs);
  maker.Add(Input(handle_));
  for (const GraphFunction* f : {&key_of, &reduced, &size_of}) maker.Add(AsList(f->captured));
  maker.Finish();
  return {*scope_, maker.output(0), made.types_, made.shapes_};
}

Dataset Dataset::BucketBySequenceLength(const ElementFn& length, const BucketOptions& options) const {
  if (!ok()) return *this;
  const std::vector<int64_t>& boundaries = options.boundaries;
  const std::vector<int64_t>& sizes = options.batch_sizes;
  if (length == nullptr || sizes.size() != boundaries.size() + 1 ||
      std::ranges::any_of(sizes, [](int64_t size) { return size <= 0; })) {
    scope_->UpdateStatus(errors::InvalidArgument("BucketBySequenceLength: ", boundaries.size(),
                                                 " boundaries need one batch size more, above zero, and a "
                                                 "function; there are ",
                                                 sizes.size(), " sizes"));
    return *this;
  }
  const auto bucket = [&](const Scope& scope, const std::vector<Output>& element) -> std::vector<Output> {
    const std::vector<Output> lengths = length(scope, element);
    const Output bounds = ops::Const(scope, Tensor::Vector(boundaries));
    const Output above = ops::GreaterEqual(scope, lengths.empty() ? Output() : lengths[0], bounds);
    return {ops::Sum(scope, ops::Cast(scope, above, DataType::kInt64), 0)};
  };
  const auto size = [&](const Scope& scope, const Output& key) -> Output {
    return ops::Gather(scope, ops::Const(scope, Tensor::Vector(sizes)), key);
  };
  // A window is never larger than its batch.
  const int64_t largest = *std::ranges::max_element(sizes);
  const auto pad = [&](const Scope&, const Output&, const Dataset& window) {
    return window.PaddedBatch(largest, options.padded_shapes);
  };
  return GroupByWindow(bucket, pad, size);
}

Dataset Dataset::OfDatasets(const char* op, const DatasetFn& fn, const std::vector<Input>& more,
                            OpAttrs attrs) const {
  if (!ok()) return *this;
  std::vector<DataType> types;
  std::vector<PartialShape> shapes;
  const auto body = [&](const Scope& scope, const std::vector<Output>& element) -> std::vector<Output> {
    const Dataset dataset = fn(scope, element);
    types = dataset.types_;
    shapes = dataset.shapes_;
    return {dataset.handle_};
  };
  const GraphFunction function = MakeGraphFunction(*scope_, "Dataset_datasets", types_, shapes_,
                                                   fn == nullptr ? FunctionBodyFn() : body);
  attrs.Set("f", function.name);
  attrs.Set("output_types", types);
  attrs.Set("output_shapes", shapes);
  OpMaker maker(*scope_, op, attrs);
  maker.Add(Input(handle_));
  maker.Add(AsList(function.captured));
  for (const Input& input : more) maker.Add(input);
  maker.Finish();
  return {*scope_, maker.output(0), std::move(types), std::move(shapes)};
}

Dataset Dataset::FlatMap(const DatasetFn& fn) const { return OfDatasets("FlatMapDataset", fn, {}, {}); }

Dataset Dataset::Interleave(const DatasetFn& fn, const InterleaveOptions& options) const {
  const Input cycle = Number64(options.cycle_length), block = Number64(options.block_length);
  if (!options.num_parallel_calls) return OfDatasets("InterleaveDataset", fn, {cycle, block}, {});
  OpAttrs attrs;
  attrs.Set("sloppy", options.sloppy);
  return OfDatasets("ParallelInterleaveDatasetV2", fn, {cycle, block, Number64(*options.num_parallel_calls)},
                    attrs);
}

std::vector<PartialShape> Dataset::Batched(int64_t batch_size, bool drop_remainder,
                                           const std::vector<PartialShape>& shapes) const {
  std::vector<PartialShape> batched;
  for (const PartialShape& shape : shapes) {
    std::vector<int64_t> dims = {drop_remainder ? batch_size : -1};
    dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
    batched.push_back(shape.unknown_rank() ? PartialShape() : PartialShape(std::move(dims)));
  }
  return batched;
}

Dataset Dataset::Batch(int64_t batch_size, bool drop_remainder) const {
  if (!ok()) return *this;
  return Add(*scope_, "BatchDatasetV2", {handle_, Number64(batch_size), Input(drop_remainder)}, {}, types_,
             Batched(batch_size, drop_remainder, shapes_));
}

Dataset Dataset::PaddedBatch(int64_t batch_size, std::vector<PartialShape> padded_shapes,
                             bool drop_remainder) const {
  if (!ok()) return *this;
  if (padded_shapes.empty()) padded_shapes = shapes_;
  if (padded_shapes.size() != shapes_.size()) {
    scope_->UpdateStatus(errors::InvalidArgument("PaddedBatch: ", padded_shapes.size(),
                                                 " shapes are given for ", shapes_.size(), " components"));
    return *this;
  }
  std::vector<Output> to, fill;
  for (size_t i = 0; i < padded_shapes.size(); ++i) {
    if (padded_shapes[i].unknown_rank()) {
      scope_->UpdateStatus(errors::InvalidArgument("PaddedBatch: the rank of component ", i, " is unknown"));
      return *this;
    }
    const auto dims = padded_shapes[i].dims();
    to.push_back(ops::Const(*scope_, Tensor::Vector(std::vector<int64_t>(dims.begin(), dims.end()))));
    fill.push_back(ops::Const(*scope_, ZeroOf(types_[i])));
  }
  OpMaker maker(*scope_, "PaddedBatchDatasetV2", {});
  maker.Add(Input(handle_));
  maker.Add(Number64(batch_size));
  maker.Add(AsList(to));
  maker.Add(AsList(fill));
  maker.Add(Input(drop_remainder));
  const auto shapes = Batched(batch_size, drop_remainder, padded_shapes);
  maker.SetAttr("output_shapes", shapes);
  maker.Finish();
  return {*scope_, maker.output(0), types_, shapes};
}

Dataset Dataset::Shuffle(int64_t buffer_size, int64_t seed, bool reshuffle_each_iteration) const {
  if (!ok()) return *this;
  const auto [first, second] = SeedsOf(*scope_, seed);
  OpAttrs attrs;
  attrs.Set("reshuffle_each_iteration", reshuffle_each_iteration);
  return Same("ShuffleDataset", {Number64(buffer_size), Number64(first), Number64(second)}, attrs);
}

Dataset Dataset::Repeat(int64_t count) const { return Same("RepeatDataset", {Number64(count)}); }
Dataset Dataset::Prefetch(int64_t buffer_size) const {
  return Same("PrefetchDataset", {Number64(buffer_size)});
}
Dataset Dataset::Take(const Input& count) const { return Same("TakeDataset", {count}); }
Dataset Dataset::Skip(const Input& count) const { return Same("SkipDataset", {count}); }
Dataset Dataset::Cache(std::string_view filename) const { return Same("CacheDataset", {Input(filename)}); }
Dataset Dataset::Shard(int64_t num_shards, int64_t index) const {
  return Same("ShardDataset", {Number64(num_shards), Number64(index)});
}

Dataset Dataset::IgnoreErrors() const { return Same("IgnoreErrorsDataset", {}); }

Dataset Dataset::LatencyStats(const Input& tag) const { return Same("LatencyStatsDataset", {tag}); }

Dataset Dataset::BytesProducedStats(const Input& tag) const {
  return Same("BytesProducedStatsDataset", {tag});
}

Dataset Dataset::WithStats(const StatsAggregator& aggregator, const Input& prefix) const {
  return Same("SetStatsAggregatorDataset", {aggregator.handle(), prefix, Input("")});
}

StatsAggregator StatsAggregator::Make(const Scope& scope, std::string_view shared_name) {
  StatsAggregator aggregator;
  OpAttrs attrs;
  attrs.Set("shared_name", std::string(shared_name));
  aggregator.handle_ = AddOp(scope, "StatsAggregatorHandle", {}, attrs);
  return aggregator;
}

Output StatsAggregator::GetSummary(const Scope& scope) const {
  return AddOp(scope, "StatsAggregatorSummary", {handle_}, OpAttrs());
}

Dataset Dataset::WithOptions(const DatasetOptions& options) const {
  Dataset same = *this;
  same.options_ = options;
  return same;
}

Dataset Dataset::ForIterator() const {
  const DatasetOptions& o = options_;
  const std::pair<bool, const char*> rewrites[] = {
      {o.filter_fusion, "filter_fusion"},
      {o.filter_with_random_uniform_fusion, "filter_with_random_uniform_fusion"},
      {o.hoist_random_uniform, "hoist_random_uniform"},
      {o.map_and_batch_fusion, "map_and_batch_fusion"},
      {o.map_and_filter_fusion, "map_and_filter_fusion"},
      {o.map_fusion, "map_fusion"},
      {o.map_parallelization, "map_parallelization"},
      {o.map_vectorization, "map_vectorization"},
      {o.noop_elimination, "noop_elimination"},
      {o.parallel_batch, "parallel_batch"},
      {o.shuffle_and_repeat_fusion, "shuffle_and_repeat_fusion"},
      {!o.deterministic, "make_sloppy"},
      {o.slack, "slack"},
  };
  std::vector<std::string> names;
  for (const auto& [wanted, name] : rewrites) {
    if (wanted) names.emplace_back(name);
  }
  Dataset result = *this;
  if (!names.empty()) {
    OpAttrs attrs;
    if (o.map_vectorization) {
      attrs.Set("optimization_configs",
                std::vector<std::string>{StrCat("map_vectorization:use_choose_fastest:",
                                                o.use_choose_fastest ? "true" : "false")});
    }
    result = result.Same("OptimizeDataset", {Tensor::Vector(names)}, attrs);
  }
  if (!o.autotune) return result;
  OpAttrs attrs;
  attrs.Set("cpu_budget", o.autotune_cpu_budget);
  return result.Same("ModelDataset", {}, attrs);
}

Dataset Dataset::Concatenate(const Dataset& other) const {
  if (!ok()) return *this;
  if (types_ != other.types_) {
    scope_->UpdateStatus(
        errors::InvalidArgument("Two datasets to concatenate have different types of elements"));
    return *this;
  }
  std::vector<PartialShape> shapes;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const PartialShape &mine = shapes_[i], &its = other.shapes_[i];
    if (mine.unknown_rank() || mine.rank() != its.rank()) {
      shapes.emplace_back();
      continue;
    }
    std::vector<int64_t> dims;
    dims.reserve(static_cast<size_t>(mine.rank()));
    for (int d = 0; d < mine.rank(); ++d) dims.push_back(mine.dim(d) == its.dim(d) ? mine.dim(d) : -1);
    shapes.emplace_back(std::move(dims));
  }
  return Add(*scope_, "ConcatenateDataset", {handle_, other.handle_}, {}, types_, std::move(shapes));
}

Iterator Iterator::FromStructure(const Scope& scope, std::vector<DataType> types,
                                 std::vector<PartialShape> shapes, std::string_view shared_name) {
  Iterator iterator;
  iterator.handle_ = ops::IteratorV2(scope, shared_name, "", types, shapes);
  iterator.types_ = std::move(types);
  iterator.shapes_ = std::move(shapes);
  return iterator;
}

Iterator Iterator::Initializable(const Dataset& dataset, std::string_view shared_name) {
  if (!dataset.handle().IsSet()) {
    Iterator none;
    none.types_ = dataset.types();
    return none;
  }
  Iterator iterator = FromStructure(dataset.scope(), dataset.types(), dataset.shapes(), shared_name);
  iterator.initializer_ = iterator.MakeInitializer(dataset);
  return iterator;
}

Operation Iterator::MakeInitializer(const Dataset& dataset) const {
  if (!dataset.handle().IsSet() || !dataset.scope().ok()) return {};
  if (dataset.types() != types_) {
    dataset.scope().UpdateStatus(errors::InvalidArgument("MakeInitializer: the iterator has ", types_.size(),
                                                         " components and the dataset has ",
                                                         dataset.types().size(), ", or their types differ"));
    return {};
  }
  return ops::MakeIterator(dataset.scope().WithOpName("MakeIterator"), dataset.ForIterator().handle(),
                           handle_);
}

Iterator Iterator::OneShot(const Scope& scope, const std::function<Dataset(const Scope&)>& make) {
  Iterator iterator;
  const auto body = [&](const Scope& inner, const std::vector<Output>&) -> std::vector<Output> {
    const Dataset dataset = make(inner);
    iterator.types_ = dataset.types();
    iterator.shapes_ = dataset.shapes();
    return {dataset.ForIterator().handle()};
  };
  const GraphFunction function =
      MakeGraphFunction(scope, "make_dataset", {}, {}, make == nullptr ? FunctionBodyFn() : body);
  if (!function.captured.empty()) {
    scope.UpdateStatus(errors::InvalidArgument(
        "Cannot capture a placeholder or other tensor by value: a one-shot iterator's dataset uses '",
        Scope::NameOf(function.captured[0]), "' from outside; use an initializable iterator"));
  }
  if (!scope.ok()) return {};
  OpAttrs attrs;
  attrs.Set("dataset_factory", function.name);
  attrs.Set("output_types", iterator.types_);
  attrs.Set("output_shapes", iterator.shapes_);
  iterator.handle_ = AddOp(scope, "OneShotIterator", {}, attrs);
  return iterator;
}

Iterator Iterator::FromStringHandle(const Scope& scope, const Input& string_handle,
                                    std::vector<DataType> types, std::vector<PartialShape> shapes) {
  Iterator iterator;
  OpAttrs attrs;
  attrs.Set("output_types", types);
  attrs.Set("output_shapes", shapes);
  iterator.handle_ = AddOp(scope, "IteratorFromStringHandleV2", {string_handle}, attrs);
  iterator.types_ = std::move(types);
  iterator.shapes_ = std::move(shapes);
  return iterator;
}

// Finishes an op whose outputs are the components of an element; unset after an error.
static std::vector<Output> ElementOf(OpMaker& maker, const std::vector<DataType>& types,
                                     const std::vector<PartialShape>& shapes) {
  maker.SetAttr("output_types", types);
  maker.SetAttr("output_shapes", shapes);
  maker.Finish();
  std::vector<Output> components = maker.outputs(0);
  components.resize(types.size());
  return components;
}

std::vector<Output> Iterator::GetNext(const Scope& scope) const {
  OpMaker maker(scope, "IteratorGetNext", {});
  maker.Add(Input(handle_));
  return ElementOf(maker, types_, shapes_);
}

Output Iterator::StringHandle(const Scope& scope) const {
  return ops::IteratorToStringHandle(scope, handle_);
}
Output Iterator::SaveState(const Scope& scope) const { return ops::SerializeIterator(scope, handle_); }
Operation Iterator::RestoreState(const Scope& scope, const Input& state) const {
  return ops::DeserializeIterator(scope, handle_, state);
}

void Iterator::SaveWithModel(const Scope& scope) const {
  if (!initializer_.IsSet()) {
    scope.UpdateStatus(errors::InvalidArgument("only an initializable iterator can be saved with the model"));
    return;
  }
  AddToCollection(scope, kSavedIterators, handle_);
  AddToCollection(scope, kSavedIteratorInitializers, initializer_);
}

MultiDeviceIterator MultiDeviceIterator::Make(const Dataset& dataset, const std::vector<std::string>& devices,
                                              int64_t max_buffer_size) {
  MultiDeviceIterator iterator;
  iterator.types_ = dataset.types();
  iterator.shapes_ = dataset.shapes();
  iterator.num_devices_ = static_cast<int>(devices.size());
  if (!dataset.handle().IsSet() || !dataset.scope().ok()) return iterator;
  const Scope& scope = dataset.scope();
  if (devices.empty()) {
    scope.UpdateStatus(errors::InvalidArgument("a multi-device iterator needs at least one device"));
    return iterator;
  }
  OpAttrs attrs;
  attrs.Set("devices", devices);
  attrs.Set("shared_name", "");
  attrs.Set("container", "");
  attrs.Set("output_types", iterator.types_);
  attrs.Set("output_shapes", iterator.shapes_);
  iterator.handle_ = AddOp(scope, "MultiDeviceIterator", {}, attrs);
  const Output started =
      ops::MultiDeviceIteratorInit(scope, dataset.ForIterator().handle(), iterator.handle_, max_buffer_size);
  iterator.incarnation_ = ops::VarHandleOp(
      scope.WithOpName("multi_device_iterator_incarnation"), DataType::kInt64, PartialShape({}),
      ops::VarHandleOp::SharedName(StrCat(Scope::NameOf(iterator.handle_), "/incarnation")));
  iterator.initializer_ = ops::AssignVariableOp(scope, iterator.incarnation_, started);
  return iterator;
}

std::vector<Output> MultiDeviceIterator::GetNext(const Scope& scope, int device) const {
  if (device < 0 || device >= num_devices_) {
    scope.UpdateStatus(errors::InvalidArgument("the multi-device iterator has ", num_devices_,
                                               " devices, none of which is number ", device));
  }
  if (!scope.ok()) return std::vector<Output>(types_.size());
  OpMaker maker(scope, "MultiDeviceIteratorGetNextFromShard", {});
  maker.Add(Input(handle_));
  maker.Add(Input(int32_t{device}));
  maker.Add(Input(ops::ReadVariableOp(scope, incarnation_, DataType::kInt64)));
  return ElementOf(maker, types_, shapes_);
}

}  // namespace millrace
