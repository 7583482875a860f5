#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "data/avro_record.h"
#include "data/raw_bytes.h"

namespace partforge::data {

namespace internal {

enum class EncodeOp : uint8_t {
  kConstant,  // null without a member
  kBoolean,
  kInt,
  kLong,
  kLongAsInt,
  kFloat,
  kDouble,
  kFloatAsDouble,
  kText,
  kFixedText,
  kEnumText,
  kValue,
  kBranch,    // a union: always this branch
  kOptional,  // a union of null and the member's value
  kPresent,   // an optional member whose field may not be null
  kRecord,
  kList,
  kMapPairs,
  kArrayPairs,
};

struct AvroEncodeNode {
  EncodeOp op = EncodeOp::kConstant;
  const AvroType* type = nullptr;
  const AvroMember* member = nullptr;
  void* (*locate)(void* record) = nullptr;    // of a record's field
  std::string name = {};                      // of the field, for messages
  std::string constant = {};                  // kConstant
  int64_t null_branch = 0, value_branch = 0;  // of unions
  bool is_value_first = false;                // kArrayPairs
  std::vector<AvroEncodeNode> children = {};
};

}  // namespace internal

namespace {

using Node = internal::AvroEncodeNode;
using Op = internal::EncodeOp;

Status Unfit(std::string_view name, std::string_view why) {
  return Status(Code::kInvalidArgument, fmt::format("write Avro field {}: {}", name, why));
}

std::optional<Op> PlainOp(AvroKind kind, AvroMemberKind member) {
  switch (member) {
    case AvroMemberKind::kBoolean:
      if (kind == AvroKind::kBoolean) return Op::kBoolean;
      return std::nullopt;
    case AvroMemberKind::kInt:
      if (kind == AvroKind::kInt || kind == AvroKind::kLong) return Op::kInt;
      return std::nullopt;
    case AvroMemberKind::kLong:
      if (kind == AvroKind::kLong) return Op::kLong;
      if (kind == AvroKind::kInt) return Op::kLongAsInt;
      return std::nullopt;
    case AvroMemberKind::kFloat:
      if (kind == AvroKind::kFloat) return Op::kFloat;
      if (kind == AvroKind::kDouble) return Op::kFloatAsDouble;
      return std::nullopt;
    case AvroMemberKind::kDouble:
      if (kind == AvroKind::kDouble) return Op::kDouble;
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

Result<Node> CompileRecord(const AvroType& record, const AvroSlots& slots);
Result<Node> Compile(const AvroType& type, const AvroMember& member, const AvroSlot& slot);

Result<Node> CompileUnion(const AvroType& type, const AvroMember& member, const AvroSlot& slot) {
  const bool is_optional = member.kind == AvroMemberKind::kOptional;
  Node node{.op = is_optional ? Op::kOptional : Op::kBranch, .type = &type, .member = &member};
  node.name = slot.ref.name;
  node.null_branch = type.NullBranch();
  if (is_optional && node.null_branch < 0) return Unfit(slot.ref.name, "the union has no null");
  const AvroMember& value = is_optional ? *member.inner : member;
  Status failure = Unfit(slot.ref.name, "the union has no branch for a value");
  for (size_t i = 0; i < type.branches.size(); ++i) {
    if (type.branches[i]->kind == AvroKind::kNull) continue;
    auto child = Compile(*type.branches[i], value, slot);
    if (!child.ok()) {
      failure = child.status();
      continue;
    }
    node.value_branch = static_cast<int64_t>(i);
    node.children.push_back(std::move(child).value());
    return node;
  }
  return failure;
}

Result<Node> CompilePairs(const AvroType& type, const AvroMember& member, const AvroSlot& slot) {
  Node node{.type = &type, .member = &member};
  node.name = slot.ref.name;
  if (type.kind == AvroKind::kMap) {
    if (member.key->kind != AvroMemberKind::kText) return Unfit(slot.ref.name, "keys are no text");
    node.op = Op::kMapPairs;
    PF_ASSIGN(Node value, Compile(*type.element, *member.inner, slot));
    node.children.push_back(std::move(value));
    return node;
  }
  if (type.kind != AvroKind::kArray || type.element->kind != AvroKind::kRecord ||
      type.element->fields.size() != 2) {
    return Unfit(slot.ref.name, "the schema has neither a map nor an array of pairs");
  }
  const auto& fields = type.element->fields;
  node.op = Op::kArrayPairs;
  node.is_value_first = fields[0].name == "value" && fields[1].name == "key";
  for (size_t i = 0; i < 2; ++i) {
    const bool is_value = (i == 0) == node.is_value_first;
    PF_ASSIGN(Node child, Compile(*fields[i].type, is_value ? *member.inner : *member.key, slot));
    node.children.push_back(std::move(child));
  }
  return node;
}

Result<Node> Compile(const AvroType& type, const AvroMember& member, const AvroSlot& slot) {
  Node node{.type = &type, .member = &member};
  node.name = slot.ref.name;
  if (member.kind == AvroMemberKind::kValue) {
    node.op = Op::kValue;
    return node;
  }
  if (type.kind == AvroKind::kUnion) return CompileUnion(type, member, slot);
  switch (member.kind) {
    case AvroMemberKind::kOptional: {
      node.op = Op::kPresent;
      PF_ASSIGN(Node child, Compile(type, *member.inner, slot));
      node.children.push_back(std::move(child));
      return node;
    }
    case AvroMemberKind::kRecord: {
      PF_CHECK(slot.nested != nullptr, "a struct member without a binding of its own");
      if (type.kind != AvroKind::kRecord) return Unfit(slot.ref.name, "the schema has no record");
      return CompileRecord(type, *slot.nested);
    }
    case AvroMemberKind::kList: {
      if (type.kind != AvroKind::kArray) return Unfit(slot.ref.name, "the schema has no array");
      node.op = Op::kList;
      PF_ASSIGN(Node child, Compile(*type.element, *member.inner, slot));
      node.children.push_back(std::move(child));
      return node;
    }
    case AvroMemberKind::kPairs:
      return CompilePairs(type, member, slot);
    default:
      break;
  }
  const std::optional<Op> op = PlainOp(type.kind, member.kind);
  if (!op) return Unfit(slot.ref.name, "the schema has another type");
  node.op = *op;
  return node;
}

// A field that no member fills: null where the schema allows it.
Result<Node> CompileAbsent(const AvroField& field) {
  Node node{.op = Op::kConstant, .type = field.type};
  if (field.type->kind == AvroKind::kNull) return node;
  const int null_branch = field.type->NullBranch();
  if (null_branch < 0) return Unfit(field.name, "nothing fills it and it may not be null");
  PutAvroLong(null_branch, node.constant);
  return node;
}

Result<Node> CompileRecord(const AvroType& record, const AvroSlots& slots) {
  Node node{.op = Op::kRecord, .type = &record};
  std::vector<const AvroSlot*> filled_by(record.fields.size());
  for (const AvroSlot& slot : slots) {
    const AvroField* field = FindAvroField(record, slot.ref, slot.aliases);
    if (field == nullptr) continue;  // the writer's schema is older than the struct
    const AvroSlot*& place = filled_by[static_cast<size_t>(field - record.fields.data())];
    if (place != nullptr) return Unfit(field->name, "two members fill it");
    place = &slot;
  }
  for (size_t i = 0; i < record.fields.size(); ++i) {
    const AvroField& field = record.fields[i];
    if (filled_by[i] == nullptr) {
      PF_ASSIGN(Node absent, CompileAbsent(field));
      node.children.push_back(std::move(absent));
      continue;
    }
    PF_ASSIGN(Node child, Compile(*field.type, *filled_by[i]->member, *filled_by[i]));
    child.locate = filled_by[i]->locate;
    node.children.push_back(std::move(child));
  }
  return node;
}

template <class T>
const T& As(const void* source) {
  return *static_cast<const T*>(source);
}

Status Run(const Node& node, const void* source, std::string& out) {
  switch (node.op) {
    case Op::kConstant:
      out += node.constant;
      return {};
    case Op::kBoolean:
      out.push_back(As<bool>(source) ? '\x01' : '\0');
      return {};
    case Op::kInt:
      PutAvroLong(As<int32_t>(source), out);
      return {};
    case Op::kLong:
      PutAvroLong(As<int64_t>(source), out);
      return {};
    case Op::kLongAsInt: {
      const int64_t value = As<int64_t>(source);
      if (value != static_cast<int32_t>(value)) {
        return Unfit(node.name, fmt::format("above 32 bits: {}", value));
      }
      PutAvroLong(value, out);
      return {};
    }
    case Op::kFloat:
      AppendRaw(As<float>(source), out);
      return {};
    case Op::kFloatAsDouble:
      AppendRaw(double{As<float>(source)}, out);
      return {};
    case Op::kDouble:
      AppendRaw(As<double>(source), out);
      return {};
    case Op::kText:
      PutAvroBytes(As<std::string>(source), out);
      return {};
    case Op::kFixedText: {
      const auto& bytes = As<std::string>(source);
      if (static_cast<int64_t>(bytes.size()) != node.type->fixed_size_bytes) {
        return Unfit(node.name,
                     fmt::format("not {} bytes: {}", node.type->fixed_size_bytes, bytes.size()));
      }
      out += bytes;
      return {};
    }
    case Op::kEnumText: {
      const auto& symbols = node.type->symbols;
      const auto found = std::ranges::find(symbols, As<std::string>(source));
      if (found == symbols.end()) {
        return Unfit(node.name, fmt::format("no symbol: {}", As<std::string>(source)));
      }
      PutAvroLong(found - symbols.begin(), out);
      return {};
    }
    case Op::kValue: {
      auto status = EncodeAvroValue(*node.type, As<AvroValue>(source), out);
      return status.ok() ? status : std::move(status).With(node.name);
    }
    case Op::kBranch:
      PutAvroLong(node.value_branch, out);
      return Run(node.children[0], source, out);
    case Op::kOptional:
      if (node.member->size(source) == 0) {
        PutAvroLong(node.null_branch, out);
        return {};
      }
      PutAvroLong(node.value_branch, out);
      return Run(node.children[0], node.member->item(source, 0), out);
    case Op::kPresent:
      if (node.member->size(source) == 0) return Unfit(node.name, "it may not be absent");
      return Run(node.children[0], node.member->item(source, 0), out);
    case Op::kRecord:
      for (const Node& field : node.children) {
        // The locator only adds an offset; nothing is written through the pointer.
        PF_TRY(Run(field,
                   field.locate == nullptr ? nullptr : field.locate(const_cast<void*>(source)),
                   out));
      }
      return {};
    case Op::kList:
    case Op::kMapPairs:
    case Op::kArrayPairs: {
      const size_t count = node.member->size(source);
      if (count > 0) PutAvroLong(static_cast<int64_t>(count), out);
      for (size_t i = 0; i < count; ++i) {
        const void* item = node.member->item(source, i);
        if (node.op == Op::kList) {
          PF_TRY(Run(node.children[0], item, out));
          continue;
        }
        const void* first = node.member->first(const_cast<void*>(item));
        const void* second = node.member->second(const_cast<void*>(item));
        if (node.op == Op::kMapPairs) {
          PutAvroBytes(As<std::string>(first), out);
          PF_TRY(Run(node.children[0], second, out));
          continue;
        }
        PF_TRY(Run(node.children[0], node.is_value_first ? second : first, out));
        PF_TRY(Run(node.children[1], node.is_value_first ? first : second, out));
      }
      PutAvroLong(0, out);
      return {};
    }
  }
  return Status(Code::kInternal, "write Avro: an operation without code");
}

}  // namespace

Result<AvroEncoder> AvroEncoder::Compile(const AvroType& record, const AvroSlots& slots) {
  if (record.kind != AvroKind::kRecord) {
    return Status(Code::kInvalidArgument, "write Avro: the schema is no record");
  }
  PF_ASSIGN(Node root, CompileRecord(record, slots));
  return AvroEncoder(std::make_unique<Node>(std::move(root)));
}

AvroEncoder::AvroEncoder(std::unique_ptr<internal::AvroEncodeNode> root) : root_(std::move(root)) {}
AvroEncoder::AvroEncoder(AvroEncoder&&) noexcept = default;
AvroEncoder& AvroEncoder::operator=(AvroEncoder&&) noexcept = default;
AvroEncoder::~AvroEncoder() = default;

Status AvroEncoder::Encode(const void* record, std::string& out) const {
  const size_t begin = out.size();
  Status status = Run(*root_, record, out);
  if (!status.ok()) out.resize(begin);
  return status;
}

}  // namespace partforge::data
