// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#define EIGEN_NO_DEBUG  // as in the files that use them
#define MR_EIGEN_PRODUCT template
#include "kernels/cpu/linalg/eigen_products.h"
