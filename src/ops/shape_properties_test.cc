// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Properties of every shape function, tested with random inputs: no input makes it crash, it requests the
// values that it uses, and its result for partially known inputs does not contradict that for known ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "op/elementwise_program.h"
#include "op/shape_inference.h"
#include "ops/register.h"

namespace millrace {
namespace {

// Trials for each op; more follow until there were enough valid cases.
constexpr int kMinTrials = 1000;
constexpr int kMaxTrials = 20000;
constexpr int kEnoughValid = 100;

// A random node with known inputs.
struct Case {
  AttrMap attrs;
  int num_outputs = 0;
  std::vector<PartialShape> shapes;
  std::vector<std::unique_ptr<Tensor>> values;  // null: unknown
};

// For ops whose inputs rarely fit each other by chance. -1: a size that is drawn once for a case.
using ShapeTable = std::map<std::string, std::vector<std::vector<int64_t>>>;
const ShapeTable kLikelyShapes = {
    {"AudioSpectrogram", {{-1, 4}}},
    {"AvgPool3D", {{1, 4, 4, 4, -1}}},
    {"AvgPool3DGrad", {{5}, {1, 4, 4, 4, 1}}},
    {"BatchToSpaceND", {{4, 4, 4, 1}, {-1}, {-1, 2}}},
    {"BlockLSTM", {{}, {2, 3, 4}, {3, 2}, {3, 2}, {6, 8}, {2}, {2}, {2}, {8}}},
    {"BlockLSTMGrad",
     {{},
      {2, 3, 4},
      {3, 2},
      {3, 2},
      {6, 8},
      {2},
      {2},
      {2},
      {8},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2}}},
    {"BlockLSTMGradV2",
     {{},
      {2, 3, 4},
      {3, 2},
      {3, 2},
      {6, 8},
      {2},
      {2},
      {2},
      {8},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2},
      {2, 3, 2}}},
    {"BlockLSTMV2", {{}, {2, 3, 4}, {3, 2}, {3, 2}, {6, 8}, {2}, {2}, {2}, {8}}},
    {"CTCBeamSearchDecoder", {{3, -1, 4}, {-1}}},
    {"CTCGreedyDecoder", {{3, -1, 4}, {-1}}},
    {"CTCLoss", {{3, -1, 4}, {5, 2}, {5}, {-1}}},
    {"Conv3D", {{1, 4, 4, 4, -1}, {1, 2, 2, -1, 3}}},
    {"Conv3DBackpropFilter", {{1, 4, 4, 4, 2}, {1, 2, 2, 2, 3}, {1, 4, 4, 4, 3}}},
    {"Conv3DBackpropFilterV2", {{1, 4, 4, 4, 2}, {5}, {1, 4, 4, 4, 3}}},
    {"Conv3DBackpropInput", {{1, 4, 4, 4, 2}, {1, 2, 2, 2, 3}, {1, 4, 4, 4, 3}}},
    {"Conv3DBackpropInputV2", {{5}, {1, 2, 2, 2, 3}, {1, 4, 4, 4, 3}}},
    {"CombinedNonMaxSuppression", {{2, 3, 1, 4}, {2, 3, 2}, {}, {}, {}, {}}},
    {"CropAndResize", {{2, 3, 3, 1}, {-1, 4}, {-1}, {2}}},
    {"Dilation2D", {{1, 4, 4, -1}, {2, 2, -1}}},
    {"EditDistance", {{-1, 2}, {-1}, {2}, {4, 2}, {4}, {2}}},
    {"ExtractGlimpse", {{-1, 3, 3, 1}, {2}, {-1, 2}}},
    {"ExtractVolumePatches", {{1, 4, 4, 4, -1}}},
    {"FractionalAvgPool", {{-1, 4, 4, 2}}},
    {"FractionalMaxPool", {{-1, 4, 4, 2}}},
    {"FusedPadConv2D", {{1, 4, 4, -1}, {4, 2}, {2, 2, -1, 3}}},
    {"FusedResizeAndPadConv2D", {{1, 4, 4, -1}, {2}, {4, 2}, {1, 1, -1, 3}}},
    {"GRUBlockCell", {{-1, 4}, {-1, 2}, {6, 4}, {6, 2}, {4}, {2}}},
    {"GRUBlockCellGrad", {{-1, 4}, {-1, 2}, {6, 4}, {6, 2}, {4}, {2}, {-1, 2}, {-1, 2}, {-1, 2}, {-1, 2}}},
    {"LSTMBlockCell", {{-1, 4}, {-1, 2}, {-1, 2}, {6, 8}, {2}, {2}, {2}, {8}}},
    {"LSTMBlockCellGrad",
     {{-1, 4},
      {-1, 2},
      {-1, 2},
      {6, 8},
      {2},
      {2},
      {2},
      {8},
      {-1, 2},
      {-1, 2},
      {-1, 2},
      {-1, 2},
      {-1, 2},
      {-1, 2},
      {-1, 2},
      {-1, 2}}},
    {"MatrixSolveLs", {{-1, 3}, {-1, 2}, {}}},
    {"MaxPool3D", {{1, 4, 4, 4, -1}}},
    {"MaxPool3DGrad", {{1, 4, 4, 4, 2}, {1, 4, 4, 4, 2}, {1, 4, 4, 4, 2}}},
    {"MaxPool3DGradGrad", {{1, 1, 1, 1, 2}, {1, 1, 1, 1, 2}, {1, 1, 1, 1, 2}}},
    {"MaxPoolGradGradV2", {{1, 1, 1, 2}, {1, 1, 1, 2}, {1, 1, 1, 2}, {4}, {4}}},
    {"MaxPoolGradGradWithArgmax", {{2, 3, 3, 1}, {2, 3, 3, 1}, {2, 3, 3, 1}}},
    {"Mfcc", {{2, 3, -1}, {}}},
    {"NonMaxSuppressionV3", {{-1, 4}, {-1}, {}, {}, {}}},
    {"NonMaxSuppressionV4", {{-1, 4}, {-1}, {}, {}, {}}},
    {"NonMaxSuppressionV5", {{-1, 4}, {-1}, {}, {}, {}, {}}},
    {"QuantizeAndDequantizeV3", {{2, -1}, {}, {}, {}}},
    {"QuantizedAdd", {{2, -1}, {-1}, {}, {}, {}, {}}},
    {"QuantizedAvgPool", {{1, 4, 4, -1}, {}, {}}},
    {"QuantizedBatchNormWithGlobalNormalization",
     {{1, 2, 2, -1}, {}, {}, {-1}, {}, {}, {-1}, {}, {}, {-1}, {}, {}, {-1}, {}, {}}},
    {"QuantizedBiasAdd", {{2, -1}, {-1}, {}, {}, {}, {}}},
    {"CTCLossV2", {{3, -1, 4}, {5, 2}, {5}, {-1}}},
    {"QuantizedConv2DAndRelu", {{1, 4, 4, -1}, {2, 2, -1, 3}, {}, {}, {-1}, {-1}}},
    {"QuantizedConv2DAndReluAndRequantize", {{1, 4, 4, -1}, {2, 2, -1, 3}, {}, {}, {-1}, {-1}, {}, {}}},
    {"QuantizedConv2DAndRequantize", {{1, 4, 4, -1}, {2, 2, -1, 3}, {}, {}, {-1}, {-1}, {}, {}}},
    {"QuantizedConv2DWithBiasAndRelu", {{1, 4, 4, -1}, {2, 2, -1, 3}, {3}, {}, {}, {-1}, {-1}}},
    {"QuantizedConv2DWithBiasAndReluAndRequantize",
     {{1, 4, 4, -1}, {2, 2, -1, 3}, {3}, {}, {}, {-1}, {-1}, {}, {}}},
    {"QuantizedConv2DWithBiasAndRequantize", {{1, 4, 4, -1}, {2, 2, -1, 3}, {3}, {}, {}, {-1}, {-1}, {}, {}}},
    {"QuantizedConv2DWithBiasSignedSumAndReluAndRequantize",
     {{1, 4, 4, -1}, {2, 2, -1, 3}, {3}, {}, {}, {-1}, {-1}, {}, {}, {1, 4, 4, 3}, {}, {}}},
    {"QuantizedConv2DWithBiasSumAndRelu",
     {{1, 4, 4, -1}, {2, 2, -1, 3}, {3}, {}, {}, {-1}, {-1}, {1, 4, 4, 3}}},
    {"QuantizedConv2DWithBiasSumAndReluAndRequantize",
     {{1, 4, 4, -1}, {2, 2, -1, 3}, {3}, {}, {}, {-1}, {-1}, {}, {}, {1, 4, 4, 3}, {}, {}}},
    {"QuantizedDepthwiseConv2D", {{1, 4, 4, 2}, {2, 2, 2, 3}, {}, {}, {-1}, {-1}}},
    {"QuantizedDepthwiseConv2DWithBias", {{1, 4, 4, 2}, {2, 2, 2, 3}, {6}, {}, {}, {-1}, {-1}}},
    {"QuantizedDepthwiseConv2DWithBiasAndRelu", {{1, 4, 4, 2}, {2, 2, 2, 3}, {6}, {}, {}, {-1}, {-1}}},
    {"QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize",
     {{1, 4, 4, 2}, {2, 2, 2, 3}, {6}, {}, {}, {-1}, {-1}, {}, {}}},
    {"QuantizedMatMulWithBias", {{2, 2}, {2, 2}, {2}, {}, {}, {}, {}}},
    {"QuantizedMatMulWithBiasAndRelu", {{2, 2}, {2, 2}, {2}, {}, {}, {}, {}}},
    {"QuantizedMatMulWithBiasAndReluAndRequantize", {{2, 2}, {2, 2}, {2}, {}, {}, {}, {}, {}, {}}},
    {"QuantizedConv2D", {{1, 4, 4, -1}, {2, 2, -1, 3}, {}, {}, {}, {}}},
    {"QuantizedInstanceNorm", {{1, 4, 4, -1}, {}, {}}},
    {"QuantizedMatMul", {{2, 2}, {2, 2}, {}, {}, {}, {}}},
    {"QuantizedMaxPool", {{1, 4, 4, -1}, {}, {}}},
    {"QuantizedMul", {{2, -1}, {-1}, {}, {}, {}, {}}},
    {"QuantizedReluX", {{2, -1}, {}, {}, {}}},
    {"QuantizedResizeBilinear", {{1, 4, 4, -1}, {2}, {}, {}}},
    {"Requantize", {{2, -1}, {}, {}, {}, {}}},
    {"SpaceToBatch", {{1, 4, 4, 1}, {2, 2}}},
    {"SpaceToBatchND", {{1, 4, 4, 1}, {-1}, {-1, 2}}},
    {"SparseApplyCenteredRMSProp", {{3, 2}, {3, 2}, {3, 2}, {3, 2}, {}, {}, {}, {}, {-1, 2}, {-1}}},
    {"TridiagonalMatMul", {{1, -1}, {1, -1}, {1, -1}, {-1, 2}}},
    {"TridiagonalSolve", {{3, -1}, {-1, 2}}},
};

// The ops of instructions with int32 arguments and results.
const std::vector<const OpRegistration*>& PlainInstructions() {
  static const auto* const ops = [] {
    EXPECT_EQ(RegisterAllOps(OpRegistry::Global()), Status());
    auto* const all = new std::vector<const OpRegistration*>(OpRegistry::Global().All());
    std::erase_if(*all, [](const OpRegistration* op) {
      const ElementwiseForm& form = op->elementwise;
      return form.operands == ElementwiseForm::Operands::kNone || form.arity() > 2 ||
             form.result != ElementwiseForm::Result::kSame || !form.takes_integers;
    });
    return all;
  }();
  return *ops;
}

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }

  // Sizes that agree often enough for many cases to be valid.
  int64_t Size() {
    static constexpr int64_t kSizes[] = {0, 1, 1, 2, 2, 2, 3, 4, 6};
    return OneIn(60) ? int64_t{1} << 62 : kSizes[Below(std::size(kSizes))];
  }

  PartialShape Shape(int rank) {
    std::vector<int64_t> dims(rank);
    for (int64_t& d : dims) d = Size();
    return PartialShape(std::move(dims));
  }

  Tensor Value(DataType type, const TensorShape& shape) {
    Tensor t(type, shape);
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const int64_t v = OneIn(40) ? INT64_MIN >> Below(64) : Below(6) - 2;
      if (type == DataType::kInt32) t.data<int32_t>()[i] = static_cast<int32_t>(v);
      if (type == DataType::kInt64) t.data<int64_t>()[i] = v;
    }
    return t;
  }

  AttrValue AttrOf(const AttrDef& attr) {
    if (attr.type == "type") {
      const auto* allowed = attr.allowed_values.As<std::vector<DataType>>();
      if (allowed == nullptr) return OneIn(2) ? DataType::kInt32 : DataType::kInt64;
      return (*allowed)[Below(static_cast<int>(allowed->size()))];
    }
    if (attr.type == "list(type)") {
      const auto* allowed = attr.allowed_values.As<std::vector<DataType>>();
      return std::vector<DataType>(1 + Below(2), allowed == nullptr ? DataType::kInt32 : allowed->front());
    }
    if (attr.type == "int") return std::max<int64_t>(attr.has_minimum ? attr.minimum : -3, Below(7) - 2);
    if (attr.type == "bool") return OneIn(2);
    if (attr.type == "float") return 0.5f;
    if (attr.type == "list(float)" && attr.has_minimum)
      return std::vector<float>(static_cast<size_t>(attr.minimum), 1.5f);
    if (attr.type == "list(float)") return std::vector<float>(2, 0.5f);
    if (attr.type == "shape") return OneIn(3) ? PartialShape() : Shape(Below(4));
    const auto least = [&attr](int n) {
      return static_cast<size_t>(std::max<int64_t>(attr.has_minimum ? attr.minimum : 0, n));
    };
    if (attr.type == "list(string)") return std::vector<std::string>(least(Below(2)), "text");
    if (attr.type == "list(shape)") return std::vector<PartialShape>(least(Below(3)), Shape(Below(3)));
    if (attr.type == "list(int)") {
      std::vector<int64_t> list(OneIn(8) ? Below(6) : 4);
      for (int64_t& v : list) v = OneIn(10) ? Below(9) - 3 : 1 + Below(3);
      while (attr.has_minimum && static_cast<int64_t>(list.size()) < attr.minimum) list.push_back(1);
      return list;
    }
    if (attr.type == "func") return NameAttrList{"F", nullptr};
    if (attr.type == "list(func)") return std::vector<NameAttrList>(1 + Below(2), NameAttrList{"F", nullptr});
    if (attr.type == "tensor") return Value(DataType::kInt32, TensorShape({2}));
    if (const auto* allowed = attr.allowed_values.As<std::vector<std::string>>()) {
      return (*allowed)[Below(static_cast<int>(allowed->size()))];
    }
    if (attr.name == "equation") return OneIn(2) ? "...->..." : "...,...->...";
    return "text";
  }

  // These have to fit each other.
  AttrMap ElementwiseAttrs() {
    ElementwiseProgram program;
    program.num_inputs = 1 + Below(3);
    program.types.assign(static_cast<size_t>(program.num_inputs), DataType::kInt32);
    for (int i = 1 + Below(4); i > 0; --i) {
      const OpRegistration* const op =
          PlainInstructions()[static_cast<size_t>(Below(static_cast<int>(PlainInstructions().size())))];
      ElementwiseProgram::Instruction instruction{.op = op, .type = DataType::kInt32, .node = "node"};
      for (uint8_t& operand : instruction.operands)
        operand = static_cast<uint8_t>(Below(program.num_values()));
      program.instructions.push_back(instruction);
      program.types.push_back(instruction.type);
    }
    program.results = {program.num_values() - 1};
    return program.ToAttrs();
  }

  // The lists that describe features usually have the lengths that the numbers specify.
  void MatchFeatureLists(AttrMap* attrs) {
    static constexpr const char* kGroups[][4] = {
        {"Nsparse", "sparse_types", "", ""},
        {"num_sparse", "sparse_types", "", ""},
        {"Ndense", "", "Tdense", "dense_shapes"},
        {"Ncontext_sparse", "context_sparse_types", "", ""},
        {"Ncontext_dense", "", "Tcontext_dense", "context_dense_shapes"},
        {"Nfeature_list_sparse", "feature_list_sparse_types", "", ""},
        {"Nfeature_list_dense", "", "feature_list_dense_types", "feature_list_dense_shapes"}};
    for (const auto& [count, sparse, dense, shapes] : kGroups) {
      const bool known = attrs->Find(count) != nullptr || attrs->Find(shapes) != nullptr;
      if (!known || OneIn(20)) continue;
      const int n = Below(3);
      for (const char* types : {sparse, dense}) {
        if (attrs->Find(types) != nullptr) attrs->Set(types, std::vector<DataType>(n, DataType::kInt64));
      }
      if (attrs->Find(count) != nullptr) attrs->Set(count, int64_t{n});
      if (attrs->Find(shapes) != nullptr) attrs->Set(shapes, std::vector<PartialShape>(n, Shape(Below(3))));
    }
  }

  Case Draw(const OpDef& op) {
    Case drawn;
    for (const AttrDef& attr : op.attrs) {
      if (!attr.default_value.IsSet() || OneIn(2)) drawn.attrs.Set(attr.name, AttrOf(attr));
    }
    if (op.name == "_FusedElementwise") drawn.attrs = ElementwiseAttrs();
    EXPECT_EQ(AddDefaultAttrs(op, &drawn.attrs), Status::Ok());
    if (op.name.starts_with("Parse")) MatchFeatureLists(&drawn.attrs);
    std::vector<DataType> inputs;
    std::vector<DataType> outputs;
    EXPECT_EQ(InferArgTypes(op, drawn.attrs, &inputs, &outputs), Status::Ok()) << op.name;
    drawn.num_outputs = static_cast<int>(outputs.size());
    const int rank = Below(5);
    const PartialShape common = Shape(rank);
    const bool matching =
        rank > 0 && OneIn(4);  // tensors of one shape, and vectors along their last dimension
    const auto likely = kLikelyShapes.find(op.name);
    const bool by_table = likely != kLikelyShapes.end() && OneIn(2);
    const int64_t count = Below(3);
    // Ops that describe a dataset take scalars, with few exceptions.
    const bool is_data = op.name.find("Dataset") != std::string::npos && OneIn(2);
    for (const DataType type : inputs) {
      PartialShape shape = OneIn(3) ? common : Shape(OneIn(3) ? rank : Below(3));
      if (OneIn(3)) shape = PartialShape(std::vector<int64_t>{});
      if (OneIn(3)) shape = PartialShape({rank});
      if (matching) shape = OneIn(2) ? common : PartialShape({common.dims()[rank - 1]});
      if (is_data) shape = PartialShape(std::vector<int64_t>{});
      if (by_table && !OneIn(12)) {
        std::vector<int64_t> dims = likely->second[drawn.shapes.size()];
        std::replace(dims.begin(), dims.end(), int64_t{-1}, count);
        shape = PartialShape(std::move(dims));
      }
      std::unique_ptr<Tensor> value;
      auto full = TensorShape::Make(shape.dims());
      if ((type == DataType::kInt32 || type == DataType::kInt64) && full.ok() && full->num_elements() < 100) {
        value = std::make_unique<Tensor>(Value(type, *full));
      }
      drawn.shapes.push_back(std::move(shape));
      drawn.values.push_back(std::move(value));
    }
    return drawn;
  }

  // The same case with fewer known sizes and values.
  Case Forget(const Case& full) {
    Case less;
    less.attrs = full.attrs;
    less.num_outputs = full.num_outputs;
    for (size_t i = 0; i < full.shapes.size(); ++i) {
      std::vector<int64_t> dims(full.shapes[i].dims().begin(), full.shapes[i].dims().end());
      bool forgot = false;
      for (int64_t& d : dims) {
        if (OneIn(3)) d = -1;
        forgot = forgot || d < 0;
      }
      const bool forget_rank = OneIn(4);
      less.shapes.push_back(forget_rank ? PartialShape() : PartialShape(std::move(dims)));
      // A known value has a known shape.
      const bool keep = full.values[i] != nullptr && !forgot && !forget_rank && OneIn(2);
      less.values.push_back(keep ? std::make_unique<Tensor>(*full.values[i]) : nullptr);
    }
    return less;
  }

 private:
  std::mt19937 random_;
};

struct Result {
  Status status;
  std::vector<PartialShape> shapes;
};

Result Infer(const OpRegistration& op, const Case& input) {
  InferenceContext context(op.def, input.attrs, "node", input.num_outputs, input.shapes);
  for (size_t i = 0; i < input.values.size(); ++i) {
    context.set_input_tensor(static_cast<int>(i), input.values[i].get());
  }
  Result result{op.shape_fn(context), {}};
  for (int i = 0; i < context.num_outputs(); ++i)
    result.shapes.push_back(context.ToPartialShape(context.output(i)));
  return result;
}

std::string Describe(const OpRegistration& op, const Case& input) {
  std::string text = op.def.name + "(";
  for (size_t i = 0; i < input.shapes.size(); ++i) {
    text += (i > 0 ? ", " : "") + input.shapes[i].ToString();
    if (input.values[i] != nullptr) text += " = " + input.values[i]->DebugString();
  }
  text += ")";
  for (const auto& [name, value] : input.attrs) text += " " + name + "=" + value.ToString();
  return text;
}

TEST(ShapeProperties, KnowingLessNeverContradicts) {
  OpRegistry registry;
  ASSERT_EQ(RegisterAllOps(registry), Status::Ok());
  for (const OpRegistration* op : registry.All()) {
    Generator generator(static_cast<uint32_t>(std::hash<std::string>()(op->def.name)));
    int valid = 0;
    for (int trial = 0; trial < kMinTrials || (trial < kMaxTrials && valid < kEnoughValid); ++trial) {
      const Case full = generator.Draw(op->def);
      const Case less = generator.Forget(full);
      const Result known = Infer(*op, full);
      const Result guessed = Infer(*op, less);
      if (!known.status.ok()) continue;
      ++valid;
      ASSERT_TRUE(guessed.status.ok())
          << Describe(*op, less) << ": " << guessed.status << " though " << Describe(*op, full) << " is fine";
      for (int i = 0; i < full.num_outputs; ++i) {
        ASSERT_TRUE(guessed.shapes[i].IsCompatibleWith(known.shapes[i]))
            << "output " << i << " of " << Describe(*op, less) << " is " << guessed.shapes[i].ToString()
            << " but " << known.shapes[i].ToString() << " for " << Describe(*op, full);
      }
    }
    EXPECT_GT(valid, 0) << "no valid case was drawn for " << op->def.name;
  }
}

TEST(ShapeProperties, ValuesThatMatterWereRequested) {
  OpRegistry registry;
  ASSERT_EQ(RegisterAllOps(registry), Status::Ok());
  for (const OpRegistration* op : registry.All()) {
    Generator generator(7);
    for (int trial = 0; trial < 500; ++trial) {
      const Case drawn = generator.Draw(op->def);
      Case blind;
      blind.attrs = drawn.attrs;
      blind.num_outputs = drawn.num_outputs;
      blind.shapes = drawn.shapes;
      blind.values.resize(drawn.values.size());
      // Supply the requested values, until no more are requested.
      for (bool gave = true; gave;) {
        gave = false;
        InferenceContext context(op->def, blind.attrs, "node", blind.num_outputs, blind.shapes);
        for (size_t i = 0; i < blind.values.size(); ++i) {
          context.set_input_tensor(static_cast<int>(i), blind.values[i].get());
        }
        op->shape_fn(context).IgnoreError("the last call decides");
        for (size_t i = 0; i < drawn.values.size(); ++i) {
          const bool asked = context.requested_input_tensor(static_cast<int>(i));
          if (!asked || drawn.values[i] == nullptr || blind.values[i] != nullptr) continue;
          blind.values[i] = std::make_unique<Tensor>(*drawn.values[i]);
          gave = true;
        }
      }
      const Result asked = Infer(*op, blind);
      const Result all = Infer(*op, drawn);
      ASSERT_EQ(asked.status, all.status) << Describe(*op, drawn);
      if (asked.status.ok()) {
        ASSERT_EQ(asked.shapes, all.shapes) << Describe(*op, drawn);
      }
    }
  }
}

}  // namespace
}  // namespace millrace
