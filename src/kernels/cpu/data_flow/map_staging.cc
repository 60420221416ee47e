// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Staging maps: tuples that persist between steps, with an integer key. A tuple may be put and taken in
// parts; only a complete one can be taken.
#include <map>
#include <optional>
#include <type_traits>
#include <unordered_map>

#include "kernels/cpu/data_flow/access_kernel.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/shared/waiting_resource.h"

namespace millrace {
namespace {

enum MapAction { kMapStage, kMapUnstage, kMapUnstageNoKey, kMapPeek };

// With `ordered`, a request without a key gets the smallest one; else any. An attempt has the key in
// `number`, the components in `numbers` and their values in `tensors`.
template <bool ordered>
class StagingMap final : public WaitingResource {
 public:
  struct Options {
    int64_t capacity = 0;      // complete tuples; 0: any number
    int64_t memory_limit = 0;  // bytes, of incomplete tuples too; 0: any number
    std::vector<DataType> dtypes;
  };
  explicit StagingMap(Options options) : WaitingResource(/*in_order=*/false), options_(std::move(options)) {}

  int32_t size() const {
    MutexLock lock(mu_);
    return static_cast<int32_t>(complete_.size());
  }
  int32_t incomplete_size() const {
    MutexLock lock(mu_);
    return static_cast<int32_t>(incomplete_.size());
  }
  void Clear() {
    Tuples complete;
    std::unordered_map<int64_t, Tuple> incomplete;
    std::vector<Finished> finished;
    {
      MutexLock lock(mu_);
      complete.swap(complete_);
      incomplete.swap(incomplete_);
      bytes_ = 0;
      AdvanceAll(&finished);
    }
    Finish(finished);
  }
  std::string DebugString() const override {
    return StrCat("staging map, ", size(), " tuples, ", incomplete_size(), " incomplete");
  }

  // Checks of a tuple that do not need the map.
  Status CheckBytes(const std::vector<Tensor>& values) const {
    const int64_t bytes = Bytes(values);
    if (options_.memory_limit == 0 || bytes <= options_.memory_limit) return Status();
    return errors::ResourceExhausted("Attempted to insert tensors with combined size of '", bytes,
                                     "' bytes into Staging Area with a memory limit of '",
                                     options_.memory_limit, "'.");
  }
  // Components `indices` are to be values of the node's types from `type_of(0)` on.
  template <typename TypeOf>
  Status CheckComponents(int64_t key, const std::vector<int64_t>& indices, const TypeOf& type_of) const {
    for (size_t i = 1; i < indices.size(); ++i) {
      if (indices[i] <= indices[i - 1]) return errors::InvalidArgument("Indices are not strictly ordered");
    }
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || static_cast<size_t>(indices[i]) >= options_.dtypes.size()) {
        return errors::InvalidArgument("Index '", indices[i], "' for key '", key, "' was out of bounds '",
                                       options_.dtypes.size(), "'.");
      }
      const DataType dtype = options_.dtypes[static_cast<size_t>(indices[i])];
      if (type_of(static_cast<int>(i)) == dtype) continue;
      return errors::InvalidArgument("Tensor at index '", indices[i], "' for key '", key, "' is ",
                                     DataTypeName(dtype), " in the map but ",
                                     DataTypeName(type_of(static_cast<int>(i))), " in the op");
    }
    return Status();
  }

 private:
  using Tuple = std::vector<std::optional<Tensor>>;
  using Tuples = std::conditional_t<ordered, std::map<int64_t, Tuple>, std::unordered_map<int64_t, Tuple>>;

  static int64_t Bytes(const std::vector<Tensor>& values) {
    size_t bytes = 0;
    for (const Tensor& t : values) bytes += t.num_bytes();
    return static_cast<int64_t>(bytes);
  }
  bool Try(Attempt& attempt, Status* status) override MR_REQUIRES(mu_) {
    if (attempt.action == kMapStage) return TryStage(attempt, status);
    const auto at = attempt.action == kMapUnstageNoKey ? complete_.begin() : complete_.find(attempt.number);
    if (at == complete_.end()) return false;
    attempt.number = at->first;
    *status = Take(at, attempt);
    return true;
  }
  bool TryStage(Attempt& attempt, Status* status) MR_REQUIRES(mu_) {
    const bool whole = attempt.numbers.size() == options_.dtypes.size();
    const int64_t bytes = Bytes(attempt.tensors);
    if (options_.memory_limit > 0 && bytes_ + bytes > options_.memory_limit) return false;
    if (whole && options_.capacity > 0 && static_cast<int64_t>(complete_.size()) >= options_.capacity) {
      return false;
    }
    *status = whole ? StageWhole(attempt) : StagePart(attempt);
    return true;
  }
  Status StageWhole(Attempt& attempt) MR_REQUIRES(mu_) {
    Tuple tuple;
    for (Tensor& t : attempt.tensors) tuple.emplace_back(std::move(t));
    bytes_ += Bytes(tuple);
    Complete(attempt.number, std::move(tuple));
    return Status();
  }
  Status StagePart(Attempt& attempt) MR_REQUIRES(mu_) {
    const auto [at, added] = incomplete_.try_emplace(attempt.number, options_.dtypes.size());
    Tuple& tuple = at->second;
    for (const int64_t i : attempt.numbers) {
      if (!tuple[static_cast<size_t>(i)].has_value()) continue;
      return errors::InvalidArgument("The tensor for index '", i, "' for key '", attempt.number,
                                     "' was already initialized '", options_.dtypes.size(), "'.");
    }
    bytes_ += Bytes(attempt.tensors);
    for (size_t i = 0; i < attempt.numbers.size(); ++i) {
      tuple[static_cast<size_t>(attempt.numbers[i])] = std::move(attempt.tensors[i]);
    }
    if (CountValues(tuple) < tuple.size()) return Status();
    Tuple full = std::move(tuple);
    incomplete_.erase(at);
    Complete(attempt.number, std::move(full));
    return Status();
  }
  // As in TensorFlow, a tuple whose key is in use is dropped; but its bytes don't count any more.
  void Complete(int64_t key, Tuple tuple) MR_REQUIRES(mu_) {
    const int64_t bytes = Bytes(tuple);
    if (!complete_.try_emplace(key, std::move(tuple)).second) bytes_ -= bytes;
  }
  // Copies or takes the components out of a complete tuple, which is removed with its last one.
  Status Take(typename Tuples::iterator at, Attempt& attempt) MR_REQUIRES(mu_) {
    Tuple& tuple = at->second;
    for (const int64_t i : attempt.numbers) {
      if (!tuple[static_cast<size_t>(i)].has_value()) {
        return errors::InvalidArgument("Tensor at index '", i, "' for key '", attempt.number,
                                       "' has already been removed.");
      }
    }
    for (const int64_t i : attempt.numbers) {
      std::optional<Tensor>& value = tuple[static_cast<size_t>(i)];
      attempt.tensors.push_back(*value);
      if (attempt.action == kMapPeek) continue;
      bytes_ -= static_cast<int64_t>(value->num_bytes());
      value.reset();
    }
    if (CountValues(tuple) == 0) complete_.erase(at);
    return Status();
  }
  static int64_t Bytes(const Tuple& tuple) {
    size_t bytes = 0;
    for (const auto& t : tuple) bytes += t.has_value() ? t->num_bytes() : 0;
    return static_cast<int64_t>(bytes);
  }
  static size_t CountValues(const Tuple& tuple) {
    size_t count = 0;
    for (const auto& t : tuple) count += t.has_value() ? 1 : 0;
    return count;
  }
  Status CancelledStatus(const Attempt& attempt) const override {
    const char* const names[] = {"Stage", "Unstage", "UnstageNoKey", "Peek"};
    return errors::Cancelled(ordered ? "OrderedMap" : "Map", names[attempt.action],
                             " operation was cancelled");
  }

  const Options options_;
  Tuples complete_ MR_GUARDED_BY(mu_);
  std::unordered_map<int64_t, Tuple> incomplete_ MR_GUARDED_BY(mu_);
  int64_t bytes_ MR_GUARDED_BY(mu_) = 0;
};

// Every op on a map finds it by name, and creates it if it is the first.
template <bool ordered>
class MapFinder {
 public:
  explicit MapFinder(KernelConstruction& c) {
    if (auto place = NameResource(c, Unnamed::kNodeName); place.ok()) {
      place_ = *std::move(place);
    } else {
      c.SetError(place.status());
    }
    options_.capacity = c.Attr<int64_t>("capacity");
    options_.memory_limit = c.Attr<int64_t>("memory_limit");
    options_.dtypes = c.Attr<std::vector<DataType>>("dtypes");
  }
  StatusOr<RefPtr<StagingMap<ordered>>> Find(const KernelContext& context) const {
    const auto make = [this]() -> StatusOr<RefPtr<StagingMap<ordered>>> {
      return MakeRef<StagingMap<ordered>>(options_);
    };
    return context.resources().LookupOrCreate<StagingMap<ordered>>(place_.container, place_.name, make);
  }

 private:
  ResourceName place_;
  typename StagingMap<ordered>::Options options_;
};

// Stage, Unstage, UnstageNoKey and Peek. Inputs: the key, except for UnstageNoKey; the components; for Stage,
// their values.
template <bool ordered>
class MapAccessKernel final : public AccessKernel<StagingMap<ordered>> {
 public:
  using Base = AccessKernel<StagingMap<ordered>>;
  using typename Base::Attempt;
  MapAccessKernel(KernelConstruction& c, MapAction action) : Base(c), finder_(c), action_(action) {}

 private:
  StatusOr<RefPtr<StagingMap<ordered>>> Find(KernelContext& context) override {
    return finder_.Find(context);
  }
  Status Prepare(const KernelContext& context, StagingMap<ordered>& map, Attempt& attempt,
                 bool& /*nothing_to_do*/) override {
    attempt.action = action_;
    int input = 0;
    if (action_ != kMapUnstageNoKey) {
      MR_RETURN_IF_ERROR(RequireScalar(context.input(input), "key"));
      attempt.number = context.input(input++).template scalar<int64_t>();
    }
    const Tensor& indices = context.input(input++);
    if (!indices.shape().IsVector()) {
      return errors::InvalidArgument("indices must be a vector, got shape ", indices.shape());
    }
    for (const int32_t i : indices.flat<int32_t>()) attempt.numbers.push_back(i);
    const int first_output = action_ == kMapUnstageNoKey ? 1 : 0;
    const bool stage = action_ == kMapStage;
    const int values = stage ? this->num_inputs() - input : this->num_outputs() - first_output;
    if (indices.num_elements() != values) {
      return errors::InvalidArgument("Expected an index for each of ", values, " values, got ",
                                     indices.num_elements());
    }
    MR_RETURN_IF_ERROR(map.CheckComponents(attempt.number, attempt.numbers, [&](int i) {
      return stage ? BaseType(this->input_type(input + i)) : this->output_type(first_output + i);
    }));
    if (!stage) return Status();
    for (int i = 0; i < values; ++i) attempt.tensors.push_back(context.input(input + i));
    return map.CheckBytes(attempt.tensors);
  }
  Status Deliver(KernelContext& context, StagingMap<ordered>& /*map*/, Attempt& attempt) override {
    if (action_ == kMapStage) return Status();
    int output = 0;
    if (action_ == kMapUnstageNoKey) context.set_output(output++, Tensor::Scalar<int64_t>(attempt.number));
    for (Tensor& t : attempt.tensors) context.set_output(output++, std::move(t));
    return Status();
  }

  const MapFinder<ordered> finder_;
  const MapAction action_;
};

enum class MapQuery { kSize, kIncompleteSize, kClear };

template <bool ordered>
class MapStateKernel final : public OpKernel {
 public:
  MapStateKernel(KernelConstruction& c, MapQuery query) : OpKernel(c), finder_(c), query_(query) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<StagingMap<ordered>> map, finder_.Find(context));
    if (query_ == MapQuery::kClear) {
      map->Clear();
    } else {
      const int32_t size = query_ == MapQuery::kSize ? map->size() : map->incomplete_size();
      context.set_output(0, Tensor::Scalar(size));
    }
    return Status();
  }

 private:
  const MapFinder<ordered> finder_;
  const MapQuery query_;
};

template <bool ordered>
void AddMap(KernelRegistry& registry) {
  const std::string prefix = ordered ? "OrderedMap" : "Map";
  for (const auto& [name, action] :
       {std::pair("Stage", kMapStage), std::pair("Unstage", kMapUnstage),
        std::pair("UnstageNoKey", kMapUnstageNoKey), std::pair("Peek", kMapPeek)}) {
    registry.Register(KernelDef(prefix + name).Async(), [action = action](KernelConstruction& c) {
      return std::make_unique<MapAccessKernel<ordered>>(c, action);
    });
  }
  for (const auto& [name, query] :
       {std::pair("Size", MapQuery::kSize), std::pair("IncompleteSize", MapQuery::kIncompleteSize),
        std::pair("Clear", MapQuery::kClear)}) {
    registry.Register(KernelDef(prefix + name), [query = query](KernelConstruction& c) {
      return std::make_unique<MapStateKernel<ordered>>(c, query);
    });
  }
}

}  // namespace

void RegisterMapStagingKernels(KernelRegistry& registry) {
  AddMap<false>(registry);
  AddMap<true>(registry);
}

}  // namespace millrace
