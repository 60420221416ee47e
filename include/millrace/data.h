// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/functions.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/shape.h"

// Input by datasets: TensorFlow's tf.data API over the same ops; docs/datasets.md describes their execution.
// Errors go to the scope's status; results are unset then.
namespace millrace {

class Dataset;

// Adds nodes that compute on the components of one element, under the given scope. They become a function of
// the graph; tensors from outside may be used, variables by their values.
using ElementFn = std::function<std::vector<Output>(const Scope&, const std::vector<Output>&)>;
using DatasetFn = std::function<Dataset(const Scope&, const std::vector<Output>&)>;

inline constexpr int64_t kAutotune = -1;  // chosen by measurements

// How a pipeline is rewritten when an iterator is created: the experimental_optimization of tf.data.Options,
// with the same defaults. None of it changes elements, except for random numbers; shuffle_and_repeat_fusion
// changes their order.
struct DatasetOptions {
  bool noop_elimination = true;
  bool map_and_batch_fusion = true;
  bool map_and_filter_fusion = false;
  bool map_fusion = false;
  bool filter_fusion = false;
  bool map_vectorization = false;  // maps of batches, if all ops of the function have a vectorized form
  // With map_vectorization: both forms make some batches, then the faster one is used.
  bool use_choose_fastest = false;
  bool map_parallelization = false;
  bool shuffle_and_repeat_fusion = true;
  bool hoist_random_uniform = false;  // random numbers of a map are computed from a dataset of seeds
  bool filter_with_random_uniform_fusion = false;
  bool parallel_batch = false;      // threads copy large elements into batches
  bool deterministic = true;        // else stages with parallel calls produce elements in any order
  bool slack = false;               // the last prefetch pauses when the consumer has taken an element
  bool autotune = true;             // kAutotune by measured costs; else the number of processors
  int64_t autotune_cpu_budget = 0;  // number of processors for autotuned stages; 0: all
};

// Collects the measurements of pipeline stages, in the session: histograms and counters by their names. A
// value.
class StatsAggregator {
 public:
  StatsAggregator() = default;
  // Aggregators with the same shared name are the same.
  static StatsAggregator Make(const Scope& scope, std::string_view shared_name = "");
  // A string scalar: a serialised Summary of everything collected so far.
  Output GetSummary(const Scope& scope) const;
  const Output& handle() const { return handle_; }  // a resource

 private:
  Output handle_;
};

// A source of elements, each of several tensors, described by nodes of a graph. Nothing is read before an
// iterator requests it. A value; its methods add nodes to the scope that it was made with.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Scope& scope, const Output& handle, std::vector<DataType> types,
          std::vector<PartialShape> shapes);

  // int64 scalars.
  static Dataset Range(const Scope& scope, const Input& stop) { return Range(scope, int64_t{0}, stop); }
  static Dataset Range(const Scope& scope, const Input& start, const Input& stop,
                       const Input& step = Input(int64_t{1}));
  // One element.
  static Dataset FromTensors(const Scope& scope, const std::vector<Output>& components);
  // An element for each index of dimension 0, whose size must be equal in all components.
  static Dataset FromTensorSlices(const Scope& scope, const std::vector<Output>& components);
  // Strings: the records, the lines. `compression`: "", "ZLIB" or "GZIP".
  static Dataset TFRecord(const Scope& scope, const Input& filenames, std::string_view compression = "",
                          int64_t buffer_size = 262144);
  static Dataset TextLine(const Scope& scope, const Input& filenames, std::string_view compression = "",
                          int64_t buffer_size = 262144);
  static Dataset FixedLengthRecord(const Scope& scope, const Input& filenames, int64_t record_bytes,
                                   int64_t header_bytes = 0, int64_t footer_bytes = 0,
                                   int64_t buffer_size = 262144);
  // The records of CSV files, with a component for each of `defaults`: a scalar of float, double, int32,
  // int64 or string that replaces empty fields, or an empty vector for a required field.
  static Dataset Csv(const Scope& scope, const Input& filenames, const std::vector<Tensor>& defaults,
                     bool header = false, const std::vector<int64_t>& select_columns = {});
  // The result rows of a query of an SQLite database, with a component for each column: int32, int64, double,
  // bool, string and others.
  static Dataset Sql(const Scope& scope, const Input& data_source_name, const Input& query,
                     std::vector<DataType> types);
  // The names of the files that match patterns, sorted.
  static Dataset ListFiles(const Scope& scope, const Input& patterns);
  // Elements from C++: `make` is called for each iterator, and its result for each element, until it returns
  // an empty value. Types and shapes of the elements are checked.
  using Generator = std::function<StatusOr<std::optional<std::vector<Tensor>>>()>;
  static Dataset FromGenerator(const Scope& scope, std::vector<DataType> types,
                               std::vector<PartialShape> shapes, std::function<Generator()> make);
  // Elements with the components of an element of each dataset, until the shortest ends.
  static Dataset Zip(const Scope& scope, const std::vector<Dataset>& datasets);

  // With parallel calls, elements stay in order unless `sloppy`.
  struct MapOptions {
    std::optional<int> num_parallel_calls = {};  // unset: one at a time; kAutotune
    bool sloppy = false;
  };
  Dataset Map(const ElementFn& fn) const { return Map(fn, MapOptions()); }
  Dataset Map(const ElementFn& fn, const MapOptions& options) const;
  // The same with a C++ function of the values of an element; its results have these types and shapes.
  Dataset MapHost(const HostFn& fn, std::vector<DataType> types, std::vector<PartialShape> shapes,
                  const MapOptions& options) const;
  // `predicate` returns one bool scalar.
  Dataset Filter(const ElementFn& predicate) const;
  // The elements before the first one for which `predicate` returns false.
  Dataset TakeWhile(const ElementFn& predicate) const;
  Dataset FlatMap(const DatasetFn& fn) const;
  struct InterleaveOptions {
    int64_t cycle_length = 1;
    int64_t block_length = 1;
    std::optional<int64_t> num_parallel_calls = {};
    bool sloppy = false;
  };
  Dataset Interleave(const DatasetFn& fn, const InterleaveOptions& options) const;

  Dataset Batch(int64_t batch_size, bool drop_remainder = false) const;
  // `padded_shapes`: -1 is the longest of the batch; empty: the shapes of the elements.
  Dataset PaddedBatch(int64_t batch_size, std::vector<PartialShape> padded_shapes = {},
                      bool drop_remainder = false) const;
  // The rows of the elements.
  Dataset Unbatch() const;
  // Each element with its number, an int64 scalar, as first component.
  Dataset Enumerate(int64_t start = 0) const;
  // For each element a dataset of it and the following ones: `size` of them, `stride` apart; the next window
  // begins `shift` elements later. `fn` maps a window, which has one dataset for each component, to a
  // dataset.
  struct WindowOptions {
    int64_t size = 1;
    int64_t shift = 1;
    int64_t stride = 1;
    bool drop_remainder = true;
  };
  using WindowFn = std::function<Dataset(const Scope&, const std::vector<Dataset>&)>;
  Dataset Window(const WindowOptions& options, const WindowFn& fn) const;
  // Groups elements by their keys, int64 scalars: `reduce` maps a dataset of up to `window_size` elements of
  // one key to a dataset; the size is an int64 scalar. Incomplete groups follow at the end.
  using KeyFn = std::function<Output(const Scope&, const Output& key)>;
  using ReduceFn = std::function<Dataset(const Scope&, const Output& key, const Dataset& window)>;
  Dataset GroupByWindow(const ElementFn& key, const ReduceFn& reduce, const KeyFn& window_size) const;
  // Padded batches of elements with similar lengths, int64 scalars: those below the first boundary, those
  // from it to below the second, and so on. `batch_sizes` has one entry more than there are boundaries.
  struct BucketOptions {
    std::vector<int64_t> boundaries;
    std::vector<int64_t> batch_sizes;
    std::vector<PartialShape> padded_shapes = {};  // as for PaddedBatch
  };
  Dataset BucketBySequenceLength(const ElementFn& length, const BucketOptions& options) const;
  // The same order for the same seed; a different one in each repetition if `reshuffle_each_iteration`.
  Dataset Shuffle(int64_t buffer_size, int64_t seed = 0, bool reshuffle_each_iteration = true) const;
  Dataset Repeat(int64_t count = -1) const;  // -1: without end
  Dataset Prefetch(int64_t buffer_size = kAutotune) const;
  Dataset Take(const Input& count) const;
  Dataset Skip(const Input& count) const;
  Dataset Cache(std::string_view filename = "") const;  // "": in memory
  Dataset Concatenate(const Dataset& other) const;
  Dataset Shard(int64_t num_shards, int64_t index) const;
  // Skips elements with errors, such as broken records; a warning at the end reports their number.
  Dataset IgnoreErrors() const;
  // The same elements. If statistics are collected, the histogram `tag` gets for each element the time to
  // produce it, in microseconds, or its size in bytes.
  Dataset LatencyStats(const Input& tag) const;
  Dataset BytesProducedStats(const Input& tag) const;
  // The same elements; measurements of the stages up to here are collected, with names that begin with
  // `prefix` and "::", unless that is empty.
  Dataset WithStats(const StatsAggregator& aggregator, const Input& prefix = Input("")) const;
  // The same elements, from iterators that use these options. Must be the last call: datasets derived from
  // the result have the default options again.
  Dataset WithOptions(const DatasetOptions& options) const;

  // The program ends with a message if the dataset is default-constructed.
  const Scope& scope() const {
    if (!scope_.has_value()) [[unlikely]]
      internal::EndWithMessage("Dataset::scope: the dataset is default-constructed");
    return *scope_;
  }
  const Output& handle() const { return handle_; }
  const std::vector<DataType>& types() const { return types_; }
  const std::vector<PartialShape>& shapes() const { return shapes_; }
  // The dataset for iterators: with the stages for the options.
  Dataset ForIterator() const;

 private:
  static Dataset Add(const Scope& scope, const char* op, const std::vector<Input>& inputs, OpAttrs attrs,
                     std::vector<DataType> types, std::vector<PartialShape> shapes);
  static Dataset OfFiles(const Scope& scope, const char* op, const std::vector<Input>& inputs);
  Dataset Same(const char* op, const std::vector<Input>& more, OpAttrs attrs = {}) const;
  Dataset WithPredicate(const char* op, const char* name, const ElementFn& predicate) const;
  Dataset OfDatasets(const char* op, const DatasetFn& fn, const std::vector<Input>& more,
                     OpAttrs attrs) const;
  std::vector<PartialShape> Batched(int64_t batch_size, bool drop_remainder,
                                    const std::vector<PartialShape>& shapes) const;
  bool ok() const { return scope_.has_value() && scope_->ok(); }

  std::optional<Scope> scope_;
  Output handle_;
  std::vector<DataType> types_;
  std::vector<PartialShape> shapes_;
  DatasetOptions options_;
};

// Iterates over a dataset: each run of GetNext returns the next element, OutOfRange after the last. The state
// is kept in the session. A value.
class Iterator {
 public:
  Iterator() = default;
  // Its initializer starts at the first element; it can be run again.
  static Iterator Initializable(const Dataset& dataset, std::string_view shared_name = "");
  // Needs no initializer. The dataset is made in a function, which can't use tensors from outside.
  static Iterator OneShot(const Scope& scope, const std::function<Dataset(const Scope&)>& make);
  // For datasets with these types and shapes, each with MakeInitializer.
  static Iterator FromStructure(const Scope& scope, std::vector<DataType> types,
                                std::vector<PartialShape> shapes, std::string_view shared_name = "");
  // The iterator of a string handle, usually a feed: the value of another's StringHandle.
  static Iterator FromStringHandle(const Scope& scope, const Input& string_handle,
                                   std::vector<DataType> types, std::vector<PartialShape> shapes);

  // One node; all fetches of its outputs in one run are from the same element.
  std::vector<Output> GetNext(const Scope& scope) const;
  Output StringHandle(const Scope& scope) const;
  const Operation& initializer() const { return initializer_; }  // unset if none is needed
  Operation MakeInitializer(const Dataset& dataset) const;
  const Output& handle() const { return handle_; }

  // A variant tensor with the position of the iterator and the state of all stages; and an operation that
  // restores it. The iterator must have been initialised with the same dataset.
  Output SaveState(const Scope& scope) const;
  Operation RestoreState(const Scope& scope, const Input& state) const;
  // From now on the scope's savers store the state in checkpoints, and init_op of a Scaffold runs the
  // initializer: a resumed training continues with the next element.
  void SaveWithModel(const Scope& scope) const;

 private:
  Output handle_;
  Operation initializer_;
  std::vector<DataType> types_;
  std::vector<PartialShape> shapes_;
};

// Distributes the elements of one dataset to several devices in turn: element i is for device i modulo their
// number. Each device may request its elements in a separate thread. A value.
class MultiDeviceIterator {
 public:
  MultiDeviceIterator() = default;
  // At most `max_buffer_size` elements are buffered for each device. The initializer starts at the first
  // element; later steps get elements.
  static MultiDeviceIterator Make(const Dataset& dataset, const std::vector<std::string>& devices,
                                  int64_t max_buffer_size = 1);
  // The components of the next element of a device, an index into `devices`; OutOfRange after the last.
  std::vector<Output> GetNext(const Scope& scope, int device) const;
  const Operation& initializer() const { return initializer_; }
  int num_devices() const { return num_devices_; }

 private:
  Output handle_;
  Output incarnation_;  // a variable with the number of the last initialisation
  Operation initializer_;
  std::vector<DataType> types_;
  std::vector<PartialShape> shapes_;
  int num_devices_ = 0;
};

// The parallel collections that SaveWithModel adds to: handles and their initializers.
inline constexpr char kSavedIterators[] = "saved_iterators";
inline constexpr char kSavedIteratorInitializers[] = "saved_iterator_initializers";

}  // namespace millrace
