// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/status.h"

#include <array>

namespace millrace {

std::string_view ErrorCodeName(ErrorCode code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "OK",        "Cancelled",      "Unknown",           "Invalid argument",   "Deadline exceeded",
      "Not found", "Already exists", "Permission denied", "Resource exhausted", "Failed precondition",
      "Aborted",   "Out of range",   "Unimplemented",     "Internal",           "Unavailable",
      "Data loss", "Unauthenticated"};
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : std::string_view("Unknown code");
}

Status::Status(ErrorCode code, std::string message) {
  if (code != ErrorCode::kOk) rep_ = new Rep{1, code, std::move(message)};
}

void Status::Unref(Rep* rep) {
  // Pairs with the other decrements: the last owner sees all their uses of the text as done.
  if (rep->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete rep;
}

const std::string& Status::message() const {
  static const std::string kEmpty;
  return ok() ? kEmpty : rep_->message;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return StrCat(ErrorCodeName(code()), ": ", message());
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return Status(code(), StrCat(message(), context));
}

std::ostream& operator<<(std::ostream& os, const Status& status) { return os << status.ToString(); }

}  // namespace millrace
