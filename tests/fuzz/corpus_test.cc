// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs the fuzz targets with their seeds and past finds, with prefixes of each and with seeded mutations of
// bytes and of fields, so that an error that a fuzzer once found stays fixed in every build.
#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/strings.h"
#include "proto/message_types.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/mutate_graph.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/service_calls.h"
#include "tests/optimize/first_seed.h"

namespace millrace {
namespace {

std::vector<std::string> Seeds(const std::string& target) {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(MR_FUZZ_CORPUS) + "/" + target)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

using Mutate = std::string (*)(std::string_view, std::mt19937&);

// Repetitions (--gtest_repeat) make different mutants; MILLRACE_TEST_SEED is their first
// seed.
void RunAll(const std::string& target, void (*run)(std::string_view), Mutate mutate) {
  const std::vector<std::string> seeds = Seeds(target);
  ASSERT_FALSE(seeds.empty());
  static std::map<std::string, unsigned> runs;
  std::mt19937 rng(1 + FirstSeed() + runs[target]++);
  for (const std::string& seed : seeds) {
    run(seed);
    const size_t step = seed.size() / 50 + 1;
    for (size_t n = 0; n < seed.size(); n += step) run(std::string_view(seed).substr(0, n));
    for (int i = 0; i < 30 && !seed.empty(); ++i) {
      std::string mutant = seed;
      for (int k = 0; k < 3; ++k) mutant[rng() % mutant.size()] = static_cast<char>(rng());
      run(mutant);
    }
    std::string mutant = seed;
    for (int i = 0; i < 30; ++i) run(mutant = mutate(i % 6 == 0 ? seed : mutant, rng));
  }
}

// Changes, removes, or duplicates bytes.
std::string MutateBytes(std::string_view bytes, std::mt19937& rng) {
  std::string mutant(bytes);
  if (mutant.empty()) return mutant;
  const size_t at = rng() % mutant.size(), n = rng() % 8;
  if (rng() % 3 == 0) {
    mutant.erase(at, n);
  } else if (rng() % 2 == 0) {
    mutant.insert(at, mutant.substr(at, n));
  } else {
    mutant[at] = static_cast<char>(rng());
  }
  return mutant;
}

TEST(FuzzCorpusTest, CallsOfTheCApiEndWithAStatus) { RunAll("c_api", FuzzCApi, MutateBytes); }
TEST(FuzzCorpusTest, ConnectionsForCallsEnd) { RunAll("calls", FuzzCalls, MutateBytes); }
TEST(FuzzCorpusTest, CheckpointsEndWithAStatus) { RunAll("checkpoint", FuzzCheckpoint, MutateBytes); }
TEST(FuzzCorpusTest, BmpsEndWithAStatus) { RunAll("bmp", FuzzBmp, MutateBytes); }
TEST(FuzzCorpusTest, GifsEndWithAStatus) { RunAll("gif", FuzzGif, MutateBytes); }
TEST(FuzzCorpusTest, JpegsEndWithAStatus) { RunAll("jpeg", FuzzJpeg, MutateBytes); }
TEST(FuzzCorpusTest, PngsEndWithAStatus) { RunAll("png", FuzzPng, MutateBytes); }
TEST(FuzzCorpusTest, ExamplesEndWithAStatus) { RunAll("example", FuzzExample, MutateBytes); }
TEST(FuzzCorpusTest, GraphDefsEndWithAStatus) { RunAll("graph", FuzzGraphDef, MutateGraphDef); }
TEST(FuzzCorpusTest, MappedPackagesEndWithAStatus) { RunAll("memmapped", FuzzMemmapped, MutateBytes); }
// Changes fields of a message, or bytes of a text.
std::string MutateSavedModel(std::string_view bytes, std::mt19937& rng) {
  tensorflow::SavedModel model;
  if (bytes.empty() || bytes[0] == 't' || !model.ParseFromString(std::string(bytes.substr(1)))) {
    return MutateBytes(bytes, rng);
  }
  MutateMessage({"x:0", "w/part_0", "save/Const:0", "^x", "serve", "unbound_inputs", "variables"}, rng,
                &model);
  return "b" + model.SerializeAsString();
}

// Changes fields of one request, or the order of the calls.
std::string MutateService(std::string_view bytes, std::mt19937& rng) {
  static auto* const factory = new google::protobuf::DynamicMessageFactory;
  std::vector<ServiceCall> calls = ReadServiceCalls(bytes);
  if (calls.empty()) return MutateBytes(bytes, rng);
  ServiceCall& call = calls[rng() % calls.size()];
  if (rng() % 4 == 0) {
    std::swap(call, calls[rng() % calls.size()]);
    return WriteServiceCalls(calls);
  }
  const auto* const type = FindMessageType(StrCat("tensorflow.", MethodName(call.method), "Request"));
  if (type == nullptr) return MutateBytes(bytes, rng);
  const std::unique_ptr<google::protobuf::Message> request(factory->GetPrototype(type)->New());
  if (!request->ParseFromString(call.request)) return MutateBytes(bytes, rng);
  MutateMessage({"x:0", "y:0", "set", "s", kAnySession, "0000000000000001", "/job:w/replica:0/task:0"}, rng,
                request.get());
  call.request = request->SerializeAsString();
  return WriteServiceCalls(calls);
}

TEST(FuzzCorpusTest, NumpyFilesEndWithAStatus) { RunAll("numpy", FuzzNumpy, MutateBytes); }
TEST(FuzzCorpusTest, RecordFilesEndWithAStatus) { RunAll("records", FuzzRecords, MutateBytes); }
TEST(FuzzCorpusTest, SavedModelsEndWithAStatus) { RunAll("saved_model", FuzzSavedModel, MutateSavedModel); }
TEST(FuzzCorpusTest, CallsOfTheServicesAreAnswered) { RunAll("service", FuzzService, MutateService); }
TEST(FuzzCorpusTest, WavsEndWithAStatus) { RunAll("wav", FuzzWav, MutateBytes); }
TEST(FuzzCorpusTest, TensorProtosEndWithAStatus) { RunAll("tensor", FuzzTensorProto, MutateTensorProto); }

}  // namespace
}  // namespace millrace
