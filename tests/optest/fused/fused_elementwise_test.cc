// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Programs of element-wise instructions give the same bits as the ops that they consist of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/denormals.h"
#include "kernel/testing.h"
#include "op/elementwise_program.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Operands = ElementwiseForm::Operands;
using Program = ElementwiseProgram;

// The ops that can be instructions, by name.
const std::vector<const OpRegistration*>& ElementwiseOps() {
  static const auto* const ops = [] {
    auto* const all = new std::vector<const OpRegistration*>(OpRegistry::Global().All());
    std::erase_if(*all, [](const OpRegistration* op) { return op->elementwise.operands == Operands::kNone; });
    return all;
  }();
  return *ops;
}

const OpRegistration& OpNamed(std::string_view name) {
  for (const OpRegistration* op : ElementwiseOps()) {
    if (op->def.name == name) return *op;
  }
  ADD_FAILURE() << name;
  return *ElementwiseOps()[0];
}

// Builds a program; results of instructions are identified by the number that Add returns.
struct Builder {
  explicit Builder(const std::vector<Tensor>& inputs) {
    program.num_inputs = static_cast<int>(inputs.size());
    for (const Tensor& t : inputs) program.types.push_back(t.dtype());
  }
  int Add(std::string_view op, DataType type, const std::vector<int>& operands) {
    Program::Instruction instruction{
        .op = &OpNamed(op), .type = type, .node = StrCat("n", program.instructions.size())};
    for (size_t i = 0; i < operands.size(); ++i) instruction.operands[i] = static_cast<uint8_t>(operands[i]);
    program.instructions.push_back(instruction);
    program.types.push_back(type);
    return program.num_values() - 1;
  }
  Program program;
};

size_t Bytes(const Tensor& t) { return static_cast<size_t>(t.num_elements()) * ElementSize(t.dtype()); }

StatusOr<std::vector<Tensor>> RunFused(const Program& program, const std::vector<Tensor>& inputs,
                                       ThreadPool* pool = nullptr, bool owned = false) {
  KernelRunner runner("_FusedElementwise");
  for (const auto& [name, value] : program.ToAttrs()) runner.Attr(name, value);
  for (const Tensor& t : inputs) {
    if (owned) {
      auto copy = Tensor::Allocate(t.dtype(), t.shape());
      std::memcpy(copy->raw_data(), t.raw_data(), Bytes(t));
      runner.OwnedInput(*std::move(copy));
    } else {
      runner.Input(t);
    }
  }
  return runner.Pool(pool).Run();
}

StatusOr<Tensor> RunInstruction(const Program::Instruction& instruction, const std::vector<Tensor>& values) {
  KernelRunner runner(instruction.op->def.name);
  runner.Name(instruction.node);
  if (instruction.form().result == ElementwiseForm::Result::kAny) runner.Attr("DstT", instruction.type);
  if (instruction.form().result == ElementwiseForm::Result::kReal) runner.Attr("Tout", instruction.type);
  for (int i = 0; i < instruction.form().arity(); ++i)
    runner.Input(values[instruction.operands[static_cast<size_t>(i)]]);
  return runner.RunOne();
}

// The outputs computed by the kernels of the ops.
StatusOr<std::vector<Tensor>> RunPlain(const Program& program, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values = inputs, results;
  for (const auto& instruction : program.instructions) {
    MR_ASSIGN_OR_RETURN(Tensor value, RunInstruction(instruction, values));
    values.push_back(std::move(value));
  }
  for (const int result : program.results) results.push_back(values[static_cast<size_t>(result)]);
  return results;
}

// The same bits, except for NaNs: the compiler chooses the operand that determines a NaN's sign and payload.
template <typename Real>
bool SameReals(const Tensor& a, const Tensor& b) {
  const auto* x = static_cast<const Real*>(a.raw_data());
  const auto* y = static_cast<const Real*>(b.raw_data());
  return std::equal(x, x + Bytes(a) / sizeof(Real), y, [](Real u, Real v) {
    // 0 and -0 differ. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    return std::memcmp(&u, &v, sizeof u) == 0 || (u != u && v != v);
  });
}

bool SameBits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.num_elements() == 0) return true;
  switch (a.dtype()) {
    case DataType::kHalf:
      return SameReals<half>(a, b);
    case DataType::kBfloat16:
      return SameReals<bfloat16>(a, b);
    case DataType::kFloat:
    case DataType::kComplex64:
      return SameReals<float>(a, b);
    case DataType::kDouble:
    case DataType::kComplex128:
      return SameReals<double>(a, b);
    default:
      return std::memcmp(a.raw_data(), b.raw_data(), Bytes(a)) == 0;
  }
}

// Runs both ways: same bits, or both fail. Which of several errors occurs first depends on the order of the
// work.
void ExpectSame(const Program& program, const std::vector<Tensor>& inputs, ThreadPool* pool = nullptr) {
  const auto want = RunPlain(program, inputs);
  for (const bool owned : {false, true}) {
    const auto got = RunFused(program, inputs, pool, owned);
    // The pass makes no groups in which gradients that ignore shapes get different shapes.
    const bool shapes_differ =
        !got.ok() &&
        got.status().message().find("must have the same size and shape") != std::string_view::npos;
    if (want.ok() && shapes_differ) continue;
    ASSERT_EQ(want.ok(), got.ok()) << want.status() << got.status();
    if (!want.ok()) continue;
    for (size_t i = 0; i < want->size(); ++i) {
      EXPECT_TRUE(SameBits((*want)[i], (*got)[i]))
          << "output " << i << ": " << (*want)[i].DebugString(8) << " / " << (*got)[i].DebugString(8);
    }
  }
}

// Numbers of all kinds: special floats, extreme integers; `zeros` allows zeros.
Tensor RandomTensor(DataType type, const TensorShape& shape, std::mt19937& random, bool zeros = true) {
  Tensor t(type, shape);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  VisitDataType(type, 0, [&]<typename T>() {
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      if constexpr (std::is_same_v<T, bool>) {
        t.data<T>()[i] = draw(2) == 0;
      } else if constexpr (std::is_integral_v<T>) {
        const T limits[] = {std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest(), T(1), T(-1)};
        T value = draw(8) == 0 ? limits[draw(4)] : static_cast<T>(draw(11) - 5);
        t.data<T>()[i] = value == 0 && !zeros ? T(1) : value;
      } else if constexpr (std::is_constructible_v<T, float>) {
        constexpr float kSpecial[] = {0.f, -0.f, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f, -1e6f};
        const float value = draw(8) == 0 ? kSpecial[draw(8)] : static_cast<float>(draw(2001) - 1000) / 137.f;
        t.data<T>()[i] = T(value);
      }
    }
    return 0;
  });
  return t;
}

constexpr DataType kTypes[] = {
    DataType::kHalf,   DataType::kBfloat16, DataType::kFloat, DataType::kDouble,    DataType::kInt8,
    DataType::kInt16,  DataType::kInt32,    DataType::kInt64, DataType::kUint8,     DataType::kUint16,
    DataType::kUint32, DataType::kUint64,   DataType::kBool,  DataType::kComplex64, DataType::kComplex128};

// The result types of possible nodes of `op` with argument type `from`.
std::vector<DataType> ResultTypes(const OpRegistration& op, DataType from) {
  switch (op.elementwise.result) {
    case ElementwiseForm::Result::kSame:
      return {from};
    case ElementwiseForm::Result::kBool:
      return {DataType::kBool};
    case ElementwiseForm::Result::kReal:
      return {DataType::kFloat, DataType::kDouble};
    case ElementwiseForm::Result::kAny:
      return {std::begin(kTypes), std::end(kTypes)};
  }
  return {};
}

// Null if the op has no such node or no kernel for it.
std::shared_ptr<const NodeProps> NodeWithKernel(const OpRegistration& op, DataType from, DataType to) {
  AttrMap attrs;
  for (const AttrDef& attr : op.def.attrs) {
    if (attr.name == "N") {
      attrs.Set("N", 2);
    } else if (attr.type == "type") {
      attrs.Set(attr.name, attr.name == "DstT" || attr.name == "Tout" ? to : from);
    }
  }
  const auto props = NodeProps::Make(op, attrs);
  if (!props.ok() || (*props)->input_types.back() != from ||
      !KernelRegistry::Global().HasKernel("CPU", **props))
    return nullptr;
  return *props;
}

TEST(FusedElementwiseTest, EachOpOfEachTypeGivesTheBitsOfItsKernel) {
  std::mt19937 random(1);
  int kinds = 0;
  for (const OpRegistration* registration : ElementwiseOps()) {
    const OpRegistration& op = *registration;
    const int arity = op.elementwise.arity();
    for (const DataType from : kTypes) {
      for (const DataType to : ResultTypes(op, from)) {
        const auto props = NodeWithKernel(op, from, to);
        if (props == nullptr || InstructionOf(*props) == nullptr) continue;
        ++kinds;
        SCOPED_TRACE(StrCat(op.def.name, " ", DataTypeName(from), " ", DataTypeName(to)));
        for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{67}, int64_t{1500}}) {
          const TensorShape shape({n});
          std::vector<Tensor> inputs = {RandomTensor(from, shape, random),
                                        RandomTensor(from, shape, random, false)};
          if (arity == 3) inputs.insert(inputs.begin(), RandomTensor(DataType::kBool, shape, random));
          inputs.resize(static_cast<size_t>(arity));
          Builder b(inputs);
          b.program.results = {b.Add(op.def.name, to,
                                     arity == 1   ? std::vector{0}
                                     : arity == 2 ? std::vector{0, 1}
                                                  : std::vector{0, 1, 2})};
          ExpectSame(b.program, inputs);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
  EXPECT_GT(kinds, 500);
}

TEST(FusedElementwiseTest, NodesWithoutARoutineAreNoInstructions) {
  for (const auto& [op, from] :
       {std::pair("Round", DataType::kInt32), std::pair("Add", DataType::kString),
        std::pair("Equal", DataType::kQint8), std::pair("Select", DataType::kString)}) {
    const auto props = NodeWithKernel(OpNamed(op), from, from);
    ASSERT_NE(props, nullptr) << op;
    EXPECT_EQ(InstructionOf(*props), nullptr) << op;
  }
}

TEST(FusedElementwiseTest, ShapesAreBroadcastAsByTheOps) {
  std::mt19937 random(2);
  const std::vector<TensorShape> shapes = {{},
                                           {1},
                                           {3},
                                           {1, 1},
                                           {5, 3},
                                           {5, 1},
                                           {1, 3},
                                           {2, 5, 3},
                                           {2, 1, 1},
                                           {1, 5, 1},
                                           {2, 1, 3},
                                           {0},
                                           {5, 0},
                                           {0, 1},
                                           {600},
                                           {7, 600},
                                           {7, 1},
                                           {4, 7, 1},
                                           {4, 7, 600},
                                           {4, 1, 600},
                                           {4, 1, 1},
                                           {3, 1100, 30},
                                           {1100, 30},
                                           {30},
                                           {3, 1, 30},
                                           {1100, 1},
                                           {1, 1, 1, 1},
                                           {2, 3, 1, 2, 1, 3},
                                           {1, 3, 4, 1, 5, 3}};
  for (const TensorShape& a : shapes) {
    for (const TensorShape& b : shapes) {
      SCOPED_TRACE(StrCat(a.ToString(), " ", b.ToString()));
      std::vector<Tensor> inputs = {RandomTensor(DataType::kFloat, a, random),
                                    RandomTensor(DataType::kFloat, b, random),
                                    RandomTensor(DataType::kFloat, a, random)};
      Builder p(inputs);
      const int negative = p.Add("Neg", DataType::kFloat, {0});
      const int sum = p.Add("Add", DataType::kFloat, {negative, 1});
      const int product = p.Add("Mul", DataType::kFloat, {1, sum});
      const int difference = p.Add("Sub", DataType::kFloat, {product, 2});
      p.program.results = {difference};
      ExpectSame(p.program, inputs);
      p.program.results = {negative, difference, product};
      ExpectSame(p.program, inputs);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST(FusedElementwiseTest, SelectTakesEachFormOfCondition) {
  std::mt19937 random(3);
  const std::vector<TensorShape> conditions = {{}, {1}, {2}, {40}, {2, 40}, {2, 1}, {0}};
  const std::vector<TensorShape> shapes = {{},       {1},         {2}, {40},   {2, 40},
                                           {40, 40}, {2, 3, 300}, {0}, {0, 3}, {40, 0}};
  for (const DataType type : {DataType::kFloat, DataType::kUint8, DataType::kComplex128}) {
    for (const TensorShape& condition : conditions) {
      for (const TensorShape& shape : shapes) {
        SCOPED_TRACE(StrCat(condition.ToString(), " ", shape.ToString()));
        std::vector<Tensor> inputs = {RandomTensor(DataType::kBool, condition, random),
                                      RandomTensor(type, shape, random), RandomTensor(type, shape, random),
                                      RandomTensor(type, {}, random)};
        Builder p(inputs);
        const int pick = p.Add("LogicalNot", DataType::kBool, {0});
        const int selected = p.Add("Select", type, {pick, 1, 2});
        p.program.results = {p.Add("Add", type, {selected, 3})};
        ExpectSame(p.program, inputs);
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST(FusedElementwiseTest, AVectorMayBeAConditionAndABroadcastOperand) {
  std::mt19937 random(4);
  std::vector<Tensor> inputs = {RandomTensor(DataType::kBool, {40}, random),
                                RandomTensor(DataType::kBool, {40, 40}, random)};
  Builder p(inputs);
  const int both = p.Add("LogicalAnd", DataType::kBool, {0, 1});
  p.program.results = {p.Add("Select", DataType::kBool, {0, both, 1})};
  ExpectSame(p.program, inputs);
}

// Programs of random instructions, with inputs that may be broadcast.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {
    static const std::vector<std::vector<TensorShape>> kShapes = {
        {{1500}, {1500}, {}, {1}},
        {{}, {}, {1}},
        {{9, 31}, {31}, {9, 1}, {}, {1, 31}},
        {{3, 400}, {3, 1}, {400}, {3, 400}},
        {{2, 3, 5, 7}, {3, 1, 7}, {2, 1, 1, 1}, {5, 1}, {}},
        {{0, 3}, {3}, {1, 3}},
        {{5, 2000}, {2000}, {5, 2000}, {1}},
    };
    static const DataType kMain[] = {DataType::kFloat, DataType::kFloat,    DataType::kDouble,
                                     DataType::kHalf,  DataType::kBfloat16, DataType::kInt32,
                                     DataType::kInt64, DataType::kUint8,    DataType::kComplex64};
    const DataType type = kMain[Draw(std::size(kMain))];
    const auto& shapes = kShapes[Draw(kShapes.size())];
    const size_t count = 1 + Draw(6);
    for (size_t i = 0; i < count; ++i) {
      inputs.push_back(RandomTensor(Draw(6) == 0 ? DataType::kBool : type,
                                    shapes[i == 0 ? 0 : Draw(shapes.size())], random_));
    }
    Builder b(inputs);
    const size_t wanted = 1 + Draw(Program::kMaxInstructions);
    for (int tries = 0; tries < 2000 && b.program.instructions.size() < wanted; ++tries) AddAny(&b);
    if (b.program.instructions.empty()) {
      b.Add(inputs[0].dtype() == DataType::kBool ? "LogicalNot" : "Square", inputs[0].dtype(), {0});
    }
    const int first = b.program.num_inputs, count_of_values = b.program.num_values();
    b.program.results = {count_of_values - 1};
    for (int v = first; v < count_of_values - 1; ++v) {
      if (Draw(10) == 0) b.program.results.push_back(v);
    }
    program = b.program;
  }

  std::vector<Tensor> inputs;
  Program program;

 private:
  size_t Draw(size_t n) { return random_() % n; }

  void AddAny(Builder* b) {
    const OpRegistration& op = *ElementwiseOps()[Draw(ElementwiseOps().size())];
    const int arity = op.elementwise.arity();
    std::vector<int> operands;
    operands.reserve(static_cast<size_t>(arity));
    for (int i = 0; i < arity; ++i) operands.push_back(static_cast<int>(Draw(b->program.types.size())));
    const DataType from = b->program.types[static_cast<size_t>(operands.back())];
    const auto types = ResultTypes(op, from);
    const DataType to = types[Draw(types.size())];
    const auto props = NodeWithKernel(op, from, to);
    if (props == nullptr || InstructionOf(*props) == nullptr) return;
    for (int i = 0; i < arity; ++i) {
      const DataType wanted = arity == 3 && i == 0 ? DataType::kBool : from;
      if (b->program.types[static_cast<size_t>(operands[static_cast<size_t>(i)])] != wanted) return;
    }
    b->Add(op.def.name, to, operands);
  }

  std::mt19937 random_;
};

TEST(FusedElementwiseTest, RandomProgramsGiveTheBitsOfTheOps) {
  int ran = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const RandomProgram random(seed);
    ExpectSame(random.program, random.inputs);
    ran += RunPlain(random.program, random.inputs).ok();
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(ran, 150) << "the others break a rule on shapes or divide by zero";
}

TEST(FusedElementwiseTest, ThreadsGiveTheSameBits) {
  const ScopedFlushDenormals flush;  // as in the threads of the pool
  std::mt19937 random(5);
  ThreadPool pool("test", 3);
  const DataType f = DataType::kFloat;
  for (const TensorShape& other : std::vector<TensorShape>{{300, 257}, {257}, {300, 1}, {}}) {
    std::vector<Tensor> inputs = {RandomTensor(f, {300, 257}, random), RandomTensor(f, other, random)};
    Builder p(inputs);
    const int a = p.Add("Exp", f, {0}), b = p.Add("Mul", f, {a, 1}), c = p.Add("Tanh", f, {b});
    p.program.results = {p.Add("Sub", f, {c, 1}), b};
    ExpectSame(p.program, inputs, &pool);
  }
}

TEST(FusedElementwiseTest, ASoleInputIsWorkedOnInPlaceOnceItIsReadNoMore) {
  for (const bool read_again : {false, true}) {
    Tensor x = Tensor::Vector<float>({1, 2, 3});
    const void* data = x.raw_data();
    Builder p({x});
    const int a = p.Add("Neg", DataType::kFloat, {0});
    const int b = p.Add("Square", DataType::kFloat, {a});
    const int c = p.Add("Add", DataType::kFloat, {b, read_again ? 0 : b});
    p.program.results = read_again ? std::vector{b, c} : std::vector{c};
    KernelRunner runner("_FusedElementwise");
    for (const auto& [name, value] : p.program.ToAttrs()) runner.Attr(name, value);
    const auto out = runner.OwnedInput(std::move(x)).Run();
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->back().raw_data(), data);
    EXPECT_EQ((*out)[0].raw_data() == data, !read_again);
    ExpectTensorEqual(
        Tensor::Vector<float>(read_again ? std::vector<float>{2, 6, 12} : std::vector<float>{2, 8, 18}),
        out->back());
  }
}

TEST(FusedElementwiseTest, ErrorsAreThoseOfTheOps) {
  std::mt19937 random(6);
  const DataType f = DataType::kFloat, i32 = DataType::kInt32;
  const auto error = [](const Builder& b, const std::vector<Tensor>& inputs) {
    const auto plain = RunPlain(b.program, inputs), fused = RunFused(b.program, inputs);
    EXPECT_EQ(plain.status().message(), fused.status().message());
    return std::string(fused.status().message());
  };
  std::vector<Tensor> inputs = {RandomTensor(f, {2, 3}, random), RandomTensor(f, {2}, random)};
  Builder sum(inputs);
  sum.program.results = {sum.Add("Add", f, {0, 1})};
  EXPECT_EQ(error(sum, inputs), "Incompatible shapes: [2,3] vs. [2]");
  Builder gradient(inputs);
  gradient.program.results = {gradient.Add("ReluGrad", f, {0, 1})};
  EXPECT_EQ(error(gradient, inputs),
            "Inputs to operation n0 of type ReluGrad must have the same size and shape.  Input 0: [2,3] != "
            "input 1: "
            "[2]");
  inputs.push_back(RandomTensor(DataType::kBool, {3}, random));
  Builder select(inputs);
  select.program.results = {select.Add("Select", f, {2, 0, 0})};
  EXPECT_EQ(error(select, inputs), "Number of batches of 'then' must match size of 'cond', but saw: 2 vs. 3");

  inputs = {Tensor::Vector<int32_t>({1, 2}), Tensor::Vector<int32_t>({1, 0}), Tensor::Scalar<int32_t>(-1)};
  Builder division(inputs);
  division.program.results = {division.Add("FloorMod", i32, {0, 1})};
  EXPECT_EQ(error(division, inputs), "Integer division by zero");
  Builder power(inputs);
  power.program.results = {power.Add("Pow", i32, {0, 2})};
  EXPECT_EQ(error(power, inputs), "Integers to negative integer powers are not allowed");
  // Also for a value that is smaller than the result.
  Builder small(inputs);
  const int scalar = small.Add("Pow", i32, {2, 2});
  small.program.results = {small.Add("Add", i32, {0, scalar})};
  EXPECT_EQ(error(small, inputs), "Integers to negative integer powers are not allowed");
}

TEST(FusedElementwiseTest, TheTermOfASumIsNamedInItsError) {
  const std::vector<Tensor> inputs = {Tensor::Scalar(1.f), Tensor::Scalar(2.f), Tensor::Vector<float>({3})};
  Builder b(inputs);
  const int first = b.Add("AddN", DataType::kFloat, {0, 1});
  b.program.results = {b.Add("AddN", DataType::kFloat, {first, 2})};
  b.program.instructions[1].node = "n0";
  EXPECT_THAT(
      std::string(RunFused(b.program, inputs).status().message()),
      HasSubstr("operation n0 of type AddN must have the same size and shape.  Input 0: [] != input 2: [1]"));
}

TEST(FusedElementwiseTest, MalformedProgramsAreRefused) {
  using Ints = std::vector<int64_t>;
  using Types = std::vector<DataType>;
  using Texts = std::vector<std::string>;
  const DataType f = DataType::kFloat;
  const AttrMap good = {{"Tin", Types{f, f}},      {"Tout", Types{f}},          {"ops", Texts{"Add", "Neg"}},
                        {"types", Types{f, f}},    {"operands", Ints{0, 1, 2}}, {"results", Ints{3}},
                        {"nodes", Texts{"a", "b"}}};
  const auto error = [&](std::string_view name, AttrValue value) {
    KernelRunner runner("_FusedElementwise");
    for (const auto& [attr, v] : good) runner.Attr(attr, attr == name ? value : v);
    const auto result = runner.Input(Tensor::Scalar(1.f)).Input(Tensor::Scalar(2.f)).Run();
    return result.ok() ? std::string("none") : std::string(result.status().message());
  };
  EXPECT_EQ(error("nodes", Texts{}), "none");
  EXPECT_THAT(error("nodes", Texts{"a"}), HasSubstr("1 names of nodes"));
  EXPECT_THAT(error("ops", Texts{"Add", "MatMul"}), HasSubstr("Instruction 1 ('MatMul')"));
  EXPECT_THAT(error("ops", Texts{"Add"}), HasSubstr("of 1 instructions has 2 types"));
  EXPECT_THAT(error("ops", Texts(100, "Neg")), HasSubstr("1 to 40 instructions, not 100"));
  EXPECT_THAT(error("ops", Texts{"Add", "LogicalNot"}), HasSubstr("does not give float of float operands"));
  EXPECT_THAT(error("ops", Texts{"LogicalAnd", "Neg"}), HasSubstr("does not give float of float operands"));
  EXPECT_THAT(error("types", Types{f, DataType::kInt32}), HasSubstr("does not give int32 of float operands"));
  EXPECT_THAT(error("types", Types{f, DataType::kString}), HasSubstr("does not give string"));
  for (const int64_t bad : {int64_t{3}, int64_t{-1}, INT64_MAX, INT64_MIN})
    EXPECT_THAT(error("operands", Ints{0, 1, bad}), HasSubstr("which is computed later")) << bad;
  EXPECT_THAT(error("operands", Ints{0, 1}), HasSubstr("lacks an operand"));
  EXPECT_THAT(error("operands", Ints{0, 1, 2, 0}), HasSubstr("takes 3 operands, but has 4"));
  for (const int64_t bad : {int64_t{0}, int64_t{4}, int64_t{-1}, INT64_MAX})
    EXPECT_THAT(error("results", Ints{bad}), HasSubstr("can't be value")) << bad;
  EXPECT_THAT(error("results", Ints{2, 3}), HasSubstr("with 1 outputs names 2 results"));
  EXPECT_THAT(error("results", Ints(100000, 3)), HasSubstr("names 100000 results"));
  EXPECT_NE(error("Tout", Types{DataType::kDouble}), "none");
  EXPECT_NE(error("Tout", Types(1000, f)), "none");
  EXPECT_NE(error("Tin", Types(25, f)), "none");
}

}  // namespace
}  // namespace millrace
