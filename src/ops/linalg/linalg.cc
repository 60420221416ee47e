// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Diagonals and bands of matrices, Einsum.
#include "ops/array/shapes.h"
#include "ops/family.h"
#include "ops/linalg/shapes.h"

namespace millrace::ops {
namespace {

std::vector<OpBuilder> Diagonals() {
  return {
      OpBuilder("BatchMatrixBandPart: Matrices with zeros outside of a band along the diagonal.")
          .Input("input: T")
          .Input("num_lower: int64")
          .Input("num_upper: int64")
          .Output("band: T")
          .Attr("T: type")
          .Deprecated(14, "Use MatrixBandPart")
          .Shape(BandPartShape),
      OpBuilder("BatchMatrixDiag: Matrices with the given diagonals and zeros elsewhere.")
          .Input("diagonal: T")
          .Output("output: T")
          .Attr("T: type")
          .Deprecated(14, "Use MatrixDiag")
          .Shape(MatrixDiagShape),
      OpBuilder("BatchMatrixDiagPart: The diagonals of matrices.")
          .Input("input: T")
          .Output("diagonal: T")
          .Attr("T: type")
          .Deprecated(14, "Use MatrixDiagPart")
          .Shape(MatrixDiagPartShape),
      OpBuilder("BatchMatrixSetDiag: Matrices with their diagonals replaced.")
          .Input("input: T")
          .Input("diagonal: T")
          .Output("output: T")
          .Attr("T: type")
          .Deprecated(14, "Use MatrixSetDiag")
          .Shape(MatrixSetDiagShape),
      OpBuilder("Diag: A tensor with the given diagonal and zeros elsewhere.")
          .Input("diagonal: T")
          .Output("output: T")
          .Attr("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
          .Shape(DiagShape),
      OpBuilder("DiagPart: The diagonal of a tensor.")
          .Input("input: T")
          .Output("diagonal: T")
          .Attr("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
          .Shape(DiagPartShape),
      OpBuilder("MatrixBandPart: Matrices with zeros outside of a band along the diagonal.")
          .Input("input: T")
          .Input("num_lower: Tindex")
          .Input("num_upper: Tindex")
          .Output("band: T")
          .Attr("T: type")
          .Attr("Tindex: {int32, int64} = DT_INT64")
          .Shape(BandPartShape),
      OpBuilder("MatrixDiag: Matrices with the given diagonals and zeros elsewhere.")
          .Input("diagonal: T")
          .Output("output: T")
          .Attr("T: type")
          .Shape(MatrixDiagShape),
      OpBuilder("MatrixDiagPart: The diagonals of matrices.")
          .Input("input: T")
          .Output("diagonal: T")
          .Attr("T: type")
          .Shape(MatrixDiagPartShape),
      OpBuilder("MatrixDiagPartV2: The diagonals of matrices.")
          .Input("input: T")
          .Input("k: int32")
          .Input("padding_value: T")
          .Output("diagonal: T")
          .Attr("T: type")
          .Shape(MatrixDiagPartV2Shape),
      OpBuilder("MatrixDiagV2: Matrices with the given diagonals and zeros elsewhere.")
          .Input("diagonal: T")
          .Input("k: int32")
          .Input("num_rows: int32")
          .Input("num_cols: int32")
          .Input("padding_value: T")
          .Output("output: T")
          .Attr("T: type")
          .Shape(MatrixDiagV2Shape),
      OpBuilder("MatrixSetDiag: Matrices with their diagonals replaced.")
          .Input("input: T")
          .Input("diagonal: T")
          .Output("output: T")
          .Attr("T: type")
          .Shape(MatrixSetDiagShape),
      OpBuilder("MatrixSetDiagV2: Matrices with their diagonals replaced.")
          .Input("input: T")
          .Input("diagonal: T")
          .Input("k: int32")
          .Output("output: T")
          .Attr("T: type")
          .Shape(MatrixSetDiagV2Shape),
  };
}

std::vector<OpBuilder> Products() {
  return {
      OpBuilder("Cross: The cross product of vectors of three elements.")
          .Input("a: T")
          .Input("b: T")
          .Output("product: T")
          .Attr("T: realnumbertype")
          .Shape(CrossShape),
      OpBuilder("Einsum: A sum of products, described by an equation.")
          .Input("inputs: N * T")
          .Output("output: T")
          .Attr("equation: string")
          .Attr("N: int >= 1")
          .Attr("T: type")
          .Shape(EinsumShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterLinalgOps(OpRegistry& registry) {
  for (const auto part : {ops::Diagonals, ops::Products})
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  return Status::Ok();
}

}  // namespace millrace
