// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <new>
#include <string_view>

#include "millrace/status.h"

namespace millrace {

// Calls a function of the user in a thread of this library. Exceptions become Internal, or ResourceExhausted
// for a std::bad_alloc: "the function of <where> threw: <text>".
inline Status CallInThread(std::string_view where, const std::function<Status()>& function) {
  try {
    return function();
  } catch (const std::bad_alloc& e) {
    return errors::ResourceExhausted("the function of ", where, " threw: ", e.what());
  } catch (const std::exception& e) {
    return errors::Internal("the function of ", where, " threw: ", e.what());
  } catch (...) {
    return errors::Internal("the function of ", where, " threw an object that is no std::exception");
  }
}

}  // namespace millrace
