// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "io/example/example_parser.h"
#include "tensorflow/core/example/example.pb.h"
#include "tests/fuzz/fuzz_targets.h"

namespace millrace {
namespace {

io::FeatureTable MakeTable() {
  std::vector<io::FeatureSpec> specs;
  for (const auto& [key, dtype] :
       {std::pair("i", DataType::kInt64), {"f", DataType::kFloat}, {"s", DataType::kString}}) {
    specs.push_back({.key = key, .dtype = dtype, .is_sparse = true});
  }
  specs.push_back({.key = "di",
                   .dtype = DataType::kInt64,
                   .shape = {2},
                   .default_value = Tensor::Vector<int64_t>({1, 2})});
  specs.push_back(
      {.key = "df", .dtype = DataType::kFloat, .shape = {1}, .default_value = Tensor::Vector<float>({1})});
  specs.push_back({.key = "vs",
                   .dtype = DataType::kString,
                   .shape = {-1},
                   .default_value = Tensor::Scalar<std::string>("")});
  specs.push_back({.key = "vi",
                   .dtype = DataType::kInt64,
                   .shape = {-1, 2},
                   .default_value = Tensor::Scalar<int64_t>(0)});
  for (io::FeatureSpec& spec : specs) spec.may_be_missing = true;
  return *io::FeatureTable::Make(std::move(specs));
}

// Whether protobuf parses all of them.
bool ProtobufParses(io::FeatureSource source, const std::vector<std::string>& examples) {
  for (const std::string& bytes : examples) {
    tensorflow::Example example;
    tensorflow::SequenceExample sequence;
    if (source == io::FeatureSource::kExample ? !example.ParseFromString(bytes)
                                              : !sequence.ParseFromString(bytes)) {
      return false;
    }
  }
  return true;
}

void Fail(std::string_view what, const Status& status) {
  MR_LOG(Error) << "fuzzing: " << what << ": " << status;
  std::abort();
}

}  // namespace

void FuzzExample(std::string_view bytes) {
  PrepareFuzzing();
  if (bytes.empty()) return;
  static const io::FeatureTable& table = *new io::FeatureTable(MakeTable());
  const auto mode = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  const size_t input_size = bytes.size();
  std::vector<std::string> examples;
  while (bytes.size() > 1 && (mode & 4) != 0) {
    const size_t size = static_cast<unsigned char>(bytes[0]) << 8 | static_cast<unsigned char>(bytes[1]);
    examples.emplace_back(bytes.substr(2, size));
    bytes.remove_prefix(std::min(bytes.size(), size + 2));
  }
  if ((mode & 4) == 0) examples.emplace_back(bytes);
  constexpr io::FeatureSource kSources[] = {io::FeatureSource::kExample, io::FeatureSource::kSequenceContext,
                                            io::FeatureSource::kSequenceLists, io::FeatureSource::kExample};
  const io::ParseRequest request{
      .source = kSources[mode & 3], .serialized = examples, .batched = (mode & 4) != 0};
  const auto parsed =
      io::ParseFeatures(table, request, [](int64_t total, int64_t, ThreadPool::ShardFn fn) { fn(0, total); });
  if (!parsed.ok()) {
    // Values may not match the request, but bytes that protobuf accepts must not be reported as corrupt.
    const bool broken = parsed.status().message().starts_with("Could not parse");
    if (broken && ProtobufParses(request.source, examples)) Fail("protobuf parses this", parsed.status());
    return;
  }
  for (int i = 0; i < table.size(); ++i) {
    if (!table[i].is_sparse) continue;
    size_t total = 0;
    for (const Tensor& tensor : (*parsed)[static_cast<size_t>(i)]) total += tensor.num_bytes();
    if (total > 64 * input_size + 1024) Fail(StrCat(input_size, " bytes made ", total), Status());
  }
}

}  // namespace millrace
