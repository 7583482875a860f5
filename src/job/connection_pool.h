#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"

namespace partforge {

// Lends connections, each to one thread at a time. Opens new ones up to a maximum, then makes
// callers wait. Thread-safe; outlives what it lends.
template <class Connection>
class ConnectionPool {
 public:
  using Opener = std::function<Result<std::unique_ptr<Connection>>()>;

  // A connection on loan: goes back at the end of the scope, or is closed when Discard was called.
  class Loan {
   public:
    Loan(ConnectionPool& pool, std::unique_ptr<Connection> connection)
        : pool_(&pool), connection_(std::move(connection)) {}
    Loan(Loan&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), connection_(std::move(other.connection_)) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (pool_ != nullptr) pool_->GiveBack(std::move(connection_));
    }
    Connection& operator*() const { return *connection_; }
    Connection* operator->() const { return connection_.get(); }
    // The connection is broken: closes it.
    void Discard() { connection_.reset(); }

   private:
    ConnectionPool* pool_;
    std::unique_ptr<Connection> connection_;  // null once discarded
  };

  explicit ConnectionPool(size_t connections_max) : connections_max_(connections_max) {}

  // Waits while all connections are lent. Fails as `open` fails.
  Result<Loan> Borrow(const Opener& open) {
    {
      std::unique_lock lock(mutex_);
      returned_.wait(lock, [this] { return !idle_.empty() || count_ < connections_max_; });
      if (!idle_.empty()) {
        std::unique_ptr<Connection> connection = std::move(idle_.back());
        idle_.pop_back();
        return Loan(*this, std::move(connection));
      }
      ++count_;
    }
    Result<std::unique_ptr<Connection>> opened =
        open();  // not under the mutex: it talks to the network
    if (!opened.ok()) {
      GiveBack(nullptr);
      return std::move(opened).status();
    }
    return Loan(*this, std::move(opened).value());
  }

  // Closes the idle connections, e.g. after the server ended them all.
  void CloseIdle() {
    std::vector<std::unique_ptr<Connection>> closing;
    const std::lock_guard lock(mutex_);
    count_ -= idle_.size();
    closing.swap(idle_);
  }

 private:
  void GiveBack(std::unique_ptr<Connection> connection) {
    {
      const std::lock_guard lock(mutex_);
      if (connection != nullptr) {
        idle_.push_back(std::move(connection));
      } else {
        --count_;
      }
    }
    returned_.notify_one();
  }

  const size_t connections_max_;
  std::mutex mutex_;
  std::condition_variable returned_;
  size_t count_ = 0;                               // guarded by mutex_: open or being opened
  std::vector<std::unique_ptr<Connection>> idle_;  // guarded by mutex_
};

}  // namespace partforge
