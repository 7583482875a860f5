#include "engine/insert_head.h"

#include "engine/sql_lexer.h"

namespace partforge {
namespace {

// Reads the head of an INSERT token by token, never looking behind FORMAT x or VALUES.
class InsertHeadReader {
 public:
  explicit InsertHeadReader(std::string_view text) : text_(text), lexer_(text) { Step(); }

  std::optional<InsertHead> Read() {
    if (!Takes("INSERT") || !Takes("INTO")) return std::nullopt;
    Takes("TABLE");
    if (!token_ || !token_->IsName() || token_->IsWord("FUNCTION")) return std::nullopt;
    Step();
    if (token_ && token_->IsSymbol(".")) {
      Step();
      if (!token_ || !token_->IsName()) return std::nullopt;
      Step();
    }
    if (token_ && token_->IsSymbol("(") && !SkipBrackets()) return std::nullopt;
    if (token_ && token_->IsWord("SETTINGS") && !SkipSettings()) return std::nullopt;
    if (is_broken_) return std::nullopt;
    return End();
  }

 private:
  void Step() {
    if (token_) end_ = token_->end();
    auto next = lexer_.Next();
    is_broken_ = is_broken_ || !next.ok();
    token_ = next.ok() ? *next : std::nullopt;
  }
  bool Takes(std::string_view word) {
    const bool is_it = token_ && token_->IsWord(word);
    if (is_it) Step();
    return is_it;
  }
  // False for the bracket of a SELECT, or one that does not close.
  bool SkipBrackets() {
    int64_t depth = 0;
    for (; token_; Step()) {
      if (token_->IsSymbol("(")) ++depth;
      if (token_->IsSymbol(")") && --depth == 0) {
        Step();
        return true;
      }
      if (token_->IsWord("SELECT") || token_->IsWord("WITH")) return false;
    }
    return false;
  }
  bool SkipSettings() {
    Step();
    for (; token_; Step()) {
      if (token_->IsWord("FORMAT") || token_->IsWord("VALUES")) return true;
      if (token_->IsWord("SELECT") || token_->IsWord("WITH")) return false;
    }
    return true;
  }

  std::optional<InsertHead> End() {
    InsertHead head{.head = text_.substr(0, end_), .format = "", .data_offset = text_.size()};
    if (!token_ || token_->IsSymbol(";")) return head;
    if (token_->IsWord("VALUES")) {
      head.format = "Values";
      head.data_offset = token_->end();
      return head;
    }
    if (!Takes("FORMAT") || !token_ || token_->kind != SqlTokenKind::kWord) return std::nullopt;
    head.format = token_->text;
    size_t at = token_->end();
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\f')) ++at;
    if (at < text_.size() && text_[at] == ';') ++at;
    if (at < text_.size() && text_[at] == '\r') ++at;
    if (at < text_.size() && text_[at] == '\n') ++at;
    head.data_offset = at;
    return head;
  }

  const std::string_view text_;
  SqlLexer lexer_;
  std::optional<SqlToken> token_;
  size_t end_ = 0;  // of the token before
  bool is_broken_ = false;
};

}  // namespace

std::optional<InsertHead> FindInsertHead(std::string_view text) {
  return InsertHeadReader(text).Read();
}

}  // namespace partforge
