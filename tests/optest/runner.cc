// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Runs every row of the .optest files with its kernel: with inputs that have other references, with inputs
// that may be overwritten, and with several threads. All must give the result of the row.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernel/testing.h"
#include "kernels/cpu/register.h"
#include "ops/register.h"
#include "optest.h"
#include "tensor/testing.h"

namespace millrace::optest {
namespace {

using Types = std::vector<std::pair<std::string, DataType>>;

enum class Mode { kShared, kOwned, kThreads };

std::pair<double, double> DefaultTolerance(DataType t) {
  switch (t) {
    case DataType::kHalf:
      return {2e-3, 1e-4};
    case DataType::kBfloat16:
      return {1.6e-2, 1e-3};
    case DataType::kFloat:
    case DataType::kComplex64:
      return {2e-6, 1e-7};
    case DataType::kDouble:
    case DataType::kComplex128:
      return {1e-12, 1e-14};
    default:
      return {0, 0};
  }
}

// Ignores blanks and case: "InvalidArgument" and "Invalid argument" are equal.
std::string Letters(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ') out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return out;
}

ThreadPool& Pool() {
  static auto& pool = *new ThreadPool("optest", 4);
  return pool;
}

class RowRun {
 public:
  RowRun(const Row& row, const Types& types, Mode mode)
      : row_(row), types_(types), mode_(mode), runner_(row.op) {}

  // False if the op's signature does not allow the types.
  bool Prepare() {
    runner_.Name("node");
    if (mode_ == Mode::kThreads) runner_.Pool(&Pool());
    auto op = OpRegistry::Global().LookUp(row_.op);
    EXPECT_TRUE(op.ok()) << op.status();
    if (!op.ok()) return true;
    for (const auto& [name, text] : row_.attrs) {
      auto value = ParseAttr((*op)->def, name, text, types_);
      EXPECT_TRUE(value.ok()) << name << ": " << value.status();
      if (value.ok()) runner_.Attr(name, *value);
    }
    for (const Value& value : row_.inputs) AddInput(value);
    return runner_.CheckSignature().ok();
  }

  void Run() {
    auto outputs = runner_.Run();
    if (row_.error) {
      EXPECT_FALSE(outputs.ok()) << "expected an error";
      EXPECT_EQ(Letters(ErrorCodeName(outputs.status().code())), Letters(row_.error->first))
          << outputs.status();
      EXPECT_NE(outputs.status().message().find(row_.error->second), std::string::npos)
          << "want " << row_.error->second << "\n got " << outputs.status();
      return;
    }
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_EQ(outputs->size(), row_.outputs.size());
    for (size_t i = 0; i < outputs->size(); ++i)
      Compare(row_.outputs[i], (*outputs)[i], "output " + std::to_string(i));
    ASSERT_EQ(row_.after.size(), row_.after.empty() ? 0 : variables_.size());
    for (size_t i = 0; i < row_.after.size(); ++i) {
      Compare(row_.after[i], variables_[i]->tensor(), "variable " + std::to_string(i));
    }
  }

 private:
  void AddInput(const Value& value) {
    Tensor own = value.tensor.IsInitialized() ? value.tensor.DeepCopy() : value.tensor;
    if (value.kind == Value::Kind::kValue) {
      if (mode_ == Mode::kShared) {
        held_.push_back(own);
        runner_.Input(own);
      } else {
        runner_.OwnedInput(std::move(own));
      }
      return;
    }
    auto variable = MakeRef<Variable>(own.dtype());
    variable->is_initialized = own.IsInitialized();
    if (mode_ == Mode::kShared) held_.push_back(own);
    variable->tensor() = std::move(own);
    if (value.kind == Value::Kind::kRef) {
      runner_.RefInput(*variable);
    } else {
      const std::string name = "v" + std::to_string(variables_.size());
      EXPECT_TRUE(runner_.resources().Create<Variable>("", name, variable).ok());
      runner_.Input(Tensor::Scalar(runner_.resources().MakeHandle<Variable>("", name)));
    }
    variables_.push_back(std::move(variable));
  }

  void Compare(const Tensor& want, const Tensor& got, const std::string& what) const {
    const auto [relative, absolute] = row_.tolerance.value_or(DefaultTolerance(want.dtype()));
    EXPECT_TRUE(TensorsNear(want, got, relative, absolute)) << what;
  }

  const Row& row_;
  const Types& types_;
  const Mode mode_;
  KernelRunner runner_;
  std::vector<Tensor> held_;
  std::vector<RefPtr<Variable>> variables_;
};

// Calls fn with each combination of the bindings' types.
template <typename Fn>
void ForEachTypes(const std::vector<TypeBinding>& bindings, Types* chosen, Fn fn) {
  if (chosen->size() == bindings.size()) return fn();
  const TypeBinding& next = bindings[chosen->size()];
  for (const DataType type : next.types) {
    chosen->emplace_back(next.name, type);
    ForEachTypes(bindings, chosen, fn);
    chosen->pop_back();
  }
}

void RunLine(const Line& line) {
  bool any_group = false;
  for (const TypeBinding& b : line.bindings) any_group |= b.is_group;
  int ran = 0;
  Types types;
  ForEachTypes(line.bindings, &types, [&] {
    std::string trace;
    for (const auto& [name, type] : types) trace += name + "=" + DataTypeName(type) + " ";
    SCOPED_TRACE("line " + std::to_string(line.number) + ": " + line.text + "   " + trace);
    auto row = ParseRow(line.text, types);
    ASSERT_TRUE(row.ok()) << row.status();
    for (const Mode mode : {Mode::kShared, Mode::kOwned, Mode::kThreads}) {
      RowRun run(*row, types, mode);
      if (!run.Prepare() && any_group) return;
      SCOPED_TRACE(mode == Mode::kShared  ? "inputs shared"
                   : mode == Mode::kOwned ? "inputs owned"
                                          : "four threads");
      run.Run();
    }
    ++ran;
  });
  EXPECT_GT(ran, 0) << "line " << line.number << ": the op allows none of the types";
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class FileTest : public ::testing::Test {
 public:
  explicit FileTest(std::filesystem::path path) : path_(std::move(path)) {}
  void TestBody() override {
    auto lines = ReadLines(ReadFile(path_));
    ASSERT_TRUE(lines.ok()) << lines.status();
    EXPECT_FALSE(lines->empty());
    for (const Line& line : *lines) RunLine(line);
  }

 private:
  const std::filesystem::path path_;
};

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MR_OPTEST_DIR)) {
    if (entry.path().extension() == ".optest") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Every op with a kernel has at least one row, or another test as listed.
TEST(OpTestCoverage, EveryOpWithAKernelHasRows) {
  const std::set<std::string> elsewhere = {
      "_Arg", "_Retval", "_Send", "_Recv", "_HostSend",
      "_HostRecv",  // kernels_test
      "RandomUniform", "RandomStandardNormal", "TruncatedNormal",
      "RandomUniformInt",  // random_golden_test
      // random_ops_test
      "Multinomial", "NonDeterministicInts", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoisson",
      "RandomPoissonV2", "RandomShuffle", "RngSkip", "StatefulStandardNormal", "StatefulStandardNormalV2",
      "StatefulTruncatedNormal", "StatefulUniform", "StatefulUniformFullInt", "StatefulUniformInt",
      "StatelessMultinomial", "StatelessRandomNormal", "StatelessRandomUniform", "StatelessRandomUniformInt",
      "StatelessTruncatedNormal", "Timestamp",
      // candidate_test
      "NegTrain", "Skipgram", "AllCandidateSampler", "ComputeAccidentalHits", "FixedUnigramCandidateSampler",
      "LearnedUnigramCandidateSampler", "LogUniformCandidateSampler", "ThreadUnsafeUnigramCandidateSampler",
      "UniformCandidateSampler", "Variable", "VariableV2", "TemporaryVariable",
      "DestroyTemporaryVariable",  // tests/session
      "VarHandleOp", "DestroyResourceOp",
      "Placeholder",                       // kernels_test
      "Batch", "Unbatch", "UnbatchGrad",   // batching_test
      "BatchFunction",                     // tests/session/batch_function_test.cc
      "StatefulRandomBinomial",            // binomial_test
      "SdcaOptimizer", "SdcaOptimizerV2",  // sdca_test
      // tests/session/control_flow_test.cc: the executor does their work
      "Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration",
      "RefNextIteration", "LoopCond", "PlaceholderV2",
      "ImmutableConst",  // tests/graph_tools/memmapped_test.cc
      // tests/session/reference_test.cc
      "RefIdentity", "RefSelect", "Abort",
      // tests/session/legacy_handles_test.cc
      "Stack", "StackPush", "StackPop", "StackClose",
      // tests/session/tensor_array_test.cc, including the order of operations, which rows lack
      "StackV2", "StackPushV2", "StackPopV2", "StackCloseV2", "Case", "FakeParam", "For", "If",
      "PartitionedCall", "RemoteCall", "StatefulPartitionedCall", "StatelessIf", "StatelessWhile",
      "SymbolicGradient", "While",
      "_WhileGrad",  // tests/session/function_test, function_gradient_test
      "_ArrayToList",
      "_ListToArray",       // kernels_test
      "_FusedElementwise",  // fused_elementwise_test
      // src/distributed/collectives_test.cc: they need a group
      "CollectiveBcastRecv", "CollectiveBcastSend", "CollectiveGather", "CollectiveReduce",
      // tests/session: tensors that are kept in a session
      "DeleteSessionTensor", "GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor", "AudioSummary",
      "AudioSummaryV2", "HistogramSummary", "ImageSummary", "MergeSummary", "ScalarSummary", "TensorSummary",
      "TensorSummaryV2",  // summary_test
      // summary_writer_test
      "CloseSummaryWriter", "CreateSummaryDbWriter", "CreateSummaryFileWriter", "FlushSummaryWriter",
      "ImportEvent", "SummaryWriter", "WriteAudioSummary", "WriteGraphSummary", "WriteHistogramSummary",
      "WriteImageSummary", "WriteRawProtoSummary", "WriteScalarSummary", "WriteSummary",
      "GenerateVocabRemapping",
      "LoadAndRemapMatrix",  // tests/python/training/test_warm_start.py
      "ParseExample", "ParseExampleV2", "ParseSequenceExample", "ParseSingleExample",
      "ParseSingleSequenceExample", "DecodeProtoV2", "EncodeProto",  // proto_test
      "SerializeTensor",                                             // parse_example_test
      "DeserializeSparse", "SerializeSparse",                        // sparse_store_test
      "RaggedTensorFromVariant", "RaggedTensorToVariant",  // tests/python/ops/test_ragged_variants.py
  };
  // Ops with state that ops of one or several steps share are tested in tests/session, lists in
  // tensor_list_test.cc, and trees in boosted.
  const auto shares_state = [](const std::string& op) {
    for (const char* part :
         {"BoostedTrees", "TensorForest", "TensorArray", "TensorList", "Map", "Queue", "Barrier", "Stage",
          "stage", "Mutex", "Accumulator", "Table", "Reader", "ReadFile", "WriteFile", "MatchingFiles",
          "Save", "Restore", "MergeV2Checkpoints"}) {
      if (op.find(part) != std::string::npos) return true;
    }
    return false;
  };
  std::set<std::string> covered;
  for (const auto& path : Files()) {
    auto lines = ReadLines(ReadFile(path));
    ASSERT_TRUE(lines.ok()) << path << ": " << lines.status();
    for (const Line& line : *lines) covered.insert(line.text.substr(0, line.text.find_first_of("{( ")));
  }
  for (const std::string& op : KernelRegistry::Global().Ops()) {
    if (!OpRegistry::Global().LookUp(op).ok()) continue;
    EXPECT_TRUE(covered.count(op) == 1 || elsewhere.count(op) == 1 || shares_state(op))
        << op << " has no rows";
  }
}

}  // namespace
}  // namespace millrace::optest

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const millrace::Status registered = millrace::RegisterAllOps(millrace::OpRegistry::Global());
  millrace::RegisterCpuKernels(millrace::KernelRegistry::Global());
  if (!registered.ok()) {
    std::cerr << registered << "\n";
    return 1;
  }
  for (const auto& path : millrace::optest::Files()) {
    const std::string name = std::filesystem::relative(path, MR_OPTEST_DIR).replace_extension();
    ::testing::RegisterTest("OpTest", name.c_str(), nullptr, nullptr, path.c_str(), 1,
                            [path]() -> ::testing::Test* { return new millrace::optest::FileTest(path); });
  }
  return RUN_ALL_TESTS();
}
