#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/chdb.h"

namespace partforge {

// One request's hold on an engine connection: its own, or a session's. Dropping it closes the own
// connection or gives the session's back, and frees the query id.
struct ConnectionLease {
  explicit ConnectionLease(std::function<void()> on_release) : release(std::move(on_release)) {}
  ~ConnectionLease();
  ConnectionLease(const ConnectionLease&) = delete;
  ConnectionLease& operator=(const ConnectionLease&) = delete;

  std::shared_ptr<ChdbConnection> connection;
  std::function<void()> release;
};

struct LeaseRequest {
  std::string query_id = {};
  std::string session_id = {};  // empty = a connection of its own
  int64_t session_idle_ms = 0;  // the session is closed when nobody used it for so long
  bool must_exist = false;      // session_check=1
};

// Connections of requests and sessions, and the query ids that run. Thread-safe.
class EngineSessions {
 public:
  EngineSessions(std::shared_ptr<const ChdbLibrary> library, std::vector<std::string> arguments);

  // Code 216 when the query id runs, 373 when the session is in use, 372 when it must exist and
  // does not.
  Result<std::shared_ptr<ConnectionLease>> Take(const LeaseRequest& request);
  Result<std::unique_ptr<ChdbConnection>> OpenConnection() const;
  void CloseAll();

 private:
  struct Session {
    std::shared_ptr<ChdbConnection> connection;
    bool is_busy = false;
    int64_t idle_ms = 0, last_used_ms = 0;
  };
  Status TakeSession(const LeaseRequest& request, ConnectionLease& lease);
  void Release(const std::string& query_id, const std::string& session_id);
  void CloseIdle();

  const std::shared_ptr<const ChdbLibrary> library_;
  const std::vector<std::string> arguments_;
  std::mutex mutex_;
  std::set<std::string> running_ids_;        // guarded by mutex_
  std::map<std::string, Session> sessions_;  // guarded by mutex_
};

}  // namespace partforge
