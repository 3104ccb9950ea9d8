/* SPDX-License-Identifier: Apache-2.0
 *
 * Offload: if the workspace of an entry would be larger than allowed, values that are idle between
 * two distant launches are offloaded to host memory for that time. Both copies run concurrently
 * with launches.
 *
 * Outline: find the waits, longest first · at the busiest launch choose as many as needed, and
 * estimate the end of each copy from the estimated times of launches and copies; repeat until no
 * launch uses too much · if that is not enough, let launches wait for copies · assign the slots;
 * use a lower aim as long as placement leaves gaps.
 *
 * A value becomes two values: the original, up to its copy to the host, and the value copied back,
 * which may have another slot. Nothing else in the program changes, so the results are bit-equal.
 *
 * Waits that begin after the forward pass and end in the backward pass are known as activation
 * offload: Rhu et al., "vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient
 * Neural Network Design", 2016. Here all copies are planned when the program is built, only from
 * liveness.
 */
#include "compiler/ir/attributes.h"
#include "compiler/ir/targets/target.h"
#include "compiler/schedule/memory/plan.h"
#include "compiler/target/host/planner.h"
#include "compiler/target/target.h"
#include "compiler/tile/tile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES_MIN = 1 << 20, /* the smallest copy: below this the time to start it dominates */
    ROUNDS_MAX = 12,     /* rounds that lower the aim */
    STEPS_DOWN = 256,    /* each round lowers it by at least 1 / STEPS_DOWN */
    IN_FLIGHT_MAX = TSR_PROGRAM_IN_FLIGHT_MAX / 2 - 1, /* copies in one direction */
};

/* A value that no launch in between `after` and `before` touches. */
typedef struct wait {
    uint32_t value, after, before;
    uint32_t gone_at, begin_at; /* launches before which its slot becomes free, and before which it
                                   begins to return */
    uint64_t bytes;
    double seconds; /* length of the wait */
    bool chosen;    /* to be offloaded */
    bool taken;     /* chosen, and its copies are done in time: gone_at < begin_at */
    bool late;      /* it would not be back when it is needed */
} wait;

typedef struct offload {
    planner *p;
    const tsr_device_rates *rates;
    uint64_t *bytes;   /* value -> bytes of its slot; 0 if it has none */
    double *begins;    /* launch -> seconds; one more, for the end */
    uint64_t *live;    /* launch -> bytes in use without any offload; one more, for the end */
    uint64_t *left;    /* launch -> bytes in use without the taken waits */
    wait *waits;       /* the longest first */
    uint32_t *outward; /* waits in the order of `after` */
    uint32_t *inward;  /* waits in the order of `before`, the last one first */
    uint32_t count;
} offload;

/* ---- values and waits ------------------------------------------------------------------------ */

static bool has_memory(const value *v) {
    return v->buffer.space == TSR_SPACE_WORKSPACE && v->view_of == NONE;
}

static double seconds_of(const offload *o, const launch *l) {
    int64_t flops = 0, bytes = 0;
    if (l->kind == KIND_LAUNCH) {
        tsr_op_i64(l->kernel, "flops", &flops);
        tsr_op_i64(l->kernel, "bytes", &bytes);
    }
    double computes = (double)flops / o->rates->flops, moves = (double)bytes / o->rates->bytes;
    return o->rates->launch_seconds + (computes > moves ? computes : moves);
}

static void estimate_times(offload *o) {
    const planner *p = o->p;
    o->begins[0] = 0;
    for (uint32_t i = 0; i < p->launch_count; i++)
        o->begins[i + 1] = o->begins[i] + seconds_of(o, &p->launches[i]);
}

static TSR_RESULT memory_bytes(const planner *p, const value *v, uint64_t *out_bytes) {
    TRY(p->ctx, tsr_planner_size(p, v, out_bytes));
    *out_bytes += -*out_bytes % TSR_PLAN_ALIGN_BYTES;
    return TSR_SUCCESS;
}

/* If a launch overwrites an operand, the operand is dead by then: the two count once. */
static TSR_RESULT find_live(offload *o) {
    const planner *p = o->p;
    for (uint32_t i = 0; i < p->value_count; i++) {
        const value *v = &p->values[i];
        uint32_t last = tsr_planner_last(p, v);
        if (!has_memory(v)) continue;
        TRY(p->ctx, memory_bytes(p, v, &o->bytes[i]));
        if (v->replaced) last--; /* it was there before that launch */
        o->live[v->first] += o->bytes[i];
        o->live[last + 1] -= o->bytes[i];
    }
    for (uint32_t i = 1; i <= p->launch_count; i++) o->live[i] += o->live[i - 1];
    return TSR_SUCCESS;
}

/* A region may run again, and then reads the same values from outside. */
static bool crosses_mark(const planner *p, const value *v, uint32_t before) {
    for (uint32_t i = 0; i < p->mark_count; i++)
        if (p->marks[i].at > v->maker && p->marks[i].at <= before) return true;
    return false;
}

static void add_wait(offload *o, uint32_t number, uint32_t after, uint32_t before) {
    const planner *p = o->p;
    const value *v = &p->values[number];
    if (before <= after + 1 || v->pitch || v->imported || v->maker == NONE ||
        o->bytes[number] < BYTES_MIN || crosses_mark(p, v, before))
        return;
    o->waits[o->count++] = (wait){.value = number,
                                  .after = after,
                                  .before = before,
                                  .bytes = o->bytes[number],
                                  .seconds = o->begins[before] - o->begins[after + 1]};
}

static uint32_t root_of(const planner *p, MlirValue mlir) {
    uint32_t number = tsr_value_map_get(&p->numbers, mlir);
    return number == NONE || p->values[number].view_of == NONE ? number : p->values[number].view_of;
}

/* `touched` holds the last launch that touched each value. */
static void touch(offload *o, uint32_t *touched, uint32_t number, uint32_t at) {
    if (number == NONE || !has_memory(&o->p->values[number])) return;
    if (touched[number] != NONE) add_wait(o, number, touched[number], at);
    touched[number] = at;
}

static void find_waits(offload *o, uint32_t *touched) {
    const planner *p = o->p;
    for (uint32_t i = 0; i < p->value_count; i++) touched[i] = NONE;
    for (uint32_t i = 0; i < p->launch_count; i++) {
        MlirOperation call = p->launches[i].call;
        for (size_t k = 0; k < tsr_op_operand_count(call); k++)
            touch(o, touched, root_of(p, tsr_op_operand(call, k)), i);
        for (size_t k = 0; k < tsr_op_result_count(call); k++)
            touch(o, touched, root_of(p, tsr_op_result(call, k)), i);
    }
    for (uint32_t i = 0; i < p->copy_count; i++) {
        uint32_t from = p->copies[i].from, root = p->values[from].view_of;
        touch(o, touched, root == NONE ? from : root, p->launch_count);
    }
}

static int compare(double a, double b) { return a < b ? -1 : a > b; }

static int by_length(const void *a, const void *b) {
    const wait *x = a, *y = b;
    int order = compare(y->seconds, x->seconds);
    if (!order) order = compare(x->value, y->value);
    return order ? order : compare(x->after, y->after);
}

static int by_after(const void *a, const void *b, void *waits) {
    const wait *x = (wait *)waits + *(const uint32_t *)a, *y = (wait *)waits + *(const uint32_t *)b;
    return x->after != y->after ? compare(x->after, y->after) : compare(x->value, y->value);
}

static int by_before(const void *a, const void *b, void *waits) {
    const wait *x = (wait *)waits + *(const uint32_t *)a, *y = (wait *)waits + *(const uint32_t *)b;
    return x->before != y->before ? compare(y->before, x->before) : compare(y->value, x->value);
}

/* ---- when copies are done -------------------------------------------------------------------- */

/* The first launch in [from, to] that begins at `seconds` or later; `to` if there is no such
 * launch. */
static uint32_t launch_at(const offload *o, double seconds, uint32_t from, uint32_t to) {
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (o->begins[middle] >= seconds)
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

/* The last launch that begins before `seconds`, when the copy back must begin. The search starts at
 * w->gone_at, when the copy to the host is done. */
static uint32_t launch_before(const offload *o, double seconds, const wait *w) {
    uint32_t at = launch_at(o, seconds, w->gone_at, w->before);
    return at > w->gone_at && o->begins[at] > seconds ? at - 1 : at;
}

/* Times the copies of the chosen waits: outward copies follow each other as early as possible,
 * inward copies as late as possible. A wait that is too short for its two copies is not taken. */
static void time_copies(offload *o) {
    double free_at = 0, needed_at = o->begins[o->p->launch_count];
    for (uint32_t i = 0; i < o->count; i++) o->waits[i].taken = o->waits[i].chosen;
    for (uint32_t i = 0; i < o->count; i++) {
        wait *w = &o->waits[o->outward[i]];
        double takes = (double)w->bytes / o->rates->copied_bytes;
        double begins = o->begins[w->after + 1] > free_at ? o->begins[w->after + 1] : free_at;
        if (!w->taken) continue;
        w->taken = begins + 2 * takes < o->begins[w->before];
        if (!w->taken) continue;
        free_at = begins + takes;
        w->gone_at = launch_at(o, free_at, w->after + 1, w->before);
    }
    for (uint32_t i = 0; i < o->count; i++) {
        wait *w = &o->waits[o->inward[i]];
        double takes = (double)w->bytes / o->rates->copied_bytes;
        double ends = o->begins[w->before] < needed_at ? o->begins[w->before] : needed_at;
        if (!w->taken) continue;
        w->begin_at = launch_before(o, ends - takes, w);
        w->taken = w->begin_at > w->gone_at;
        if (w->taken) needed_at = ends - takes;
    }
}

/* Returns the bytes of the busiest launch. */
static uint64_t find_left(offload *o, uint32_t *out_busiest) {
    uint64_t most = 0;
    uint32_t count = o->p->launch_count + 1;
    memset(o->left, 0, (count + 1) * sizeof *o->left);
    for (uint32_t i = 0; i < o->count; i++) {
        const wait *w = &o->waits[i];
        if (!w->taken) continue;
        o->left[w->gone_at] -= w->bytes;
        o->left[w->begin_at] += w->bytes;
    }
    for (uint32_t i = 1; i < count; i++) o->left[i] += o->left[i - 1];
    for (uint32_t i = 0; i < count; i++) {
        o->left[i] += o->live[i];
        if (o->left[i] <= most) continue;
        most = o->left[i];
        *out_busiest = i;
    }
    return most;
}

/* ---- choice of waits ------------------------------------------------------------------------- */

static bool crosses(const wait *w, uint32_t at) { return w->after < at && at < w->before; }

/* Drops the chosen waits that are not offloaded at this launch: they would be late. */
static void drop_late(offload *o, uint32_t at) {
    for (uint32_t i = 0; i < o->count; i++) {
        wait *w = &o->waits[i];
        if (!w->chosen || !crosses(w, at) || (w->taken && w->gone_at <= at && at < w->begin_at))
            continue;
        w->chosen = false;
        w->late = true;
    }
}

/* Chooses waits that free this number of bytes at this launch if their copies are in time. False:
 * no wait is left. */
static bool choose_more(offload *o, uint32_t at, uint64_t bytes) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < o->count && sum < bytes; i++) {
        wait *w = &o->waits[i];
        if (w->chosen || w->late || !crosses(w, at)) continue;
        w->chosen = true;
        sum += w->bytes;
    }
    return sum > 0;
}

/* Chooses waits as long as no launch has to wait for a copy. */
static void choose_in_time(offload *o, uint64_t aim) {
    uint32_t busiest = 0;
    for (uint32_t i = 0; i < o->count; i++) o->waits[i].chosen = o->waits[i].late = false;
    for (;;) {
        time_copies(o);
        uint64_t most = find_left(o, &busiest);
        if (most <= aim) return;
        drop_late(o, busiest);
        if (!choose_more(o, busiest, most - aim)) break;
    }
    time_copies(o);
    find_left(o, &busiest);
}

/* The wait that would free bytes at this launch at the least cost: an outward copy in flight, the
 * one that began first; else an inward copy that could begin later; else a wait that has not been
 * taken. */
static wait *find_next(const offload *o, uint32_t at) {
    wait *outward = NULL, *inward = NULL, *other = NULL;
    for (uint32_t i = 0; i < o->count; i++) {
        wait *w = &o->waits[i];
        if (!crosses(w, at)) continue;
        if (!w->taken) {
            if (!other) other = w;
        } else if (at < w->gone_at) {
            if (!outward || w->after < outward->after) outward = w;
        } else if (at >= w->begin_at) {
            if (!inward || w->before > inward->before) inward = w;
        }
    }
    return outward ? outward : inward ? inward : other;
}

static void change_left(offload *o, uint32_t begin, uint32_t end, uint64_t bytes) {
    for (uint32_t i = begin; i < end; i++) o->left[i] -= bytes;
}

/* Frees the bytes of `w` at this launch and at the following ones that are too busy. Launches wait
 * for its copies. */
static void hurry(offload *o, wait *w, uint32_t at, uint64_t aim) {
    if (w->taken && at < w->gone_at) {
        change_left(o, at, w->gone_at, w->bytes);
        w->gone_at = at;
        return;
    }
    uint32_t end = at + 1, begin = w->taken ? w->begin_at : at;
    while (end < w->before && o->left[end] > aim) end++;
    if (!w->taken) w->gone_at = at;
    w->begin_at = end;
    w->chosen = w->taken = true;
    change_left(o, begin, end, w->bytes);
}

/* A hurried value may return later than right after the launch that was too busy, so that values
 * that are needed sooner return first. */
static void return_late(offload *o) {
    double needed_at = o->begins[o->p->launch_count];
    for (uint32_t i = 0; i < o->count; i++) {
        wait *w = &o->waits[o->inward[i]];
        if (!w->taken) continue;
        double ends = o->begins[w->before] < needed_at ? o->begins[w->before] : needed_at;
        needed_at = ends - (double)w->bytes / o->rates->copied_bytes;
        uint32_t late = launch_before(o, needed_at, w);
        if (w->begin_at < late) w->begin_at = late;
    }
}

/* Takes waits until no launch has more than `aim` bytes. Returns the bytes of the busiest
 * launch. */
static uint64_t choose(offload *o, uint64_t aim) {
    uint64_t most = 0;
    choose_in_time(o, aim);
    for (uint32_t i = 0; i <= o->p->launch_count; i++) {
        wait *next = NULL;
        while (o->left[i] > aim && (next = find_next(o, i))) hurry(o, next, i, aim);
        if (o->left[i] > most) most = o->left[i];
    }
    return_late(o);
    return most;
}

/* Limits the copies in flight to the maximum of a program: outward copies are awaited before too
 * many have begun, inward copies begin when enough are back; immediately if that is the same
 * launch. This never needs more workspace. */
static void limit_copies(offload *o) {
    uint32_t recent[IN_FLIGHT_MAX], count = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        const wait *w = &o->waits[o->outward[i]];
        if (!w->taken) continue;
        wait *old = count < IN_FLIGHT_MAX ? NULL : &o->waits[recent[count % IN_FLIGHT_MAX]];
        if (old && old->gone_at > w->after)
            old->gone_at = w->after > old->after ? w->after : old->after + 1;
        recent[count++ % IN_FLIGHT_MAX] = o->outward[i];
    }
    count = 0;
    for (uint32_t i = o->count; i-- > 0;) {
        wait *w = &o->waits[o->inward[i]];
        if (!w->taken) continue;
        const wait *old = count < IN_FLIGHT_MAX ? NULL : &o->waits[recent[count % IN_FLIGHT_MAX]];
        if (old && w->begin_at <= old->before)
            w->begin_at = old->before < w->before ? old->before + 1 : w->before;
        recent[count++ % IN_FLIGHT_MAX] = o->inward[i];
    }
}

/* ---- values that have come back -------------------------------------------------------------- */

/* Returns the value (or view) to use for `number` at launches from `from` on. */
static uint32_t add_later(planner *p, uint32_t number, uint32_t from) {
    uint32_t later = tsr_planner_add_buffer(p, TSR_SPACE_WORKSPACE, 0, &p->values[number]);
    p->values[later].pitch = p->values[number].pitch;
    p->values[number].later = later;
    p->values[number].later_from = from;
    return later;
}

static uint32_t last_part(const planner *p, uint32_t number) {
    while (p->values[number].later != NONE) number = p->values[number].later;
    return number;
}

static void apply(planner *p, const wait *w, uint32_t value_count) {
    uint32_t before = last_part(p, w->value), later = add_later(p, before, w->before);
    uint32_t host = tsr_planner_add_buffer(p, TSR_SPACE_HOST, 0, &p->values[before]);
    value *old = &p->values[before], *back = &p->values[later], *offloaded = &p->values[host];
    back->maker = old->maker;
    back->imported = true;
    back->first = w->begin_at;
    back->first_end = old->first_end;
    back->read_at_end = old->read_at_end;
    back->viewed = old->viewed;
    old->first_end = w->gone_at;
    old->read_at_end = false;
    offloaded->first = w->after + 1;
    offloaded->first_end = w->before + 1;
    for (uint32_t i = 0; i < value_count && back->viewed; i++)
        if (p->values[i].view_of == w->value)
            p->values[add_later(p, last_part(p, i), w->before)].view_of = later;
    p->moves[p->move_count++] = (move){.from = before,
                                       .host = host,
                                       .to = later,
                                       .begin_at = w->after + 1,
                                       .gone_at = w->gone_at,
                                       .return_at = w->begin_at,
                                       .back_at = w->before};
}

/* Applies the moves in the order of their launches, so that parts of a value follow each other. */
static TSR_RESULT apply_all(offload *o, const value *values, uint32_t value_count) {
    planner *p = o->p;
    uint32_t capacity = value_count, taken = 0;
    for (uint32_t i = 0; i < o->count; i++) taken += o->waits[i].taken;
    for (uint32_t i = 0; i < o->count; i++) {
        if (!o->waits[i].taken) continue;
        capacity += 2;
        for (uint32_t k = 0; k < value_count && values[o->waits[i].value].viewed; k++)
            capacity += values[k].view_of == o->waits[i].value;
    }
    p->values = TSR_NEW(p->arena, value, (size_t)capacity + 1);
    p->moves = TSR_NEW(p->arena, move, (size_t)taken + 1);
    if (!p->values || !p->moves) FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    memcpy(p->values, values, value_count * sizeof *values);
    p->value_capacity = capacity;
    p->value_count = value_count;
    p->move_count = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        const wait *w = &o->waits[o->outward[i]];
        if (w->taken) apply(p, w, value_count);
    }
    return TSR_SUCCESS;
}

/* ---- emit ------------------------------------------------------------------------------------ */

/* The order of the steps before one launch. Values leave first, so that returning values find their
 * slot free. */
typedef enum step { GOES, HAS_GONE, RETURNS, IS_BACK, STEPS } step;

static uint32_t launch_of(const move *m, step of) {
    const uint32_t launches[STEPS] = {m->begin_at, m->gone_at, m->return_at, m->back_at};
    return launches[of];
}

/* A copy that is awaited immediately is awaited before the next one begins, because there may be
 * many such copies. */
static uint32_t order_of(const move *m, step of) {
    bool at_once = of % 2 == 1 && launch_of(m, of - 1) == launch_of(m, of);
    return at_once ? of - 1 : of;
}

static int by_launch(const void *a, const void *b, void *moves) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const move *first = (move *)moves + x / STEPS, *second = (move *)moves + y / STEPS;
    uint32_t at = launch_of(first, x % STEPS), other = launch_of(second, y % STEPS);
    if (at != other) return compare(at, other);
    at = order_of(first, x % STEPS);
    other = order_of(second, y % STEPS);
    if (at == other && at == RETURNS && first->back_at != second->back_at)
        return compare(first->back_at, second->back_at);
    return at != other ? compare(at, other) : compare(x, y);
}

static TSR_RESULT order_steps(planner *p) {
    p->move_steps = TSR_NEW(p->arena, uint32_t, (size_t)p->move_count * STEPS + 1);
    if (!p->move_steps) FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    for (uint32_t i = 0; i < p->move_count * STEPS; i++) p->move_steps[i] = i;
    qsort_r(p->move_steps, (size_t)p->move_count * STEPS, sizeof *p->move_steps, by_launch,
            p->moves);
    return TSR_SUCCESS;
}

static MlirValue begin_copy(tsr_builder *b, const char *name, MlirValue to, MlirValue from) {
    const MlirValue operands[] = {to, from};
    MlirType token = mlirTypeParseGet(b->context, tsr_ref("!tessera_target.token"));
    return tsr_op_result(tsr_build(b, &(tsr_op_desc){.name = name,
                                                     .operand_count = 2,
                                                     .operands = operands,
                                                     .result_count = 1,
                                                     .results = &token}),
                         0);
}

static void emit_step(const planner *p, tsr_builder *b, move *m, step of,
                      const MlirValue *buffers) {
    b->location = p->values[m->from].location;
    if (of == GOES)
        m->token = begin_copy(b, "tessera_target.offload", buffers[m->host], buffers[m->from]);
    else if (of == RETURNS)
        m->token = begin_copy(b, "tessera_target.prefetch", buffers[m->to], buffers[m->host]);
    else
        tsr_build(b, &(tsr_op_desc){.name = "tessera_target.await",
                                    .operand_count = 1,
                                    .operands = &m->token});
}

void tsr_planner_emit_moves(planner *p, tsr_builder *b, uint32_t at, const MlirValue *buffers) {
    for (; p->moved_steps < p->move_count * STEPS; p->moved_steps++) {
        uint32_t next = p->move_steps[p->moved_steps];
        move *m = &p->moves[next / STEPS];
        if (launch_of(m, next % STEPS) != at) break;
        emit_step(p, b, m, next % STEPS, buffers);
    }
}

/* ---- the whole pass -------------------------------------------------------------------------- */

static TSR_RESULT offload_init(offload *o) {
    planner *p = o->p;
    size_t touches = p->copy_count, count = (size_t)p->launch_count + 3;
    for (uint32_t i = 0; i < p->launch_count; i++)
        touches +=
            tsr_op_operand_count(p->launches[i].call) + tsr_op_result_count(p->launches[i].call);
    uint32_t *touched = TSR_NEW(p->arena, uint32_t, (size_t)p->value_count + 1);
    o->bytes = TSR_NEW(p->arena, uint64_t, (size_t)p->value_count + 1);
    o->begins = TSR_NEW(p->arena, double, count);
    o->live = TSR_NEW(p->arena, uint64_t, count);
    o->left = TSR_NEW(p->arena, uint64_t, count);
    o->waits = TSR_NEW(p->arena, wait, touches + 1);
    if (!touched || !o->bytes || !o->begins || !o->live || !o->left || !o->waits)
        FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    estimate_times(o);
    TRY(p->ctx, find_live(o));
    find_waits(o, touched);
    qsort(o->waits, o->count, sizeof *o->waits, by_length);
    o->outward = TSR_NEW(p->arena, uint32_t, (size_t)o->count + 1);
    o->inward = TSR_NEW(p->arena, uint32_t, (size_t)o->count + 1);
    if (!o->outward || !o->inward)
        FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    for (uint32_t i = 0; i < o->count; i++) o->outward[i] = o->inward[i] = i;
    qsort_r(o->outward, o->count, sizeof *o->outward, by_after, o->waits);
    qsort_r(o->inward, o->count, sizeof *o->inward, by_before, o->waits);
    return TSR_SUCCESS;
}

/* The rates of the device that the module is for; NULL if it shares memory with the host. */
static TSR_RESULT find_rates(const planner *p, const tsr_device_rates **out_rates) {
    const char *name = tsr_op_string(mlirModuleGetOperation(p->module), TSR_TARGET_NAME);
    const tsr_target *target = NULL;
    TRY(p->ctx, tsr_target_find(p->ctx, name ? name : "", &target));
    *out_rates = target->arch ? &target->rates : NULL;
    return TSR_SUCCESS;
}

static TSR_RESULT refuse(const planner *p, uint64_t whole, uint64_t least, const char *why) {
    FAIL(p->ctx, TSR_COMPILE,
         "@%s needs %" PRIu64 " bytes of workspace, %" PRIu64 "%s; at most %" PRIu64 " are allowed",
         p->entry->name, whole, least, why, p->workspace_max);
}

/* Chooses waits for this aim and assigns slots to the values; *out_most: bytes of the busiest
 * launch. */
static TSR_RESULT try_aim(offload *o, uint64_t aim, const value *values, uint32_t value_count,
                          uint64_t *out_most, uint64_t *out_total) {
    planner *p = o->p;
    *out_most = choose(o, aim);
    *out_total = 0;
    limit_copies(o);
    TRY(p->ctx, apply_all(o, values, value_count));
    return tsr_planner_assign(p, TSR_SPACE_WORKSPACE, false, out_total);
}

/* Lowers the aim step by step, at the end to the lowest one possible. */
static TSR_RESULT aim_lower(offload *o, uint64_t whole, uint64_t *out_total) {
    planner *p = o->p;
    const value *values = p->values;
    uint32_t value_count = p->value_count;
    uint64_t max = p->workspace_max, aim = max, most = 0, least = UINT64_MAX;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        TRY(p->ctx, try_aim(o, aim, values, value_count, &most, out_total));
        if (*out_total <= max) return order_steps(p);
        if (*out_total < least) least = *out_total;
        uint64_t over = *out_total - max;
        uint64_t lower = over > max / STEPS_DOWN ? over : max / STEPS_DOWN;
        if (most > aim || aim <= lower) break;
        aim -= lower;
    }
    const uint64_t lowest[] = {choose(o, 0), 0}; /* fewest waits; all waits */
    for (size_t i = 0; i < 2; i++) {
        TRY(p->ctx, try_aim(o, lowest[i], values, value_count, &most, out_total));
        if (*out_total <= max) return order_steps(p);
        if (*out_total < least) least = *out_total;
    }
    return refuse(p, whole, least, " with all possible values offloaded to host memory");
}

tsr_result tsr_planner_plan_workspace(planner *p, uint64_t *out_bytes) {
    offload o = {.p = p};
    *out_bytes = 0;
    TRY(p->ctx, tsr_planner_assign(p, TSR_SPACE_WORKSPACE, false, out_bytes));
    if (!p->workspace_max || *out_bytes <= p->workspace_max) return TSR_SUCCESS;
    TRY(p->ctx, find_rates(p, &o.rates));
    if (!o.rates) return TSR_SUCCESS;
    if (p->loop_count || p->range_count)
        return refuse(p, *out_bytes, *out_bytes,
                      " also with offloaded values, because it has loops");
    TRY(p->ctx, offload_init(&o));
    return aim_lower(&o, *out_bytes, out_bytes);
}
