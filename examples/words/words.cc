// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// words DIR: learns vectors of words by skip-gram with negative sampling from DIR/text.txt, which it makes:
// most words of a sentence are of one topic. Then it reports how many words have a nearest neighbour of the
// same topic, and writes the SavedModel DIR/export. After it was killed, it continues from its last
// checkpoint.
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

constexpr int64_t kLastStep = 3000, kNegatives = 5, kDimensions = 16, kBatch = 8;  // sentences
constexpr int64_t kTopics = 8, kTopicWords = 5, kVocabulary = kTopics * kTopicWords;
constexpr int64_t kSentence = 10, kPairs = 4 * kSentence - 6;  // in a window of two words to either side

// "a0" to "a4" are the words of the first topic, "b0" to "b4" those of the second, and so on.
std::vector<std::string> Words() {
  std::vector<std::string> words;
  for (int64_t id = 0; id < kVocabulary; ++id)
    words.push_back(static_cast<char>('a' + id / kTopicWords) + std::to_string(id % kTopicWords));
  return words;
}

// Sentences of one topic each, where every fourth word is a random one; the same in each run.
void WriteText(const std::string& path) {
  if (std::filesystem::exists(path)) return;
  std::minstd_rand random(1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() >> 8) % n; };
  const std::vector<std::string> words = Words();
  std::ofstream file(path + ".part");
  for (int line = 0; line < 2000; ++line) {
    const int64_t topic = below(kTopics);
    for (int64_t i = 0; i < kSentence; ++i) {
      const int64_t id = below(4) == 0 ? below(kVocabulary) : topic * kTopicWords + below(kTopicWords);
      file << words[static_cast<size_t>(id)] << ' ';
    }
    file << '\n';
  }
  file.close();
  std::filesystem::rename(path + ".part", path);
}

struct Model {
  explicit Model(const mr::Scope& scope)
      : names(ops::Const(scope, mr::Tensor::Vector(Words()))),
        table(ops::HashTableV2(scope, mr::DataType::kString, mr::DataType::kInt64)),
        every(ops::Range(scope, int64_t{0}, kVocabulary, int64_t{1})),
        fill(ops::InitializeTableV2(scope, table, names, every)),
        vectors(GetVariable(scope, "vectors", {kVocabulary, kDimensions})),
        contexts(GetVariable(scope, "contexts", {kVocabulary, kDimensions})) {
    mr::AddToCollection(scope, "table_initializer", fill);
  }
  // The products of the vectors of some words and of all words; that of a word with itself is less than any
  // other.
  mr::Output Similarities(const mr::Scope& scope, const mr::Output& ids) const {
    const mr::Output square = ops::Sum(scope, ops::Square(scope, vectors), 1, ops::Sum::KeepDims(true));
    const mr::Output unit = ops::Mul(scope, vectors, ops::Rsqrt(scope, square));
    const mr::Output all =
        ops::MatMul(scope, ops::GatherV2(scope, unit, ids, 0), unit, ops::MatMul::TransposeB(true));
    return ops::Sub(scope, all, ops::OneHot(scope, ids, int{kVocabulary}, 3.f, 0.f));
  }
  mr::Output names, table, every;
  mr::Operation fill;
  mr::GraphVariable vectors, contexts;
};

// Elements: words [kPairs], a neighbour of each, and random words that depend on the number of the sentence.
mr::Dataset ReadPairs(const mr::Scope& scope, const Model& model, const std::string& path) {
  const mr::Dataset lines = mr::Dataset::TextLine(scope, path).Shuffle(500, /*seed=*/1).Repeat();
  const mr::Dataset numbers = mr::Dataset::Range(scope, INT64_MAX);
  return mr::Dataset::Zip(scope, {lines, numbers}).Map([&](const mr::Scope& s, const Outputs& in) -> Outputs {
    const mr::Output words = ops::StringSplit(s, ops::ExpandDims(s, in[0], 0), " ").values;
    const ops::LookupTableFindV2 found(s, model.table, words, int64_t{0});
    const mr::Output ids = ops::Reshape(s, found, {kSentence});
    Outputs centers, neighbours;
    for (const int64_t away : {1, 2}) {
      const mr::Output before = ops::Slice(s, ids, {int64_t{0}}, {kSentence - away});
      const mr::Output after = ops::Slice(s, ids, {away}, {kSentence - away});
      centers.insert(centers.end(), {before, after});
      neighbours.insert(neighbours.end(), {after, before});
    }
    const mr::Output drawn = ops::StatelessRandomUniformInt(
        s, {kPairs, kNegatives}, ops::Pack(s, {in[1], int64_t{7}}), int64_t{0}, kVocabulary);
    const mr::Output positive = ops::Reshape(s, ops::ConcatV2(s, neighbours, 0), {kPairs, int64_t{1}});
    return {ops::ConcatV2(s, centers, 0), ops::ConcatV2(s, {positive, drawn}, 1)};
  });
}

mr::Status Train(const std::string& dir) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  mr::SetRandomSeed(scope, 1);
  const mr::GraphVariable step = mr::CreateGlobalStep(scope);
  const Model model(scope);
  const mr::Iterator input =
      mr::Iterator::Initializable(ReadPairs(scope, model, dir + "/text.txt").Batch(kBatch, true).Prefetch(2));
  input.SaveWithModel(scope);
  const Outputs batch = input.GetNext(scope);
  MR_RETURN_IF_ERROR(scope.status());
  const mr::Output centers = mr::layers::EmbeddingLookup(scope, {model.vectors}, batch[0]);
  const mr::Output others = mr::layers::EmbeddingLookup(scope, {model.contexts}, batch[1]);
  const mr::Output logits = ops::Sum(scope, ops::Mul(scope, others, ops::ExpandDims(scope, centers, 2)), 3);
  // The first candidate is the neighbour.
  const mr::Output labels =
      ops::OneHot(scope, ops::ZerosLike(scope, batch[0]), int{1 + kNegatives}, 1.f, 0.f);
  const mr::Output loss = mr::losses::SigmoidCrossEntropy(scope, labels, logits);
  mr::summary::Scalar(scope, "loss", loss);
  const mr::Operation train = mr::AdagradOptimizer(0.3f).Minimize(scope, loss, {}, step);
  return mr::RunTraining(scope, train,
                         {.checkpoint_dir = dir + "/run",
                          .save_checkpoint_steps = 200,
                          .last_step = kLastStep,
                          .progress_loss = loss});
}

mr::Status EvaluateAndExport(const std::string& dir) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const Model model(scope);
  const mr::Output nearest = ops::ArgMax(scope, model.Similarities(scope, model.every), 1);
  const auto topic = [&](const mr::Output& id) { return ops::FloorDiv(scope, id, kTopicWords); };
  const mr::Output same = ops::Equal(scope, topic(nearest), topic(model.every));
  const mr::Output accuracy = ops::Mean(scope, ops::Cast(scope, same, mr::DataType::kFloat).y, 0);
  const mr::Output weights = ops::L2Loss(scope, ops::ConcatV2(scope, {model.vectors, model.contexts}, 0));
  const mr::Output words = ops::Placeholder(scope.WithOpName("words"), mr::DataType::kString);
  const mr::Output ids = ops::LookupTableFindV2(scope, model.table, words, int64_t{0});
  const ops::TopKV2 best(scope, model.Similarities(scope, ids), 3);
  const mr::Saver saver(scope);
  const mr::ClientSession session(scope);
  MR_RETURN_IF_ERROR(saver.Restore(session, mr::LatestCheckpoint(dir + "/run")));
  std::vector<mr::Tensor> values;
  MR_RETURN_IF_ERROR(session.Run({accuracy, weights}, &values));
  std::printf("accuracy %.3f  weights %.9g\n", values[0].scalar<float>(), values[1].scalar<float>());
  return mr::SimpleSave(session, scope, dir + "/export", {{"words", words}},
                        {{"neighbours", ops::GatherV2(scope, model.names, best.indices, 0)}}, model.fill);
}

int main(int argc, char** argv) {
  const std::string dir = argc > 1 ? argv[1] : ".";
  WriteText(dir + "/text.txt");
  mr::Status status = Train(dir);
  if (status.ok()) status = EvaluateAndExport(dir);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
