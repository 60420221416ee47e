// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace millrace {

template <typename Signature>
class FunctionRef;

// A reference to a callable: two words, never allocates. The callable must outlive the call.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& f)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

template <typename Signature>
class UniqueFunction;

// An owned, move-only callable. Callables of up to six words are kept inline.
template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction> &&
           std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
      UniqueFunction(F&& f) {  // NOLINT(google-explicit-constructor)
    using Fn = std::decay_t<F>;
    if constexpr (sizeof(Fn) <= kInline && alignof(Fn) <= alignof(void*) &&
                  std::is_nothrow_move_constructible_v<Fn>) {
      new (storage_) Fn(std::forward<F>(f));
      ops_ = &kInlineOps<Fn>;
    } else {
      *reinterpret_cast<Fn**>(storage_) = new Fn(std::forward<F>(f));
      ops_ = &kHeapOps<Fn>;
    }
  }
  UniqueFunction(UniqueFunction&& o) noexcept { MoveFrom(o); }
  UniqueFunction& operator=(UniqueFunction&& o) noexcept {
    if (this != &o) {
      Reset();
      MoveFrom(o);
    }
    return *this;
  }
  ~UniqueFunction() { Reset(); }

  explicit operator bool() const { return ops_ != nullptr; }
  // REQUIRES: holds a callable.
  R operator()(Args... args) { return ops_->call(storage_, std::forward<Args>(args)...); }

 private:
  static constexpr size_t kInline = 6 * sizeof(void*);
  struct Ops {
    R (*call)(void*, Args...);
    void (*move)(void* from, void* to);  // leaves `from` destroyed
    void (*destroy)(void*);
  };
  template <typename Fn>
  static constexpr Ops kInlineOps = {
      [](void* p, Args... args) -> R { return (*static_cast<Fn*>(p))(std::forward<Args>(args)...); },
      [](void* from, void* to) {
        new (to) Fn(std::move(*static_cast<Fn*>(from)));
        static_cast<Fn*>(from)->~Fn();
      },
      [](void* p) { static_cast<Fn*>(p)->~Fn(); }};
  template <typename Fn>
  static constexpr Ops kHeapOps = {
      [](void* p, Args... args) -> R { return (**static_cast<Fn**>(p))(std::forward<Args>(args)...); },
      [](void* from, void* to) { *static_cast<Fn**>(to) = *static_cast<Fn**>(from); },
      [](void* p) { delete *static_cast<Fn**>(p); }};

  void MoveFrom(UniqueFunction& o) {
    ops_ = std::exchange(o.ops_, nullptr);
    if (ops_ != nullptr) ops_->move(o.storage_, storage_);
  }
  void Reset() {
    if (ops_ != nullptr) std::exchange(ops_, nullptr)->destroy(storage_);
  }

  const Ops* ops_ = nullptr;
  alignas(void*) unsigned char storage_[kInline];
};

}  // namespace millrace
