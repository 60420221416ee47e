// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Clusters of points: first centers, and the nearest ones.
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status PlusPlusShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle points, c.WithRank(c.input(0), 2));
  for (int i = 1; i < 4; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  MR_ASSIGN_OR_RETURN(const DimHandle samples, c.MakeDimFromScalarInput(1));
  c.set_output(0, c.Matrix(samples, c.Dim(points, 1)));
  return Status();
}

Status ChainShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  c.set_output(0, c.Scalar());
  return Status();
}

Status NearestShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle points, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle centers, c.WithRank(c.input(1), 2));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(points, 1), c.Dim(centers, 1)).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  for (int i = 0; i < 2; ++i) c.set_output(i, c.Matrix(c.Dim(points, 0), c.UnknownDim()));
  return Status();
}

std::vector<OpBuilder> ClusteringOps() {
  return {
      OpBuilder("KmeansPlusPlusInitialization: Initial centers, sampled from the points by k-means++.")
          .Input("points: float")
          .Input("num_to_sample: int64")
          .Input("seed: int64")
          .Input("num_retries_per_sample: int64")
          .Output("samples: float")
          .Shape(PlusPlusShape),
      OpBuilder(
          "KMC2ChainInitialization: The index of the next center, selected by a Markov chain over distances.")
          .Input("distances: float")
          .Input("seed: int64")
          .Output("index: int64")
          .Shape(ChainShape),
      OpBuilder("NearestNeighbors: The nearest centers of each point, with the squares of their distances.")
          .Input("points: float")
          .Input("centers: float")
          .Input("k: int64")
          .Output("nearest_center_indices: int64")
          .Output("nearest_center_distances: float")
          .Shape(NearestShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterClusteringOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::ClusteringOps()));
}

}  // namespace millrace
