#include "engine/config_xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace partforge {
namespace {

constexpr size_t kXmlBytesMax = size_t{16} << 20;
constexpr size_t kXmlDepthMax = 64;
constexpr size_t kXmlElementsMax = 1'000'000;

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}
bool IsNameChar(char c) {
  return IsNameStart(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

void AppendUtf8(std::string& text, uint32_t point) {
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xC0U | (point >> 6U));
    text += static_cast<char>(0x80U | (point & 0x3FU));
  } else if (point < 0x10000) {
    text += static_cast<char>(0xE0U | (point >> 12U));
    text += static_cast<char>(0x80U | ((point >> 6U) & 0x3FU));
    text += static_cast<char>(0x80U | (point & 0x3FU));
  } else {
    text += static_cast<char>(0xF0U | (point >> 18U));
    text += static_cast<char>(0x80U | ((point >> 12U) & 0x3FU));
    text += static_cast<char>(0x80U | ((point >> 6U) & 0x3FU));
    text += static_cast<char>(0x80U | (point & 0x3FU));
  }
}

class Scanner {
 public:
  explicit Scanner(std::string_view xml) : xml_(xml) {}

  Result<XmlLeaves> Run() {
    while (at_ < xml_.size()) {
      if (xml_[at_] != '<') {
        PF_TRY(Text());
      } else if (Skips("<!--", "-->") || Skips("<?", "?>")) {
        PF_TRY(SkipTo());
      } else if (Looks("<![CDATA[")) {
        PF_TRY(CData());
      } else if (Looks("<!")) {
        return Malformed("a declaration such as DOCTYPE is not supported");
      } else if (Looks("</")) {
        PF_TRY(Close());
      } else {
        PF_TRY(Open());
      }
    }
    if (!open_.empty()) return Malformed(fmt::format("element {} never closes", open_.back().name));
    if (elements_ == 0) return Malformed("no element");
    return std::move(leaves_);
  }

 private:
  struct Element {
    std::string name, text;
    bool has_children = false;
  };

  Status Malformed(std::string_view why) const {
    return Status(Code::kCorruption, fmt::format("XML at byte {}: {}", at_, why));
  }
  bool Looks(std::string_view text) const { return xml_.substr(at_).starts_with(text); }

  bool Skips(std::string_view opening, std::string_view closing) {
    if (!Looks(opening)) return false;
    skip_end_ = xml_.find(closing, at_ + opening.size());
    skip_size_ = closing.size();
    return true;
  }
  Status SkipTo() {
    if (skip_end_ == std::string_view::npos)
      return Malformed("a comment or instruction never ends");
    at_ = skip_end_ + skip_size_;
    return {};
  }

  Status Text() {
    const size_t end = std::min(xml_.find('<', at_), xml_.size());
    const std::string_view raw = xml_.substr(at_, end - at_);
    if (open_.empty()) {
      const bool is_mark = at_ == 0 && raw.starts_with("\xEF\xBB\xBF");
      if (!Trim(is_mark ? raw.substr(3) : raw).empty())
        return Malformed("text outside the root element");
    } else {
      PF_TRY(AppendText(raw));
    }
    at_ = end;
    return {};
  }

  Status AppendText(std::string_view raw) {
    std::string& text = open_.back().text;
    while (!raw.empty()) {
      const size_t entity = std::min(raw.find('&'), raw.size());
      text += raw.substr(0, entity);
      raw.remove_prefix(entity);
      if (raw.empty()) break;
      const size_t end = raw.find(';');
      if (end == std::string_view::npos) return Malformed("an entity never ends");
      PF_TRY(AppendEntity(text, raw.substr(1, end - 1)));
      raw.remove_prefix(end + 1);
    }
    return {};
  }

  Status AppendEntity(std::string& text, std::string_view name) {
    static constexpr std::array<std::pair<std::string_view, char>, 5> kNamed = {
        {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};
    for (const auto& [known, character] : kNamed) {
      if (name != known) continue;
      text += character;
      return {};
    }
    if (!name.starts_with('#')) return Malformed("an unknown entity");
    name.remove_prefix(1);
    const int base = name.starts_with('x') ? 16 : 10;
    if (base == 16) name.remove_prefix(1);
    uint32_t point = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), point, base);
    if (error != std::errc() || end != name.data() + name.size() || point == 0 ||
        point > 0x10FFFF) {
      return Malformed("a character reference out of range");
    }
    AppendUtf8(text, point);
    return {};
  }

  Status CData() {
    const size_t begin = at_ + 9;
    const size_t end = xml_.find("]]>", begin);
    if (end == std::string_view::npos) return Malformed("a CDATA section never ends");
    if (open_.empty()) return Malformed("text outside the root element");
    open_.back().text += xml_.substr(begin, end - begin);
    at_ = end + 3;
    return {};
  }

  std::string_view Name() {
    const size_t begin = at_;
    if (at_ < xml_.size() && IsNameStart(xml_[at_])) {
      while (at_ < xml_.size() && IsNameChar(xml_[at_])) ++at_;
    }
    return xml_.substr(begin, at_ - begin);
  }
  void SkipSpace() {
    while (at_ < xml_.size() && IsSpace(xml_[at_])) ++at_;
  }

  Status Open() {
    ++at_;
    const std::string_view name = Name();
    if (name.empty()) return Malformed("expected the name of an element");
    if (open_.size() >= kXmlDepthMax) return Malformed("elements nest too deeply");
    if (++elements_ > kXmlElementsMax) return Malformed("too many elements");
    if (open_.empty() && elements_ > 1) return Malformed("a second root element");
    PF_ASSIGN(const bool is_empty, Attributes());
    if (!open_.empty()) open_.back().has_children = true;
    open_.push_back({.name = std::string(name), .text = "", .has_children = false});
    if (is_empty) Leave();
    return {};
  }

  // Attributes are read over; true when the element ends at once ("/>").
  Result<bool> Attributes() {
    while (true) {
      SkipSpace();
      if (Looks("/>")) {
        at_ += 2;
        return true;
      }
      if (Looks(">")) {
        ++at_;
        return false;
      }
      if (Name().empty()) return Malformed("a malformed attribute");
      SkipSpace();
      if (!Looks("=")) return Malformed("an attribute without a value");
      ++at_;
      SkipSpace();
      if (!Looks("\"") && !Looks("'")) return Malformed("an attribute without quotes");
      const size_t end = xml_.find(xml_[at_], at_ + 1);
      if (end == std::string_view::npos) return Malformed("an attribute never ends");
      at_ = end + 1;
    }
  }

  Status Close() {
    at_ += 2;
    const std::string_view name = Name();
    SkipSpace();
    if (!Looks(">")) return Malformed("a malformed closing tag");
    ++at_;
    if (open_.empty() || open_.back().name != name)
      return Malformed(fmt::format("</{}> closes nothing", name));
    Leave();
    return {};
  }

  void Leave() {
    if (!open_.back().has_children && open_.size() > 1) {
      std::string path;
      for (size_t i = 1; i < open_.size(); ++i) path += (i > 1 ? "." : "") + open_[i].name;
      leaves_.emplace_back(std::move(path), Trim(open_.back().text));
    }
    open_.pop_back();
  }

  const std::string_view xml_;
  size_t at_ = 0, skip_end_ = 0, skip_size_ = 0, elements_ = 0;
  std::vector<Element> open_;
  XmlLeaves leaves_;
};

Result<std::vector<std::string_view>> SplitKey(std::string_view key) {
  std::vector<std::string_view> names;
  for (std::string_view rest = key; true;) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view name = rest.substr(0, dot);
    const bool is_name = !name.empty() && IsNameStart(name.front()) &&
                         name.find(':') == std::string_view::npos &&
                         std::all_of(name.begin(), name.end(), IsNameChar);
    if (!is_name || names.size() >= kXmlDepthMax) {
      return Status(Code::kInvalidArgument,
                    fmt::format("configuration key is not a dotted path of names: {}", key));
    }
    names.push_back(name);
    if (dot == rest.size()) return names;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace

Result<XmlLeaves> ReadXmlLeaves(std::string_view xml) {
  if (xml.size() > kXmlBytesMax) {
    return Status(Code::kCorruption,
                  fmt::format("XML above {} bytes: {}", kXmlBytesMax, xml.size()));
  }
  return Scanner(xml).Run();
}

Result<std::string> WriteClickHouseXml(const std::map<std::string, std::string>& leaves) {
  std::string xml = "<clickhouse>\n";
  std::vector<std::string_view> open;
  for (const auto& [key, value] : leaves) {
    PF_ASSIGN(const std::vector<std::string_view> names, SplitKey(key));
    size_t shared = 0;
    while (shared < open.size() && shared + 1 < names.size() && open[shared] == names[shared])
      ++shared;
    for (; open.size() > shared; open.pop_back()) xml += fmt::format("</{}>\n", open.back());
    for (; open.size() + 1 < names.size(); open.push_back(names[open.size()])) {
      xml += fmt::format("<{}>\n", names[open.size()]);
    }
    xml +=
        fmt::format("<{0} replace=\"replace\">{1}</{0}>\n", names.back(), EscapeConfigXml(value));
  }
  for (; !open.empty(); open.pop_back()) xml += fmt::format("</{}>\n", open.back());
  return xml + "</clickhouse>\n";
}

std::string EscapeConfigXml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace partforge
