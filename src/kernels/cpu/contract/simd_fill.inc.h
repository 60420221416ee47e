// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The functions of the including unit as one table. Included by simd_*.cc only, inside their own namespace.

template <typename T>
constexpr SimdKernels<T> Kernels() {
  return SimdKernels<T>{.lanes = kLanes<T>,
                        .gemm_scratch = GemmScratch<T>,
                        .gemm = GemmOneBlock<T>,
                        .sum_parts = SumParts<T>,
                        .pack_matrix = PackMatrix<T>,
                        .pack_rows = PackRows<T>,
                        .transpose = Transpose<T>,
                        .signal = Signal<T>,
                        .correlate = Correlate<T>,
                        .winograd_input = WinogradInput<T>,
                        .winograd_output = WinogradOutput<T>,
                        .winograd_filter = WinogradFilter<T>,
                        .winograd_gradient = WinogradGradient<T>,
                        .winograd_filter_gradient = WinogradFilterGradient<T>,
                        .fold_lanes = FoldLanes<T>,
                        .add_rows = AddRows<T>,
                        .column_sums = ColumnSums<T>,
                        .column_products = ColumnProducts<T>,
                        .affine_columns = AffineColumns<T>,
                        .max_pool = MaxPoolBlock<T>,
                        .max_pool_grad = MaxPoolGradBlock<T>,
                        .max_pool_grad_grad = MaxPoolGradGradBlock<T>,
                        .avg_pool = AvgPoolBlock<T>,
                        .avg_pool_grad = AvgPoolGradBlock<T>};
}
