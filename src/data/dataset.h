// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "data/iterator_state.h"
#include "data/texts.h"
#include "kernel/function_caller.h"
#include "kernel/resource.h"
#include "millrace/dtype.h"
#include "millrace/ref.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "op/attr_value.h"

namespace millrace {
class Device;
}

namespace millrace::data {

class Dataset;
class ProcessorShares;
class StageMeter;
class StatsAggregator;
struct MeteredCall;

// One element of a dataset: its components.
using Element = std::vector<Tensor>;

// The environment of an iterator. Must outlive it.
struct Runtime {
  FunctionCaller* functions = nullptr;  // null: no functions can be called
  Device* device = nullptr;
  std::string device_name;  // of the kernel; a trace must not replace it
  ResourceManager* resources = nullptr;
};

// The context of a call of an iterator: its caller. Prefetching stages have a context of their own.
struct Context {
  const Runtime* runtime = nullptr;
  CancellationManager* cancellation = nullptr;  // never null
  ThreadPool* pool = nullptr;                   // for loops within kernels; null: none
  int call_depth = 0;                           // function calls in progress
  StatsAggregator* stats = nullptr;             // null: not collected
  ProcessorShares* shares = nullptr;            // null: parallelism that is not set is fixed
  StageMeter* meter = nullptr;                  // of the stage that runs or is being made; null: not measured
  MeteredCall* call = nullptr;                  // its call in progress; null on a thread of the stage
  // While iterators are made: the readers of the current dataset, the nearest first.
  struct Reader {
    const Dataset* dataset;
    const Reader* next;
  };
  const Reader* readers = nullptr;

  bool cancelled() const { return cancellation->IsCancelled(); }
  // The same for a thread that prefetches, which `own` cancels.
  Context Ahead(CancellationManager& own) const {
    Context c;
    c.runtime = runtime;
    c.cancellation = &own;
    c.stats = stats;
    c.shares = shares;
    c.meter = meter;
    return c;
  }
};
Status CancelledStatus();

// The number of elements that an iterator has ready, and its maximum; 0: it has no buffer.
struct BufferFill {
  int64_t elements = 0;
  int64_t capacity = 0;
};

// A position in a dataset. One thread at a time. Refers to its dataset, which must outlive it.
class Iterator {
 public:
  Iterator() = default;
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  virtual ~Iterator() = default;

  // Sets `out` to the next element, or *end, which is false before, to true. After the end it stays there;
  // after an error the next call continues with the element after it, if there is one.
  virtual Status GetNext(Context& ctx, Element* out, bool* end) = 0;
  // Whether GetRows may be called: many elements together cost less than single ones.
  virtual bool GivesRows() const { return false; }
  // The next `n` elements, or the remaining ones, `*got` of them, each as a row of one tensor for each
  // component. Errors are as those of GetNext; the elements before are lost. REQUIRES: GivesRows(), and
  // memory for `n` rows may be reserved.
  virtual Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got);
  // The same into `sink`, for elements of one string each. After an error it has some of them.
  virtual Status GetTexts(Context& ctx, int64_t n, TextSink& sink, int64_t* got);
  // Whether GetNextTexts may be called, as far as it depends on the kind: elements are vectors of strings,
  // which cost less without a tensor.
  virtual bool GivesVectorsOfTexts() const { return false; }
  // As GetNext, with the element in `sink`. REQUIRES: GivesVectorsOfTexts().
  virtual Status GetNextTexts(Context& ctx, TextSink& sink, bool* end);
  // Whether `n` calls of GetNext may have to wait for another thread, as far as known now. Never false if
  // they may.
  virtual bool MayWait(int64_t n) const = 0;
  // For measurements, on the thread that calls GetNext.
  virtual BufferFill fill() const { return {}; }
  // Writes all state that GetNext depends on, and waits for calls in progress.
  virtual Status Save(Context& ctx, StateWriter& state) = 0;
  // Of a new iterator of an equal dataset.
  virtual Status Restore(Context& ctx, const StateReader& state) = 0;
};

// The call of an op that made a dataset, from which an equal one can be made.
struct Origin {
  std::string op;
  std::shared_ptr<const AttrMap> attrs;
  std::vector<Tensor> inputs;
};

// A description of elements. Immutable and thread-safe.
class Dataset : public RefCounted {
 public:
  static constexpr int64_t kInfinite = -1;
  static constexpr int64_t kUnknown = -2;

  struct Signature {
    std::vector<DataType> types;
    std::vector<PartialShape> shapes;
  };

  Dataset(std::string kind, Signature signature) : kind_(std::move(kind)), signature_(std::move(signature)) {}
  // The op without "Dataset": "Map".
  const std::string& kind() const { return kind_; }
  // The node that made it; empty: not known.
  const std::string& node() const { return node_; }
  // The op that made it, with its inputs; null: not known.
  const std::shared_ptr<const Origin>& origin() const { return origin_; }
  // REQUIRES: there is no other reference to the dataset yet.
  void SetNode(std::string_view node) const { node_ = node; }
  void SetOrigin(std::shared_ptr<const Origin> origin) const { origin_ = std::move(origin); }
  const Signature& signature() const { return signature_; }
  const std::vector<DataType>& types() const { return signature_.types; }
  const std::vector<PartialShape>& shapes() const { return signature_.shapes; }
  // The number of elements if it is known without reading any.
  virtual int64_t Cardinality() const { return kUnknown; }
  // At the first element.
  StatusOr<std::unique_ptr<Iterator>> NewIterator(const Context& ctx) const;

 protected:
  virtual StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const = 0;

 private:
  const std::string kind_;
  const Signature signature_;
  mutable std::string node_;                      // set before the dataset is shared
  mutable std::shared_ptr<const Origin> origin_;  // as node_
};

// n * factor and n + more for numbers of elements, which saturate at infinity.
int64_t ManyTimes(int64_t n, int64_t factor);

// The value of a variant tensor that represents a dataset.
struct DatasetVariant {
  RefPtr<const Dataset> dataset;
};
Tensor DatasetToTensor(RefPtr<const Dataset> dataset);
// InvalidArgument when the tensor is no such scalar.
StatusOr<RefPtr<const Dataset>> DatasetFromTensor(const Tensor& tensor);

// InvalidArgument when elements of `got` do not match `expected`: "Data type mismatch at component 0:
// expected float but got int64."
Status CheckSignature(const Dataset::Signature& expected, const Dataset::Signature& got);
Status CheckTypes(const std::vector<DataType>& expected, const std::vector<DataType>& got);
// The same for one element.
Status CheckElement(const Dataset::Signature& expected, const Element& element);

}  // namespace millrace::data
