// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/optimize/random_graph.h"

#include <algorithm>
#include <numeric>

#include "compile/optimize/arithmetic_rules.h"
#include "graph/testing.h"
#include "op/op_registry.h"
#include "op/shape_inference.h"
#include "tests/optimize/random_generator.h"

namespace millrace {
namespace {

std::string NodeOf(const std::string& tensor) { return tensor.substr(0, tensor.find(':')); }

template <typename T, typename F>
void Fill(Tensor& tensor, const F& number) {
  for (T& x : tensor.flat<T>()) x = static_cast<T>(number());
}

}  // namespace

RandomGraphGenerator::RandomGraphGenerator(uint32_t seed, const RandomGraphOptions& options)
    : random_(seed), options_(options) {
  out_.graph = std::make_unique<Graph>(OpRegistry::Global());
}

RandomGraph RandomGraphGenerator::Make() {
  if (options_.flow) {
    AddFunctions();
    AddVariable();
  }
  for (int i = 0; i < 5; ++i) AddFeed();
  for (int i = 0; i < 6; ++i) values().push_back(Constant(RandomType(), RandomDims(), Roll(5)));
  while (made_ < options_.nodes) AddComputation();
  for (int i = 0; i < 6; ++i) Fetch(Pick());
  Fetch(values().back());
  out_.graph->FixupSourceAndSinkEdges();
  return std::move(out_);
}

const RandomGraphGenerator::Value& RandomGraphGenerator::Pick() {
  const size_t count = values().size();
  return values()[count - 1 - static_cast<size_t>(Roll(Roll(2) == 0 ? 8 : 1000)) % count];
}

std::string RandomGraphGenerator::NewName(std::string_view prefix) { return StrCat(prefix, ++names_); }

void RandomGraphGenerator::Fetch(const Value& value) {
  out_.fetches.push_back(value.name);
  out_.exact.push_back(value.exact);
}

RandomGraphGenerator::Dims RandomGraphGenerator::RandomDims() {
  Dims dims(static_cast<size_t>(Roll(4)));
  for (int64_t& d : dims) d = Roll(20) == 0 ? 0 : 1 + Roll(3);
  return dims;
}

Tensor RandomGraphGenerator::RandomTensor(DataType type, const Dims& dims, int kind) {
  Tensor tensor(type, TensorShape(dims));
  const auto number = [&] { return kind == 0 ? 0 : kind == 1 ? 1 : kind == 2 ? 2 : Roll(7) - 3; };
  switch (type) {
    case DataType::kDouble:
      Fill<double>(tensor, number);
      break;
    case DataType::kFloat:
      Fill<float>(tensor, number);
      break;
    case DataType::kInt32:
      Fill<int32_t>(tensor, number);
      break;
    case DataType::kInt64:
      Fill<int64_t>(tensor, number);
      break;
    case DataType::kString:
      for (std::string& x : tensor.flat<std::string>()) x = StrCat("s", number());
      break;
    default:
      for (bool& x : tensor.flat<bool>()) x = number() > 0;
  }
  return tensor;
}

DataType RandomGraphGenerator::RandomType() {
  constexpr DataType kTypes[] = {DataType::kDouble, DataType::kFloat, DataType::kInt32, DataType::kInt32,
                                 DataType::kBool,   DataType::kInt64, DataType::kString};
  return kTypes[Roll(options_.flow ? 7 : 5)];
}

void RandomGraphGenerator::AddFeed() {
  const Value value{NewName("feed"), RandomType(), RandomDims(), true};
  Dims known = value.dims;
  for (int64_t& d : known) {
    if (Roll(4) == 0) d = -1;
  }
  AddTestNode(out_.graph.get(), value.name, "Placeholder", {},
              {{"dtype", value.type}, {"shape", Roll(4) == 0 ? PartialShape() : PartialShape(known)}});
  out_.feeds.emplace_back(value.name, RandomTensor(value.type, value.dims, 3));
  values().push_back(value);
}

std::string RandomGraphGenerator::ConstantNode(const Tensor& tensor, bool may_wait) {
  std::vector<std::string> waits;
  if (may_wait) waits = MaybeWait();
  const bool pivot = place_.in_loop || (!place_.pivot.empty() && Roll(2) == 0);
  const std::string wait = "^" + place_.pivot;
  if (pivot && std::find(waits.begin(), waits.end(), wait) == waits.end()) waits.push_back(wait);
  std::string name = NewName("c");
  AddTestNode(out_.graph.get(), name, "Const", waits, {{"dtype", tensor.dtype()}, {"value", tensor}});
  return name;
}

RandomGraphGenerator::Value RandomGraphGenerator::Constant(DataType type, const Dims& dims, int kind) {
  return {ConstantNode(RandomTensor(type, dims, kind), true), type, dims, true};
}

std::string RandomGraphGenerator::Integers(const std::vector<int32_t>& numbers) {
  return ConstantNode(Tensor::Vector<int32_t>(numbers), false);
}

std::vector<std::string> RandomGraphGenerator::MaybeWait() {
  std::vector<std::string> waits;
  while (!values().empty() && Roll(8) == 0) waits.push_back("^" + NodeOf(Pick().name));
  std::sort(waits.begin(), waits.end());
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  return waits;
}

Node* RandomGraphGenerator::Op(std::string_view op, std::vector<std::string> inputs, AttrMap attrs,
                               std::string* name) {
  *name = NewName("n");
  for (std::string& wait : MaybeWait()) inputs.push_back(std::move(wait));
  ++made_;
  return AddTestNode(out_.graph.get(), *name, op, inputs, std::move(attrs));
}

RandomGraphGenerator::Value RandomGraphGenerator::Make(std::string_view op,
                                                       const std::vector<std::string>& inputs, DataType type,
                                                       const Dims& dims, bool exact, AttrMap attrs) {
  Value value{"", type, dims, exact};
  attrs.Set("T", type);
  Op(op, inputs, std::move(attrs), &value.name);
  return value;
}

RandomGraphGenerator::Value RandomGraphGenerator::Bounded(const Value& x) {
  if (!IsNumber(x)) return x;
  const auto bound = [&](double number) {
    return ConstantNode(*arithmetic::ScalarOf(x.type, number), false);
  };
  const Value low = Make("Maximum", {x.name, bound(-40)}, x.type, x.dims, x.exact);
  return Make("Minimum", {bound(40), low.name}, x.type, x.dims, x.exact);
}

void RandomGraphGenerator::Unary() {
  const Value x = Pick();
  if (Roll(3) == 0 || !IsNumber(x)) {
    constexpr const char* kAny[] = {"Identity", "StopGradient", "Identity"};
    values().push_back(Make(kAny[Roll(3)], {x.name}, x.type, x.dims, x.exact));
    return;
  }
  constexpr const char* kOps[] = {"Neg", "Neg", "Abs", "Sign", "Square", "ZerosLike", "OnesLike"};
  const char* op = kOps[Roll(7)];
  if (std::string_view(op) == "Sign" && !x.exact) op = "Neg";
  values().push_back(Bounded(Make(op, {x.name}, x.type, x.dims, x.exact)));
}

void RandomGraphGenerator::Binary() {
  const Value a = Pick();
  const Value* b = PickIf([&](const Value& v) {
    return v.type == a.type && BroadcastShapes(TensorShape(a.dims), TensorShape(v.dims)).ok();
  });
  const Value other =
      b != nullptr && Roll(4) != 0 ? *b : Constant(a.type, Roll(2) == 0 ? Dims() : a.dims, Roll(4));
  if (!IsNumber(a)) return;
  const auto shape = BroadcastShapes(TensorShape(a.dims), TensorShape(other.dims));
  const Dims dims(shape->dims().begin(), shape->dims().end());
  constexpr const char* kOps[] = {
      "Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "Mul", "Add", "SquaredDifference"};
  std::vector<std::string> inputs = {a.name, other.name};
  if (Roll(2) == 0) std::swap(inputs[0], inputs[1]);
  values().push_back(Bounded(Make(kOps[Roll(9)], inputs, a.type, dims, a.exact && other.exact)));
}

void RandomGraphGenerator::Logic() {
  const Value* a = PickIf([](const Value& v) { return v.exact && v.type != DataType::kString; });
  if (a == nullptr) return;
  const Value x = *a;
  if (IsNumber(x)) {
    constexpr const char* kOps[] = {"Less", "Greater", "Equal", "NotEqual", "LessEqual"};
    const Value c = Constant(x.type, {}, 3);
    Value result{"", DataType::kBool, x.dims, true};
    Op(kOps[Roll(5)], {x.name, c.name}, {{"T", x.type}}, &result.name);
    values().push_back(result);
    return;
  }
  Value result{"", DataType::kBool, x.dims, true};
  const Value c = Roll(2) == 0 ? x : Constant(DataType::kBool, {}, Roll(2));
  if (Roll(3) == 0) {
    Op("LogicalNot", {x.name}, {}, &result.name);
  } else {
    Op(Roll(2) == 0 ? "LogicalAnd" : "LogicalOr", {c.name, x.name}, {}, &result.name);
  }
  values().push_back(result);
}

void RandomGraphGenerator::Reduce() {
  const Value* x = PickIf([](const Value& v) { return IsNumber(v); });
  if (x == nullptr) return;
  const Value in = *x;
  const bool keep = Roll(2) == 0;
  Dims dims;
  std::vector<int32_t> axes;
  for (size_t i = 0; i < in.dims.size(); ++i) {
    if (Roll(2) == 0) {
      axes.push_back(static_cast<int32_t>(i));
      if (keep) dims.push_back(1);
    } else {
      dims.push_back(in.dims[i]);
    }
  }
  constexpr const char* kOps[] = {"Sum", "Max", "Min", "Sum"};
  values().push_back(Bounded(
      Make(kOps[Roll(4)], {in.name, Integers(axes)}, in.type, dims, in.exact, {{"keep_dims", keep}})));
}

void RandomGraphGenerator::Arrange() {
  const Value x = Pick();
  Dims dims = x.dims;
  std::vector<int32_t> numbers(dims.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  switch (Roll(6)) {
    case 0: {
      if (Roll(3) != 0) std::shuffle(numbers.begin(), numbers.end(), random_);
      for (size_t i = 0; i < dims.size(); ++i) dims[i] = x.dims[static_cast<size_t>(numbers[i])];
      values().push_back(Make("Transpose", {x.name, Integers(numbers)}, x.type, dims, x.exact));
      return;
    }
    case 1: {
      if (Roll(3) != 0) dims = {std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>())};
      const std::vector<int32_t> to(dims.begin(), dims.end());
      values().push_back(Make("Reshape", {x.name, Integers(to)}, x.type, dims, x.exact));
      return;
    }
    case 2: {
      if (dims.size() > 3) return;
      dims.insert(dims.begin(), 1);
      values().push_back(Make("ExpandDims", {x.name, Integers({0})}, x.type, dims, x.exact));
      if (Roll(2) == 0)
        values().push_back(Make("Squeeze", {values().back().name}, x.type, x.dims, x.exact,
                                {{"squeeze_dims", std::vector<int64_t>{0}}}));
      return;
    }
    case 3: {
      std::vector<int32_t> times(dims.size(), 1);
      for (size_t i = 0; i < dims.size(); ++i) {
        if (Roll(5) == 0) dims[i] *= times[i] = 2;
        if (dims[i] > 12) return;
      }
      values().push_back(Make("Tile", {x.name, Integers(times)}, x.type, dims, x.exact));
      return;
    }
    case 4: {
      if (dims.empty()) return;
      const Value once = Make("ReverseV2", {x.name, Integers({0})}, x.type, dims, x.exact);
      values().push_back(once);
      if (Roll(2) == 0)
        values().push_back(Make("ReverseV2", {once.name, Integers({0})}, x.type, dims, x.exact));
      return;
    }
    default: {
      std::vector<int32_t> begin(dims.size(), 0);
      std::vector<int32_t> size(dims.size(), -1);
      for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] > 0 && Roll(3) == 0) dims[i] = size[i] = 1;
      }
      values().push_back(Make("Slice", {x.name, Integers(begin), Integers(size)}, x.type, dims, x.exact,
                              {{"Index", DataType::kInt32}}));
    }
  }
}

void RandomGraphGenerator::Assemble() {
  const Value a = Pick();
  const Value* same = PickIf([&](const Value& v) { return v.type == a.type && v.dims == a.dims; });
  const Value b = same == nullptr ? a : *same;
  const bool exact = a.exact && b.exact;
  if (Roll(3) == 0 && IsNumber(a)) {
    std::vector<std::string> terms = {a.name, b.name};
    if (Roll(2) == 0) terms = {a.name, a.name, a.name};
    if (Roll(4) == 0) terms = {a.name};
    values().push_back(
        Bounded(Make("AddN", terms, a.type, a.dims, exact, {{"N", static_cast<int64_t>(terms.size())}})));
    return;
  }
  if (a.dims.size() > 3) return;
  Dims packed = a.dims;
  packed.insert(packed.begin(), 2);
  const Value pack = Make("Pack", {a.name, b.name}, a.type, packed, exact, {{"N", 2}, {"axis", 0}});
  values().push_back(pack);
  if (Roll(2) == 0) return;
  Value part{"", a.type, a.dims, exact};
  Op("Unpack", {pack.name}, {{"T", a.type}, {"num", 2}, {"axis", 0}}, &part.name);
  Value second = part;
  second.name += ":1";
  values().push_back(part);
  values().push_back(second);
  if (Roll(2) == 0)
    values().push_back(
        Make("Pack", {part.name, second.name}, a.type, packed, exact, {{"N", 2}, {"axis", 0}}));
}

void RandomGraphGenerator::Contract() {
  const Value* a = PickIf([](const Value& v) { return v.dims.size() == 2 && IsReal(v); });
  if (a == nullptr) return;
  const Value x = *a;
  const Value turned = Make("Transpose", {x.name, Integers({1, 0})}, x.type, {x.dims[1], x.dims[0]}, x.exact);
  const bool left = Roll(2) == 0;
  const int64_t n = x.dims[left ? 1 : 0];
  values().push_back(Bounded(
      Make("MatMul", {left ? turned.name : x.name, left ? x.name : turned.name}, x.type, {n, n}, x.exact)));
}

void RandomGraphGenerator::Convert() {
  const Value* x = PickIf([](const Value& v) { return v.exact && v.type != DataType::kString; });
  if (x == nullptr) return;
  constexpr DataType kTypes[] = {DataType::kDouble, DataType::kFloat, DataType::kInt32, DataType::kBool,
                                 DataType::kInt64};
  Value value{"", kTypes[Roll(5)], x->dims, true};
  Op("Cast", {x->name}, {{"SrcT", x->type}, {"DstT", value.type}}, &value.name);
  values().push_back(value);
}

// Computations with shapes, which result in the shape of a value.
void RandomGraphGenerator::ShapeOf() {
  const Value x = Pick();
  const auto rank = static_cast<int64_t>(x.dims.size());
  Value shape{"", DataType::kInt32, {rank}, true};
  Op("Shape", {x.name}, {{"T", x.type}}, &shape.name);
  Value back{"", x.type, x.dims, x.exact};
  if (rank > 0 && x.dims[0] > 0 && Roll(2) == 0) {
    Value first{"", DataType::kInt32, {}, true};
    Op("StridedSlice", {shape.name, Integers({0}), Integers({1}), Integers({1})},
       {{"T", DataType::kInt32}, {"Index", DataType::kInt32}, {"shrink_axis_mask", 1}}, &first.name);
    values().push_back(first);
    const std::string rest = Integers({-1});
    const Value head = Make("Pack", {first.name}, DataType::kInt32, {1}, true, {{"N", 1}, {"axis", 0}});
    const std::string axis = ConstantNode(Tensor::Scalar(int32_t{0}), false);
    const Value to = Make("ConcatV2", {head.name, rest, axis}, DataType::kInt32, {2}, true, {{"N", 2}});
    const int64_t all = std::accumulate(x.dims.begin(), x.dims.end(), int64_t{1}, std::multiplies<>());
    back.dims = {x.dims[0], all / x.dims[0]};
    Op("Reshape", {x.name, to.name}, {{"T", x.type}}, &back.name);
  } else {
    if (rank > 0) values().push_back(shape);
    Op("Reshape", {x.name, shape.name}, {{"T", x.type}}, &back.name);
  }
  values().push_back(back);
}

// Ops that round: their results and all that depend on them are approximate.
void RandomGraphGenerator::Round() {
  const Value* x = PickIf([](const Value& v) { return IsReal(v); });
  if (x == nullptr) return;
  const Value in = *x;
  constexpr const char* kOps[] = {"Tanh", "Sigmoid", "Sin", "Pow", "RealDiv"};
  const char* op = kOps[Roll(5)];
  std::vector<std::string> inputs = {in.name};
  if (op == std::string_view("Pow") || op == std::string_view("RealDiv"))
    inputs.push_back(Constant(in.type, {}, 1 + Roll(2)).name);
  values().push_back(Bounded(Make(op, inputs, in.type, in.dims, false)));
}

void RandomGraphGenerator::AddComputations(int count) {
  for (int i = 0; i < count; ++i) AddComputation();
}

void RandomGraphGenerator::AddComputation() {
  switch (Roll(options_.flow ? 18 : 14)) {
    case 0:
    case 1:
      return Unary();
    case 2:
    case 3:
    case 4:
      return Binary();
    case 5:
      return Logic();
    case 6:
      return Reduce();
    case 7:
    case 8:
      return Arrange();
    case 9:
      return Assemble();
    case 10:
      return Contract();
    case 11:
      return Convert();
    case 12:
      return ShapeOf();
    case 13:
      return Round();
    default:
      return AddFlow();
  }
}

RandomGraph MakeRandomGraph(uint32_t seed, const RandomGraphOptions& options) {
  return RandomGraphGenerator(seed, options).Make();
}

}  // namespace millrace
