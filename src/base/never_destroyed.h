#pragma once

#include <utility>

namespace hammock {

/// An object for static references: made once, never destroyed, since threads may use it while the
/// process exits and static objects go.
///
///   static auto& mutex = NeverDestroyed<std::mutex>();
template <class T, class... Args>
T& NeverDestroyed(Args&&... args) {
  return *new T(std::forward<Args>(args)...);
}

}  // namespace hammock
