// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The products of Eigen that several decompositions need: compiled once, in eigen_products.cc, instead of in
// each of their files, where they are a third of the code. Unlisted products are compiled where they are
// used. The literals are Eigen's options. Storage order: 0 by columns, 1 by rows. Triangle: 1 lower, 2 upper,
// 5 and 6 with ones on the diagonal. A bool: the factor before it is conjugated; the first one of
// product_triangular_matrix_matrix: the triangle is on the left.
#pragma once

#include <Eigen/Core>
#include <complex>

#ifndef MR_EIGEN_PRODUCT
#define MR_EIGEN_PRODUCT extern template
#endif

namespace Eigen::internal {

using MrComplex = std::complex<double>;
template <typename S>
using MrBlock = blas_data_mapper<S, Index, 0, 0, 1>;
template <typename S, int kOrder>
using MrMatrix = const_blas_data_mapper<S, Index, kOrder>;

MR_EIGEN_PRODUCT struct gebp_kernel<double, double, Index, MrBlock<double>, 4, 4, false, false>;
MR_EIGEN_PRODUCT struct gebp_kernel<MrComplex, MrComplex, Index, MrBlock<MrComplex>, 1, 4, false, false>;
MR_EIGEN_PRODUCT struct gebp_kernel<MrComplex, MrComplex, Index, MrBlock<MrComplex>, 1, 4, true, false>;
MR_EIGEN_PRODUCT struct gebp_kernel<MrComplex, MrComplex, Index, MrBlock<MrComplex>, 1, 4, false, true>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, MrComplex, MrMatrix<MrComplex, 1>, 1, false,
                                                      MrComplex, MrMatrix<MrComplex, 0>, true, 0>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, MrComplex, MrMatrix<MrComplex, 1>, 1, false,
                                                      MrComplex, MrMatrix<MrComplex, 1>, true, 1>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, MrComplex, MrMatrix<MrComplex, 1>, 1, false,
                                                      MrComplex, MrMatrix<MrComplex, 0>, false, 0>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, MrComplex, MrMatrix<MrComplex, 0>, 0, false,
                                                      MrComplex, MrMatrix<MrComplex, 1>, false, 0>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, MrComplex, MrMatrix<MrComplex, 1>, 1, true,
                                                      MrComplex, MrMatrix<MrComplex, 0>, false, 0>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, MrComplex, MrMatrix<MrComplex, 0>, 0, true,
                                                      MrComplex, MrMatrix<MrComplex, 1>, false, 0>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, MrComplex, MrMatrix<MrComplex, 0>, 0, false,
                                                      MrComplex, MrMatrix<MrComplex, 1>, true, 0>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, double, MrMatrix<double, 1>, 1, false, double,
                                                      MrMatrix<double, 0>, false, 0>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, double, MrMatrix<double, 1>, 1, false, double,
                                                      MrMatrix<double, 1>, false, 1>;
MR_EIGEN_PRODUCT struct general_matrix_vector_product<Index, double, MrMatrix<double, 0>, 0, false, double,
                                                      MrMatrix<double, 1>, false, 0>;
MR_EIGEN_PRODUCT struct product_triangular_matrix_matrix<MrComplex, Index, 2, true, 1, false, 0, false, 0, 1,
                                                         0>;
MR_EIGEN_PRODUCT struct product_triangular_matrix_matrix<MrComplex, Index, 6, true, 1, true, 0, false, 0, 1,
                                                         0>;
MR_EIGEN_PRODUCT struct product_triangular_matrix_matrix<MrComplex, Index, 1, true, 0, true, 0, false, 0, 1,
                                                         0>;
MR_EIGEN_PRODUCT struct product_triangular_matrix_matrix<MrComplex, Index, 5, true, 0, false, 0, false, 0, 1,
                                                         0>;
MR_EIGEN_PRODUCT struct product_triangular_matrix_matrix<double, Index, 2, true, 1, false, 0, false, 0, 1, 0>;
MR_EIGEN_PRODUCT struct product_triangular_matrix_matrix<double, Index, 6, true, 1, false, 0, false, 0, 1, 0>;
MR_EIGEN_PRODUCT struct product_triangular_matrix_matrix<double, Index, 1, true, 0, false, 0, false, 0, 1, 0>;
MR_EIGEN_PRODUCT struct product_triangular_matrix_matrix<double, Index, 5, true, 0, false, 0, false, 0, 1, 0>;
MR_EIGEN_PRODUCT struct triangular_solve_matrix<MrComplex, Index, 1, 2, false, 0, 0, 1>;
MR_EIGEN_PRODUCT struct triangular_solve_matrix<double, Index, 1, 2, false, 0, 0, 1>;
MR_EIGEN_PRODUCT struct triangular_matrix_vector_product<Index, 6, MrComplex, false, MrComplex, true, 1, 0>;
MR_EIGEN_PRODUCT struct triangular_matrix_vector_product<Index, 6, double, false, double, false, 1, 0>;

}  // namespace Eigen::internal
