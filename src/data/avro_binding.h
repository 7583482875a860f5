#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/avro_value.h"
#include "data/field_ref.h"

namespace partforge::data {

// Which member of a C++ struct holds which Avro field. One binding serves reading and writing; the
// file's own schema decides order, unions and widths, so that fields a file lacks or has in
// addition do no harm.
//
//   const auto binding = AvroBinding<DataFile>()
//       .Require<&DataFile::file_path>({100, "file_path"})
//       .Field<&DataFile::split_offsets>({132, "split_offsets"});
//
// Members may be: bool, int32_t, int64_t, float, double, std::string (string, bytes, fixed, enum),
// AvroValue (anything), std::optional<T>, std::vector<T>, std::vector<std::pair<K, V>> (a map, or
// an array of records of two fields), and structs with a binding of their own.

enum class AvroMemberKind : uint8_t {
  kBoolean,
  kInt,
  kLong,
  kFloat,
  kDouble,
  kText,
  kValue,
  kRecord,
  kOptional,
  kList,
  kPairs,
};

// How to reach into a member without knowing its type. One constant a type; see AvroMemberOf.
struct AvroMember {
  AvroMemberKind kind;
  const AvroMember* inner = nullptr;  // of an optional or list: what it holds; of pairs: the second
  const AvroMember* key = nullptr;    // of pairs: the first

  void (*clear)(void* member) = nullptr;  // back to the value of a fresh member
  void* (*grow)(void* member) =
      nullptr;  // optional: its value made anew; list, pairs: one more item
  size_t (*size)(const void* member) = nullptr;                 // optional: 0 or 1
  const void* (*item)(const void* member, size_t i) = nullptr;  // optional: its value
  // Pairs: members of an item.
  void* (*first)(void* item) = nullptr;
  void* (*second)(void* item) = nullptr;
};

namespace internal {

template <class T>
void ClearMember(void* member) {
  *static_cast<T*>(member) = T{};
}
template <class T>
void ClearContainer(void* member) {
  static_cast<T*>(member)->clear();
}
template <class T>
void* GrowContainer(void* member) {
  return &static_cast<T*>(member)->emplace_back();
}
template <class T>
size_t SizeOfContainer(const void* member) {
  return static_cast<const T*>(member)->size();
}
template <class T>
const void* ItemOfContainer(const void* member, size_t i) {
  return &(*static_cast<const T*>(member))[i];
}

template <class T>
struct AvroMemberTraits {
  static_assert(std::is_class_v<T>, "a member type that Avro has no counterpart for");
  static constexpr AvroMember kMember{.kind = AvroMemberKind::kRecord, .clear = &ClearMember<T>};
};

template <class T, AvroMemberKind kKind>
struct PlainMemberTraits {
  static constexpr AvroMember kMember{.kind = kKind, .clear = &ClearMember<T>};
};
template <>
struct AvroMemberTraits<bool> : PlainMemberTraits<bool, AvroMemberKind::kBoolean> {};
template <>
struct AvroMemberTraits<int32_t> : PlainMemberTraits<int32_t, AvroMemberKind::kInt> {};
template <>
struct AvroMemberTraits<int64_t> : PlainMemberTraits<int64_t, AvroMemberKind::kLong> {};
template <>
struct AvroMemberTraits<float> : PlainMemberTraits<float, AvroMemberKind::kFloat> {};
template <>
struct AvroMemberTraits<double> : PlainMemberTraits<double, AvroMemberKind::kDouble> {};
template <>
struct AvroMemberTraits<std::string> : PlainMemberTraits<std::string, AvroMemberKind::kText> {};
template <>
struct AvroMemberTraits<AvroValue> : PlainMemberTraits<AvroValue, AvroMemberKind::kValue> {};

template <class U>
struct AvroMemberTraits<std::optional<U>> {
  using T = std::optional<U>;
  static constexpr AvroMember kMember{
      .kind = AvroMemberKind::kOptional,
      .inner = &AvroMemberTraits<U>::kMember,
      .clear = [](void* member) { static_cast<T*>(member)->reset(); },
      // A value that is there is filled over, which keeps its buffers.
      .grow = [](void* member) -> void* {
        auto& optional = *static_cast<T*>(member);
        return optional ? &*optional : &optional.emplace();
      },
      .size = [](const void* member) -> size_t {
        return static_cast<const T*>(member)->has_value() ? 1 : 0;
      },
      .item = [](const void* member, size_t) -> const void* {
        return &**static_cast<const T*>(member);
      }};
};

template <class U>
struct AvroMemberTraits<std::vector<U>> {
  using T = std::vector<U>;
  static_assert(!std::same_as<U, bool>, "std::vector<bool> has no addressable items");
  static constexpr AvroMember kMember{.kind = AvroMemberKind::kList,
                                      .inner = &AvroMemberTraits<U>::kMember,
                                      .clear = &ClearContainer<T>,
                                      .grow = &GrowContainer<T>,
                                      .size = &SizeOfContainer<T>,
                                      .item = &ItemOfContainer<T>};
};

template <class K, class V>
struct AvroMemberTraits<std::vector<std::pair<K, V>>> {
  using T = std::vector<std::pair<K, V>>;
  using Item = std::pair<K, V>;
  static constexpr AvroMember kMember{
      .kind = AvroMemberKind::kPairs,
      .inner = &AvroMemberTraits<V>::kMember,
      .key = &AvroMemberTraits<K>::kMember,
      .clear = &ClearContainer<T>,
      .grow = &GrowContainer<T>,
      .size = &SizeOfContainer<T>,
      .item = &ItemOfContainer<T>,
      .first = [](void* item) -> void* { return &static_cast<Item*>(item)->first; },
      .second = [](void* item) -> void* { return &static_cast<Item*>(item)->second; }};
};

template <auto kMember>
struct MemberPointer;
template <class Owner, class Type, Type Owner::*kMember>
struct MemberPointer<kMember> {
  using OwnerType = Owner;
  using MemberType = Type;
  static void* Locate(void* record) { return &(static_cast<Owner*>(record)->*kMember); }
};

}  // namespace internal

enum class AvroPresence : uint8_t {
  kOptional,  // absent from the file, or null: the member is as in a fresh struct
  kRequired,  // absent or null: kCorruption
};

struct AvroSlot;
using AvroSlots = std::vector<AvroSlot>;

struct AvroSlot {
  FieldRef ref = {};
  std::vector<std::string> aliases = {};  // names of old writers
  AvroPresence presence = AvroPresence::kOptional;
  const AvroMember* member = nullptr;
  void* (*locate)(void* record) = nullptr;
  std::shared_ptr<const AvroSlots> nested =
      {};  // slots of the record the member is or holds; may be null
};

// Builds the slots of T. Immutable once built; copies share nested bindings.
template <class T>
class AvroBinding {
 public:
  template <auto kMember>
  AvroBinding& Field(FieldRef ref, std::vector<std::string> aliases = {}) {
    return Add<kMember>(std::move(ref), std::move(aliases), AvroPresence::kOptional, nullptr);
  }
  template <auto kMember>
  AvroBinding& Require(FieldRef ref, std::vector<std::string> aliases = {}) {
    return Add<kMember>(std::move(ref), std::move(aliases), AvroPresence::kRequired, nullptr);
  }
  // A member that is, or holds (optional, list, second of pairs), structs of type U.
  template <auto kMember, class U>
  AvroBinding& Nest(FieldRef ref, const AvroBinding<U>& nested,
                    AvroPresence presence = AvroPresence::kOptional) {
    return Add<kMember>(std::move(ref), {}, presence,
                        std::make_shared<const AvroSlots>(nested.slots()));
  }

  const AvroSlots& slots() const { return slots_; }

 private:
  template <auto kMember>
  AvroBinding& Add(FieldRef&& ref, std::vector<std::string>&& aliases, AvroPresence presence,
                   std::shared_ptr<const AvroSlots>&& nested) {
    using Pointer = internal::MemberPointer<kMember>;
    static_assert(std::same_as<typename Pointer::OwnerType, T>, "a member of another struct");
    slots_.push_back({.ref = std::move(ref),
                      .aliases = std::move(aliases),
                      .presence = presence,
                      .member = &internal::AvroMemberTraits<typename Pointer::MemberType>::kMember,
                      .locate = &Pointer::Locate,
                      .nested = std::move(nested)});
    return *this;
  }

  AvroSlots slots_;
};

}  // namespace partforge::data
