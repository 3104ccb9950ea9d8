/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections: one save, lives, starts, the check.
 */
#include "tests/store/proof/life.h"

#include "runtime/base/array.h"
#include "tests/store/model.h"
#include "tests/store/proof/allocation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP_ALL = 8, RECOVERY_OPERATIONS_MAX = 2000 };

#define BIT(step) (UINT64_C(1) << (step))

static model state, loaded; /* not in the life's own memory, whose allocation may fail */

const life_fault life_faults[] = {
    {.name = "crash-before", .plan = {.kind = FAULT_CRASH_BEFORE}, .dies = true},
    {.name = "crash-after", .plan = {.kind = FAULT_CRASH_AFTER}, .dies = true},
    {.name = "eio", .plan = {.kind = FAULT_ERROR, .error = EIO}},
    {.name = "enospc", .plan = {.kind = FAULT_ERROR, .error = ENOSPC}},
    {.name = "edquot", .plan = {.kind = FAULT_ERROR, .error = EDQUOT}},
    {.name = "eintr", .plan = {.kind = FAULT_ERROR, .error = EINTR}},
    {.name = "done-eio", .plan = {.kind = FAULT_ERROR_AFTER, .error = EIO}},
    {.name = "done-enospc", .plan = {.kind = FAULT_ERROR_AFTER, .error = ENOSPC}},
    {.name = "short-0", .plan = {.kind = FAULT_SHORT_WRITE, .part_bytes = 0, .name = "pwrite"}},
    {.name = "short-1", .plan = {.kind = FAULT_SHORT_WRITE, .part_bytes = 1, .name = "pwrite"}},
    {.name = "short-511", .plan = {.kind = FAULT_SHORT_WRITE, .part_bytes = 511, .name = "pwrite"}},
    {.name = "short-512", .plan = {.kind = FAULT_SHORT_WRITE, .part_bytes = 512, .name = "pwrite"}},
    {.name = "short-4095",
     .plan = {.kind = FAULT_SHORT_WRITE, .part_bytes = 4095, .name = "pwrite"}},
    {.name = "sync-drops", .plan = {.kind = FAULT_SYNC_DROPS, .error = EIO, .name = "fsync"}},
    {.name = "sync-enospc", .plan = {.kind = FAULT_SYNC_DROPS, .error = ENOSPC, .name = "fsync"}},
    {.name = "link-eexist", .plan = {.kind = FAULT_ERROR, .error = EEXIST, .name = "link"}},
    {.name = "link-eperm", .plan = {.kind = FAULT_ERROR, .error = EPERM, .name = "link"}},
    {.name = "rename-eio", .plan = {.kind = FAULT_ERROR, .error = EIO, .name = "rename"}},
    {.name = "close-eio", .plan = {.kind = FAULT_ERROR, .error = EIO, .name = "close"}},
    {.name = "close-edquot", .plan = {.kind = FAULT_ERROR, .error = EDQUOT, .name = "close"}},
    {.name = "allocation", .allocation = true},
};
const size_t life_fault_count = TSR_COUNT(life_faults);

__attribute__((format(printf, 2, 3))) static void violate(char out_text[LIFE_TEXT],
                                                          const char *format, ...) {
    va_list list;
    if (out_text[0]) return; /* only the first violation is reported */
    va_start(list, format);
    vsnprintf(out_text, LIFE_TEXT, format, list);
    va_end(list);
}

/* ---- one save ---- */

/* Returns true if the save was acknowledged. */
static bool save(tsr_ctx *ctx, tsr_store *store, life_facts *facts, char violation[LIFE_TEXT]) {
    unsigned step = facts->steps + 1;
    tsr_position position = model_position(step);
    tsr_save_status before = tsr_store_wait(store);
    if (step > LIFE_STEPS_MAX) abort();
    model_fill(&state, step);
    if (tsr_store_save(ctx, store, &position).code) return false;
    facts->steps = step;
    tsr_save_status after = tsr_store_wait(store);
    if (after.committed_count > before.committed_count) {
        if (after.last_committed.position.step != step)
            violate(violation, "step %u was saved, %" PRIu64 " was acknowledged", step,
                    after.last_committed.position.step);
        facts->allowed = BIT(step);
        return true;
    }
    if (after.failed_count == before.failed_count)
        violate(violation, "the save of step %u neither failed nor was it acknowledged", step);
    /* A save that failed for certain may not appear later. */
    if (after.outcome_unknown || after.fenced) facts->allowed |= BIT(step);
    return false;
}

/* ---- lives ---- */

static void begin_faults(life_run *run) {
    fault_plan plan = run->first ? run->first->plan : (fault_plan){0};
    plan.at = run->at;
    plan.persistent = run->persistent;
    fault_io_arm_pair(run->disk, &plan, run->second);
    if (run->first && run->first->allocation) allocation_arm(run->at, run->persistent);
}

static void end_faults(life_run *run) {
    bool allocation = run->first && run->first->allocation;
    run->fired = allocation ? allocation_fired() : fault_io_fired(run->disk);
    run->both_fired =
        allocation ? run->fired && fault_io_fired(run->disk) : fault_io_both_fired(run->disk);
    run->opportunities = allocation ? allocation_count() : fault_io_matched(run->disk);
    snprintf(run->operation, sizeof run->operation, "%s",
             allocation ? "allocation" : fault_io_fired_name(run->disk));
    allocation_arm(0, false);
    if (fault_io_is_endless(run->disk)) violate(run->violation, "it did not end");
    size_t open = fault_io_open_count(run->disk);
    if (open) violate(run->violation, "%zu descriptors were left open", open);
}

static tsr_result open_store(life_run *run, tsr_ctx *ctx, uint32_t keep, uint64_t exact,
                             const tsr_tensor *landing, tsr_store **out_store,
                             tsr_recovery *out_recovery) {
    tsr_store_options options = model_options("/s");
    options.keep = keep;
    options.tensors = landing;
    options.tensor_count = landing ? MODEL_TENSORS : 0;
    tsr_result result = tsr_store_open(ctx, &options, exact ? TSR_RESUME_EXACT : TSR_RESUME_AUTO,
                                       exact, out_store, out_recovery);
    if (result.code) return result;
    uint64_t step = out_recovery->found ? out_recovery->generation.position.step : 0;
    bool allowed = step <= LIFE_STEPS_MAX && (run->facts.allowed & BIT(step));
    if (!allowed && run->medium_fails && out_recovery->damaged_count)
        run->fell_back = true;
    else if (!allowed)
        violate(run->violation, "resumed from step %" PRIu64 "; allowed are 0x%" PRIx64, step,
                run->facts.allowed);
    run->facts.allowed = BIT(step & LIFE_STEPS_MAX);
    return result;
}

static void load(life_run *run, tsr_ctx *ctx, tsr_store *store, const tsr_recovery *recovery) {
    uint64_t step = recovery->generation.position.step;
    if (!recovery->found) return;
    if (!tsr_store_load(ctx, store, loaded.tensors, MODEL_TENSORS).code && !model_is(&loaded, step))
        violate(run->violation, "what was loaded is not the state of step %" PRIu64, step);
}

static void save_some(life_run *run, tsr_ctx *ctx, tsr_store *store, unsigned count) {
    for (unsigned i = 0; i < count; i++) save(ctx, store, &run->facts, run->violation);
}

/* Runs a whole life, from opening to closing the store. */
static void live_whole(life_run *run) {
    tsr_ctx ctx = {.io = fault_io_table(run->disk)};
    tsr_store *store;
    tsr_recovery recovery;
    begin_faults(run);
    if (!open_store(run, &ctx, 2, 0, NULL, &store, &recovery).code) {
        load(run, &ctx, store, &recovery);
        if (!tsr_store_reserve(&ctx, store, state.tensors, MODEL_TENSORS).code)
            save_some(run, &ctx, store, 2);
        tsr_store_close(&ctx, store);
    }
    end_faults(run);
}

static void live_saving(life_run *run, uint32_t keep) {
    tsr_ctx ctx = {.io = fault_io_table(run->disk)};
    tsr_store *store;
    tsr_recovery recovery;
    if (open_store(run, &ctx, keep, 0, NULL, &store, &recovery).code ||
        tsr_store_reserve(&ctx, store, state.tensors, MODEL_TENSORS).code) {
        violate(run->violation, "before any fault: %s", ctx.error.text);
        return;
    }
    begin_faults(run);
    save_some(run, &ctx, store, 2);
    tsr_store_close(&ctx, store);
    end_faults(run);
}
static void live_save(life_run *run) { live_saving(run, KEEP_ALL); }
static void live_collect(life_run *run) { live_saving(run, 2); }

static void live_recover(life_run *run) {
    tsr_ctx ctx = {.io = fault_io_table(run->disk)};
    tsr_store *store;
    tsr_recovery recovery;
    memset(loaded.weights, 0, sizeof loaded.weights);
    begin_faults(run);
    if (!open_store(run, &ctx, 2, 0, loaded.tensors, &store, &recovery).code) {
        load(run, &ctx, store, &recovery);
        tsr_store_close(&ctx, store);
    }
    end_faults(run);
}

/* Resumes from an earlier generation; the generations above it are given up. */
static void live_resume(life_run *run) {
    tsr_ctx ctx = {.io = fault_io_table(run->disk)};
    tsr_store *store;
    tsr_recovery recovery;
    run->facts.allowed |= BIT(3); /* generation 3 of the start contains step 3 */
    run->facts.good = 3;
    begin_faults(run);
    if (!open_store(run, &ctx, KEEP_ALL, 3, NULL, &store, &recovery).code) {
        if (run->facts.allowed != BIT(3)) violate(run->violation, "another one was asked for");
        load(run, &ctx, store, &recovery);
        if (!tsr_store_reserve(&ctx, store, state.tensors, MODEL_TENSORS).code)
            save_some(run, &ctx, store, 1);
        tsr_store_close(&ctx, store);
    }
    end_faults(run);
}

static void ignore_line(void *user, const char *line) {
    (void)user;
    (void)line;
}

static void live_prune(life_run *run) {
    tsr_ctx ctx = {.io = fault_io_table(run->disk)};
    run->facts.good = 2;
    begin_faults(run);
    if (tsr_store_prune(&ctx, "/s", 2, false, ignore_line, NULL).code) tsr_error_clear(&ctx);
    end_faults(run);
}

/* Reads without taking the store: nothing may change. */
static void live_read(life_run *run) {
    tsr_ctx ctx = {.io = fault_io_table(run->disk)};
    tsr_arena arena = {0};
    tsr_recovery recovery;
    tsr_tensor *tensors;
    size_t tensor_count;
    uint64_t before = fault_io_fingerprint(run->disk);
    begin_faults(run);
    tsr_result result = tsr_store_read(&ctx, "/s", NULL, TSR_RESUME_AUTO, 0, &arena, &recovery,
                                       &tensors, &tensor_count);
    if (!result.code && recovery.found) {
        uint64_t step = recovery.generation.position.step;
        tsr_digest hash = tsr_state_hash(tensors, tensor_count);
        if (step > LIFE_STEPS_MAX || !(run->facts.allowed & BIT(step)))
            violate(run->violation, "read step %" PRIu64, step);
        if (!tsr_digest_equal(&hash, &recovery.generation.state_hash))
            violate(run->violation, "what was read is not the state of step %" PRIu64, step);
    }
    if (!result.code && !recovery.found) violate(run->violation, "nothing was found to read");
    if (tsr_store_list(&ctx, "/s", true, ignore_line, NULL).code) tsr_error_clear(&ctx);
    if (tsr_store_fsck(&ctx, "/s", ignore_line, NULL).code) tsr_error_clear(&ctx);
    tsr_arena_finish(&arena);
    end_faults(run);
    if (fault_io_fingerprint(run->disk) != before) violate(run->violation, "reading changed it");
}

const life_case life_cases[LIFE_CASES] = {
    {"read", "littered", live_read},       {"save", "empty", live_save},
    {"save", "settled", live_save},        {"recover", "settled", live_recover},
    {"recover", "littered", live_recover}, {"recover", "replaced", live_recover},
    {"collect", "settled", live_collect},  {"collect", "littered", live_collect},
    {"resume", "many", live_resume},       {"prune", "many", live_prune},
    {"whole", "empty", live_whole},        {"whole", "settled", live_whole},
    {"whole", "littered", live_whole},
};

/* ---- starts ---- */

static void must(const life_run *run, bool good) {
    if (good && !run->violation[0]) return;
    fprintf(stderr, "a start cannot be made: %s\n", run->violation);
    exit(1);
}

static life_run fresh(void) {
    model_init(&state);
    model_init(&loaded);
    return (life_run){.disk = fault_io_create(), .facts = {.allowed = BIT(0)}};
}

/* Makes four generations, saved by two runs. Two of the generations are kept. */
static life_run make_settled(void) {
    life_run run = fresh();
    live_whole(&run);
    live_whole(&run);
    fault_io_crash(run.disk, FAULT_LOSE, 0);
    must(&run, run.facts.allowed == BIT(4));
    run.facts.good = 2;
    return run;
}

/* Kills a run in the middle of a collection, and another one before a manifest was published. */
static life_run make_littered(void) {
    static const life_fault kills[] = {
        {.plan = {.kind = FAULT_CRASH_AFTER, .name = "unlink"}},
        {.plan = {.kind = FAULT_CRASH_BEFORE, .name = "link"}},
    };
    static const uint64_t at[] = {5, 3};
    life_run run = make_settled();
    for (size_t i = 0; i < 2; i++) {
        run.first = &kills[i];
        run.at = at[i];
        live_whole(&run);
        must(&run, run.fired);
        fault_io_crash(run.disk, FAULT_KEEP, 0);
    }
    return run;
}

/* Makes five generations of two runs and keeps all. */
static life_run make_many(void) {
    life_run run = fresh();
    for (unsigned i = 0; i < 2; i++) {
        tsr_ctx ctx = {.io = fault_io_table(run.disk)};
        tsr_store *store;
        tsr_recovery recovery;
        must(&run, !open_store(&run, &ctx, KEEP_ALL, 0, NULL, &store, &recovery).code &&
                       !tsr_store_reserve(&ctx, store, state.tensors, MODEL_TENSORS).code);
        save_some(&run, &ctx, store, 2 + i);
        tsr_store_close(&ctx, store);
    }
    fault_io_crash(run.disk, FAULT_LOSE, 0);
    must(&run, run.facts.allowed == BIT(5));
    run.facts.good = 5;
    return run;
}

/* A later run resumed from an earlier generation. The generations that it gave up are still on the
 * disk. */
static life_run make_replaced(void) {
    life_run run = make_many();
    live_resume(&run);
    fault_io_crash(run.disk, FAULT_LOSE, 0);
    must(&run, run.facts.allowed == BIT(6));
    run.facts.good = 4;
    return run;
}

static life_run make_empty(void) { return fresh(); }

const life_start *life_start_get(const char *name) {
    static const struct {
        const char *name;
        life_run (*make)(void);
    } rows[] = {{"empty", make_empty},
                {"settled", make_settled},
                {"littered", make_littered},
                {"many", make_many},
                {"replaced", make_replaced}};
    static life_start made[TSR_COUNT(rows)];
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        if (!made[i].disk) {
            life_run run = rows[i].make();
            made[i] = (life_start){name, fault_io_clone(run.disk), run.facts};
            fault_io_destroy(run.disk);
        }
        return &made[i];
    }
    fprintf(stderr, "there is no start '%s'\n", name);
    exit(2);
}

void life_live(const life_case *which, life_run *run) {
    const life_start *start = life_start_get(which->start);
    run->disk = fault_io_clone(start->disk);
    run->facts = start->facts;
    run->violation[0] = 0;
    model_init(&state);
    model_init(&loaded);
    which->live(run);
}

void life_go_on(life_run *run) {
    if (run->facts.good > 2) run->facts.good = 2; /* the number of generations that it keeps */
    live_whole(run);
}

/* ---- the check ---- */

typedef struct fsck_counts {
    unsigned good, damaged, uncommitted;
} fsck_counts;

static void count_line(void *user, const char *line) {
    fsck_counts *counts = user;
    sscanf(line, "%u good, %u damaged, %u uncommitted", &counts->good, &counts->damaged,
           &counts->uncommitted);
}

static void check_good(fault_io *disk, const life_facts *facts, char violation[LIFE_TEXT]) {
    tsr_ctx ctx = {.io = fault_io_table(disk)};
    fsck_counts counts = {0};
    if (tsr_store_fsck(&ctx, "/s", count_line, &counts).code)
        violate(violation, "fsck: %s", ctx.error.text);
    if (counts.good < facts->good)
        violate(violation, "%u good generations; there were %u", counts.good, facts->good);
}

/* Recovers once; if `goes_on`, also saves, and the save must be acknowledged. */
static void check_once(fault_io *disk, life_facts *facts, bool goes_on, char violation[LIFE_TEXT]) {
    model_log log = {0};
    tsr_ctx ctx = {.io = fault_io_table(disk), .log = model_log_add, .log_user = &log};
    tsr_store *store;
    tsr_recovery recovery;
    fault_io_arm(disk, NULL);
    if (model_open(&ctx, &store, &recovery).code) {
        violate(violation, "recovery: %s", ctx.error.text);
        return;
    }
    if (fault_io_count(disk) > RECOVERY_OPERATIONS_MAX)
        violate(violation, "recovery took %" PRIu64 " operations", fault_io_count(disk));
    if (recovery.damaged_count) violate(violation, "called damaged: %s", log.last_error);
    uint64_t step = recovery.found ? recovery.generation.position.step : 0;
    if (step > LIFE_STEPS_MAX || !(facts->allowed & BIT(step)))
        violate(violation, "recovered step %" PRIu64 "; allowed are 0x%" PRIx64, step,
                facts->allowed);
    facts->allowed = BIT(step & LIFE_STEPS_MAX);
    memset(&loaded.weights, 0, sizeof loaded.weights);
    if (recovery.found && tsr_store_load(&ctx, store, loaded.tensors, MODEL_TENSORS).code)
        violate(violation, "loading: %s", ctx.error.text);
    else if (recovery.found && !model_is(&loaded, step))
        violate(violation, "recovered bytes are not those of step %" PRIu64, step);
    if (goes_on && (tsr_store_reserve(&ctx, store, state.tensors, MODEL_TENSORS).code ||
                    !save(&ctx, store, facts, violation)))
        violate(violation, "a save afterwards failed");
    tsr_store_close(&ctx, store);
}

bool life_check(fault_io *disk, const life_facts *facts, char out_text[LIFE_TEXT]) {
    life_facts now = *facts;
    out_text[0] = 0;
    if (facts->good) check_good(disk, facts, out_text);
    check_once(disk, &now, false, out_text);
    /* The generation that a run resumed from is permanent, regardless of the syncs before and of
     * entries that a failed sync forgot. */
    fault_io_crash(disk, FAULT_LOSE, 0);
    check_once(disk, &now, true, out_text);
    fault_io_crash(disk, FAULT_LOSE, 0);
    check_once(disk, &now, false, out_text);
    return !out_text[0];
}
