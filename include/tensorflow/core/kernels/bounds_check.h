// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// As framework/bounds_check.h, where older versions had it.
#ifndef TENSORFLOW_CORE_KERNELS_BOUNDS_CHECK_H_
#define TENSORFLOW_CORE_KERNELS_BOUNDS_CHECK_H_

#include "tensorflow/core/framework/bounds_check.h"

#endif
