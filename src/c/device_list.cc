// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "c/session.h"

using millrace::DeviceInfo;

namespace millrace::c_api {
namespace {

TF_DeviceList* List(millrace::Session* session, TF_Status* status) {
  TF_DeviceList* result = nullptr;
  Enter(status, [&]() -> Status {
    if (session == nullptr) return NullArgument("The session");
    auto list = std::make_unique<TF_DeviceList>();
    MR_ASSIGN_OR_RETURN(list->devices, session->ListDevices());
    result = list.release();
    return Status();
  });
  return result;
}

// One property of one device; `otherwise` for an invalid index.
template <typename T>
T Fact(const TF_DeviceList* list, int index, T otherwise, TF_Status* status, T (*fact)(const DeviceInfo&)) {
  if (list == nullptr) {
    Set(status, errors::InvalidArgument("list is null!"));
    return otherwise;
  }
  if (index < 0 || static_cast<size_t>(index) >= list->devices.size()) {
    Set(status, errors::InvalidArgument("index out of bounds"));
    return otherwise;
  }
  Set(status, Status());
  return fact(list->devices[static_cast<size_t>(index)]);
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

TF_DeviceList* TF_SessionListDevices(TF_Session* session, TF_Status* status) {
  return List(session == nullptr ? nullptr : session->session.get(), status);
}

TF_DeviceList* TF_DeprecatedSessionListDevices(TF_DeprecatedSession* session, TF_Status* status) {
  return List(session == nullptr ? nullptr : session->session.get(), status);
}

void TF_DeleteDeviceList(TF_DeviceList* list) { delete list; }

int TF_DeviceListCount(const TF_DeviceList* list) {
  return list == nullptr ? 0 : static_cast<int>(list->devices.size());
}

const char* TF_DeviceListName(const TF_DeviceList* list, int index, TF_Status* status) {
  return Fact<const char*>(list, index, nullptr, status, [](const DeviceInfo& d) { return d.name.c_str(); });
}

const char* TF_DeviceListType(const TF_DeviceList* list, int index, TF_Status* status) {
  return Fact<const char*>(list, index, nullptr, status, [](const DeviceInfo& d) { return d.type.c_str(); });
}

int64_t TF_DeviceListMemoryBytes(const TF_DeviceList* list, int index, TF_Status* status) {
  return Fact<int64_t>(list, index, -1, status, [](const DeviceInfo& d) { return d.memory_limit; });
}

uint64_t TF_DeviceListIncarnation(const TF_DeviceList* list, int index, TF_Status* status) {
  return Fact<uint64_t>(list, index, 0, status, [](const DeviceInfo& d) { return d.incarnation; });
}
