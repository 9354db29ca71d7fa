#pragma once
/// Structs as bytes, by one list of members for both directions:
///
///   template <class Io>
///   void Fields(Io& io, Launch& launch) {
///     io(launch.kernel, launch.outer, launch.rows, launch.columns, launch.maps);
///   }
///
///   RecordWriter writer;
///   writer(launch);
///   RecordReader reader("a launch", writer.Take());
///   reader(launch);
///
/// Members are integers, enumerations, floats, texts, other structs with Fields, and pairs,
/// optionals, vectors, maps, sets and shared pointers of these. An object that several pointers
/// share is written once. A reader never reads past the end of the bytes, but it checks no
/// indices: bytes come with a checksum, from a writer that is trusted.

#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace hammock {

class RecordWriter {
 public:
  static constexpr bool kReads = false;

  template <class... Members>
  void operator()(const Members&... members) {
    (Write(members), ...);
  }
  std::string Take() { return out_.Take(); }

 private:
  template <class T>
  void Write(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      out_.Fixed(std::bit_cast<uint64_t>(static_cast<double>(value)));
    } else if constexpr (std::is_enum_v<T>) {
      out_.Signed(static_cast<int64_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      out_.Signed(static_cast<int64_t>(value));
    } else {
      Fields(*this, const_cast<T&>(value));  // which only reads it
    }
  }
  void Write(const std::string& text) { out_.Text(text); }
  template <class A, class B>
  void Write(const std::pair<A, B>& pair) {
    (*this)(pair.first, pair.second);
  }
  template <class T>
  void Write(const std::optional<T>& value) {
    Write(value.has_value());
    if (value) Write(*value);
  }
  template <class T>
  void Write(const std::vector<T>& list) {
    out_.Count(list.size());
    for (const auto& item : list) Write(static_cast<const T&>(item));
  }
  template <class K, class V>
  void Write(const std::map<K, V>& map) {
    out_.Count(map.size());
    for (const auto& [key, value] : map) (*this)(key, value);
  }
  template <class T>
  void Write(const std::set<T>& set) {
    out_.Count(set.size());
    for (const T& item : set) Write(item);
  }
  template <class T>
  void Write(const std::shared_ptr<T>& pointer) {
    if (!pointer) return out_.Count(0);
    auto [at, is_new] = shared_.try_emplace(pointer.get(), shared_.size() + 1);
    out_.Count(at->second);
    if (is_new) Write(*pointer);
  }

  ByteWriter out_;
  std::map<const void*, size_t> shared_;  // numbers from 1
};

/// Errors are as ByteReader's.
class RecordReader {
 public:
  static constexpr bool kReads = true;

  RecordReader(std::string what, std::string_view bytes) : in_(std::move(what), bytes) {}

  template <class... Members>
  void operator()(Members&... members) {
    (Read(members), ...);
  }
  void ExpectEnd() const { in_.ExpectEnd(); }

 private:
  template <class T>
  void Read(T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(std::bit_cast<double>(in_.Fixed<uint64_t>()));
    } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      value = static_cast<T>(in_.Signed());
    } else {
      Fields(*this, value);
    }
  }
  void Read(std::string& text) { text = in_.Text(); }
  template <class A, class B>
  void Read(std::pair<A, B>& pair) {
    (*this)(pair.first, pair.second);
  }
  template <class T>
  void Read(std::optional<T>& value) {
    bool has = false;
    Read(has);
    value.reset();
    if (has) Read(value.emplace());
  }
  template <class T>
  void Read(std::vector<T>& list) {
    list.clear();
    for (uint64_t count = in_.Count(); count > 0; --count) {
      T item{};
      Read(item);
      list.push_back(std::move(item));
    }
  }
  template <class K, class V>
  void Read(std::map<K, V>& map) {
    map.clear();
    for (uint64_t count = in_.Count(); count > 0; --count) {
      std::pair<K, V> entry;
      Read(entry);
      map.insert(std::move(entry));
    }
  }
  template <class T>
  void Read(std::set<T>& set) {
    set.clear();
    for (uint64_t count = in_.Count(); count > 0; --count) {
      T item{};
      Read(item);
      set.insert(std::move(item));
    }
  }
  template <class T>
  void Read(std::shared_ptr<T>& pointer) {
    uint64_t number = in_.Bounded(shared_.size() + 2, "a shared object");
    if (number <= shared_.size()) {
      pointer = number == 0 ? nullptr : std::static_pointer_cast<T>(shared_[number - 1]);
      return;
    }
    auto made = std::make_shared<std::remove_const_t<T>>();
    shared_.push_back(made);
    Read(*made);
    pointer = std::move(made);
  }

  ByteReader in_;
  std::vector<std::shared_ptr<void>> shared_;
};

}  // namespace hammock
