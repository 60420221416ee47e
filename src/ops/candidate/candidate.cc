// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Candidate sampling, and the ops of word2vec, which sample in their own way.
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status SamplerShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t num_sampled, c.Attr<int64_t>("num_sampled"));
  MR_ASSIGN_OR_RETURN(const int64_t num_true, c.Attr<int64_t>("num_true"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle classes, c.WithRank(c.input(0), 2));
  c.set_output(0, c.Vector(num_sampled));
  c.set_output(1, c.Matrix(c.Dim(classes, 0), c.MakeDim(num_true)));
  c.set_output(2, c.Vector(num_sampled));
  return Status::Ok();
}

Status AccidentalHitsShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t num_true, c.Attr<int64_t>("num_true"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle classes, c.WithRank(c.input(0), 2));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(classes, 1), num_true).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  const ShapeHandle hits = c.Vector(c.UnknownDim());
  for (int i = 0; i < 3; ++i) c.set_output(i, hits);
  return Status::Ok();
}

Status SkipgramShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t batch, c.Attr<int64_t>("batch_size"));
  const ShapeHandle words = c.Vector(c.UnknownDim());
  for (int i = 0; i < 2; ++i) c.set_output(i, words);
  for (int i = 2; i < 5; ++i) c.set_output(i, c.Scalar());
  for (int i = 5; i < 7; ++i) c.set_output(i, batch < 0 ? words : c.Vector(batch));
  return Status::Ok();
}

// With attributes of its own, or a range of classes.
OpBuilder Sampler(const char* name, bool range, const std::vector<const char*>& attrs = {}) {
  OpBuilder op(name);
  op.Input("true_classes: int64")
      .Output("sampled_candidates: int64")
      .Output("true_expected_count: float")
      .Output("sampled_expected_count: float")
      .Attr("num_true: int >= 1")
      .Attr("num_sampled: int >= 1")
      .Attr("unique: bool");
  if (range) op.Attr("range_max: int >= 1");
  for (const char* attr : attrs) op.Attr(attr);
  return op.Attr("seed: int = 0").Attr("seed2: int = 0").Stateful().Shape(SamplerShape);
}

std::vector<OpBuilder> Word2vecOps() {
  constexpr char kReplaced[] =
      "Moving word2vec into tensorflow_models/tutorials and deprecating its ops here as a result";
  return {
      OpBuilder("Skipgram: Words of a text and words near them, for word2vec.")
          .Output("vocab_word: string")
          .Output("vocab_freq: int32")
          .Output("words_per_epoch: int64")
          .Output("current_epoch: int32")
          .Output("total_words_processed: int64")
          .Output("examples: int32")
          .Output("labels: int32")
          .Attr("filename: string")
          .Attr("batch_size: int")
          .Attr("window_size: int = 5")
          .Attr("min_count: int = 5")
          .Attr("subsample: float = 0.001")
          .Stateful()
          .Deprecated(19, kReplaced)
          .Shape(SkipgramShape),
      OpBuilder("NegTrain: One step of word2vec with negative samples.")
          .Input("w_in: Ref(float)")
          .Input("w_out: Ref(float)")
          .Input("examples: int32")
          .Input("labels: int32")
          .Input("lr: float")
          .Attr("vocab_count: list(int)")
          .Attr("num_negative_samples: int")
          .Stateful()
          .Deprecated(19, kReplaced)
          .Shape(shape_fns::NoOutputs)
          .Traits(kEffect),
  };
}

std::vector<OpBuilder> CandidateOps() {
  return {
      Sampler("AllCandidateSampler: Returns all classes, in the form of a sampler.", false),
      Sampler("FixedUnigramCandidateSampler: Samples classes by given probabilities.", true,
              {"vocab_file: string = ''", "distortion: float = 1.0", "num_reserved_ids: int = 0",
               "num_shards: int >= 1 = 1", "shard: int >= 0 = 0", "unigrams: list(float) = []"}),
      Sampler("LearnedUnigramCandidateSampler: Samples classes by their frequencies so far.", true),
      Sampler("LogUniformCandidateSampler: Samples classes from a log-uniform distribution.", true),
      Sampler(
          "ThreadUnsafeUnigramCandidateSampler: Samples classes by their frequencies so far, on one thread.",
          true),
      Sampler("UniformCandidateSampler: Samples classes with equal probabilities.", true),
      OpBuilder("ComputeAccidentalHits: The positions of sampled classes that are also true classes.")
          .Input("true_classes: int64")
          .Input("sampled_candidates: int64")
          .Output("indices: int32")
          .Output("ids: int64")
          .Output("weights: float")
          .Attr("num_true: int")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Shape(AccidentalHitsShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterCandidateOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::Word2vecOps())));
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::CandidateOps()));
}

}  // namespace millrace
