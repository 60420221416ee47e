// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// characters DIR: a recurrent network learns to continue the sums in DIR/train.txt ("two plus three is
// five.") letter by letter. Then the program reports how many of the results in DIR/test.txt are right, and
// writes the SavedModel DIR/export, which predicts the next letter of a text. It creates both files. After it
// was killed, it continues from its last checkpoint with the next lines of the text.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "millrace/ops.h"
#include "millrace/training.h"

namespace mr = millrace;
namespace ops = millrace::ops;
using Outputs = std::vector<mr::Output>;

constexpr int64_t kLastStep = 1500, kBatch = 16, kUnits = 64, kEmbedding = 16;
constexpr int64_t kLetters = 128;  // the characters of ASCII
constexpr int kNumbers = 5;        // terms are less than this
const char* const kWords[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight"};

// A sum in each line; the same file in each run.
void WriteText(const std::string& path, int lines, uint32_t seed) {
  if (std::filesystem::exists(path)) return;
  std::mt19937 random(seed);
  const auto next = [&] { return static_cast<int>(random() % kNumbers); };
  std::ofstream file(path + ".part");
  for (int i = 0; i < lines; ++i) {
    const int a = next(), b = next();
    file << kWords[a] << " plus " << kWords[b] << " is " << kWords[a + b] << ".\n";
  }
  file.close();
  std::filesystem::rename(path + ".part", path);
}

// Elements: the letters of a line, as numbers [n].
mr::Dataset ReadLines(const mr::Scope& scope, const std::string& path) {
  return mr::Dataset::TextLine(scope, path).Map([](const mr::Scope& s, const Outputs& line) -> Outputs {
    return {ops::DecodeRaw(s, line[0], mr::DataType::kUint8)};
  });
}

// For letters [batch, n]: the logits of each possible next letter, [batch, n, kLetters].
struct Model {
  Model(const mr::Scope& scope, const mr::Output& letters, const mr::Output& lengths)
      : embedding(GetVariable(scope, "embedding", {kLetters, kEmbedding})) {
    const mr::Output ids = ops::Cast(scope, letters, mr::DataType::kInt32);
    const mr::Output x = mr::layers::EmbeddingLookup(scope, {embedding}, ids);
    mr::LstmCell cell(kUnits);
    const mr::RnnOutputs run = mr::DynamicRnn(scope, cell, x, {.sequence_length = lengths});
    logits = mr::layers::Dense(scope, run.outputs, kLetters, {.name = "letters"});
    next = ops::ArgMax(scope, logits, 2, ops::ArgMax::OutputType(mr::DataType::kInt32));
  }
  mr::GraphVariable embedding;
  mr::Output logits, next;
};

// A batch of lines of different lengths, filled up with zeros: all letters of each line except the last one,
// the letter after each of these, and their number.
struct Batch {
  Batch(const mr::Scope& scope, const mr::Output& lines)
      : letters(ops::Slice(scope, lines, {0, 0}, Size(scope, lines))),
        following(ops::Cast(scope, ops::Slice(scope, lines, {0, 1}, {-1, -1}), mr::DataType::kInt32)),
        real(ops::Cast(scope, ops::NotEqual(scope, following, 0), mr::DataType::kFloat)),
        lengths(ops::Cast(scope, ops::Sum(scope, real, 1), mr::DataType::kInt32)) {}
  static mr::Output Size(const mr::Scope& scope, const mr::Output& lines) {
    return ops::Sub(scope, ops::Shape(scope, lines), {0, 1});
  }
  mr::Output letters, following, real, lengths;
};

mr::Status Train(const std::string& dir) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  mr::SetRandomSeed(scope, 1);
  const mr::GraphVariable step = mr::CreateGlobalStep(scope);
  const mr::Iterator input = mr::Iterator::Initializable(
      ReadLines(scope, dir + "/train.txt").Shuffle(500, /*seed=*/1).Repeat().PaddedBatch(kBatch).Prefetch(2));
  input.SaveWithModel(scope);
  const Batch batch(scope, input.GetNext(scope)[0]);
  const Model model(scope, batch.letters, batch.lengths);
  const auto flat = [&](const mr::Output& x) { return ops::Reshape(scope, x, {-1}); };
  const mr::Output logits = ops::Reshape(scope, model.logits, {-1, int{kLetters}});
  const mr::Output loss = mr::losses::SparseSoftmaxCrossEntropy(scope, flat(batch.following), logits,
                                                                {.weights = flat(batch.real)});
  mr::summary::Scalar(scope, "loss", loss);
  const mr::AdamOptimizer optimizer(0.01f);
  const auto gradients = mr::ClipByGlobalNorm(scope, optimizer.ComputeGradients(scope, loss), 5.f).gradients;
  const mr::Operation train = optimizer.ApplyGradients(scope, gradients, step);
  return mr::RunTraining(scope, train,
                         {.checkpoint_dir = dir + "/run",
                          .save_checkpoint_steps = 200,
                          .last_step = kLastStep,
                          .progress_loss = loss});
}

// With the weights of the last checkpoint.
mr::Status EvaluateAndExport(const std::string& dir) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Scope reusing = WithVariableOptions(scope, {.reuse = mr::Reuse::kAuto});
  const mr::Output text =
      ops::Placeholder(scope.WithOpName("text"), mr::DataType::kString, ops::Placeholder::Shape({}));
  const mr::Output letters = ops::ExpandDims(scope, ops::DecodeRaw(scope, text, mr::DataType::kUint8), 0);
  const mr::Output length = ops::Reshape(scope, ops::Size(scope, letters), {1});
  const Model model(reusing, letters, length);
  const mr::Output last =
      ops::Gather(scope, ops::Reshape(scope, model.next, {-1}), ops::Sub(scope, length, 1));
  const mr::Output letter = ops::UnicodeEncode(scope, last, {int64_t{0}, int64_t{1}}, "UTF-8");

  const mr::Iterator input =
      mr::Iterator::Initializable(ReadLines(scope, dir + "/test.txt").PaddedBatch(1000));
  const Batch test(scope, input.GetNext(scope)[0]);
  const Model tested(reusing, test.letters, test.lengths);
  std::vector<mr::Output> norms;
  for (const mr::GraphVariable& v : TrainableVariables(scope)) norms.push_back(ops::L2Loss(scope, v));
  const mr::Output size = ops::AddN(scope, norms);
  const mr::Saver saver(scope);
  const mr::ClientSession session(scope);
  MR_RETURN_IF_ERROR(saver.Restore(session, mr::LatestCheckpoint(dir + "/run")));
  MR_RETURN_IF_ERROR(session.Run({}, {}, {input.initializer()}, nullptr));
  std::vector<mr::Tensor> values;
  MR_RETURN_IF_ERROR(session.Run({tested.next, test.following, size}, &values));
  const auto guessed = values[0].flat<int32_t>(), wanted = values[1].flat<int32_t>();
  const int64_t lines = values[1].dim(0), longest = values[1].dim(1);
  int64_t right = 0;
  for (int64_t line = 0; line < lines; ++line) {
    bool same = true;  // in the last word
    for (int64_t i = line * longest; i < (line + 1) * longest && wanted[static_cast<size_t>(i)] != 0; ++i) {
      const auto at = static_cast<size_t>(i);
      same = wanted[at] == ' ' || (same && guessed[at] == wanted[at]);
    }
    right += same ? 1 : 0;
  }
  std::printf("accuracy %.3f  weights %.9g\n", static_cast<double>(right) / static_cast<double>(lines),
              values[2].scalar<float>());
  return mr::SimpleSave(session, scope, dir + "/export", {{"text", text}}, {{"next", letter}});
}

int main(int argc, char** argv) {
  const std::string dir = argc > 1 ? argv[1] : ".";
  WriteText(dir + "/train.txt", 2000, 1);
  WriteText(dir + "/test.txt", 200, 2);
  mr::Status status = Train(dir);
  if (status.ok()) status = EvaluateAndExport(dir);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
