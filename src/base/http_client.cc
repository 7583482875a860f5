#include "base/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <mutex>

#include "base/http_transfer.h"

namespace partforge {
namespace {

constexpr size_t kIdleChannelsMax = 64;
constexpr int64_t kPieceBytesMax = int64_t{1} << 20;

// "https://host:port" of a URL: the part that decides which kept connection fits.
std::string Origin(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t host = scheme == std::string_view::npos ? 0 : scheme + 3;
  return std::string(url.substr(0, url.find_first_of("/?#", host)));
}

}  // namespace

// Channels that wait for their next request, oldest first. Thread-safe.
struct HttpClient::Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<HttpChannel>> idle;  // guarded by mutex

  std::unique_ptr<HttpChannel> Take(const std::string& origin) {
    {
      const std::lock_guard lock(mutex);
      for (size_t i = idle.size(); i-- > 0;) {
        if (idle[i]->origin != origin) continue;
        std::unique_ptr<HttpChannel> channel = std::move(idle[i]);
        idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(i));
        return channel;
      }
    }
    return std::make_unique<HttpChannel>(origin);
  }

  void GiveBack(std::unique_ptr<HttpChannel> channel) {
    if (channel == nullptr) return;
    std::unique_ptr<HttpChannel> surplus;  // closed outside the lock
    const std::lock_guard lock(mutex);
    if (idle.size() >= kIdleChannelsMax) {
      surplus = std::move(idle.front());
      idle.erase(idle.begin());
    }
    idle.push_back(std::move(channel));
  }
};

namespace {

class PulledBody final : public HttpBody {
 public:
  using GiveBack = std::function<void(std::unique_ptr<HttpChannel>)>;
  PulledBody(std::unique_ptr<HttpTransfer> transfer, GiveBack give_back)
      : transfer_(std::move(transfer)), give_back_(std::move(give_back)) {}

  int status() const override { return transfer_->status(); }
  const std::map<std::string, std::string>& headers() const override {
    return transfer_->headers();
  }

  Result<std::optional<std::string>> Next(const Context& ctx) override {
    if (end_)
      return end_->ok() ? Result(std::optional<std::string>())
                        : Result<std::optional<std::string>>(*end_);
    Result<std::optional<std::string>> piece = transfer_->NextPiece(ctx);
    if (!piece.ok()) {
      end_ = piece.status();
    } else if (!piece->has_value()) {
      end_ = Status();
      give_back_(transfer_->TakeChannel());
    }
    return piece;
  }

 private:
  std::unique_ptr<HttpTransfer> transfer_;
  GiveBack give_back_;
  std::optional<Status> end_;  // how the body ended; every later call says the same
};

}  // namespace

HttpClient::HttpClient() : pool_(std::make_shared<Pool>()) {
  // libcurl and OpenSSL are set up once a process; the language makes the first call safe among
  // threads.
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  PF_CHECK(ready == CURLE_OK, "libcurl does not start");
}

HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::Send(const Context& ctx, const HttpRequest& request) {
  HttpTransfer transfer(pool_->Take(Origin(request.url)), request, request.body_bytes_max,
                        HttpTransfer::Overflow::kFails);
  PF_TRY(transfer.Begin());
  HttpReply reply;
  PF_ASSIGN(reply.body, transfer.AwaitBody(ctx));
  reply.status = transfer.status();
  reply.headers = transfer.headers();
  pool_->GiveBack(transfer.TakeChannel());
  return reply;
}

Result<std::unique_ptr<HttpBody>> HttpClient::Open(const Context& ctx, const HttpRequest& request) {
  auto transfer = std::make_unique<HttpTransfer>(pool_->Take(Origin(request.url)), request,
                                                 kPieceBytesMax, HttpTransfer::Overflow::kPauses);
  PF_TRY(transfer->Begin());
  PF_TRY(transfer->AwaitHeaders(ctx));
  return std::unique_ptr<HttpBody>(std::make_unique<PulledBody>(
      std::move(transfer), [pool = pool_](std::unique_ptr<HttpChannel> channel) {
        pool->GiveBack(std::move(channel));
      }));
}

}  // namespace partforge
