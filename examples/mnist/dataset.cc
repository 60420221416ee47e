// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <system_error>
#include <utility>

#include "digit_generator.h"
#include "idx_file.h"

namespace millrace::mnist {
namespace {

// The order of the names of a directory's four files.
constexpr std::array<const char*, 4> kFiles = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                               "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

// The path of `name` in `dir`, plain or with .gz; "" if neither exists.
std::string FindFile(const std::string& dir, const char* name) {
  for (const char* suffix : {"", ".gz"}) {
    std::string path = StrCat(dir, "/", name, suffix);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path;
  }
  return "";
}

StatusOr<std::vector<uint8_t>> ReadNamed(const std::string& dir, const char* name) {
  const std::string path = FindFile(dir, name);
  if (path.empty())
    return errors::NotFound("MNIST directory '", dir, "': no file ", name, " or ", name, ".gz");
  return ReadSmallFile(path);
}

StatusOr<Examples> LoadPair(const std::string& dir, const char* images, const char* labels) {
  MR_ASSIGN_OR_RETURN(const std::vector<uint8_t> image_file, ReadNamed(dir, images));
  MR_ASSIGN_OR_RETURN(const std::vector<uint8_t> label_file, ReadNamed(dir, labels));
  return DecodeIdx(image_file, label_file, StrCat(dir, "/", images));
}

bool HoldsAnyFile(const std::string& dir) {
  return std::any_of(kFiles.begin(), kFiles.end(),
                     [&](const char* name) { return !FindFile(dir, name).empty(); });
}

}  // namespace

std::string Locate(const DatasetOptions& options) {
  if (options.data_dir == kGenerated) return "";
  if (!options.data_dir.empty()) return options.data_dir;
  for (const std::string& dir :
       {options.mnist_dir, std::string("./data/mnist"), std::string("../shared/data/mnist")}) {
    if (!dir.empty() && HoldsAnyFile(dir)) return dir;
  }
  return "";
}

StatusOr<Dataset> LoadDataset(const DatasetOptions& options) {
  const std::string dir = Locate(options);
  if (!dir.empty()) return LoadIdxDirectory(dir);
  return GenerateDigits({.seed = options.generator_seed, .threads = options.threads});
}

StatusOr<Dataset> LoadIdxDirectory(const std::string& dir) {
  Dataset data;
  MR_ASSIGN_OR_RETURN(data.train, LoadPair(dir, kFiles[0], kFiles[1]));
  MR_ASSIGN_OR_RETURN(data.test, LoadPair(dir, kFiles[2], kFiles[3]));
  data.source = StrCat("MNIST in ", dir);
  return data;
}

StatusOr<Examples> DecodeIdx(std::span<const uint8_t> image_file, std::span<const uint8_t> label_file,
                             const std::string& what) {
  // The real sets hold 60,000 and 10,000; the bound limits how much is decompressed for a count in a header.
  constexpr int64_t kMaxExamples = 1'000'000;
  MR_ASSIGN_OR_RETURN(const IdxArray labels, ParseIdx(label_file, 1, kMaxExamples, what + " (labels)"));
  const int64_t count = labels.dims[0];
  if (count == 0) return errors::InvalidArgument(what, ": the label file holds no examples");
  MR_ASSIGN_OR_RETURN(const IdxArray images, ParseIdx(image_file, 3, kMaxExamples * kPixels, what));
  if (images.dims[1] != kImageSide || images.dims[2] != kImageSide) {
    return errors::InvalidArgument(what, ": images of ", images.dims[1], " x ", images.dims[2],
                                   " pixels, expected 28 x 28");
  }
  if (images.dims[0] != count) {
    return errors::InvalidArgument(what, ": ", images.dims[0], " images but ", count, " labels");
  }
  const auto bad =
      std::find_if(labels.bytes.begin(), labels.bytes.end(), [](uint8_t l) { return l >= kClasses; });
  if (bad != labels.bytes.end()) {
    return errors::InvalidArgument(what, ": label ", static_cast<int>(*bad), " of example ",
                                   bad - labels.bytes.begin(), " is not in 0 to 9");
  }
  Examples examples;
  examples.labels = labels.bytes;
  examples.images.resize(images.bytes.size());
  std::transform(images.bytes.begin(), images.bytes.end(), examples.images.begin(),
                 [](uint8_t pixel) { return static_cast<float>(pixel) / 255.0f; });
  return examples;
}

void OneHot(std::span<const uint8_t> labels, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  for (size_t i = 0; i < labels.size(); ++i) out[i * kClasses + labels[i]] = 1.0f;
}

Batcher::Batcher(const Examples& examples, uint64_t seed)
    : examples_(examples), random_(seed), order_(static_cast<size_t>(examples.size())) {
  std::iota(order_.begin(), order_.end(), 0u);
  next_ = order_.size();
}

void Batcher::Shuffle() {
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.Below(i)]);
  next_ = 0;
  ++epochs_started_;
}

int64_t Batcher::NextIndex() {
  if (next_ == order_.size()) Shuffle();
  return order_[next_++];
}

void Batcher::NextBatch(std::span<float> images, std::span<float> one_hot) {
  std::fill(one_hot.begin(), one_hot.end(), 0.0f);
  for (size_t row = 0; row * kPixels < images.size(); ++row) {
    const int64_t i = NextIndex();
    const std::span<const float> image = examples_.image(i);
    std::copy(image.begin(), image.end(), images.begin() + static_cast<ptrdiff_t>(row * kPixels));
    one_hot[row * kClasses + examples_.labels[static_cast<size_t>(i)]] = 1.0f;
  }
}

}  // namespace millrace::mnist
