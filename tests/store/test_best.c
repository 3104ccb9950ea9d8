/* SPDX-License-Identifier: Apache-2.0
 *
 * The best generation: it stays when newer ones are saved and old ones are removed, whatever fails
 * and wherever power is cut; what the newest generation names as the best exists and is good.
 */
#include "runtime/base/array.h"
#include "tests/store/fixture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { SAVES = 6 };

/* Every third step from 1 on is better than all before. */
static bool is_better(uint64_t step) { return step % 3 == 1; }

/* Saves as a training run does: the store says which generation is the best so far. */
static bool save(tsr_ctx *ctx, tsr_store *store, model *m, uint64_t step) {
    tsr_save_status status = tsr_store_wait(store);
    tsr_position position = model_position(step);
    position.best = status.best;
    memcpy(position.best.metric, "max:score", sizeof "max:score");
    position.best.evaluated_step = step;
    position.best.without_gain++;
    if (is_better(step)) {
        position.best.without_gain = 0;
        position.best.generation = TSR_BEST_ITSELF;
        position.best.step = step;
        position.best.value = (double)step;
    }
    model_fill(m, step);
    if (tsr_store_save(ctx, store, &position).code) return false;
    return tsr_store_wait(store).committed_count > status.committed_count;
}

static void must_save_best(bench *b, uint64_t first, uint64_t last) {
    if (!b->store->thread_started)
        cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code,
                     TSR_OK);
    for (uint64_t step = first; step <= last; step++)
        cr_assert(save(&b->ctx, b->store, &b->m, step));
}

typedef struct report {
    unsigned good, damaged;
    char text[4096];
} report;

static void add_line(void *user, const char *line) {
    report *r = user;
    sscanf(line, "%u good, %u damaged", &r->good, &r->damaged);
    strncat(r->text, line, sizeof r->text - strlen(r->text) - 2);
    strcat(r->text, "\n");
}

static report check_store(bench *b, tsr_code code) {
    report r = {.damaged = 99};
    cr_assert_eq(tsr_store_fsck(&b->ctx, "/s", add_line, &r).code, code, "%s", r.text);
    return r;
}

static report list_store(bench *b) {
    report r = {.good = 0};
    cr_assert_eq(tsr_store_list(&b->ctx, "/s", true, add_line, &r).code, TSR_OK, "%s", r.text);
    return r;
}

static void must_say(const report *r, const char *text) {
    cr_assert(strstr(r->text, text), "no '%s' in:\n%s", text, r->text);
}

Test(best, is_kept_beside_the_newest_and_replaced_by_a_better_one) {
    bench *b = begin();
    must_open(b);
    must_save_best(b, 1, 3);
    cr_assert(exists(b, "/s/MANIFEST.1.1") && exists(b, "/s/MANIFEST.3.1"));
    must_save_best(b, 4, 6); /* 4 is better; once no kept one names 1, it is removed */
    cr_assert(!exists(b, "/s/MANIFEST.1.1") && !exists(b, "/s/gen/1-1/segment.0"));
    cr_assert(exists(b, "/s/MANIFEST.4.1") && !exists(b, "/s/MANIFEST.3.1"));
    tsr_save_status status = tsr_store_wait(b->store);
    cr_assert_eq(status.best.generation, 4);
    cr_assert_eq(status.best.step, 4);
    cr_assert_eq(status.best.without_gain, 2);
    report r = list_store(b);
    must_say(&r, "good, best max:score 4\n");
    must_say(&r, "3 generations, 0 damaged");
    r = check_store(b, TSR_OK);
    must_say(&r, "generation 4 of epoch 1: the best by max:score: 4 at step 4");
    end(b);
}

Test(best, is_known_after_resuming_and_survives_epochs_and_pruning) {
    bench *b = begin();
    must_open(b);
    must_save_best(b, 1, 5);
    for (unsigned run = 2; run <= 4; run++) {
        must_open(b);
        const tsr_best *best = &b->recovery.generation.position.best;
        cr_assert_eq(best->generation, 4);
        cr_assert_eq(best->epoch, 1);
        cr_assert_eq(best->value, 4.0);
        cr_assert_str_eq(best->metric, "max:score");
        cr_assert_eq(best->without_gain, run - 1);
        close_store(b);
        must_open(b);
        cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code,
                     TSR_OK);
        for (uint64_t k = 0; k < 3; k++) { /* the same step again: never better */
            tsr_position position = model_position(5);
            position.best = tsr_store_wait(b->store).best;
            position.best.without_gain = run;
            model_fill(&b->m, 5);
            cr_assert_eq(tsr_store_save(&b->ctx, b->store, &position).code, TSR_OK);
        }
        cr_assert_eq(tsr_store_wait(b->store).failed_count, 0);
    }
    close_store(b);
    cr_assert(exists(b, "/s/MANIFEST.4.1"));
    report r = {.good = 0};
    cr_assert_eq(tsr_store_prune(&b->ctx, "/s", 2, false, add_line, &r).code, TSR_OK, "%s",
                 b->ctx.error.text);
    cr_assert(exists(b, "/s/MANIFEST.4.1"), "pruned:\n%s", r.text);
    r = list_store(b);
    must_say(&r, "generation 4 epoch 1 step 4");
    must_say(&r, "good, best max:score 4\n");
    cr_assert(!strstr(r.text, "ignored"), "%s", r.text);
    cr_assert_eq(reopen(b, TSR_RESUME_EXACT, 4).code, TSR_OK, "%s", b->ctx.error.text);
    must_load(b, 4);
    end(b);
}

/* A run that opens the store knows of no best generation; its count of evaluations stays. */
static void must_forget(bench *b) {
    unsigned warnings = b->log.warnings;
    must_open(b);
    const tsr_best *best = &b->recovery.generation.position.best;
    cr_assert_eq(b->recovery.generation.position.step, 3);
    cr_assert_eq(best->generation, 0, "a generation that is lost is not the best one");
    cr_assert_eq(best->without_gain, 2, "the count stays");
    cr_assert_eq(tsr_store_wait(b->store).best.generation, 0);
    cr_assert_eq(b->log.warnings, warnings + 1);
}

Test(best, damage_to_it_is_an_alarm_and_does_not_stop_a_run) {
    static const char *const paths[] = {"/s/MANIFEST.1.1", "/s/gen/1-1/segment.0"};
    for (size_t i = 0; i < 2; i++) {
        bench *b = begin();
        must_open(b);
        must_save_best(b, 1, 3);
        must_open(b); /* also where its epoch has no other manifest left */
        cr_assert_eq(b->recovery.damaged_count, 0);
        close_store(b);
        flip(b, paths[i], 200);
        report r = check_store(b, TSR_STATE);
        must_say(&r, "generation 1 of epoch 1, the best by max:score, is damaged: ");
        must_forget(b);
        end(b);
    }
    for (size_t i = 0; i < 2; i++) {
        bench *b = begin();
        must_open(b);
        must_save_best(b, 1, 3);
        close_store(b);
        cr_assert(fault_io_remove(b->disk, paths[i]));
        report r = check_store(b, TSR_STATE);
        must_say(&r, "the best by max:score, is damaged: ");
        cr_assert_eq(tsr_store_list(&b->ctx, "/s", false, add_line, &r).code, TSR_STATE);
        must_say(&r, "generation 1 epoch 1 damaged: the best by max:score: ");
        must_forget(b);
        must_save_best(b, 5, 6); /* none is better than nothing: the next judgement decides */
        r = check_store(b, TSR_OK);
        end(b);
    }
}

static uint64_t peek(bench *b, const char *directory, tsr_resume_mode mode, uint64_t generation) {
    tsr_best best = {.generation = 99};
    cr_assert_eq(tsr_store_peek_best(&b->ctx, directory, mode, generation, &best).code, TSR_OK,
                 "%s", b->ctx.error.text);
    return best.generation;
}

Test(best, is_known_before_the_store_is_opened) {
    bench *b = begin();
    tsr_best best;
    must_open(b);
    must_save_best(b, 1, 3);
    close_store(b);
    cr_assert_eq(peek(b, "/s", TSR_RESUME_AUTO, 0), 1);
    cr_assert_eq(peek(b, "/nowhere", TSR_RESUME_AUTO, 0), 0);
    must_open(b);
    must_save_best(b, 4, 5);
    close_store(b);
    cr_assert_eq(peek(b, "/s", TSR_RESUME_AUTO, 0), 4);
    cr_assert_eq(peek(b, "/s", TSR_RESUME_EXACT, 4), 4);
    cr_assert_eq(tsr_store_peek_best(&b->ctx, "/s", TSR_RESUME_EXACT, 9, &best).code, TSR_STATE);
    cr_assert_eq(tsr_store_peek_best(&b->ctx, "/s", TSR_RESUME_NEVER, 0, &best).code, TSR_STATE);
    cr_assert(fault_io_remove(b->disk, "/s/gen/2-5/segment.0"));
    cr_assert_eq(peek(b, "/s", TSR_RESUME_AUTO, 0), 4);
    cr_assert(!exists(b, "/s/EPOCH.3"));
    end(b);
}

static unsigned count_lines(const report *r, const char *text) {
    unsigned count = 0;
    for (const char *at = strstr(r->text, text); at; at = strstr(at + 1, text)) count++;
    return count;
}

/* Also as one of the newest generations, which are listed anyway. */
Test(best, damage_to_it_is_counted_and_listed_once) {
    for (uint64_t last = 4; last <= 6; last++) {
        bench *b = begin();
        must_open(b);
        must_save_best(b, 1, last); /* 4 is the best */
        close_store(b);
        flip(b, "/s/gen/1-4/segment.0", 200);
        report r = check_store(b, TSR_STATE), listed = {.good = 0}, json = {.good = 0};
        cr_assert_eq(r.damaged, 1, "%s", r.text);
        cr_assert_eq(count_lines(&r, "generation 4 "), 1, "%s", r.text);
        cr_assert_eq(tsr_store_list(&b->ctx, "/s", true, add_line, &listed).code, TSR_STATE);
        cr_assert_eq(count_lines(&listed, "generation 4 "), 1, "%s", listed.text);
        must_say(&listed, ", 1 damaged,");
        cr_assert_eq(tsr_store_list_json(&b->ctx, "/s", true, add_line, &json).code, TSR_STATE);
        cr_assert_eq(count_lines(&json, "\"damaged\":\""), 1, "%s", json.text);
        must_say(&json, "\"damaged\":1,");
        end(b);
    }
}

/* An error that says nothing about the data ends the opening: the best generation is not forgotten.
 */
Test(best, an_error_of_the_system_is_not_damage_to_it) {
    unsigned refused = 0;
    for (uint64_t at = 1;; at++) {
        bench *b = begin();
        must_open(b);
        must_save_best(b, 1, 3);
        close_store(b);
        fault_io_arm(b->disk,
                     &(fault_plan){.kind = FAULT_ERROR, .error = EMFILE, .name = "open", .at = at});
        tsr_result result = reopen(b, TSR_RESUME_AUTO, 0);
        bool fired = fault_io_fired(b->disk);
        fault_io_arm(b->disk, NULL);
        if (result.code && strstr(b->ctx.error.text, "MANIFEST.1.1")) {
            cr_assert_eq(result.code, TSR_IO, "%s", b->ctx.error.text);
            refused++;
        }
        must_open(b);
        cr_assert_eq(b->recovery.generation.position.best.generation, 1, "open %" PRIu64, at);
        end(b);
        if (!fired) break;
    }
    cr_assert_eq(refused, 1, "%u openings failed at the manifest of the best generation", refused);
}

/* ---- faults ---- */

static const char *describe(char text[64], fault_kind kind, fault_crash crash, uint64_t at) {
    snprintf(text, 64, "fault %d, crash %d, at %" PRIu64, (int)kind, (int)crash, at);
    return text;
}

/* What the newest generation names as the best is there and good, and not worse than what the last
 * run knew: `floor`. */
static void check_after(bench *b, uint64_t acknowledged, uint64_t floor, const char *where) {
    report r = {.damaged = 99};
    tsr_result checked = tsr_store_fsck(&b->ctx, "/s", add_line, &r);
    cr_assert_eq(checked.code, TSR_OK, "%s: %s\n%s", where, b->ctx.error.text, r.text);
    must_open(b);
    cr_assert_eq(b->log.warnings + b->log.errors, 0, "%s: %s", where, b->log.last_error);
    if (!b->recovery.found) {
        cr_assert_eq(acknowledged, 0, "%s", where);
        return;
    }
    const tsr_position *position = &b->recovery.generation.position;
    const tsr_best best = position->best;
    cr_assert_geq(position->step, acknowledged, "%s", where);
    cr_assert(best.generation && is_better(best.step), "%s: step %" PRIu64, where, best.step);
    cr_assert_eq(best.value, (double)best.step, "%s", where);
    cr_assert_geq(best.step, floor, "%s", where);
    cr_assert_eq(reopen(b, TSR_RESUME_EXACT, best.generation).code, TSR_OK, "%s: %s", where,
                 b->ctx.error.text);
    must_load(b, best.step);
}

/* Resumes and saves six states, with a fault; returns whether it was met. */
static bool live_with(fault_kind kind, fault_crash crash, uint64_t at) {
    bench *b = begin();
    char text[64];
    uint64_t acknowledged = 2, floor = 1;
    must_open(b);
    must_save_best(b, 1, 2);
    close_store(b);
    fault_io_arm(b->disk, &(fault_plan){.kind = kind, .error = EIO, .at = at});
    if (!reopen(b, TSR_RESUME_AUTO, 0).code &&
        !tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code)
        for (uint64_t step = 3; step <= 2 + SAVES; step++) {
            if (!save(&b->ctx, b->store, &b->m, step)) continue;
            /* One that cannot be read back counts as failed, and is not the best. */
            const tsr_save_status status = tsr_store_wait(b->store);
            acknowledged = step;
            floor = status.best.step;
            cr_assert(!is_better(step) || floor == step || fault_io_fired(b->disk),
                      "step %" PRIu64 " is not the best", step);
        }
    close_store(b);
    bool fired = fault_io_fired(b->disk);
    fault_io_arm(b->disk, NULL);
    if (kind == FAULT_CRASH_BEFORE || kind == FAULT_CRASH_AFTER) fault_io_crash(b->disk, crash, at);
    check_after(b, acknowledged, floor, describe(text, kind, crash, at));
    end(b);
    return fired;
}

Test(best, a_fault_at_every_operation_loses_no_best_generation) {
    static const struct {
        fault_kind kind;
        fault_crash crash;
    } rows[] = {{FAULT_ERROR, FAULT_KEEP},
                {FAULT_SYNC_DROPS, FAULT_KEEP},
                {FAULT_CRASH_BEFORE, FAULT_LOSE},
                {FAULT_CRASH_AFTER, FAULT_KEEP},
                {FAULT_CRASH_AFTER, FAULT_MIX}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        uint64_t at = 1;
        while (live_with(rows[i].kind, rows[i].crash, at)) at++;
        cr_assert_gt(at, 100, "row %zu: %" PRIu64 " operations", i, at);
    }
}
