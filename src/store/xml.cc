#include "store/xml.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace partforge {
namespace {

constexpr uint32_t kCodePointMax = 0x10FFFF;

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void AppendUtf8(std::string& out, uint32_t point) {
  const auto tail = [&out, point](int shift) {
    out += static_cast<char>(0x80u | ((point >> shift) & 0x3Fu));
  };
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xC0u | (point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    out += static_cast<char>(0xE0u | (point >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0u | (point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

class Reader {
 public:
  Reader(std::string_view text, const XmlLimits& limits) : text_(text), limits_(limits) {}

  Result<XmlElement> Document() {
    if (text_.size() > limits_.size_bytes_max) return Wrong("the document is too large");
    if (text_.starts_with("\xEF\xBB\xBF")) at_ += 3;
    PF_TRY(SkipAround());
    PF_ASSIGN(XmlElement root, Element(0));
    PF_TRY(SkipAround());
    if (at_ != text_.size()) return Wrong("something follows the root element");
    return root;
  }

 private:
  Status Wrong(std::string_view what) const {
    return Status(Code::kCorruption, fmt::format("XML: {} at byte {}", what, at_));
  }
  std::string_view rest() const { return text_.substr(at_); }
  bool Take(std::string_view wanted) {
    if (!rest().starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  Status SkipPast(std::string_view end) {
    const size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) return Wrong(fmt::format("'{}' is missing", end));
    at_ = found + end.size();
    return {};
  }
  // Space, comments and processing instructions outside the root element.
  Status SkipAround() {
    while (true) {
      SkipSpace();
      if (Take("<?")) {
        PF_TRY(SkipPast("?>"));
      } else if (Take("<!--")) {
        PF_TRY(SkipPast("-->"));
      } else if (rest().starts_with("<!")) {
        return Wrong("a document type is not accepted");
      } else {
        return {};
      }
    }
  }
  Result<std::string> Name() {
    const size_t start = at_;
    while (at_ < text_.size() && !IsSpace(text_[at_]) && text_[at_] != '>' && text_[at_] != '/' &&
           text_[at_] != '<' && text_[at_] != '=') {
      ++at_;
    }
    if (at_ == start) return Wrong("a name is missing");
    const std::string_view name = text_.substr(start, at_ - start);
    const size_t colon = name.rfind(':');
    return std::string(colon == std::string_view::npos ? name : name.substr(colon + 1));
  }
  // From behind the element's name to '>' or '/>'. True when the element ends there.
  Result<bool> SkipAttributes() {
    while (true) {
      SkipSpace();
      if (Take("/>")) return true;
      if (Take(">")) return false;
      PF_TRY(Name());
      SkipSpace();
      if (!Take("=")) return Wrong("an attribute has no value");
      SkipSpace();
      if (Take("\"")) {
        PF_TRY(SkipPast("\""));
      } else if (Take("'")) {
        PF_TRY(SkipPast("'"));
      } else {
        return Wrong("an attribute's value has no quotes");
      }
    }
  }
  Result<XmlElement> Element(int depth) {
    if (depth >= limits_.depth_max) return Wrong("elements are nested too deeply");
    if (++elements_ > limits_.elements_max) return Wrong("too many elements");
    if (!Take("<")) return Wrong("an element is missing");
    XmlElement element;
    PF_ASSIGN(element.name, Name());
    PF_ASSIGN(const bool is_empty, SkipAttributes());
    if (is_empty) return element;
    while (!Take("</")) {
      if (at_ >= text_.size()) return Wrong(fmt::format("element '{}' has no end", element.name));
      if (Take("<!--")) {
        PF_TRY(SkipPast("-->"));
      } else if (Take("<![CDATA[")) {
        const size_t start = at_;
        PF_TRY(SkipPast("]]>"));
        element.text += text_.substr(start, at_ - start - 3);
      } else if (Take("<?")) {
        PF_TRY(SkipPast("?>"));
      } else if (text_[at_] == '<') {
        PF_ASSIGN(XmlElement child, Element(depth + 1));
        element.children.push_back(std::move(child));
      } else if (text_[at_] == '&') {
        PF_TRY(Entity(element.text));
      } else {
        element.text += text_[at_++];
      }
    }
    PF_ASSIGN(const std::string end_name, Name());
    SkipSpace();
    if (end_name != element.name || !Take(">")) {
      return Wrong(fmt::format("element '{}' ends as '{}'", element.name, end_name));
    }
    return element;
  }
  Status Entity(std::string& out) {
    const size_t end = text_.find(';', at_);
    if (end == std::string_view::npos || end - at_ > 12) return Wrong("an entity has no end");
    const std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
    if (name == "lt") {
      out += '<';
    } else if (name == "gt") {
      out += '>';
    } else if (name == "amp") {
      out += '&';
    } else if (name == "quot") {
      out += '"';
    } else if (name == "apos") {
      out += '\'';
    } else if (name.starts_with('#')) {
      const bool is_hex = name.starts_with("#x") || name.starts_with("#X");
      const std::string_view digits = name.substr(is_hex ? 2 : 1);
      uint32_t point = 0;
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), point, is_hex ? 16 : 10);
      if (error != std::errc() || stop != digits.data() + digits.size() || point == 0 ||
          point > kCodePointMax || (point >= 0xD800 && point <= 0xDFFF)) {
        return Wrong("a character reference is not one");
      }
      AppendUtf8(out, point);
    } else {
      return Wrong("an entity is unknown");
    }
    at_ = end + 1;
    return {};
  }

  const std::string_view text_;
  const XmlLimits limits_;
  size_t at_ = 0;
  int64_t elements_ = 0;
};

}  // namespace

const XmlElement* XmlElement::Child(std::string_view child_name) const {
  for (const XmlElement& child : children) {
    if (child.name == child_name) return &child;
  }
  return nullptr;
}

std::string_view XmlElement::ChildText(std::string_view child_name) const {
  const XmlElement* child = Child(child_name);
  return child == nullptr ? std::string_view() : std::string_view(child->text);
}

Result<XmlElement> ParseXml(std::string_view text, const XmlLimits& limits) {
  return Reader(text, limits).Document();
}

std::string EscapeXml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      case '\r':
        out += "&#13;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace partforge
