// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/family.h"

namespace millrace::ops {
namespace {

// The output has the shape that input 0 describes.
Status RandomShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(0));
  c.set_output(0, out);
  return Status::Ok();
}

Status RandomUniformIntShape(InferenceContext& c) {
  for (const int i : {1, 2}) {
    if (c.WithRank(c.input(i), 0).ok()) continue;
    return errors::InvalidArgument(i == 1 ? "minval" : "maxval", " must be a scalar; got a tensor of shape ",
                                   c.DebugString(c.input(i)));
  }
  return RandomShape(c);
}

Status MultinomialShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle logits, c.WithRank(c.input(0), 2));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  MR_ASSIGN_OR_RETURN(const DimHandle samples, c.MakeDimFromScalarInput(1));
  c.set_output(0, c.Matrix(c.Dim(logits, 0), samples));
  return Status::Ok();
}

Status TruncatedNormalShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(i), 1).status());
  return RandomShape(c);
}

// Samples in the shape that input 0 describes for each element of input 1.
Status SamplesShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle samples, c.MakeShapeFromInput(0));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(samples, c.input(1)));
  c.set_output(0, out);
  return Status::Ok();
}

// Input i is a pair of seeds.
Status CheckSeeds(InferenceContext& c, int i) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle seeds, c.WithRank(c.input(i), 1));
  return c.WithValue(c.Dim(seeds, 0), 2).status();
}

Status StatelessShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckSeeds(c, 1));
  return RandomShape(c);
}

Status StatelessUniformIntShape(InferenceContext& c) {
  for (int i = 2; i < 4; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  return StatelessShape(c);
}

Status StatelessMultinomialShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckSeeds(c, 2));
  return MultinomialShape(c);
}

// A generator, the number of its algorithm unless that is within it, the shape, and bounds.
Status StatefulShape(InferenceContext& c) {
  const int shape = c.num_inputs() == 2 ? 1 : 2;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (i != shape) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(shape));
  c.set_output(0, out);
  return Status::Ok();
}

// A generator, the number of its algorithm, the shape, and what broadcasts to its end.
Status StatefulBinomialShape(InferenceContext& c) {
  for (int i = 0; i < 2; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(2));
  c.set_output(0, out);
  return Status::Ok();
}

Status RngSkipShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  return Status::Ok();
}

OpBuilder Random(const char* name) {
  return OpBuilder(name)
      .Input("shape: T")
      .Output("output: dtype")
      .Stateful()
      .Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Attr("dtype: {half, bfloat16, float, double}")
      .Attr("T: {int32, int64}")
      .Shape(RandomShape)
      .Traits(kGenerator);
}

std::vector<OpBuilder> RandomOps() {
  return {
      Random("RandomStandardNormal: Random numbers of the normal distribution.").NotDifferentiable(),
      Random("RandomUniform: Uniform random numbers in [0, 1).").NotDifferentiable(),
      Random("TruncatedNormal: Random numbers of the normal distribution within two standard deviations.")
          .NotDifferentiable(),
      OpBuilder("RandomUniformInt: Uniform random integers in [minval, maxval).")
          .Input("shape: T")
          .Input("minval: Tout")
          .Input("maxval: Tout")
          .Output("output: Tout")
          .Stateful()
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("Tout: {int32, int64}")
          .Attr("T: {int32, int64}")
          .Shape(RandomUniformIntShape)
          .Traits(kGenerator)
          .NotDifferentiable(),
      OpBuilder("RandomShuffle: The rows of a tensor in random order.")
          .Input("value: T")
          .Output("output: T")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("T: type")
          .Stateful()
          .Shape(shape_fns::Unchanged)
          .NotDifferentiable(),
      OpBuilder("Multinomial: Samples classes by the logarithms of their probabilities.")
          .Input("logits: T")
          .Input("num_samples: int32")
          .Output("output: output_dtype")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("T: realnumbertype")
          .Attr("output_dtype: {int32, int64} = DT_INT64")
          .Stateful()
          .Shape(MultinomialShape)
          .NotDifferentiable(),
      OpBuilder("ParameterizedTruncatedNormal: Random numbers of normal distributions with given means, "
                "deviations and limits.")
          .Input("shape: T")
          .Input("means: dtype")
          .Input("stdevs: dtype")
          .Input("minvals: dtype")
          .Input("maxvals: dtype")
          .Output("output: dtype")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("dtype: {half, bfloat16, float, double}")
          .Attr("T: {int32, int64}")
          .Stateful()
          .Shape(TruncatedNormalShape)
          .Traits(kGenerator)
          .NotDifferentiable(),
      OpBuilder("RandomGamma: Random numbers of the gamma distribution.")
          .Input("shape: S")
          .Input("alpha: T")
          .Output("output: T")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("S: {int32, int64}")
          .Attr("T: {half, float, double}")
          .Stateful()
          .Shape(SamplesShape),
      OpBuilder("RandomPoisson: Random numbers of the Poisson distribution.")
          .Input("shape: S")
          .Input("rate: dtype")
          .Output("output: dtype")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("S: {int32, int64}")
          .Attr("dtype: {half, float, double}")
          .Stateful()
          .Deprecated(25, "Replaced by RandomPoissonV2")
          .Shape(SamplesShape)
          .NotDifferentiable(),
      OpBuilder("RandomPoissonV2: Random numbers of the Poisson distribution.")
          .Input("shape: S")
          .Input("rate: R")
          .Output("output: dtype")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("S: {int32, int64}")
          .Attr("R: {half, float, double, int32, int64} = DT_DOUBLE")
          .Attr("dtype: {half, float, double, int32, int64} = DT_INT64")
          .Stateful()
          .Shape(SamplesShape)
          .NotDifferentiable(),
  };
}

// The ops whose numbers depend only on a seed input.
std::vector<OpBuilder> StatelessRandomOps() {
  return {
      OpBuilder("StatelessRandomUniform: Uniform random numbers in [0, 1), determined by a seed.")
          .Input("shape: T")
          .Input("seed: Tseed")
          .Output("output: dtype")
          .Attr("dtype: {half, bfloat16, float, double} = DT_FLOAT")
          .Attr("T: {int32, int64} = DT_INT32")
          .Attr("Tseed: {int32, int64} = DT_INT64")
          .Shape(StatelessShape),
      OpBuilder("StatelessRandomNormal: Random numbers of the normal distribution, determined by a seed.")
          .Input("shape: T")
          .Input("seed: Tseed")
          .Output("output: dtype")
          .Attr("dtype: {half, bfloat16, float, double} = DT_FLOAT")
          .Attr("T: {int32, int64} = DT_INT32")
          .Attr("Tseed: {int32, int64} = DT_INT64")
          .Shape(StatelessShape),
      OpBuilder("StatelessTruncatedNormal: Random numbers of the normal distribution within two standard "
                "deviations, determined by a seed.")
          .Input("shape: T")
          .Input("seed: Tseed")
          .Output("output: dtype")
          .Attr("dtype: {half, bfloat16, float, double} = DT_FLOAT")
          .Attr("T: {int32, int64} = DT_INT32")
          .Attr("Tseed: {int32, int64} = DT_INT64")
          .Shape(StatelessShape),
      OpBuilder(
          "StatelessRandomUniformInt: Uniform random integers in [minval, maxval), determined by a seed.")
          .Input("shape: T")
          .Input("seed: Tseed")
          .Input("minval: dtype")
          .Input("maxval: dtype")
          .Output("output: dtype")
          .Attr("dtype: {int32, int64}")
          .Attr("T: {int32, int64}")
          .Attr("Tseed: {int32, int64} = DT_INT64")
          .Shape(StatelessUniformIntShape),
      OpBuilder("StatelessMultinomial: Samples classes by the logarithms of their probabilities, determined "
                "by a seed.")
          .Input("logits: T")
          .Input("num_samples: int32")
          .Input("seed: Tseed")
          .Output("output: output_dtype")
          .Attr("T: realnumbertype")
          .Attr("Tseed: {int32, int64} = DT_INT64")
          .Attr("output_dtype: {int32, int64} = DT_INT64")
          .Shape(StatelessMultinomialShape),
  };
}

// The ops of generators that are variables.
std::vector<OpBuilder> StatefulRandomOps() {
  return {
      OpBuilder("StatefulUniform: Uniform random numbers in [0, 1), by a generator in a variable.")
          .Input("resource: resource")
          .Input("algorithm: int64")
          .Input("shape: shape_dtype")
          .Output("output: dtype")
          .Attr("dtype: type = DT_FLOAT")
          .Attr("shape_dtype: type = DT_INT64")
          .Stateful()
          .Shape(StatefulShape)
          .Traits(kEffect),
      OpBuilder(
          "StatefulStandardNormal: Random numbers of the normal distribution, by a generator in a variable.")
          .Input("resource: resource")
          .Input("shape: shape_dtype")
          .Output("output: dtype")
          .Attr("dtype: type = DT_FLOAT")
          .Attr("shape_dtype: type = DT_INT64")
          .Stateful()
          .Deprecated(29, "")
          .Shape(StatefulShape)
          .Traits(kEffect),
      OpBuilder("StatefulStandardNormalV2: Random numbers of the normal distribution, by a generator in a "
                "variable.")
          .Input("resource: resource")
          .Input("algorithm: int64")
          .Input("shape: shape_dtype")
          .Output("output: dtype")
          .Attr("dtype: type = DT_FLOAT")
          .Attr("shape_dtype: type = DT_INT64")
          .Stateful()
          .Shape(StatefulShape)
          .Traits(kEffect),
      OpBuilder("StatefulTruncatedNormal: Random numbers of the normal distribution within two standard "
                "deviations, by a generator in a variable.")
          .Input("resource: resource")
          .Input("algorithm: int64")
          .Input("shape: shape_dtype")
          .Output("output: dtype")
          .Attr("dtype: type = DT_FLOAT")
          .Attr("shape_dtype: type = DT_INT64")
          .Stateful()
          .Shape(StatefulShape)
          .Traits(kEffect),
      OpBuilder("StatefulUniformFullInt: Uniform random integers over the whole range of the type, by a "
                "generator in a variable.")
          .Input("resource: resource")
          .Input("algorithm: int64")
          .Input("shape: shape_dtype")
          .Output("output: dtype")
          .Attr("dtype: type = DT_UINT64")
          .Attr("shape_dtype: type = DT_INT64")
          .Stateful()
          .Shape(StatefulShape)
          .Traits(kEffect),
      OpBuilder("StatefulRandomBinomial: Random numbers of the binomial distribution, by a generator in a "
                "variable.")
          .Input("resource: resource")
          .Input("algorithm: int64")
          .Input("shape: S")
          .Input("counts: T")
          .Input("probs: T")
          .Output("output: dtype")
          .Attr("S: {int32, int64}")
          .Attr("T: {half, float, double, int32, int64} = DT_DOUBLE")
          .Attr("dtype: {half, float, double, int32, int64} = DT_INT64")
          .Stateful()
          .Shape(StatefulBinomialShape)
          .Traits(kEffect),
      OpBuilder(
          "StatefulUniformInt: Uniform random integers in [minval, maxval), by a generator in a variable.")
          .Input("resource: resource")
          .Input("algorithm: int64")
          .Input("shape: shape_dtype")
          .Input("minval: dtype")
          .Input("maxval: dtype")
          .Output("output: dtype")
          .Attr("dtype: type = DT_INT64")
          .Attr("shape_dtype: type = DT_INT64")
          .Stateful()
          .Shape(StatefulShape)
          .Traits(kEffect),
      OpBuilder("NonDeterministicInts: Random integers that differ on each run.")
          .Input("shape: shape_dtype")
          .Output("output: dtype")
          .Attr("dtype: type = DT_INT64")
          .Attr("shape_dtype: type = DT_INT64")
          .Stateful()
          .Shape(RandomShape)
          .Traits(kGenerator),
      OpBuilder("RngSkip: Advances the state of a random generator.")
          .Input("resource: resource")
          .Input("algorithm: int64")
          .Input("delta: int64")
          .Stateful()
          .Shape(RngSkipShape)
          .Traits(kEffect),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterRandomOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::RandomOps()));
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::StatelessRandomOps())));
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::StatefulRandomOps()));
}

}  // namespace millrace
