// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Training programs and their input, through the public interface.
//
//   jpeg/decode     a photograph-like image of 1024 x 768, decoded on one thread
//   jpeg/resize     the decoded image resized to 256 x 256 on one thread
//   jpeg/pipeline   decoded, resized to 256 x 256, cropped to 224 x 224 and batched by 16, on all processors;
//                   aim: 0.95 of decode times the processors
//   step/memory     a training step of a network of 784, 200, 100 and 10 units, batch 100, batches in memory
//   step/pipeline   the same; records of a file, decoded, shuffled, repeated, batched and prefetched; aim:
//                   1.03
//   queue           numbers from a queue that two threads fill, in batches of 100; aim: 2 us an element
#include <benchmark/benchmark.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/bench_util.h"
#include "millrace/client_session.h"
#include "millrace/ops.h"
#include "millrace/training.h"

namespace millrace::bench {
namespace {

using Outputs = std::vector<Output>;

SessionOptions Threads(int n) {
  SessionOptions options;
  options.intra_op_parallelism_threads = options.inter_op_parallelism_threads = n;
  return options;
}

// A compressed image with shades, edges and some noise.
const Tensor& Jpeg() {
  static const Tensor jpeg = [] {
    constexpr int64_t kHeight = 768, kWidth = 1024;
    Tensor image(DataType::kUint8, TensorShape({kHeight, kWidth, 3}));
    uint32_t state = 1;
    for (int64_t i = 0; i < kHeight * kWidth * 3; ++i) {
      state = state * 1664525u + 1013904223u;
      const int64_t y = i / 3 / kWidth, x = i / 3 % kWidth;
      const double shade =
          120 + 60 * std::sin(static_cast<double>(x) / 90) * std::cos(static_cast<double>(y) / 70);
      const double edge = (x / 64 + y / 48) % 5 == 0 ? 40 : 0;
      image.data<uint8_t>()[i] = static_cast<uint8_t>(shade + edge + static_cast<double>(state >> 28));
    }
    const Scope scope = Scope::NewRootScope();
    const Output encoded = ops::EncodeJpeg(scope, ops::Const(scope, image), ops::EncodeJpeg::Quality(90));
    std::vector<Tensor> out;
    CheckOk(ClientSession(scope).Run({encoded}, &out));
    return out[0];
  }();
  return jpeg;
}

void JpegDecode(benchmark::State& state) {
  const Scope scope = Scope::NewRootScope();
  const Output bytes = ops::Placeholder(scope, DataType::kString);
  const Output image = ops::DecodeJpeg(scope, bytes, ops::DecodeJpeg::Channels(3));
  const ClientSession session(scope, Threads(1));
  std::vector<Tensor> out;
  for (auto _ : state) CheckOk(session.Run({{bytes, Jpeg()}}, {image}, {}, &out));
  state.SetItemsProcessed(state.iterations());
}

void JpegResize(benchmark::State& state) {
  const Scope scope = Scope::NewRootScope();
  const Output image = ops::DecodeJpeg(scope, ops::Const(scope, Jpeg()), ops::DecodeJpeg::Channels(3));
  const Output in = ops::Placeholder(scope, DataType::kUint8);
  const Output small = ops::ResizeBilinear(scope, ops::ExpandDims(scope, in, 0), {256, 256});
  const ClientSession session(scope, Threads(1));
  std::vector<Tensor> decoded, out;
  CheckOk(session.Run({image}, &decoded));
  for (auto _ : state) CheckOk(session.Run({{in, decoded[0]}}, {small}, {}, &out));
  state.SetItemsProcessed(state.iterations());
}

void JpegPipeline(benchmark::State& state) {
  constexpr int64_t kBatch = 16;
  const Scope scope = Scope::NewRootScope();
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  const Output jpeg = ops::Const(scope, Jpeg());
  const auto decode = [](const Scope& s, const Outputs& in) -> Outputs {
    const Output image = ops::DecodeJpeg(s, in[0], ops::DecodeJpeg::Channels(3));
    const Output small = ops::ResizeBilinear(s, ops::ExpandDims(s, image, 0), {256, 256});
    return {ops::Reshape(s, ops::Slice(s, small, {0, 16, 16, 0}, {1, 224, 224, 3}), {224, 224, 3})};
  };
  const Dataset images = Dataset::FromTensors(scope, {jpeg})
                             .Repeat()
                             .Map(decode, {.num_parallel_calls = processors})
                             .Batch(kBatch, true)
                             .Prefetch(2);
  const Iterator iterator = Iterator::Initializable(images);
  const Outputs next = iterator.GetNext(scope);
  CheckOk(scope.status());
  const ClientSession session(scope, Threads(processors));
  CheckOk(session.Run({}, {}, {iterator.initializer()}, nullptr));
  std::vector<Tensor> out;
  for (auto _ : state) CheckOk(session.Run(next, &out));
  state.SetItemsProcessed(state.iterations() * kBatch);
}

constexpr int64_t kPixels = 784, kClasses = 10, kExamples = 10'000, kStepBatch = 100;

// A file of labels, a byte each, with the bytes of their images.
std::string Digits() {
  static const std::string path = [] {
    std::string name = (std::filesystem::temp_directory_path() / "millrace_bench_input.bin").string();
    std::ofstream file(name, std::ios::binary);
    uint32_t state = 1;
    for (int64_t i = 0; i < kExamples * (1 + kPixels); ++i) {
      state = state * 1664525u + 1013904223u;
      file.put(static_cast<char>(i % (1 + kPixels) == 0 ? (state >> 20) % kClasses : state >> 24));
    }
    return name;
  }();
  return path;
}

Operation TrainingStep(const Scope& scope, const Output& images, const Output& labels) {
  Output x = images;
  for (const int64_t units : {200, 100}) x = layers::Dense(scope, x, units, {.activation = layers::Relu});
  const Output loss = losses::SparseSoftmaxCrossEntropy(scope, labels, layers::Dense(scope, x, kClasses));
  return MomentumOptimizer(0.01f, 0.9f).Minimize(scope, loss);
}

void StepFromMemory(benchmark::State& state) {
  const Scope scope = Scope::NewRootScope();
  const Output images =
      ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape({kStepBatch, kPixels}));
  const Output labels = ops::Placeholder(scope, DataType::kInt32, ops::Placeholder::Shape({kStepBatch}));
  const Operation step = TrainingStep(scope, images, labels);
  const Operation init = GlobalVariablesInitializer(scope);
  CheckOk(scope.status());
  const ClientSession session(scope, Threads(1));
  CheckOk(session.Run({}, {}, {init}, nullptr));
  // As many batches as the file of the other case has, so that they do not stay in the caches.
  std::vector<ClientSession::Feeds> batches;
  for (int64_t i = 0; i < kExamples / kStepBatch; ++i) {
    Tensor y(DataType::kInt32, TensorShape({kStepBatch}));
    for (int32_t k = 0; k < kStepBatch; ++k) y.data<int32_t>()[k] = k % kClasses;
    batches.push_back({{images, RandomTensor({kStepBatch, kPixels}, 1)}, {labels, y}});
  }
  size_t next = 0;
  for (auto _ : state) CheckOk(session.Run(batches[next++ % batches.size()], {}, {step}, nullptr));
}

void StepFromPipeline(benchmark::State& state) {
  const Scope scope = Scope::NewRootScope();
  const auto decode = [](const Scope& s, const Outputs& in) -> Outputs {
    const Output bytes = ops::Reshape(s, ops::DecodeRaw(s, in[0], DataType::kUint8), {-1, int{1 + kPixels}});
    const Output pixels = ops::Cast(s, ops::Slice(s, bytes, {0, 1}, {-1, int{kPixels}}), DataType::kFloat);
    const Output labels = ops::Cast(s, ops::Slice(s, bytes, {0, 0}, {-1, 1}), DataType::kInt32);
    return {ops::Reshape(s, ops::Mul(s, pixels, 1 / 255.f), {int{kStepBatch}, int{kPixels}}),
            ops::Reshape(s, labels, {int{kStepBatch}})};
  };
  const Dataset digits = Dataset::FixedLengthRecord(scope, Digits(), 1 + kPixels)
                             .Shuffle(1000, 1)
                             .Repeat()
                             .Batch(kStepBatch, true)
                             .Map(decode)
                             .Prefetch(4);
  const Iterator iterator = Iterator::Initializable(digits);
  const Outputs next = iterator.GetNext(scope);
  const Operation step = TrainingStep(scope, next[0], next[1]);
  const Operation init = GlobalVariablesInitializer(scope);
  CheckOk(scope.status());
  const ClientSession session(scope, Threads(1));
  CheckOk(session.Run({}, {}, {init, iterator.initializer()}, nullptr));
  for (auto _ : state) CheckOk(session.Run({}, {}, {step}, nullptr));
}

void Queue(benchmark::State& state) {
  constexpr int64_t kBatch = 100;
  const Scope scope = Scope::NewRootScope();
  const Output number = ops::Const(scope, int64_t{7});
  const Outputs batch = Batch(scope, {number}, int32_t{kBatch}, {.num_threads = 2, .capacity = 1000});
  CheckOk(scope.status());
  ClientSession session(scope);
  Coordinator coordinator;
  CheckOk(session.session()->ExtendFrom(scope.graph()));
  CheckOk(StartQueueRunners(scope, *session.session(), coordinator));
  std::vector<Tensor> out;
  for (auto _ : state) CheckOk(session.Run(batch, &out));
  state.SetItemsProcessed(state.iterations() * kBatch);
  coordinator.RequestStop();
  CheckOk(coordinator.Join());
}

BENCHMARK(JpegDecode)->Name("jpeg/decode")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(JpegResize)->Name("jpeg/resize")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(JpegPipeline)->Name("jpeg/pipeline")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(StepFromMemory)->Name("step/memory")->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(StepFromPipeline)->Name("step/pipeline")->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(Queue)->Name("queue")->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace::bench

BENCHMARK_MAIN();
