#pragma once
/// Library: a shared library that is opened at run time.

#include <string>
#include <vector>

namespace hammock {

/// Never closed.
class Library {
 public:
  /// Opens the first of `names` that is found, also in the folders of CUDA toolkits.
  explicit Library(const std::vector<std::string>& names);

  bool opened() const { return handle_ != nullptr; }
  /// Sets `function`; a missing one is reported by why_absent.
  template <class F>
  void Find(const char* name, F*& function) {
    function = reinterpret_cast<F*>(Symbol(name));
  }
  /// As Find for an optional function: null if it is missing.
  template <class F>
  void FindOptional(const char* name, F*& function) {
    function = reinterpret_cast<F*>(SymbolOrNull(name));
  }
  /// The file that was opened.
  std::string path() const;
  /// Empty if the library and all functions were found.
  const std::string& why_absent() const { return why_absent_; }

 private:
  void* Symbol(const char* name);
  void* SymbolOrNull(const char* name) const;

  void* handle_ = nullptr;
  std::string why_absent_;
};

}  // namespace hammock
