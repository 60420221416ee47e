// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#ifndef TENSORFLOW_CORE_PLATFORM_MACROS_H_
#define TENSORFLOW_CORE_PLATFORM_MACROS_H_

#define TF_DISALLOW_COPY_AND_ASSIGN(TypeName) \
  TypeName(const TypeName&) = delete;         \
  void operator=(const TypeName&) = delete

#define TF_ARRAYSIZE(array) (sizeof(array) / sizeof(*(array)))
#define TF_FALLTHROUGH_INTENDED __attribute__((fallthrough))
#define TF_EXPORT __attribute__((visibility("default")))
#define TF_PREDICT_FALSE(x) (__builtin_expect(x, 0))
#define TF_PREDICT_TRUE(x) (__builtin_expect(!!(x), 1))
#define TF_MUST_USE_RESULT __attribute__((warn_unused_result))

#endif
