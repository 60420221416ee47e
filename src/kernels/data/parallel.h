// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/function.h"

namespace millrace::data {

// Something that makes an element of an element. Immutable.
class ElementFunction {
 public:
  // Ready to be called. Thread-safe; refers to the function.
  class Bound {
   public:
    virtual ~Bound() = default;
    // May take the arguments.
    virtual Status Call(Context& ctx, Element* args, Element* rets) const = 0;
    // Whether a call only computes, which a consumer may do as well as a thread of the stage.
    virtual bool OnlyComputes() const { return false; }
    // Whether CallWithTexts may be called, for an element that is one vector of texts.
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

// What num_parallel_calls says; -1: as many as there are processors.
StatusOr<int64_t> ResolveParallelism(int64_t calls);

// How many calls of a function are made at the same time.
struct Parallelism {
  int64_t most = 1;
  bool chosen = false;  // by measured costs where the iterator has ProcessorShares, `most` being the limit
};
StatusOr<Parallelism> ParallelismOf(int64_t calls);

// A dataset that calls `f` for that many elements at the same time; `sloppy`: with results as they come.
// Unless it `keeps_cardinality` an OutOfRange of `f` ends it. `batch_size` > 0: so many results in turn will
// be a batch.
RefPtr<const Dataset> MapInParallel(std::string kind, Dataset::Signature signature,
                                    RefPtr<const Dataset> input, std::unique_ptr<ElementFunction> f,
                                    const Parallelism& parallelism, bool sloppy, bool keeps_cardinality,
                                    int64_t batch_size = 0);
// One call at a time, on the thread that asks.
RefPtr<const Dataset> MapInOrder(std::string kind, Dataset::Signature signature, RefPtr<const Dataset> input,
                                 std::unique_ptr<CapturedFunction> f, bool keeps_cardinality);

// Batches of the elements of `input`.
RefPtr<const Dataset> BatchesOf(std::string kind, Dataset::Signature signature, RefPtr<const Dataset> input,
                                int64_t size, bool drop_remainder);

}  // namespace millrace::data
