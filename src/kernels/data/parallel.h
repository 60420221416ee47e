// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/function.h"

namespace millrace::data {

// A function that makes an element from an element. Immutable.
class ElementFunction {
 public:
  // Ready for calls. Thread-safe; refers to the function.
  class Bound {
   public:
    virtual ~Bound() = default;
    // May move from the arguments.
    virtual Status Call(Context& ctx, Element* args, Element* rets) const = 0;
    // Whether a call only computes, so that a consumer may make it as well as a thread of the stage.
    virtual bool OnlyComputes() const { return false; }
    // Whether CallWithTexts may be called, for an element that is one vector of strings.
    virtual bool TakesTexts() const { return false; }
    virtual Status CallWithTexts(Context& /*ctx*/, Texts& /*args*/, Element* /*rets*/) const {
      return errors::Internal("the function takes tensors");
    }
  };
  virtual ~ElementFunction() = default;
  virtual StatusOr<std::unique_ptr<Bound>> Bind(const Context& ctx, const std::vector<DataType>& args,
                                                const std::vector<DataType>& rets) const = 0;
};
std::unique_ptr<ElementFunction> FunctionOfGraph(std::unique_ptr<CapturedFunction> f);

// The value of num_parallel_calls; -1: as many as there are processors.
StatusOr<int64_t> ResolveParallelism(int64_t calls);

// The number of concurrent calls of a function.
struct Parallelism {
  int64_t most = 1;
  bool chosen = false;  // by measured costs if the iterator has ProcessorShares, up to `most`
};
StatusOr<Parallelism> ParallelismOf(int64_t calls);

// A dataset that calls `f` for that many elements at the same time; `sloppy`: with results in order of
// completion. Unless it `keeps_cardinality` an OutOfRange of `f` ends it. `batch_size` > 0: that many
// consecutive results will form a batch.
RefPtr<const Dataset> MapInParallel(std::string kind, Dataset::Signature signature,
                                    RefPtr<const Dataset> input, std::unique_ptr<ElementFunction> f,
                                    const Parallelism& parallelism, bool sloppy, bool keeps_cardinality,
                                    int64_t batch_size = 0);
// One call at a time, on the consumer's thread.
RefPtr<const Dataset> MapInOrder(std::string kind, Dataset::Signature signature, RefPtr<const Dataset> input,
                                 std::unique_ptr<CapturedFunction> f, bool keeps_cardinality);

// Batches of the elements of `input`.
RefPtr<const Dataset> BatchesOf(std::string kind, Dataset::Signature signature, RefPtr<const Dataset> input,
                                int64_t size, bool drop_remainder);

}  // namespace millrace::data
