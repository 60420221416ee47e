// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "millrace/scope.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {

// A random program over a few integers: arithmetic, nested conditions and loops, arrays, function calls
// (inlined or not, with loops inside), a queue and a variable, on one or several CPUs. It exists as a graph
// and as a tree that can be evaluated directly. Equal seeds give equal programs.
class RandomProgram {
 public:
  static constexpr int kInputs = 3;
  static constexpr int64_t kModulus = 1009;  // all values are in [0, kModulus)
  using Values = std::vector<int32_t>;

  // `size`: the approximate maximum number of statements, including those in branches and bodies.
  RandomProgram(uint32_t seed, int size, int cpus);

  const tensorflow::GraphDef& def() const { return def_; }
  // The graph's feeds, one scalar int32 each, and fetches.
  std::vector<std::string> feeds() const;
  const std::vector<std::string>& fetches() const { return fetches_; }
  // Target to be run first. It sets "counter_value" to 0.
  static constexpr const char* kInit = "init";
  // Target that adds one to "counter_value", a scalar int64 to be fetched.
  static constexpr const char* kCount = "count";
  static constexpr const char* kCounter = "counter_value";
  // Steps that end early leave values in the queue. The target that removes up to the fed number, and the
  // name of that feed, a scalar int32; then the fetch of the number of values.
  static constexpr const char* kDrain = "drain";
  static constexpr const char* kDrainCount = "drain_count";
  static constexpr const char* kQueueSize = "queue_size";
  static constexpr int kQueueCapacity = 8;
  // Fetch of a value that never comes.
  static constexpr const char* kNever = "never";
  // The expected fetches for these inputs.
  Values Evaluate(const Values& inputs) const;

 private:
  enum class Kind { kArithmetic, kIf, kLoop, kArray, kQueue, kVariable, kCall };
  struct Statement {
    Kind kind = Kind::kArithmetic;
    int op = 0;
    int a = 0, b = 0, to = 0;  // variables
    int device = 0;
    int parallel_iterations = 1;
    std::vector<Statement> body, otherwise;
  };
  using Block = std::vector<Statement>;
  struct State;  // the resources of the graph

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  Block MakeBlock(int depth);
  void BuildGraph();
  void BuildState(const Scope& scope, State* state) const;
  std::vector<Output> Emit(const Scope& scope, const State& state, const Block& block,
                           std::vector<Output> values) const;
  std::vector<Output> EmitLoop(const Scope& scope, const State& state, const Statement& s,
                               const std::vector<Output>& values) const;
  Output EmitArray(const Scope& scope, const Statement& s, const std::vector<Output>& values) const;
  static void Interpret(const Block& block, std::vector<int64_t>* values);

  std::mt19937 random_;
  const int cpus_;
  int budget_;
  Block program_;
  std::vector<std::string> fetches_;
  tensorflow::GraphDef def_;
};

}  // namespace millrace
