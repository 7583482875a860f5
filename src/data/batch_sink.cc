#include "data/batch_sink.h"

#include <arrow/record_batch.h>

#include <algorithm>
#include <utility>

namespace partforge::data {

Status RollingSink::Begin(const Context& ctx) {
  if (current_ != nullptr) return {};
  PF_ASSIGN(Opened opened, factory_(ctx, file_number_++));
  key_ = std::move(opened.key);
  current_ = std::move(opened.sink);
  return {};
}

bool RollingSink::IsFull() const {
  return current_->row_count() >= limits_.rows || !current_->has_room() ||
         current_->bytes_estimated() >= limits_.size_bytes;
}

Status RollingSink::Write(const Context& ctx, const arrow::RecordBatch& batch) {
  for (int64_t begin = 0; begin < batch.num_rows();) {
    PF_TRY(Begin(ctx));
    const int64_t room = limits_.rows - current_->row_count();
    const int64_t count = std::min(batch.num_rows() - begin, room);
    PF_TRY(current_->Write(ctx, *batch.Slice(begin, count)));
    begin += count;
    row_count_ += count;
    if (IsFull()) PF_TRY(Cut(ctx));
  }
  return {};
}

Status RollingSink::AppendEncoded(const Context& ctx, const EncodedRows& rows) {
  // Encoded rows cannot be cut: a file that would pass its limits by them ends before.
  if (current_ != nullptr && current_->row_count() > 0 &&
      (current_->row_count() + rows.row_count() > limits_.rows ||
       current_->bytes_estimated() + rows.bytes_estimated() / 2 > limits_.size_bytes)) {
    PF_TRY(Cut(ctx));
  }
  PF_TRY(Begin(ctx));
  PF_TRY(current_->AppendEncoded(ctx, rows));
  row_count_ += rows.row_count();
  return IsFull() ? Cut(ctx) : Status();
}

Status RollingSink::Cut(const Context& ctx) {
  if (current_ == nullptr) return {};
  PF_ASSIGN(WrittenFile file, current_->Close(ctx));
  current_.reset();
  file.key = std::exchange(key_, {});
  written_.push_back(std::move(file));
  PF_FAULT(ctx, "data.closed_file");
  return {};
}

Result<std::vector<WrittenFile>> RollingSink::Close(const Context& ctx) {
  PF_TRY(Cut(ctx));
  return std::move(written_);
}

Status RollingSink::Abort(const Context& ctx) {
  current_.reset();
  std::vector<std::string> keys;
  for (const WrittenFile& file : written_) keys.push_back(file.key);
  // A Close that failed may have made its object visible all the same.
  if (!key_.empty()) keys.push_back(key_);
  written_.clear();
  return keys.empty() ? Status() : store_.Delete(ctx, keys);
}

}  // namespace partforge::data
