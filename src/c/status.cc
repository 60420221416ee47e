// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensorflow/c/tf_status.h"

#include "c/internal.h"

namespace millrace::c_api {

Status NullArgument(const char* what) { return errors::InvalidArgument(what, " is null"); }

}  // namespace millrace::c_api

using millrace::c_api::OrEmpty;

TF_Status* TF_NewStatus(void) { return new (std::nothrow) TF_Status; }

void TF_DeleteStatus(TF_Status* s) { delete s; }

void TF_SetStatus(TF_Status* s, TF_Code code, const char* msg) {
  if (s == nullptr) return;
  if (code == TF_OK) {
    s->status = millrace::Status();
    return;
  }
  millrace::c_api::Enter(
      s, [&] { return millrace::Status(static_cast<millrace::ErrorCode>(code), OrEmpty(msg)); });
}

TF_Code TF_GetCode(const TF_Status* s) {
  return s == nullptr ? TF_OK : static_cast<TF_Code>(s->status.code());
}

const char* TF_Message(const TF_Status* s) { return s == nullptr ? "" : s->status.message().c_str(); }
