// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/initializers.h"
#include "millrace/layers.h"
#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/variables.h"

// Recurrent networks: cells, which compute one step, and functions that run them over sequences. Variables
// are named as those of tf.nn.rnn_cell: "rnn/basic_lstm_cell/kernel". Errors go to the scope's status.
namespace millrace {

// One step of a recurrent network. A cell creates its variables in its first step and uses them in all later
// ones, which must be in the same graph. Not thread-safe.
class RnnCell {
 public:
  struct Result {
    Output output;              // [batch, output_size]
    std::vector<Output> state;  // [batch, size] for each of state_sizes
  };

  virtual ~RnnCell() = default;
  virtual int64_t output_size() const = 0;
  virtual std::vector<int64_t> state_sizes() const = 0;
  // x is [batch, n] with a known n. Unset after an error.
  Result Step(const Scope& scope, const Output& x, const std::vector<Output>& state);
  // Zeros for a batch size, an int32 scalar.
  std::vector<Output> ZeroState(const Scope& scope, const Output& batch_size, DataType dtype) const;

 protected:
  explicit RnnCell(std::string name) : name_(std::move(name)) {}
  // Creates the variables for this input size.
  virtual void Build(const Scope& scope, int64_t input_size, DataType dtype) = 0;
  virtual Result Call(const Scope& scope, const Output& x, const std::vector<Output>& state) = 0;

 private:
  std::string name_;
  std::optional<Scope> built_in_;  // the scope of the variables, whose graph stays valid
};

// h = activation([x, h] kernel + bias); the default is tanh. State: h.
class BasicRnnCell final : public RnnCell {
 public:
  explicit BasicRnnCell(int64_t units, layers::Activation activation = layers::Tanh)
      : RnnCell("basic_rnn_cell"), units_(units), activation_(std::move(activation)) {}
  int64_t output_size() const override { return units_; }
  std::vector<int64_t> state_sizes() const override { return {units_}; }

 private:
  void Build(const Scope& scope, int64_t input_size, DataType dtype) override;
  Result Call(const Scope& scope, const Output& x, const std::vector<Output>& state) override;

  int64_t units_;
  layers::Activation activation_;
  Output kernel_, bias_;
};

// Hochreiter and Schmidhuber, Long Short-Term Memory; with peepholes and projection after Sak and others.
// i, j, f, o = [x, h] kernel + bias; c = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j);
// h = sigmoid(o) tanh(c). State: c, h.
class LstmCell final : public RnnCell {
 public:
  struct Options {
    double forget_bias = 1;
    bool use_peepholes = false;            // gates also depend on c: "w_f_diag", "w_i_diag", "w_o_diag"
    std::optional<double> cell_clip = {};  // c is clipped to [-clip, clip]
    int64_t num_proj = 0;                  // h is multiplied by a projection to this size; 0: none
    std::optional<double> proj_clip = {};
    Initializer initializer = {};
    layers::Activation activation = layers::Tanh;
    std::string name = "lstm_cell";
  };
  explicit LstmCell(int64_t units) : LstmCell(units, Options()) {}
  LstmCell(int64_t units, const Options& options) : RnnCell(options.name), units_(units), options_(options) {}
  int64_t output_size() const override { return options_.num_proj > 0 ? options_.num_proj : units_; }
  std::vector<int64_t> state_sizes() const override { return {units_, output_size()}; }

 private:
  void Build(const Scope& scope, int64_t input_size, DataType dtype) override;
  Result Call(const Scope& scope, const Output& x, const std::vector<Output>& state) override;

  int64_t units_;
  Options options_;
  Output kernel_, bias_, projection_;
  Output forget_diagonal_, input_diagonal_, output_diagonal_;
};

// LstmCell without options, with the name "basic_lstm_cell".
std::unique_ptr<RnnCell> BasicLstmCell(int64_t units, double forget_bias = 1);

// Cho and others, Learning Phrase Representations: r, u = sigmoid([x, h] gates);
// c = tanh([x, r h] candidate); h = u h + (1 - u) c. State: h.
class GruCell final : public RnnCell {
 public:
  explicit GruCell(int64_t units) : RnnCell("gru_cell"), units_(units) {}
  int64_t output_size() const override { return units_; }
  std::vector<int64_t> state_sizes() const override { return {units_}; }

 private:
  void Build(const Scope& scope, int64_t input_size, DataType dtype) override;
  Result Call(const Scope& scope, const Output& x, const std::vector<Output>& state) override;

  int64_t units_;
  Output gates_kernel_, gates_bias_, candidate_kernel_, candidate_bias_;
};

// Stacked cells: "multi_rnn_cell/cell_0/…". State: those of all cells, in order.
class MultiRnnCell final : public RnnCell {
 public:
  explicit MultiRnnCell(std::vector<std::shared_ptr<RnnCell>> cells)
      : RnnCell("multi_rnn_cell"), cells_(std::move(cells)) {}
  int64_t output_size() const override {
    return cells_.empty() || cells_.back() == nullptr ? 0 : cells_.back()->output_size();
  }
  std::vector<int64_t> state_sizes() const override;

 private:
  void Build(const Scope& scope, int64_t input_size, DataType dtype) override;
  Result Call(const Scope& scope, const Output& x, const std::vector<Output>& state) override;

  std::vector<std::shared_ptr<RnnCell>> cells_;
};

struct DynamicRnnOptions {
  Output sequence_length = {};             // integers [batch]; unset: the full input length
  std::vector<Output> initial_state = {};  // empty: zeros
  bool time_major = false;                 // inputs and outputs are [time, batch, …]
  int64_t parallel_iterations = 32;
  std::string name = "rnn";
};
struct RnnOutputs {
  Output outputs;             // [batch, time, output_size]; zeros after the end of a sequence
  std::vector<Output> state;  // after the last step of each sequence
};
// Runs a cell over inputs [batch, time, n] in a loop, for any length.
RnnOutputs DynamicRnn(const Scope& scope, RnnCell& cell, const Output& inputs,
                      const DynamicRnnOptions& options = {});

struct BidirectionalOutputs {
  RnnOutputs forward;
  RnnOutputs backward;  // outputs in the order of the inputs
};
// One cell runs forward and one backward, in "bidirectional_rnn/fw" and "…/bw". The initial states of the
// options are those of the forward cell, then those of the backward one.
BidirectionalOutputs BidirectionalDynamicRnn(const Scope& scope, RnnCell& forward, RnnCell& backward,
                                             const Output& inputs, const DynamicRnnOptions& options = {});

}  // namespace millrace
