#pragma once

#include <utility>

namespace hammock {

/// A thread's own T, made at the first use and deleted when the thread ends. Unlike a thread_local
/// object it may be used at any time: when the process exits, the main thread's thread_local
/// objects are gone before functions of atexit and destructors of statics run; there it is made
/// anew.
///
///   Scratch& scratch = OfThread<Scratch>();
template <class T>
class ThreadOwned {
 public:
  static T& Get() {
    if (!object_) Make();
    return *object_;
  }

 private:
  struct AtThreadEnd {
    ~AtThreadEnd() { delete std::exchange(object_, nullptr); }
  };
  [[gnu::noinline]] static void Make() {
    static thread_local AtThreadEnd at_end;
    (void)at_end;
    object_ = new T;
  }
  static inline constinit thread_local T* object_ = nullptr;
};

template <class T>
T& OfThread() {
  return ThreadOwned<T>::Get();
}

}  // namespace hammock
