#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "data/avro_record.h"

namespace partforge::data {

namespace internal {

enum class DecodeOp : uint8_t {
  kSkip,
  kClear,   // null into a member that may be absent
  kRefuse,  // a branch that the member cannot take
  kBoolean,
  kInt,
  kLongToInt,
  kLong,
  kFloat,
  kLongToFloat,
  kDouble,
  kFloatToDouble,
  kLongToDouble,
  kText,
  kFixedText,
  kEnumText,
  kValue,
  kUnion,
  kEngage,
  kRecord,
  kList,
  kMapPairs,
  kArrayPairs,
  kPairsIntLong,  // the maps of column metrics, by far the most values of a manifest
  kPairsIntText,
};

struct AvroDecodeNode {
  DecodeOp op = DecodeOp::kSkip;
  const AvroType* type = nullptr;
  const AvroMember* member = nullptr;
  void* (*locate)(void* record) = nullptr;  // of a record's field
  std::string message = {};                 // kRefuse: what is wrong
  // Fields, branches, the item, or both parts of a pair in the file's order.
  std::vector<AvroDecodeNode> children = {};
  bool is_value_first = false;  // kArrayPairs: the file has the second of the pair first
};

}  // namespace internal

namespace {

using Node = internal::AvroDecodeNode;
using Op = internal::DecodeOp;

bool IsInteger(AvroKind kind) {
  return kind == AvroKind::kInt || kind == AvroKind::kLong;
}

// The operation that moves a plain value of the file into a plain member; none when there is no
// promotion.
std::optional<Op> PlainOp(AvroKind kind, AvroMemberKind member) {
  switch (member) {
    case AvroMemberKind::kBoolean:
      if (kind == AvroKind::kBoolean) return Op::kBoolean;
      return std::nullopt;
    case AvroMemberKind::kInt:
      if (kind == AvroKind::kInt) return Op::kInt;
      if (kind == AvroKind::kLong) return Op::kLongToInt;
      return std::nullopt;
    case AvroMemberKind::kLong:
      if (IsInteger(kind)) return Op::kLong;
      return std::nullopt;
    case AvroMemberKind::kFloat:
      if (kind == AvroKind::kFloat) return Op::kFloat;
      if (IsInteger(kind)) return Op::kLongToFloat;
      return std::nullopt;
    case AvroMemberKind::kDouble:
      if (kind == AvroKind::kDouble) return Op::kDouble;
      if (kind == AvroKind::kFloat) return Op::kFloatToDouble;
      if (IsInteger(kind)) return Op::kLongToDouble;
      return std::nullopt;
    case AvroMemberKind::kText:
      if (kind == AvroKind::kString || kind == AvroKind::kBytes) return Op::kText;
      if (kind == AvroKind::kFixed) return Op::kFixedText;
      if (kind == AvroKind::kEnum) return Op::kEnumText;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// What a field's slot asks for, handed down to what is inside the field.
struct Wanted {
  const AvroSlot& slot;
  std::string_view what;

  Status Wrong(const AvroType& type) const {
    return Status(Code::kCorruption,
                  fmt::format("read {}: field {} has another type than expected: {}", what,
                              slot.ref.name, static_cast<int>(type.kind)));
  }
};

Result<Node> CompileRecord(const AvroType& record, const AvroSlots& slots, std::string_view what);
Result<Node> Compile(const AvroType& type, const AvroMember& member, const Wanted& wanted);

Node NullNode(const AvroType& type, const AvroMember& member, const Wanted& wanted) {
  Node node{.type = &type, .member = &member};
  const bool may_be_absent = member.kind == AvroMemberKind::kOptional ||
                             member.kind == AvroMemberKind::kValue ||
                             wanted.slot.presence == AvroPresence::kOptional;
  node.op = may_be_absent ? Op::kClear : Op::kRefuse;
  node.message = fmt::format("null in field {}", wanted.slot.ref.name);
  return node;
}

Result<Node> CompileUnion(const AvroType& type, const AvroMember& member, const Wanted& wanted) {
  Node node{.op = Op::kUnion, .type = &type, .member = &member};
  bool has_fit = false;
  Status failure;
  for (const AvroType* branch : type.branches) {
    if (branch->kind == AvroKind::kNull) {
      node.children.push_back(NullNode(*branch, member, wanted));
      continue;
    }
    auto child = Compile(*branch, member, wanted);
    if (child.ok()) {
      has_fit = true;
      node.children.push_back(std::move(child).value());
      continue;
    }
    failure = child.status();
    Node refuse{.op = Op::kRefuse, .type = branch, .member = &member};
    refuse.message = fmt::format("a value of an unexpected type in field {}", wanted.slot.ref.name);
    node.children.push_back(std::move(refuse));
  }
  // A union of null alone is legal and always absent.
  if (!has_fit && !failure.ok()) return failure;
  return node;
}

Result<Node> CompilePairs(const AvroType& type, const AvroMember& member, const Wanted& wanted) {
  Node node{.type = &type, .member = &member};
  if (type.kind == AvroKind::kMap) {
    if (member.key->kind != AvroMemberKind::kText) return wanted.Wrong(type);
    node.op = Op::kMapPairs;
    PF_ASSIGN(Node value, Compile(*type.element, *member.inner, wanted));
    node.children.push_back(std::move(value));
    return node;
  }
  const bool is_pairs = type.kind == AvroKind::kArray && type.element->kind == AvroKind::kRecord &&
                        type.element->fields.size() == 2;
  if (!is_pairs) return wanted.Wrong(type);
  const auto& fields = type.element->fields;
  node.op = Op::kArrayPairs;
  node.is_value_first = fields[0].name == "value" && fields[1].name == "key";
  const auto part = [&](size_t i) -> const AvroMember& {
    return (i == 0) == node.is_value_first ? *member.inner : *member.key;
  };
  for (size_t i = 0; i < 2; ++i) {
    PF_ASSIGN(Node child, Compile(*fields[i].type, part(i), wanted));
    node.children.push_back(std::move(child));
  }
  if (!node.is_value_first && node.children[0].op == Op::kInt &&
      member.inner == &internal::AvroMemberTraits<int64_t>::kMember &&
      node.children[1].op == Op::kLong) {
    node.op = Op::kPairsIntLong;
  }
  if (!node.is_value_first && node.children[0].op == Op::kInt && node.children[1].op == Op::kText) {
    node.op = Op::kPairsIntText;
  }
  return node;
}

Result<Node> Compile(const AvroType& type, const AvroMember& member, const Wanted& wanted) {
  if (member.kind == AvroMemberKind::kValue) {
    return Node{.op = Op::kValue, .type = &type, .member = &member};
  }
  if (type.kind == AvroKind::kUnion) return CompileUnion(type, member, wanted);
  if (type.kind == AvroKind::kNull) return NullNode(type, member, wanted);
  Node node{.type = &type, .member = &member};
  switch (member.kind) {
    case AvroMemberKind::kOptional: {
      node.op = Op::kEngage;
      PF_ASSIGN(Node child, Compile(type, *member.inner, wanted));
      node.children.push_back(std::move(child));
      return node;
    }
    case AvroMemberKind::kRecord: {
      PF_CHECK(wanted.slot.nested != nullptr, "a struct member without a binding of its own");
      if (type.kind != AvroKind::kRecord) return wanted.Wrong(type);
      PF_ASSIGN(node, CompileRecord(type, *wanted.slot.nested, wanted.what));
      node.member = &member;
      return node;
    }
    case AvroMemberKind::kList: {
      if (type.kind != AvroKind::kArray) return wanted.Wrong(type);
      node.op = Op::kList;
      PF_ASSIGN(Node child, Compile(*type.element, *member.inner, wanted));
      node.children.push_back(std::move(child));
      return node;
    }
    case AvroMemberKind::kPairs:
      return CompilePairs(type, member, wanted);
    default:
      break;
  }
  const std::optional<Op> op = PlainOp(type.kind, member.kind);
  if (!op) return wanted.Wrong(type);
  node.op = *op;
  return node;
}

Result<Node> CompileRecord(const AvroType& record, const AvroSlots& slots, std::string_view what) {
  Node node{.op = Op::kRecord, .type = &record};
  for (const AvroField& field : record.fields) {
    node.children.push_back(Node{.op = Op::kSkip, .type = field.type});
  }
  for (const AvroSlot& slot : slots) {
    const AvroField* field = FindAvroField(record, slot.ref, slot.aliases);
    if (field == nullptr) {
      if (slot.presence == AvroPresence::kOptional) continue;
      return Status(Code::kCorruption, fmt::format("read {}: field is missing: {} (id {})", what,
                                                   slot.ref.name, slot.ref.id));
    }
    Node& place = node.children[static_cast<size_t>(field - record.fields.data())];
    if (place.locate != nullptr) {
      return Status(Code::kCorruption,
                    fmt::format("read {}: one field for two columns: {}", what, field->name));
    }
    PF_ASSIGN(place, Compile(*field->type, *slot.member, Wanted{.slot = slot, .what = what}));
    place.locate = slot.locate;
  }
  return node;
}

template <class T>
T& As(void* target) {
  return *static_cast<T*>(target);
}

void Run(const Node& node, AvroCursor& cursor, void* target) {
  switch (node.op) {
    case Op::kSkip:
      cursor.Skip(*node.type);
      return;
    case Op::kClear:
      node.member->clear(target);
      return;
    case Op::kRefuse:
      cursor.Fail(node.message.c_str());
      return;
    case Op::kBoolean:
      As<bool>(target) = cursor.Boolean();
      return;
    case Op::kInt:
    case Op::kLongToInt:
      As<int32_t>(target) = cursor.Int();
      return;
    case Op::kLong:
      As<int64_t>(target) = cursor.Long();
      return;
    case Op::kFloat:
      As<float>(target) = cursor.Float();
      return;
    case Op::kLongToFloat:
      As<float>(target) = static_cast<float>(cursor.Long());
      return;
    case Op::kDouble:
      As<double>(target) = cursor.Double();
      return;
    case Op::kFloatToDouble:
      As<double>(target) = cursor.Float();
      return;
    case Op::kLongToDouble:
      As<double>(target) = static_cast<double>(cursor.Long());
      return;
    case Op::kText:
      As<std::string>(target).assign(cursor.Bytes());
      return;
    case Op::kFixedText:
      As<std::string>(target).assign(
          cursor.Fixed(static_cast<uint64_t>(node.type->fixed_size_bytes)));
      return;
    case Op::kEnumText:
      As<std::string>(target) = node.type->symbols[cursor.Index(node.type->symbols.size())];
      return;
    case Op::kValue:
      As<AvroValue>(target) = DecodeAvroValue(*node.type, cursor);
      return;
    case Op::kUnion: {
      const size_t branch = cursor.Index(node.children.size());
      if (cursor.ok()) Run(node.children[branch], cursor, target);
      return;
    }
    case Op::kEngage:
      Run(node.children[0], cursor, node.member->grow(target));
      return;
    case Op::kRecord:
      for (const Node& field : node.children) {
        Run(field, cursor, field.locate == nullptr ? nullptr : field.locate(target));
      }
      return;
    case Op::kList:
      node.member->clear(target);
      cursor.ForItems(*node.type->element, node.type->element->size_bytes_min,
                      [&] { Run(node.children[0], cursor, node.member->grow(target)); });
      return;
    case Op::kMapPairs:
      node.member->clear(target);
      cursor.ForItems(*node.type->element, node.type->element->size_bytes_min + 1, [&] {
        void* pair = node.member->grow(target);
        As<std::string>(node.member->first(pair)).assign(cursor.Bytes());
        Run(node.children[0], cursor, node.member->second(pair));
      });
      return;
    case Op::kArrayPairs:
      node.member->clear(target);
      cursor.ForItems(*node.type->element, node.type->element->size_bytes_min, [&] {
        void* pair = node.member->grow(target);
        void* first = node.member->first(pair);
        void* second = node.member->second(pair);
        Run(node.children[0], cursor, node.is_value_first ? second : first);
        Run(node.children[1], cursor, node.is_value_first ? first : second);
      });
      return;
    case Op::kPairsIntLong: {
      auto& pairs = As<std::vector<std::pair<int32_t, int64_t>>>(target);
      pairs.clear();
      cursor.ForItems(*node.type->element, 2, [&] {
        const int32_t key = cursor.Int();
        pairs.emplace_back(key, cursor.Long());
      });
      return;
    }
    case Op::kPairsIntText: {
      auto& pairs = As<std::vector<std::pair<int32_t, std::string>>>(target);
      pairs.clear();
      cursor.ForItems(*node.type->element, 2, [&] {
        const int32_t key = cursor.Int();
        pairs.emplace_back(key, cursor.Bytes());
      });
      return;
    }
  }
}

}  // namespace

Result<AvroDecoder> AvroDecoder::Compile(const AvroType& record, const AvroSlots& slots,
                                         std::string_view what) {
  if (record.kind != AvroKind::kRecord) {
    return Status(Code::kCorruption, fmt::format("read {}: its schema is no record", what));
  }
  PF_ASSIGN(Node root, CompileRecord(record, slots, what));
  return AvroDecoder(std::make_unique<Node>(std::move(root)));
}

AvroDecoder::AvroDecoder(std::unique_ptr<internal::AvroDecodeNode> root) : root_(std::move(root)) {}
AvroDecoder::AvroDecoder(AvroDecoder&&) noexcept = default;
AvroDecoder& AvroDecoder::operator=(AvroDecoder&&) noexcept = default;
AvroDecoder::~AvroDecoder() = default;

void AvroDecoder::Decode(AvroCursor& cursor, void* record) const {
  Run(*root_, cursor, record);
}

}  // namespace partforge::data
