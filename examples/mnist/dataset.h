// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/status.h"
#include "random_stream.h"

namespace millrace::mnist {

inline constexpr int kImageSide = 28;
inline constexpr int kPixels = kImageSide * kImageSide;
inline constexpr int kClasses = 10;

// Images with their labels. images holds size() rows of kPixels floats in [0, 1]; labels are 0 to 9.
struct Examples {
  std::vector<float> images;
  std::vector<uint8_t> labels;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  std::span<const float> image(int64_t i) const {
    return std::span(images).subspan(static_cast<size_t>(i) * kPixels, kPixels);
  }
};

struct Dataset {
  Examples train;
  Examples test;
  std::string source;  // for messages: "MNIST in data/mnist" or "generated digits, seed 0"
};

struct DatasetOptions {
  std::string data_dir{};   // --data_dir; when not empty it must hold the data set
  std::string mnist_dir{};  // $MNIST_DIR, read by the caller
  uint64_t generator_seed = 0;
  int threads = 0;  // for the generator; 0 means one per core
};

// The value of --data_dir for generated digits even if MNIST files are found.
inline constexpr char kGenerated[] = "generated";

// Returns the directory to load from, or "" for generated digits. Without data_dir the first of these that
// holds any MNIST file: mnist_dir, ./data/mnist, ../shared/data/mnist.
std::string Locate(const DatasetOptions& options);

// Loads the data set that Locate() finds, or generates one of 60,000 training and 10,000 test digits. A
// directory that is found but damaged or incomplete is an error, not a reason to generate.
StatusOr<Dataset> LoadDataset(const DatasetOptions& options);

// Loads the four files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
// t10k-labels-idx1-ubyte, each plain or with .gz, from `dir`.
StatusOr<Dataset> LoadIdxDirectory(const std::string& dir);

// Decodes one pair of IDX files from their bytes, plain or gzip. Whatever the bytes, memory stays within a
// small multiple of what they hold. `what` names them in errors.
StatusOr<Examples> DecodeIdx(std::span<const uint8_t> image_file, std::span<const uint8_t> label_file,
                             const std::string& what);

// Writes the labels as rows of kClasses floats, one of them 1. REQUIRES: out holds labels.size() * kClasses
// floats.
void OneHot(std::span<const uint8_t> labels, std::span<float> out);

// Returns the examples in an order that is shuffled for every epoch and depends only on the seed. Every
// example comes once per epoch; a batch that reaches past the end of an epoch continues in the next. Not
// thread-safe.
class Batcher {
 public:
  // REQUIRES: examples outlives the batcher and is not empty.
  Batcher(const Examples& examples, uint64_t seed);

  // Fills `images` (n rows of kPixels) and `one_hot` (n rows of kClasses) with the next n examples.
  // REQUIRES: images.size() == n * kPixels and one_hot.size() == n * kClasses for one n.
  void NextBatch(std::span<float> images, std::span<float> one_hot);

  // The index of the next example, for callers that copy examples themselves.
  int64_t NextIndex();

  int64_t epochs_started() const { return epochs_started_; }

 private:
  void Shuffle();

  const Examples& examples_;
  RandomStream random_;
  std::vector<uint32_t> order_;
  size_t next_ = 0;
  int64_t epochs_started_ = 0;
};

}  // namespace millrace::mnist
