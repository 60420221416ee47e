// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/log_listener.h"
#include "tensorflow/c/c_api.h"

void TF_RegisterLogListener(void (*listener)(const char*)) {
  if (listener != nullptr) millrace::AddLogListener(listener);
}
