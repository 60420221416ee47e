// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/output.h"
#include "millrace/queue_runner.h"
#include "millrace/scope.h"
#include "millrace/shape.h"

// Input pipelines of queues: producers of names, numbers and slices, and queues that make batches. Nodes are
// named as by TensorFlow's Python client, below the scope's op name (default "input_producer", "batch", …).
// The queues are filled by queue runners, which StartQueueRunners or a MonitoredSession starts, and each adds
// a summary of its fill level. Errors are in the scope's status; the results are unset then.
namespace millrace {

// `tensor`, which can be evaluated `num_epochs` times; then OutOfRange. The count is the local variable
// "epochs". If num_epochs is unset: the tensor itself.
Output LimitEpochs(const Scope& scope, const Output& tensor, std::optional<int64_t> num_epochs);

struct ProducerOptions {
  std::optional<int64_t> num_epochs = {};  // after which the queue closes; needs the local initializer
  bool shuffle = true;                     // a new order in every epoch
  int64_t seed = 0;                        // 0: the seed of the graph
  int64_t capacity = 32;
  std::string shared_name = {};   // shared by sessions under this name
  std::string summary_name = {};  // InputProducer: "": no summary
};

// A queue of the rows of `input` [n, ...], for each epoch. `element_shape` is needed if the shape of the rows
// is unknown. Returns the handle of the queue.
Output InputProducer(const Scope& scope, const Input& input, const ProducerOptions& options = {},
                     const PartialShape& element_shape = PartialShape());
// A queue of strings, such as file names for readers; an empty list is an error at run time.
Output StringInputProducer(const Scope& scope, const Input& strings, const ProducerOptions& options = {});
// A queue of the integers from 0 to limit - 1, int32 like the limit.
Output RangeInputProducer(const Scope& scope, const Input& limit, const ProducerOptions& options = {});
// The slices [i, ...] of all tensors for successive i. All have the same dimension 0.
std::vector<Output> SliceInputProducer(const Scope& scope, const std::vector<Output>& tensors,
                                       const ProducerOptions& options = {});

struct BatchOptions {
  int num_threads = 1;  // number of enqueuing threads; not for joins
  int64_t capacity = 32;
  bool enqueue_many = false;              // dimension 0 of the tensors is the example
  std::vector<PartialShape> shapes = {};  // of an example's tensors; empty: inferred
  bool dynamic_pad = false;               // unknown dimensions are padded to the longest of the batch
  bool allow_smaller_final_batch = false;
  std::string shared_name = {};
  // A bool scalar, or a vector with enqueue_many: which examples are enqueued. As in TensorFlow's maybe_…
  // functions.
  std::optional<Input> keep_input = {};
};

// Batches of `tensors` from a FIFO queue: each with the batch as new dimension 0.
std::vector<Output> Batch(const Scope& scope, const std::vector<Output>& tensors, const Input& batch_size,
                          const BatchOptions& options = {});
// The same for several sources, each enqueued by a separate thread.
std::vector<Output> BatchJoin(const Scope& scope, const std::vector<std::vector<Output>>& sources,
                              const Input& batch_size, const BatchOptions& options = {});

struct ShuffleOptions {
  int64_t min_after_dequeue = 0;  // examples that stay in the queue, for mixing; below the capacity
  int64_t seed = 0;               // 0: the seed of the graph
};

// Batches in random order.
std::vector<Output> ShuffleBatch(const Scope& scope, const std::vector<Output>& tensors,
                                 const Input& batch_size, const ShuffleOptions& shuffle,
                                 const BatchOptions& options = {});
std::vector<Output> ShuffleBatchJoin(const Scope& scope, const std::vector<std::vector<Output>>& sources,
                                     const Input& batch_size, const ShuffleOptions& shuffle,
                                     const BatchOptions& options = {});

// Batches of examples from one bucket each, of `num_buckets`, 2 to 10,000, by the int32 scalar
// `which_bucket`. The options' capacity is that of the queue of batches; each bucket has a queue of
// `bucket_capacity` (0: the same). The first result is the bucket of the batch, the others are the tensors.
std::vector<Output> Bucket(const Scope& scope, const std::vector<Output>& tensors, const Input& which_bucket,
                           int64_t batch_size, int num_buckets, const BatchOptions& options = {},
                           int64_t bucket_capacity = 0);
// Buckets by length, an int32 scalar: bucket i has the lengths in [boundaries[i-1], boundaries[i]). The first
// result is the lengths of the batch.
std::vector<Output> BucketBySequenceLength(const Scope& scope, const Output& length,
                                           const std::vector<Output>& tensors, int64_t batch_size,
                                           const std::vector<int32_t>& boundaries,
                                           const BatchOptions& options = {}, int64_t bucket_capacity = 0);

}  // namespace millrace
