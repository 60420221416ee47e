// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fused/elementwise_broadcast.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/cpu/fused/elementwise_shapes.h"
#include "kernels/cpu/vector/broadcast.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

using Operands = ElementwiseForm::Operands;

// Rows of at least this length are worth separate calls.
constexpr int64_t kLongRow = 256;
// The number of elements that a thread takes at a time.
constexpr int64_t kShard = 4096;

uint64_t Bit(int i) { return uint64_t{1} << i; }

template <typename T>
void FillWith(const char* from, char* to, int64_t n) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

struct Bytes16 {
  uint64_t half[2];
};

// n copies of one element.
void FillElements(const char* from, int64_t size, char* to, int64_t n) {
  switch (size) {
    case 1:
      std::memset(to, static_cast<unsigned char>(*from), static_cast<size_t>(n));
      return;
    case 2:
      return FillWith<uint16_t>(from, to, n);
    case 4:
      return FillWith<uint32_t>(from, to, n);
    case 8:
      return FillWith<uint64_t>(from, to, n);
    default:
      return FillWith<Bytes16>(from, to, n);
  }
}

const char* Data(const Tensor& t) { return static_cast<const char*>(t.raw_data()); }

}  // namespace

StatusOr<std::shared_ptr<const ElementwiseLayout>> ElementwiseLayout::Make(const ElementwiseCode& code,
                                                                           const KernelContext& context) {
  std::shared_ptr<ElementwiseLayout> layout(new ElementwiseLayout(code));
  MR_RETURN_IF_ERROR(layout->InferShapes(context));
  layout->ChooseBlockSteps();
  if (layout->block_steps_ != 0) {
    layout->FindOperands();
    layout->MergeDims();
    layout->ChooseBlockSize();
  }
  return std::shared_ptr<const ElementwiseLayout>(std::move(layout));
}

bool ElementwiseLayout::Fits(const KernelContext& context) const {
  for (int i = 0; i < inputs_; ++i) {
    if (context.input(i).shape() != shape(i)) return false;
  }
  return true;
}

Status ElementwiseLayout::InferShapes(const KernelContext& context) {
  shapes_.reserve(static_cast<size_t>(code_.program().num_values()));
  for (int i = 0; i < inputs_; ++i) shapes_.push_back(context.input(i).shape());
  for (int i = 0; i < code_.num_steps(); ++i) {
    MR_ASSIGN_OR_RETURN(TensorShape result, ShapeOf(i, context.kernel().name()));
    shapes_.push_back(std::move(result));
  }
  return Status();
}

StatusOr<TensorShape> ElementwiseLayout::ShapeOf(int step, const std::string& node) const {
  const ElementwiseProgram::Instruction& instruction =
      code_.program().instructions[static_cast<size_t>(step)];
  const TensorShape& a = shape(instruction.operands[0]);
  const TensorShape& b = shape(instruction.operands[1]);
  const std::string& name = instruction.node.empty() ? node : instruction.node;
  switch (instruction.form().operands) {
    case Operands::kOne:
      return a;
    case Operands::kBroadcast:
      return BroadcastShapes(a, b);
    case Operands::kSelect:
      MR_RETURN_IF_ERROR(
          CheckSelectShapes(name, instruction.op->def.name, a, b, shape(instruction.operands[2])).status());
      return b;
    default:
      if (a != b) return DifferentShapes(name, instruction.op->def.name, a, code_.NumberOfTerm(step), b);
      return a;
  }
}

// A step of blocks never produces an input of one that runs before them: a consumer of a result of the
// largest shape has at least as many elements and dimensions, and so has that shape.
void ElementwiseLayout::ChooseBlockSteps() {
  int main = inputs_;
  for (int v = inputs_; v < static_cast<int>(shapes_.size()); ++v) {
    const TensorShape &best = shape(main), &other = shape(v);
    if (other.num_elements() == 0) return;
    if (other.num_elements() > best.num_elements() ||
        (other.num_elements() == best.num_elements() && other.rank() > best.rank()))
      main = v;
  }
  main_ = shape(main);
  uint64_t conditions = 0, others = 0;
  for (int i = 0; i < code_.num_steps(); ++i) {
    if (shape(inputs_ + i) != main_) continue;
    block_steps_ |= Bit(i);
    const ElementwiseCode::Step& step = code_.step(i);
    const int arity = code_.program().instructions[static_cast<size_t>(i)].form().arity();
    for (int j = 0; j < arity; ++j) {
      uint64_t& values = step.select != nullptr && j == 0 ? conditions : others;
      values |= Bit(step.operands[static_cast<size_t>(j)]);
    }
  }
  // A vector extends along the first dimension as a condition and along the last one elsewhere. A vector that
  // is used as both is rare: then nothing goes block by block.
  for (uint64_t both = conditions & others; both != 0; both &= both - 1) {
    const TensorShape& vector = shape(std::countr_zero(both));
    if (!vector.IsScalar() && vector.num_elements() != main_.num_elements()) block_steps_ = 0;
  }
}

void ElementwiseLayout::FindOperands() {
  for (int i = 0; i < code_.num_steps(); ++i) {
    if ((block_steps_ & Bit(i)) == 0) continue;
    const ElementwiseCode::Step& step = code_.step(i);
    arrays_ |= Bit(step.result);
    const int arity = code_.program().instructions[static_cast<size_t>(i)].form().arity();
    for (int j = 0; j < arity; ++j)
      AddOperand(step.operands[static_cast<size_t>(j)], step.select != nullptr && j == 0);
  }
  for (const int result : code_.program().results) {
    if ((block_steps_ & Bit(result - inputs_)) != 0) full_ |= Bit(result);
  }
  arrays_ |= full_;
}

void ElementwiseLayout::AddOperand(int v, bool is_select) {
  if (v >= inputs_ && (block_steps_ & Bit(v - inputs_)) != 0) return;
  if (shape(v).num_elements() == main_.num_elements()) {
    full_ |= Bit(v);
    return;
  }
  const auto known =
      std::find_if(operands_.begin(), operands_.end(), [v](const Operand& o) { return o.value == v; });
  if (known != operands_.end()) {
    known->is_select |= is_select;
  } else {
    operands_.push_back(
        {.value = v, .size = code_.size(v), .is_select = is_select, .strides = StridesOf(v, is_select)});
  }
}

// A condition that is a vector extends along the first dimension, other operands along the last ones.
Dims ElementwiseLayout::StridesOf(int value, bool is_select) const {
  const TensorShape& from = shape(value);
  if (!is_select || from.IsScalar()) return BroadcastStrides(from.dims(), main_.dims());
  Dims strides;
  strides.resize(static_cast<uint32_t>(main_.rank()), 0);
  strides[0] = 1;
  return strides;
}

void ElementwiseLayout::MergeDims() {
  std::vector<Dims> merged(operands_.size());
  for (int d = main_.rank() - 1; d >= 0; --d) {
    if (main_.dim(d) == 1) continue;
    bool merges = !dims_.empty();
    for (size_t o = 0; o < operands_.size() && merges; ++o) {
      const int64_t inner = merged[o].back(), outer = operands_[o].strides[static_cast<size_t>(d)];
      merges = inner == 0 ? outer == 0 : outer == inner * dims_.back();
    }
    if (merges) {
      dims_.back() *= main_.dim(d);
      continue;
    }
    dims_.push_back(main_.dim(d));
    for (size_t o = 0; o < operands_.size(); ++o)
      merged[o].push_back(operands_[o].strides[static_cast<size_t>(d)]);
  }
  if (dims_.empty()) {  // a single element
    dims_.push_back(1);
    for (Dims& strides : merged) strides.push_back(0);
  }
  for (size_t o = 0; o < operands_.size(); ++o) operands_[o].strides = merged[o];
}

void ElementwiseLayout::ChooseBlockSize() {
  by_row_ = dims_.size() == 1 || dims_[0] >= kLongRow;
  int slots = code_.num_registers();
  int64_t size = code_.register_size();
  for (Operand& operand : operands_) {
    if (by_row_ && !(operand.is_select && operand.strides[0] == 0)) {
      if (operand.strides[0] != 0) arrays_ |= Bit(operand.value);
      continue;
    }
    arrays_ |= Bit(operand.value);
    operand.slot = slots++;
    size = std::max(size, operand.size);
  }
  block_ = std::min(ElementwiseCode::kMaxBlock, ElementwiseCode::kScratchBytes / (std::max(slots, 1) * size));
  block_ -= block_ % 32;
  if (!by_row_ && block_ >= dims_[0]) block_ -= block_ % dims_[0];
  slot_bytes_ = block_ * size;
  for (Operand& operand : operands_) {
    const bool repeats = std::all_of(operand.strides.begin() + 1, operand.strides.end(),
                                     [](int64_t stride) { return stride == 0; });
    operand.once = repeats && (operand.strides[0] == 0 || (!by_row_ && block_ % dims_[0] == 0));
  }
}

const Tensor& BroadcastElementwise::tensor(int value) const {
  return value < inputs_ ? context_.input(value) : whole_[static_cast<size_t>(value - inputs_)];
}

Status BroadcastElementwise::Run() {
  const std::vector<int>& results = code_.program().results;
  const uint64_t block_steps = layout_.block_steps();
  if (block_steps != Bit(code_.num_steps()) - 1) {
    whole_.resize(static_cast<size_t>(code_.num_steps()));
    for (int i = 0; i < code_.num_steps(); ++i) {
      if ((block_steps & Bit(i)) != 0) continue;
      MR_ASSIGN_OR_RETURN(whole_[static_cast<size_t>(i)], ComputeWhole(i));
    }
    for (size_t o = 0; o < results.size(); ++o) {
      const int step = results[o] - inputs_;
      if ((block_steps & Bit(step)) == 0)
        context_.set_output(static_cast<int>(o), whole_[static_cast<size_t>(step)]);
    }
    if (block_steps == 0) return Status();
  }
  for (uint64_t rest = layout_.full(); rest != 0; rest &= rest - 1) {
    const int v = std::countr_zero(rest);
    if (v < inputs_ || (block_steps & Bit(v - inputs_)) == 0)
      base_[static_cast<size_t>(v)] = const_cast<char*>(Data(tensor(v)));
  }
  for (const ElementwiseLayout::Operand& operand : layout_.operands())
    base_[static_cast<size_t>(operand.value)] = const_cast<char*>(Data(tensor(operand.value)));
  MR_RETURN_IF_ERROR(PrepareOutputs());
  return RunBlocks();
}

StatusOr<Tensor> BroadcastElementwise::ComputeWhole(int i) const {
  const ElementwiseCode::Step& step = code_.step(i);
  const TensorShape& result = layout_.shape(step.result);
  MR_ASSIGN_OR_RETURN(Tensor out,
                      context_.AllocateTemp(code_.program().types[step.result], TensorShape(result)));
  if (step.select != nullptr) return SelectWhole(i, std::move(out));
  const Tensor& a = tensor(step.operands[0]);
  const int64_t in_size = code_.size(step.operands[0]), out_size = code_.size(step.result);
  ContextParallel parallel(context_);
  if (step.unary != nullptr) {
    cpu::RunUnary(step.unary, a.raw_data(), in_size, out.raw_data(), out_size, a.num_elements(), step.cost_ns,
                  parallel);
    return out;
  }
  const Tensor& b = tensor(step.operands[1]);
  const auto plan = cpu::Broadcast::Make(a.shape().dims(), b.shape().dims());
  if (!plan.has_value())
    return errors::InvalidArgument("Incompatible shapes: ", a.shape(), " vs. ", b.shape());
  if (!plan->Run(*step.binary, a.raw_data(), b.raw_data(), in_size, out.raw_data(), out_size, step.cost_ns,
                 parallel)) {
    return code_.Failure(i);
  }
  return out;
}

Tensor BroadcastElementwise::SelectWhole(int i, Tensor out) const {
  const ElementwiseCode::Step& step = code_.step(i);
  const Tensor& condition = tensor(step.operands[0]);
  const int64_t rows = condition.num_elements();
  if (rows == 0 || out.num_elements() == 0) return out;
  const int64_t bytes = out.num_elements() / rows * code_.size(step.result);
  char* to = static_cast<char*>(out.raw_data());
  for (int64_t r = 0; r < rows; ++r) {
    const Tensor& from = tensor(step.operands[condition.data<bool>()[r] ? 1 : 2]);
    std::memcpy(to + r * bytes, Data(from) + r * bytes, static_cast<size_t>(bytes));
  }
  return out;
}

Status BroadcastElementwise::PrepareOutputs() {
  const std::vector<int>& results = code_.program().results;
  for (size_t o = 0; o < results.size(); ++o) {
    const int result = results[o];
    if ((layout_.block_steps() & Bit(result - inputs_)) == 0) continue;
    const int output = static_cast<int>(o);
    Tensor* out = nullptr;
    for (uint64_t can = code_.replaceable_inputs(output) & layout_.full(); can != 0 && out == nullptr;
         can &= can - 1) {
      const int input = std::countr_zero(can);
      if (layout_.shape(input) == layout_.main()) out = context_.TryForward(input, output);
    }
    if (out == nullptr) {
      MR_ASSIGN_OR_RETURN(out, context_.AllocateOutput(output, layout_.main()));
    }
    base_[static_cast<size_t>(result)] = static_cast<char*>(out->raw_data());
  }
  return Status();
}

Status BroadcastElementwise::RunBlocks() {
  const int64_t n = layout_.main().num_elements();
  const int64_t unit = layout_.block() * std::max<int64_t>(1, kShard / layout_.block());
  // Relaxed: read after ParallelFor has joined.
  std::atomic<int> failed{-1};
  const auto run = [&](int64_t begin, int64_t end) {
    const int step = RunShard(begin * unit, std::min(n, end * unit));
    if (step >= 0) failed.store(step, std::memory_order_relaxed);
  };
  if (n <= unit) {
    run(0, 1);
  } else {
    context_.ParallelFor((n - 1) / unit + 1,
                         static_cast<int64_t>(code_.cost_ns() * static_cast<double>(unit)) + 1, run);
  }
  const int step = failed.load(std::memory_order_relaxed);
  return step < 0 ? Status() : code_.Failure(step);
}

void BroadcastElementwise::Fill(const ElementwiseLayout::Operand& operand, int64_t at, int64_t n,
                                char* to) const {
  int64_t row = at / layout_.dims()[0], column = at % layout_.dims()[0];
  while (n > 0) {
    const int64_t count = std::min(n, layout_.dims()[0] - column);
    const char* from =
        base_[static_cast<size_t>(operand.value)] + layout_.StartOfRow(operand, row) * operand.size;
    if (operand.strides[0] == 0) {
      FillElements(from, operand.size, to, count);
    } else {
      std::memcpy(to, from + column * operand.size, static_cast<size_t>(count * operand.size));
    }
    to += count * operand.size;
    n -= count;
    column = 0;
    ++row;
  }
}

int BroadcastElementwise::RunShard(int64_t begin, int64_t end) const {
  alignas(64) std::array<char, ElementwiseCode::kScratchBytes> scratch;
  ElementwiseCode::Addresses at = {};
  for (int v = inputs_; v < code_.program().num_values(); ++v) {
    if ((layout_.block_steps() & Bit(v - inputs_)) != 0 &&
        code_.register_of(v) != ElementwiseCode::kNoRegister)
      at[static_cast<size_t>(v)] = scratch.data() + code_.register_of(v) * layout_.slot_bytes();
  }
  int failed = -1;
  for (int64_t pos = begin; pos < end;) {
    const int64_t column = pos % layout_.dims()[0];
    const int64_t n = std::min(
        {layout_.block(), end - pos, layout_.by_row() ? layout_.dims()[0] - column : layout_.block()});
    for (uint64_t rest = layout_.full(); rest != 0; rest &= rest - 1) {
      const int v = std::countr_zero(rest);
      at[static_cast<size_t>(v)] = base_[static_cast<size_t>(v)] + pos * code_.size(v);
    }
    for (const ElementwiseLayout::Operand& operand : layout_.operands()) {
      char*& address = at[static_cast<size_t>(operand.value)];
      if (operand.slot < 0) {
        const int64_t element =
            layout_.StartOfRow(operand, pos / layout_.dims()[0]) + column * operand.strides[0];
        address = const_cast<char*>(base_[static_cast<size_t>(operand.value)] + element * operand.size);
      } else if (!operand.once) {
        address = scratch.data() + operand.slot * layout_.slot_bytes();
        Fill(operand, pos, n, address);
      } else if (address == nullptr) {
        address = scratch.data() + operand.slot * layout_.slot_bytes();
        Fill(operand, pos, std::min(layout_.block(), end - pos), address);
      }
    }
    const int step = code_.Run(at, layout_.arrays(), layout_.block_steps(), n);
    if (failed < 0) failed = step;
    pos += n;
  }
  return failed;
}

}  // namespace millrace
