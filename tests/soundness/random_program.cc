// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/soundness/random_program.h"

#include <algorithm>

#include "base/logging.h"
#include "graph/function_def_builder.h"
#include "graph/function_library.h"
#include "graph/graph.h"
#include "millrace/control_flow.h"
#include "millrace/ops.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

constexpr int kMaxDepth = 3;
constexpr int kArraySize = 4;
constexpr int kMaxTrips = 5;
constexpr int kBias = 3;
constexpr const char* kFunctions[] = {"Mix", "MixTwice", "AddUp"};

int64_t Mod(int64_t x, int64_t n = RandomProgram::kModulus) { return (x % n + n) % n; }
Output Mod(const Scope& scope, const Input& x, int n = RandomProgram::kModulus) {
  return ops::FloorMod(scope, x, n);
}
// Loop variables keep their shapes, so these must be known.
Output AsScalar(const Scope& scope, const Input& x) {
  return ops::Reshape(scope, x, Tensor::Vector<int32_t>({}));
}

// Mix(x, y) = (x * y + 7) mod m
int64_t Mix(int64_t x, int64_t y) { return Mod(x * y + 7); }
int64_t MixTwice(int64_t x, int64_t y) { return Mix(Mix(x, y), x); }
// for i < x mod 5: y = (y + i) mod m
int64_t AddUp(int64_t x, int64_t y) {
  for (int64_t i = 0; i < Mod(x, kMaxTrips); ++i) y = Mod(y + i);
  return y;
}

const AttrMap kInt = {{"T", DataType::kInt32}};
AttrMap ConstOf(int32_t value) { return {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar(value)}}; }
NameAttrList Named(const char* name) { return {name, std::make_shared<const AttrMap>()}; }

FunctionBuilder Binary(const char* name) {
  return FunctionBuilder(name).Arg("x: int32").Arg("y: int32").Ret("z: int32");
}

std::vector<FunctionBuilder> Functions() {
  const auto modulus = static_cast<int32_t>(RandomProgram::kModulus);
  std::vector<FunctionBuilder> all;
  all.push_back(Binary("Mix")
                    .Node("seven", "Const", {}, ConstOf(7))
                    .Node("m", "Const", {}, ConstOf(modulus))
                    .Node("mul", "Mul", {"x", "y"}, kInt)
                    .Node("sum", "Add", {"mul:z", "seven:output"}, kInt)
                    .Node("mod", "FloorMod", {"sum:z", "m:output"}, kInt)
                    .Return("z", "mod:z"));
  all.push_back(Binary("MixTwice")
                    .NoInline()
                    .Node("once", "Mix", {"x", "y"})
                    .Node("twice", "Mix", {"once:z", "x"})
                    .Return("z", "twice:z"));
  all.push_back(FunctionBuilder("Under")
                    .Arg("i: int32")
                    .Arg("n: int32")
                    .Arg("y: int32")
                    .Ret("go: bool")
                    .Node("less", "Less", {"i", "n"}, kInt)
                    .Return("go", "less:z"));
  all.push_back(FunctionBuilder("Step")
                    .Arg("i: int32")
                    .Arg("n: int32")
                    .Arg("y: int32")
                    .Ret("next: int32")
                    .Ret("same: int32")
                    .Ret("total: int32")
                    .Node("one", "Const", {}, ConstOf(1))
                    .Node("m", "Const", {}, ConstOf(modulus))
                    .Node("inc", "Add", {"i", "one:output"}, kInt)
                    .Node("sum", "Add", {"y", "i"}, kInt)
                    .Node("mod", "FloorMod", {"sum:z", "m:output"}, kInt)
                    .Return("next", "inc:z")
                    .Return("same", "n")
                    .Return("total", "mod:z"));
  const AttrMap loop = {
      {"T", std::vector<DataType>(3, DataType::kInt32)}, {"cond", Named("Under")}, {"body", Named("Step")}};
  all.push_back(Binary("AddUp")
                    .Node("zero", "Const", {}, ConstOf(0))
                    .Node("five", "Const", {}, ConstOf(kMaxTrips))
                    .Node("n", "FloorMod", {"x", "five:output"}, kInt)
                    .Node("loop", "StatelessWhile", {"zero:output", "n:z", "y"}, loop)
                    .Return("z", "loop:output:2"));
  return all;
}

// Adds a node by the name of its op, with at most one result.
Output AddOp(const Scope& scope, const char* op, const std::vector<Input>& inputs, const OpAttrs& attrs = {},
             Operation* operation = nullptr) {
  OpMaker maker(scope, op, attrs);
  for (const Input& input : inputs) maker.Add(input);
  Node* const node = maker.Finish();
  if (operation != nullptr) *operation = Operation(node);
  return node != nullptr && node->num_outputs() > 0 ? Output{node, 0} : Output();
}

Operation AddQueueOp(const Scope& scope, const char* op, const std::vector<Input>& inputs,
                     const InputList& components) {
  OpMaker maker(scope, op, {});
  for (const Input& input : inputs) maker.Add(input);
  maker.Add(components);
  return Operation(maker.Finish());
}

Output MakeQueue(const Scope& scope, int capacity) {
  OpAttrs attrs;
  attrs.Set("component_types", std::vector<DataType>{DataType::kInt32});
  attrs.Set("shapes", std::vector<PartialShape>{PartialShape(std::vector<int64_t>{})});
  attrs.Set("capacity", static_cast<int64_t>(capacity));
  return AddOp(scope, "FIFOQueueV2", {}, attrs);
}

OpAttrs IntComponents() {
  OpAttrs attrs;
  attrs.Set("component_types", std::vector<DataType>{DataType::kInt32});
  return attrs;
}

}  // namespace

struct RandomProgram::State {
  Output queue;
  Output bias;
};

RandomProgram::RandomProgram(uint32_t seed, int size, int cpus) : random_(seed), cpus_(cpus), budget_(size) {
  while (budget_ > 0) {
    Block more = MakeBlock(0);
    program_.insert(program_.end(), more.begin(), more.end());
  }
  BuildGraph();
}

RandomProgram::Block RandomProgram::MakeBlock(int depth) {
  constexpr Kind kKinds[] = {Kind::kArithmetic, Kind::kArithmetic, Kind::kArithmetic, Kind::kVariable,
                             Kind::kCall,       Kind::kQueue,      Kind::kArray,      Kind::kIf,
                             Kind::kIf,         Kind::kLoop,       Kind::kLoop};
  constexpr int kNumKinds = static_cast<int>(std::size(kKinds));
  Block block;
  const int length = 1 + Pick(4);
  for (int i = 0; i < length; ++i) {
    Statement s;
    s.kind = kKinds[Pick(depth < kMaxDepth && budget_ > 0 ? kNumKinds : kNumKinds - 4)];
    s.op = Pick(4);
    s.a = Pick(kInputs);
    s.b = Pick(kInputs);
    s.to = Pick(kInputs);
    s.device = Pick(cpus_);
    s.parallel_iterations = 1 + Pick(10);
    --budget_;
    if (s.kind == Kind::kIf || s.kind == Kind::kLoop) s.body = MakeBlock(depth + 1);
    if (s.kind == Kind::kIf) s.otherwise = MakeBlock(depth + 1);
    block.push_back(std::move(s));
  }
  return block;
}

std::vector<std::string> RandomProgram::feeds() const {
  std::vector<std::string> names;
  names.reserve(kInputs);
  for (int i = 0; i < kInputs; ++i) names.push_back("x" + std::to_string(i));
  return names;
}

void RandomProgram::BuildState(const Scope& scope, State* state) const {
  const Output counter =
      ops::VarHandleOp(scope.WithOpName("counter"), DataType::kInt64, PartialShape(std::vector<int64_t>{}));
  state->bias =
      ops::VarHandleOp(scope.WithOpName("bias"), DataType::kInt32, PartialShape(std::vector<int64_t>{}));
  const Operation set_counter = ops::AssignVariableOp(scope, counter, int64_t{0});
  const Operation set_bias = ops::AssignVariableOp(scope, state->bias, kBias);
  ops::NoOp(scope.WithOpName(kInit).WithControlDependencies({set_counter, set_bias}));
  ops::AssignAddVariableOp(scope.WithOpName(kCount), counter, int64_t{1});
  ops::ReadVariableOp(scope.WithOpName(kCounter), counter, DataType::kInt64);

  state->queue = MakeQueue(scope.WithOpName("queue"), kQueueCapacity);
  AddOp(scope.WithOpName(kQueueSize), "QueueSizeV2", {state->queue});
  const Output n = ops::Placeholder(scope.WithOpName(kDrainCount), DataType::kInt32);
  AddOp(scope.WithOpName(kDrain), "QueueDequeueUpToV2", {state->queue, n}, IntComponents());
  AddOp(scope.WithOpName(kNever), "QueueDequeueV2", {MakeQueue(scope.WithOpName("empty"), 1)},
        IntComponents());
}

void RandomProgram::BuildGraph() {
  const Scope scope = Scope::NewRootScope();
  for (const FunctionBuilder& function : Functions()) {
    tensorflow::FunctionDef def;
    MR_CHECK(function.Build(&def).ok());
    MR_CHECK(scope.graph().functions().Add(def).ok());
  }
  State state;
  BuildState(scope, &state);
  std::vector<Output> values;
  for (const std::string& name : feeds()) {
    const Output fed = ops::Placeholder(scope.WithOpName(name), DataType::kInt32);
    values.push_back(AsScalar(scope, fed));
  }
  values = Emit(scope, state, program_, std::move(values));
  for (size_t i = 0; i < values.size(); ++i) {
    fetches_.push_back("y" + std::to_string(i));
    ops::Identity(scope.WithOpName(fetches_.back()), values[i]);
  }
  if (!scope.ok()) MR_LOG(Error) << scope.status().message();
  MR_CHECK(scope.ok());
  scope.ToGraphDef(&def_);
}

std::vector<Output> RandomProgram::Emit(const Scope& outer, const State& state, const Block& block,
                                        std::vector<Output> values) const {
  for (const Statement& s : block) {
    const Scope scope = cpus_ > 1 ? outer.WithDevice("/cpu:" + std::to_string(s.device)) : outer;
    const Output a = values[static_cast<size_t>(s.a)];
    const Output b = values[static_cast<size_t>(s.b)];
    Output& to = values[static_cast<size_t>(s.to)];
    switch (s.kind) {
      case Kind::kArithmetic:
        to = s.op == 0   ? Mod(scope, ops::Add(scope, a, b))
             : s.op == 1 ? Mod(scope, ops::Sub(scope, a, b))
             : s.op == 2 ? Mod(scope, ops::Mul(scope, a, b))
                         : static_cast<Output>(ops::Maximum(scope, a, b));
        break;
      case Kind::kVariable:
        to = Mod(scope, ops::Add(scope, a, ops::ReadVariableOp(outer, state.bias, DataType::kInt32)));
        break;
      case Kind::kCall:
        to = AsScalar(scope, AddOp(scope, kFunctions[s.op % 3], {a, b}));
        break;
      case Kind::kQueue: {
        // The value depends on other steps, but one always comes.
        const Operation enqueued = AddQueueOp(outer, "QueueEnqueueV2", {state.queue}, InputList({a}));
        const Output out = AddOp(outer.WithControlDependencies({enqueued}), "QueueDequeueV2", {state.queue},
                                 IntComponents());
        to = ops::Add(scope, b, ops::Mul(scope, AsScalar(outer, out), 0));
        break;
      }
      case Kind::kArray:
        to = EmitArray(outer, s, values);
        break;
      case Kind::kIf: {
        const auto branch = [&](const Block& body) {
          return [this, &state, &body, &values](const Scope& inner) {
            std::vector<Output> out = Emit(inner, state, body, values);
            for (Output& value : out) value = ops::Identity(inner, value);
            return out;
          };
        };
        values = Cond(outer, ops::Less(scope, a, b), branch(s.body), branch(s.otherwise));
        break;
      }
      case Kind::kLoop:
        values = EmitLoop(outer, state, s, values);
        break;
    }
    if (values.size() != kInputs) return std::vector<Output>(kInputs);  // the error is in the scope
  }
  return values;
}

std::vector<Output> RandomProgram::EmitLoop(const Scope& scope, const State& state, const Statement& s,
                                            const std::vector<Output>& values) const {
  const Output trips = Mod(scope, values[static_cast<size_t>(s.a)], kMaxTrips);
  std::vector<Input> vars = {0};
  vars.insert(vars.end(), values.begin(), values.end());
  std::vector<Output> results = While(
      scope, vars,
      [&](const Scope& inner, const std::vector<Output>& v) -> Output {
        return ops::Less(inner, v[0], trips);
      },
      [&](const Scope& inner, const std::vector<Output>& v) {
        std::vector<Output> out = Emit(inner, state, s.body, {v.begin() + 1, v.end()});
        out.insert(out.begin(), ops::Add(inner, v[0], 1));
        return out;
      },
      {.parallel_iterations = s.parallel_iterations});
  if (!results.empty()) results.erase(results.begin());
  return results;
}

// The sum of k * a for k < kArraySize, written in a loop.
Output RandomProgram::EmitArray(const Scope& scope, const Statement& s,
                                const std::vector<Output>& values) const {
  const Output a = values[static_cast<size_t>(s.a)];
  const ops::TensorArrayV3 array(scope, kArraySize, DataType::kInt32);
  const std::vector<Output> results = While(
      scope, {0, array.flow},
      [&](const Scope& inner, const std::vector<Output>& v) -> Output {
        return ops::Less(inner, v[0], kArraySize);
      },
      [&](const Scope& inner, const std::vector<Output>& v) -> std::vector<Output> {
        const Output element = ops::Mul(inner, a, v[0]);
        return {ops::Add(inner, v[0], 1), ops::TensorArrayWriteV3(inner, array.handle, v[0], element, v[1])};
      },
      {.parallel_iterations = s.parallel_iterations});
  if (results.size() != 2) return Output();
  const Output all = ops::TensorArrayGatherV3(scope, array.handle, ops::Range(scope, 0, kArraySize, 1),
                                              results[1], DataType::kInt32);
  return Mod(scope, AsScalar(scope, ops::Sum(scope, all, 0)));
}

void RandomProgram::Interpret(const Block& block, std::vector<int64_t>* values) {
  const auto value = [values](int i) -> int64_t& { return (*values)[static_cast<size_t>(i)]; };
  for (const Statement& s : block) {
    const int64_t a = value(s.a);
    const int64_t b = value(s.b);
    switch (s.kind) {
      case Kind::kArithmetic:
        value(s.to) = s.op == 0   ? Mod(a + b)
                      : s.op == 1 ? Mod(a - b)
                      : s.op == 2 ? Mod(a * b)
                                  : std::max(a, b);
        break;
      case Kind::kVariable:
        value(s.to) = Mod(a + kBias);
        break;
      case Kind::kCall:
        value(s.to) = s.op % 3 == 0 ? Mix(a, b) : s.op % 3 == 1 ? MixTwice(a, b) : AddUp(a, b);
        break;
      case Kind::kQueue:
        value(s.to) = b;
        break;
      case Kind::kArray:
        value(s.to) = Mod(a * (kArraySize * (kArraySize - 1) / 2));
        break;
      case Kind::kIf:
        Interpret(a < b ? s.body : s.otherwise, values);
        break;
      case Kind::kLoop:
        for (int64_t i = 0; i < Mod(a, kMaxTrips); ++i) Interpret(s.body, values);
        break;
    }
  }
}

RandomProgram::Values RandomProgram::Evaluate(const Values& inputs) const {
  std::vector<int64_t> values(inputs.begin(), inputs.end());
  Interpret(program_, &values);
  return Values(values.begin(), values.end());
}

}  // namespace millrace
