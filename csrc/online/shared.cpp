#include "shared.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <stdexcept>

#include "../encode/column_encode.hpp"
#include "../passes/honest.hpp"

namespace adjudge {
namespace {

void need(bool fine, const char* what) {
    if (!fine) throw std::invalid_argument(what);
}

// An IndexError in Python, unlike other errors: there is a moment when the name of a label is known, and the label is not.
void need_label(bool is_there) {
    if (!is_there) throw std::out_of_range("no such label");
}

Texts copy_of(const TextDictionary& ids) {
    Texts texts;
    texts.offsets.resize(ids.offsets().size());
    std::copy_n(ids.offsets().data(), ids.offsets().size(), texts.offsets.data());
    texts.data.resize(ids.data().size());
    std::copy_n(ids.data().data(), ids.data().size(), texts.data.data());
    return texts;
}

constexpr size_t kMostGone = 1000;  // forgotten tasks whose room is not worth the work of giving it back

void check_offsets(const Given::Ids& ids) {
    need(ids.offsets[0] == 0 && ids.offsets[ids.n] == int64_t(ids.size), "offsets go from 0 to the end of the texts");
    for (size_t i = 0; i < ids.n; ++i)
        need(ids.offsets[i] <= ids.offsets[i + 1] && ids.offsets[i + 1] <= int64_t(ids.size), "offsets never fall");
}

void add_texts(TextDictionary& to, const Given::Ids& ids, const char* twice) {
    check_offsets(ids);
    for (size_t i = 0; i < ids.n; ++i) {
        need(to.code({ids.data + ids.offsets[i], ids.offsets[i + 1] - ids.offsets[i]}) == i, twice);
    }
}

void check_pointers(const int64_t* ptr, size_t n, size_t end) {
    need(ptr[0] == 0 && ptr[n] == int64_t(end), "task_ptr goes from 0 to the number of votes");
    for (size_t i = 0; i < n; ++i) need(ptr[i] <= ptr[i + 1], "task_ptr never falls");
}

}  // namespace

// The first half of a change: what it has added is taken out again, unless the change came to its second half.
class SharedOnline::Change {
public:
    explicit Change(SharedOnline& online)
        : online_(online), mark_(online.state_.mark()), tasks_(online.tasks_.size()), workers_(online.workers_.size()),
          known_(online.tasks() + online.state_.evicted()) {}
    ~Change() {
        if (done_) return;
        for (size_t i = 0; i < expected; ++i) online_.state_.unexpect(codes[i]);
        online_.state_.rewind(mark_);
        online_.tasks_.truncate(tasks_);
        online_.workers_.truncate(workers_);
    }
    Change(const Change&) = delete;

    void done(bool task_numbers, bool worker_numbers) noexcept {
        done_ = true;
        if (!known_ && online_.tasks()) online_.task_numbers_ = task_numbers;
        if (!workers_ && online_.workers_.size()) online_.worker_numbers_ = worker_numbers;
    }

    const uint32_t* codes = nullptr;  // tasks on which votes are expected
    size_t expected = 0;


private:
    SharedOnline& online_;
    const Online::Mark mark_;
    const size_t tasks_, workers_, known_;
    bool done_ = false;
};

SharedOnline::SharedOnline(std::vector<uint64_t> label_hash, uint64_t seed, bool hard, double strength, bool replace)
    : state_(std::move(label_hash), hard, strength), salt_(baseline::mix(seed)), replace_(replace) {}

uint32_t SharedOnline::alive(uint32_t task) {
    return task < state_.tasks() && state_.gone(task) ? tasks_.again(task) : task;
}

void SharedOnline::add_tasks() {
    const auto* data = reinterpret_cast<const uint8_t*>(tasks_.data().data());
    while (state_.tasks() < tasks_.size()) {
        const int64_t* at = tasks_.offsets().data() + state_.tasks();
        const int32_t gold = golds_.of(text(tasks_, state_.tasks()));
        state_.add_task(baseline::mix(baseline::hash_text(data + at[0], data + at[1]) ^ salt_), gold);
    }
}

uint32_t SharedOnline::learn(std::string_view task, std::string_view worker, uint32_t label, bool task_numbers,
                             bool worker_numbers) {
    return learn(task, worker, label, task_numbers, worker_numbers, nullptr);
}

uint32_t SharedOnline::vote(std::string_view task, std::string_view worker, uint32_t label, bool& is_light) {
    return learn(task, worker, label, false, false, &is_light);
}

uint32_t SharedOnline::learn(std::string_view task, std::string_view worker, uint32_t label, bool task_numbers,
                             bool worker_numbers, bool* is_light) {
    need_label(label < uint32_t(state_.labels()));
    Change change(*this);
    const uint32_t place = alive(tasks_.code({task.data(), int64_t(task.size())}));
    const uint32_t who = workers_.code({worker.data(), int64_t(worker.size())});
    add_tasks();
    const uint32_t row = state_.add_row(who, label);
    state_.expect(place);
    change.done(task_numbers, worker_numbers);
    if (is_light && (*is_light = !state_.settles_next(place))) state_.learn_lightly(place, row, replace_);
    else state_.learn(place, row, replace_);
    return place;
}

int32_t SharedOnline::voted(std::string_view task, std::string_view worker) const {
    const uint32_t place = find_task(task), who = find_worker(worker);
    if (place == NONE || who == NONE) return -1;
    const Ballots& votes = state_.votes(place);
    for (size_t v = votes.size(); v-- > 0;)
        if (state_.row_worker(votes[v]) == who) return int32_t(state_.row_label(votes[v]));
    return -1;
}

void SharedOnline::abstain(std::string_view task, std::string_view worker, bool task_numbers, bool worker_numbers) {
    Change change(*this);
    alive(tasks_.code({task.data(), int64_t(task.size())}));
    workers_.code({worker.data(), int64_t(worker.size())});
    add_tasks();
    change.done(task_numbers, worker_numbers);
    ++abstentions_;
}

void SharedOnline::learn_many(const std::vector<std::unique_ptr<Batch>>& batches, const uint32_t* labels, size_t votes,
                              bool task_numbers, bool worker_numbers) {
    constexpr size_t kFar = 8, kNear = 3;  // votes ahead: far enough for memory to answer, near enough to be still there
    size_t all = 0;
    for (const auto& batch : batches) all += size_t(batch->length());
    need(all == votes, "a label for every vote");
    for (size_t i = 0; i < votes; ++i) need_label(labels[i] < uint32_t(state_.labels()) || labels[i] == NONE);
    Growing<uint32_t> task(votes), row(votes);  // row: first the worker
    Change change(*this);
    uint32_t *tasks = task.data(), *rows = row.data();
    size_t at = 0;
    for (const auto& batch : batches) {
        need(!encode(tasks_, batch->column(0), tasks + at).count, "a task is missing");
        need(!encode(workers_, batch->column(1), rows + at).count, "a worker is missing");
        at += size_t(batch->length());
    }
    if (state_.gone())
        for (size_t i = 0; i < votes; ++i) tasks[i] = alive(tasks[i]);
    add_tasks();
    change.codes = tasks;
    size_t kept = 0;  // votes that have a label come first from here on
    for (size_t i = 0; i < votes; ++i) {
        if (labels[i] == NONE) continue;
        tasks[kept] = tasks[i];
        rows[kept] = state_.add_row(rows[i], labels[i]);
        if (i + kFar < votes) state_.fetch(tasks[i + kFar]);
        state_.expect(tasks[kept]);
        change.expected = ++kept;
    }
    change.done(task_numbers, worker_numbers);
    abstentions_ += int64_t(votes - kept);
    votes = kept;
    for (size_t i = 0; i < votes; ++i) {
        if (i + kFar < votes) state_.fetch(tasks[i + kFar]);
        if (i + kNear < votes) state_.fetch_counts(tasks[i + kNear]);
        state_.learn(tasks[i], rows[i], replace_);
    }
}

int SharedOnline::retract(std::string_view task, std::string_view worker) {
    const uint32_t place = find_task(task), who = find_worker(worker);
    return place == NONE || who == NONE ? 0 : state_.retract(place, who);
}

bool SharedOnline::set_gold(std::string_view task, int label) {
    need_label(label >= -1 && label < state_.labels());
    if (label < 0 && golds_.of(task) < 0) return false;
    if (label >= 0) golds_.expect(task);
    const uint32_t place = find_task(task);
    if (place != NONE) state_.set_gold(place, label);
    golds_.set(task, label);
    return true;
}

int SharedOnline::forget(std::string_view task) {
    const uint32_t place = find_task(task);
    if (place == NONE) return -1;
    const int votes = state_.forget(place);
    if (golds_.of(task) >= 0) golds_.set(task, -1);
    if (wants_compaction()) compact();
    return votes;
}

bool SharedOnline::wants_compaction() const { return state_.gone() > kMostGone && state_.gone() > tasks(); }

bool SharedOnline::evict(std::string_view task, Record& out) {
    const uint32_t place = find_task(task);
    if (place == NONE) return false;
    for (const uint32_t row : state_.votes(place))
        out.votes.emplace_back(worker_text(state_.row_worker(row)), state_.row_label(row));
    Evicted found = state_.evict(place);
    out.label = found.label;
    if (!state_.hard()) out.units = std::move(found.units);
    out.fitted = found.fitted;
    out.gold = found.gold;
    out.number = int64_t(found.number);
    if (found.gold >= 0) golds_.set(task, -1);
    return true;
}

void SharedOnline::bring_back(std::string_view task, const Record& record) {
    const int k = state_.labels();
    const bool has = !record.votes.empty();
    need(find_task(task) == NONE, "the task is in memory");
    need(has ? record.label >= 0 && record.label < k : record.label == -1, "a label for every task that has votes");
    need(record.gold >= -1 && record.gold < k && (record.gold < 0 || !has || record.label == record.gold), "no such gold");
    need(record.fitted >= 0 && record.fitted <= (has ? 2 : 0), "whether a fit gave the label");
    need(record.number >= 0, "it has a number that no task had");
    Evicted back;
    back.label = record.label;
    back.fitted = uint8_t(record.fitted);
    back.gold = record.gold;
    back.number = uint64_t(record.number);
    if (!state_.hard()) {
        need(record.units && record.units->size() <= size_t(k), "its probabilities are missing");
        int64_t left = has ? Online::ONE : 0;
        for (const int64_t units : *record.units) {
            need(units >= 0 && units <= left, "its probabilities sum to one");
            left -= units;
        }
        need(left == 0, "its probabilities sum to one");
        need(record.gold < 0 || !has || (size_t(record.gold) < record.units->size() &&
                                         (*record.units)[size_t(record.gold)] == Online::ONE), "no such gold");
        back.units = *record.units;
        back.units.resize(size_t(k), 0);
    }
    for (const auto& [worker, label] : record.votes) {
        const uint32_t who = find_worker(worker);
        const int32_t row = who == NONE || label < 0 || label >= k ? -1 : state_.row_of(who, uint32_t(label));
        need(row >= 0, "its votes are not among those of evicted tasks");
        back.rows.push_back(uint32_t(row));
    }
    const int32_t newer = golds_.of(task);  // given while it was away
    if (record.gold >= 0) golds_.expect(task);
    state_.leave_base(back);
    try {
        Change change(*this);
        alive(tasks_.code({task.data(), int64_t(task.size())}));
        add_tasks();
        state_.expect_back(back.rows.size());
        change.done(task_numbers_, worker_numbers_);
    } catch (...) {
        state_.rejoin_base(back);
        throw;
    }
    state_.bring_back(back);
    if (newer < 0 && record.gold >= 0) golds_.set(task, record.gold);
    if (newer >= 0 && newer != record.gold) state_.set_gold(uint32_t(state_.tasks() - 1), newer);
}

// Codes of forgotten tasks are used again when most are such: each then costs as much as learning it did.
void SharedOnline::compact() noexcept {
    try {
        TextDictionary left;
        for (const uint32_t t : state_.in_order()) left.code({task_text(t).data(), int64_t(task_text(t).size())});
        state_.compact();
        std::swap(tasks_, left);
    } catch (const std::bad_alloc&) {  // then they take room for longer
    }
}

Texts SharedOnline::task_texts() const {
    if (!state_.gone() && state_.is_in_order()) return copy_of(tasks_);
    Texts texts;
    texts.offsets.push(0);
    for (const uint32_t t : state_.in_order()) {
        const std::string_view id = task_text(t);
        std::copy_n(id.data(), id.size(), texts.data.extend(id.size()));
        texts.offsets.push(int64_t(texts.data.size()));
    }
    return texts;
}

// Winners and units are used as indices and as weights: a wrong one would spoil memory or counts.
void SharedOnline::check_shares(const int64_t* task_ptr, size_t tasks, size_t votes, Shares shares) const {
    check_pointers(task_ptr, tasks, votes);
    const int k = state_.labels();
    need(!shares.units || shares.width <= size_t(k), "shares of labels that there are");
    for (size_t t = 0; t < tasks; ++t) {
        const bool has = task_ptr[t] < task_ptr[t + 1];
        need(has ? shares.winners[t] >= 0 && shares.winners[t] < k : shares.winners[t] == -1, "a label for every task");
        need(!shares.fitted || shares.fitted[t] <= (has ? 2 : 0), "whether a fit gave every label");
        if (!shares.units) continue;
        int64_t left = has ? Online::ONE : 0;
        for (size_t c = 0; c < shares.width; ++c) {
            const int64_t units = shares.units[t * shares.width + c];
            need(units >= 0 && units <= left, "the shares of a task sum to one");
            left -= units;
        }
        need(left == 0, "the shares of a task sum to one");
    }
}

void SharedOnline::restore(const Given& given, Shares shares, bool task_numbers, bool worker_numbers) {
    need(tasks_.size() == 0 && workers_.size() == 0, "only an empty stream can be restored");
    need(given.abstentions >= 0, "how many abstentions there were");
    check_shares(given.task_ptr, given.tasks.n, given.votes, shares);
    for (size_t v = 0; v < given.votes; ++v) need(given.row[v] < given.rows, "no such row");
    for (size_t r = 0; r < given.rows; ++r)
        need(given.row_worker[r] < given.workers.n && given.row_label[r] < uint32_t(state_.labels()), "no such worker or label");
    Golds golds;
    check_offsets(given.golds);
    const auto gold = [&](size_t i) {
        const int64_t* at = given.golds.offsets + i;
        return std::string_view{given.golds.data + at[0], size_t(at[1] - at[0])};
    };
    for (size_t i = 0; i < given.golds.n; ++i) {
        need(given.gold_labels[i] >= 0 && given.gold_labels[i] < state_.labels(), "no such label");
        need(golds.of(gold(i)) < 0, "two of its gold labels are of the same task");
        golds.expect(gold(i));
        golds.set(gold(i), given.gold_labels[i]);
    }
    Change change(*this);
    add_texts(tasks_, given.tasks, "two of its tasks have the same name");
    add_texts(workers_, given.workers, "two of its workers have the same name");
    add_tasks();
    for (size_t r = 0; r < given.rows; ++r)
        need(state_.add_row(given.row_worker[r], given.row_label[r]) == r, "a (worker, label) pair has two rows");
    for (uint32_t t = 0; t < given.tasks.n; ++t)
        for (int64_t v = given.task_ptr[t]; v < given.task_ptr[t + 1]; ++v) state_.add_vote(t, given.row[v]);
    for (size_t i = 0; i < given.golds.n; ++i) {
        const uint32_t t = find_task(gold(i));
        if (t == NONE) continue;
        const bool has = given.task_ptr[t] < given.task_ptr[t + 1];
        const size_t label = size_t(given.gold_labels[i]);
        need(!has || shares.winners[t] == int32_t(label), "a task with gold has another label");
        need(!has || !shares.units || (label < shares.width && shares.units[t * shares.width + label] == Online::ONE),
             "a task with gold has another label");
        state_.start_gold(t, int(label));
    }
    need(given.evicted >= 0 && (given.evicted > 0) == (given.base_counts != nullptr), "what evicted tasks add up to");
    need(!given.base_counts || (given.base_labelled != nullptr) == (shares.units != nullptr), "what evicted tasks add up to");
    if (given.base_counts)
        state_.start_base(given.base_counts, given.base_classes, given.base_labelled, given.base_labelled_classes,
                          uint64_t(given.evicted));
    need(given.tasks_seen >= 0, "how many tasks there were");
    if (given.order) state_.start_numbers(given.order, uint64_t(given.tasks_seen));
    std::vector<uint32_t> place(given.tasks.n);
    std::iota(place.begin(), place.end(), 0);
    state_.adopt(place.data(), given.task_ptr, given.row, shares, shares.units == nullptr);
    if (given.changes >= 0) state_.start_changes(uint64_t(given.changes));
    change.done(task_numbers, worker_numbers);
    abstentions_ = given.abstentions;
    std::swap(golds_, golds);
    task_numbers_ = task_numbers;
    worker_numbers_ = worker_numbers;
}

void SharedOnline::adopt(const Given::Ids& tasks, const int64_t* task_ptr, const uint32_t* row, size_t votes, Shares shares,
                         bool hard) {
    check_offsets(tasks);
    check_shares(task_ptr, tasks.n, votes, shares);
    std::vector<uint32_t> place(state_.tasks(), NONE);
    for (size_t i = 0; i < tasks.n; ++i) {
        const uint32_t t = find_task({tasks.data + tasks.offsets[i], size_t(tasks.offsets[i + 1] - tasks.offsets[i])});
        if (t != NONE) place[t] = uint32_t(i);
    }
    state_.adopt(place.data(), task_ptr, row, shares, hard);
}

Snapshot SharedOnline::snapshot() const {
    const size_t tasks = this->tasks(), k = size_t(state_.labels());
    Snapshot s;
    s.hard = state_.hard();
    s.k = k;
    s.abstentions = abstentions_;
    s.tasks = task_texts();
    s.workers = copy_of(workers_);
    s.row_worker.resize(state_.rows());
    s.row_label.resize(state_.rows());
    for (size_t r = 0; r < state_.rows(); ++r) s.row_worker[r] = state_.row_worker(r), s.row_label[r] = state_.row_label(r);
    s.task_ptr.resize(tasks + 1);
    s.task_ptr[0] = 0;
    const std::vector<uint32_t> order = state_.in_order();
    for (size_t at = 0; at < tasks; ++at) s.task_ptr[at + 1] = s.task_ptr[at] + state_.votes(order[at]).size();
    s.row.resize(size_t(s.task_ptr[tasks]));
    s.winners.resize(tasks);
    s.task_gold.resize(tasks);
    s.fitted.resize(tasks);
    s.order.resize(tasks);
    if (!s.hard) s.units.resize(tasks * k);
    for (size_t at = 0; at < tasks; ++at) {
        const uint32_t t = order[at];
        std::copy(state_.votes(t).begin(), state_.votes(t).end(), s.row.data() + s.task_ptr[at]);
        s.winners[at] = state_.label(t);
        s.task_gold[at] = state_.gold(t);
        s.fitted[at] = state_.fitted(t);
        s.order[at] = int64_t(state_.number(t));
        if (!s.hard) std::copy_n(state_.units(t), k, s.units.data() + at * k);
    }
    s.tasks_seen = int64_t(state_.next_number());
    s.evicted = int64_t(state_.evicted());
    if (s.evicted) {
        const auto copy = [&](const Counts& of, Growing<int64_t>& counts, Growing<int64_t>& classes) {
            counts.resize(state_.rows() * k);  // there may be newer rows than the base has
            std::fill(std::copy(of.rows.begin(), of.rows.end(), counts.data()), counts.data() + counts.size(), 0);
            classes.resize(k);
            std::copy(of.classes.begin(), of.classes.end(), classes.data());
        };
        copy(state_.base(), s.base_counts, s.base_classes);
        if (!s.hard) copy(state_.labelled_base(), s.base_labelled, s.base_labelled_classes);
    }
    s.changes = state_.changes();
    s.measured = state_.measured();
    s.golds.offsets.push(0);
    for (const auto& [id, label] : golds_.sorted()) {
        std::copy_n(id.data(), id.size(), s.golds.data.extend(id.size()));
        s.golds.offsets.push(int64_t(s.golds.data.size()));
        s.gold_labels.push(label);
    }
    return s;
}

TaskTable SharedOnline::task_table(Confidence kind) const {
    const size_t n = tasks();
    TaskTable out{task_texts(),        Growing<int32_t>(n), Growing<double>(n), Growing<bool>(n),
                  Growing<int64_t>(n), Growing<bool>(n),    golds_.size() > 0};
    std::vector<double> probabilities(size_t(state_.labels()));
    Scratch scratch;
    size_t at = 0;
    for (const uint32_t t : state_.in_order()) {
        const Answer told = state_.answer(t, kind, scratch, probabilities.data());
        out.votes[at] = state_.votes(t).size();
        out.label[at] = out.votes[at] || told.certain ? told.label : -1;
        out.gold[at] = told.certain;
        out.confidence[at] = probabilities[size_t(told.label)];
        out.tie[at++] = told.tied;
    }
    return out;
}

WorkerTable SharedOnline::worker_table(Confidence kind) const {
    const size_t n = workers_.size(), k = size_t(state_.labels());
    WorkerTable out{copy_of(workers_), Growing<int64_t>(n), Growing<int64_t>(n), Growing<int64_t>(n)};
    std::fill_n(out.votes.data(), n, 0);
    std::fill_n(out.right.data(), n, 0);
    std::fill_n(out.doubt.data(), n, 0);
    for (uint32_t t = 0; t < state_.tasks(); ++t)
        for (const uint32_t row : state_.votes(t)) ++out.votes[state_.row_worker(row)];
    if (kind != Confidence::posterior) {
        std::vector<double> p(k);
        Scratch scratch;
        for (uint32_t t = 0; t < state_.tasks(); ++t) {
            if (state_.votes(t).empty()) continue;
            if (const int32_t gold = state_.gold(t); gold >= 0) {
                for (const uint32_t row : state_.votes(t))
                    if (int32_t(state_.row_label(row)) == gold) out.right[state_.row_worker(row)] += std::llrint(1.0 / kAnswerUnit);
                continue;
            }
            state_.honest(t, scratch, p.data());
            const int64_t doubt = std::llrint((1.0 - p[size_t(state_.label(t))]) / kAnswerUnit);
            for (const uint32_t row : state_.votes(t)) {
                out.right[state_.row_worker(row)] += std::llrint(p[state_.row_label(row)] / kAnswerUnit);
                out.doubt[state_.row_worker(row)] += doubt;
            }
        }
        return out;
    }
    const auto& base = state_.base().rows;  // of votes that are not in memory
    for (size_t r = 0; r < state_.rows(); ++r) {
        const size_t at = r * k + state_.row_label(r);
        out.right[state_.row_worker(r)] += state_.counts().rows[at] - (at < base.size() ? base[at] : 0);
    }
    return out;
}

}  // namespace adjudge
