#include "threads.hpp"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#define ADJUDGE_POSIX
#endif

namespace adjudge {
namespace {

// A call that helpers may join. Everything but `run` belongs to the pool's lock.
struct Call {
    const std::function<void(int)>& run;  // called with the number of the thread, from 1 on
    int joined = 0, wanted;
    int running = 0;
    std::condition_variable left;

    Call(const std::function<void(int)>& run_, int wanted_) : run(run_), wanted(wanted_) {}
};

// Helpers that sleep between calls: waking one takes a fraction of the time of starting one. There are as many as calls
// have wanted at once.
class Pool {
  public:
    // Asks for helpers, and starts those that are missing, if they can be had.
    void ask(Call& call) {
        std::unique_lock<std::mutex> lock(mutex_);
        open_.push_back(&call);
        wanted_ += call.wanted;
        for (; idle_ < wanted_; ++idle_)
            if (!start()) break;
        lock.unlock();
        for (int i = 0; i < call.wanted; ++i) wake_.notify_one();
    }

    // Lets no more helpers join, and waits for those that did.
    void finish(Call& call) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (call.joined < call.wanted) {
            open_.remove(&call);
            wanted_ -= call.wanted - call.joined;
        }
        call.left.wait(lock, [&] { return call.running == 0; });
    }

  private:
    // Whether there is one helper more. Signals are for the threads of the program.
    bool start() {
        bool started = true;
#if defined(ADJUDGE_POSIX)
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
        try {
            std::thread([this] { help(); }).detach();
        } catch (const std::system_error&) {
            started = false;
        }
#if defined(ADJUDGE_POSIX)
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
        return started;
    }

    void help() {
#if defined(__linux__)
        pthread_setname_np(pthread_self(), "adjudge-pass");  // for debuggers, and for the test that counts helpers
#endif
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return !open_.empty(); });
            Call& call = *open_.front();
            const int number = ++call.joined;
            if (number == call.wanted) open_.pop_front();
            ++call.running;
            --wanted_;
            --idle_;
            lock.unlock();
            call.run(number);
            lock.lock();
            ++idle_;
            if (--call.running == 0) call.left.notify_one();  // under the lock: the call ends once it sees this
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::list<Call*> open_;  // calls that want more helpers
    int wanted_ = 0;         // by all of them
    int idle_ = 0;           // helpers that sleep, or are about to look for a call
};

std::atomic<Pool*> current{nullptr};

// The pool is never destroyed: at the end of the process its helpers sleep on it. The child of a fork has no helpers, and a
// lock that nobody opens: it gets a pool of its own.
Pool& pool() {
    static const bool watching = [] {
#if defined(ADJUDGE_POSIX)
        pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
#endif
        return true;
    }();
    (void)watching;
    Pool* found = current.load();
    if (found) return *found;
    Pool* const made = new Pool;
    if (current.compare_exchange_strong(found, made)) return *made;
    delete made;
    return *found;
}

}  // namespace

void share_out(int threads, int64_t pieces, const std::function<void(int, int64_t)>& work) {
    std::atomic<int64_t> next{0};
    const std::function<void(int)> run = [&](int thread) {
        for (int64_t piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) work(thread, piece);
    };
    const int helpers = int(std::min<int64_t>(threads, pieces)) - 1;
    if (helpers < 1) return run(0);
    Pool& helping = pool();
    Call call(run, helpers);
    helping.ask(call);
    run(0);
    helping.finish(call);
}

void share_range(int threads, int64_t n, int64_t grain,
                 const std::function<void(int64_t, int64_t)>& work) {
    share_out(threads, (n + grain - 1) / grain,
              [&](int, int64_t piece) { work(piece * grain, std::min(n, (piece + 1) * grain)); });
}

void in_threads(int threads, const std::function<void(int)>& work) {
    threads = std::max(threads, 1);
    std::vector<std::exception_ptr> failed(static_cast<size_t>(threads));
    share_out(threads, threads, [&](int, int64_t t) {
        try {
            work(int(t));
        } catch (...) {
            failed[size_t(t)] = std::current_exception();
        }
    });
    for (const std::exception_ptr& failure : failed)
        if (failure) std::rethrow_exception(failure);
}

}  // namespace adjudge
