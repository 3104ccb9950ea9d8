/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: read (the groups, their calls) · collect (tensors that may have a pitch, and the uses of
 * each) · weigh (all tensors start with a pitch; a tensor whose pitch costs more than it saves
 * loses its pitch; this is repeated until nothing changes) · write (attributes of groups or of
 * their clones).
 */
#include "compiler/tile/gpu/pitch.h"

#include "compiler/ir/attributes.h"
#include "compiler/ir/targets/target.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/gpu/product.h"
#include "compiler/tile/gpu/transpose.h"

#include <string.h>

enum { LINE_BYTES = TSR_PITCH_BYTES, VECTOR = TSR_BLOCKED_ELEMENTS };

/* The time that the model predicts for a product with these pitches. */
typedef struct timing {
    const int64_t *pitches;
    bool taken;
    double cycles;
    struct timing *next;
} timing;

/* A clone of a group for these pitches. */
typedef struct clone {
    const int64_t *pitches;
    MlirOperation func;
    struct clone *next;
} clone;

typedef struct kernel {
    tsr_tile_group group;
    tsr_carries carries;
    bool asked;   /* `carries` has been checked against the matrix units */
    size_t count; /* number of its arguments */
    timing *timings;
    clone *clones;
    struct kernel *next;
} kernel;

typedef struct call {
    MlirOperation op;
    kernel *of;
    int64_t *pitches;
    struct call *next;
} call;

/* A use of a tensor as an argument of a call. */
typedef struct touch {
    call *of;
    size_t number;
    struct touch *next;
} touch;

typedef struct tensor {
    touch *touches;
    int64_t pitch;
    uint64_t rows, columns;
    size_t element_bytes;
    bool is_factor;
    struct tensor *next;
} tensor;

typedef struct chooser {
    tsr_ctx *ctx;
    tsr_arena *arena;
    const tsr_target *target;
    MlirModule module;
    kernel *kernels;
    call *calls, *last_call; /* ordered like the entries */
    tensor *tensors;         /* tensors of one entry */
} chooser;

static tsr_result fail_memory(const chooser *c) {
    FAIL(c->ctx, TSR_MEMORY, "no memory to choose pitches for '%s'", c->target->name);
}

/* ---- read ------------------------------------------------------------------------------------ */

static TSR_RESULT read_kernels(chooser *c) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(c->module)) {
        if (!tsr_op_is(func, TSR_SCHED_FUNC)) continue;
        kernel *k = TSR_NEW(c->arena, kernel, 1);
        if (!k) return fail_memory(c);
        k->group = tsr_tile_group_make(c->ctx, c->arena, c->target, true, func);
        TRY(c->ctx, tsr_tile_group_read(&k->group));
        k->count = k->group.input_count + k->group.output_count;
        k->carries = tsr_tile_group_carries(&k->group);
        k->next = c->kernels;
        c->kernels = k;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_calls(chooser *c, MlirOperation entry) {
    TSR_FOR_EACH_OP(op, tsr_op_body(entry)) {
        if (!tsr_op_is(op, TSR_SCHED_CALL)) continue;
        MlirOperation func = tsr_module_find(c->module, tsr_op_string(op, "callee"));
        kernel *k = c->kernels;
        while (k && !mlirOperationEqual(k->group.op, func)) k = k->next;
        if (!k) continue;
        call *made = TSR_NEW(c->arena, call, 1);
        if (!made) return fail_memory(c);
        *made = (call){.op = op, .of = k};
        made->pitches = TSR_NEW(c->arena, int64_t, k->count + 1);
        if (!made->pitches) return fail_memory(c);
        *(c->last_call ? &c->last_call->next : &c->calls) = made;
        c->last_call = made;
    }
    return TSR_SUCCESS;
}

static call *find_call(const chooser *c, MlirOperation op) {
    call *at = c->calls;
    while (at && !mlirOperationEqual(at->op, op)) at = at->next;
    return at;
}

/* ---- collect --------------------------------------------------------------------------------- */

/* True if `shape` is the shape that a rows group reduces, along its last dim only. */
static bool is_row(const kernel *k, const tsr_shape *shape) {
    TSR_FOR_EACH_OP(op, k->group.body) {
        tsr_type from;
        int64_t axes[TSR_RANK_MAX];
        size_t count = 0;
        if (!tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count) ||
            !tsr_value_type(tsr_op_operand(op, 0), &from))
            continue;
        if (count && axes[count - 1] + 1 != from.shape.rank) continue; /* a sum over rows */
        if (count != 1 || !tsr_shape_equal(&from.shape, shape)) return false;
    }
    return true;
}

/* Checks whether matrix units compute the group, if it carries a pitch only there. */
static TSR_RESULT ask(kernel *k) {
    bool taken = true;
    double cycles = 0;
    if (k->asked) return TSR_SUCCESS;
    if (k->carries == TSR_CARRIES_TRANSPOSE) taken = tsr_tile_takes_shared_transpose(&k->group);
    if (k->carries == TSR_CARRIES_PRODUCT)
        TRY(k->group.ctx, tsr_tile_time_product(&k->group, &taken, &cycles));
    if (!taken) k->carries = TSR_CARRIES_NONE;
    k->asked = true;
    return TSR_SUCCESS;
}

static TSR_RESULT carries(kernel *k, size_t number, bool *out_carries) {
    const tsr_shape *shape = &k->group.types[number].shape;
    TRY(k->group.ctx, ask(k));
    *out_carries = shape->rank > 1 && k->carries != TSR_CARRIES_NONE &&
                   (k->carries != TSR_CARRIES_ROWS || is_row(k, shape));
    return TSR_SUCCESS;
}

/* True if the argument is a factor of the product. */
static bool is_factor(const kernel *k, size_t number) {
    if (k->carries != TSR_CARRIES_PRODUCT || number >= k->group.input_count) return false;
    MlirValue argument = mlirBlockGetArgument(k->group.body, (intptr_t)number);
    for (size_t i = 0; i < 2; i++)
        if (mlirValueEqual(tsr_op_operand(k->group.root, i), argument)) return true;
    return false;
}

static TSR_RESULT add_touch(const chooser *c, tensor *t, call *of, size_t number, bool *out_fits) {
    touch *made = TSR_NEW(c->arena, touch, 1);
    *out_fits = false;
    if (of) TRY(c->ctx, carries(of->of, number, out_fits));
    if (!*out_fits) return TSR_SUCCESS;
    if (!made) return fail_memory(c);
    *made = (touch){.of = of, .number = number, .next = t->touches};
    t->touches = made;
    t->is_factor |= is_factor(of->of, number);
    return TSR_SUCCESS;
}

static bool preserves_rows(MlirValue from, MlirValue to) {
    tsr_type a, b;
    return tsr_value_type(from, &a) && tsr_value_type(to, &b) && a.shape.rank > 1 &&
           b.shape.rank > 1 && a.shape.dims[a.shape.rank - 1] == b.shape.dims[b.shape.rank - 1];
}

/* Adds the readers of the value, direct or through reshapes. */
static TSR_RESULT add_readers(const chooser *c, tensor *t, MlirValue value, bool *out_fits) {
    *out_fits = true;
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use) && *out_fits;
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation user = mlirOpOperandGetOwner(use);
        bool views = tsr_op_is(user, TSR_GRAPH_RESHAPE);
        if (views && preserves_rows(value, tsr_op_result(user, 0)))
            TRY(c->ctx, add_readers(c, t, tsr_op_result(user, 0), out_fits));
        else if (views || !tsr_op_is(user, TSR_SCHED_CALL))
            *out_fits = false;
        else
            TRY(c->ctx,
                add_touch(c, t, find_call(c, user), mlirOpOperandGetOperandNumber(use), out_fits));
    }
    return TSR_SUCCESS;
}

int64_t tsr_gpu_pitch(const tsr_type *type) {
    uint64_t size = tsr_dtype_size(type->dtype), count = 0;
    if (type->shape.rank < 2 || !tsr_dtype_is_float(type->dtype) || LINE_BYTES % size ||
        !tsr_shape_count(&type->shape, &count) || !count)
        return 0;
    uint64_t columns = type->shape.dims[type->shape.rank - 1], row = columns * size;
    uint64_t padded = (row + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    bool wins = padded != row && padded <= row + row / 2 && count > columns;
    return wins ? (int64_t)(padded / size) : 0;
}

static bool read_rows(tensor *t, const tsr_type *type) {
    uint64_t count = 0;
    t->element_bytes = tsr_dtype_size(type->dtype);
    t->pitch = tsr_gpu_pitch(type);
    if (!t->pitch || !tsr_shape_count(&type->shape, &count)) return false;
    t->columns = type->shape.dims[type->shape.rank - 1];
    t->rows = count / t->columns;
    return true;
}

static TSR_RESULT consider(chooser *c, call *made, size_t result) {
    bool fits = false;
    kernel *k = made->of;
    size_t number = k->group.input_count + result;
    tensor *t = TSR_NEW(c->arena, tensor, 1);
    if (!t) return fail_memory(c);
    if (!read_rows(t, &k->group.types[number])) return TSR_SUCCESS;
    TRY(c->ctx, add_touch(c, t, made, number, &fits));
    if (fits) TRY(c->ctx, add_readers(c, t, tsr_op_result(made->op, result), &fits));
    if (!fits || !t->is_factor) return TSR_SUCCESS;
    t->next = c->tensors;
    c->tensors = t;
    return TSR_SUCCESS;
}

/* ---- weigh ----------------------------------------------------------------------------------- */

static TSR_RESULT find_timing(const chooser *c, call *of, timing **out_timing) {
    kernel *k = of->of;
    size_t bytes = k->count * sizeof *of->pitches;
    for (timing *t = k->timings; t; t = t->next)
        if (memcmp(t->pitches, of->pitches, bytes) == 0) {
            *out_timing = t;
            return TSR_SUCCESS;
        }
    timing *made = TSR_NEW(c->arena, timing, 1);
    int64_t *pitches = TSR_NEW(c->arena, int64_t, k->count);
    if (!made || !pitches) return fail_memory(c);
    memcpy(pitches, of->pitches, bytes);
    memcpy(k->group.pitches, pitches, bytes);
    *made = (timing){.pitches = pitches, .next = k->timings};
    TRY(c->ctx, tsr_tile_time_product(&k->group, &made->taken, &made->cycles));
    memset(k->group.pitches, 0, bytes);
    k->timings = *out_timing = made;
    return TSR_SUCCESS;
}

/* Gives the tensor its pitch, or removes it. */
static void set_pitch(const tensor *t, bool has) {
    for (const touch *at = t->touches; at; at = at->next)
        at->of->pitches[at->number] = has ? t->pitch : 0;
}

/* Adds up the time of all products that use the tensor. *out_taken is true if all have kernels on
 * matrix units. */
static TSR_RESULT time_products(const chooser *c, const tensor *t, bool *out_taken,
                                double *out_cycles) {
    *out_cycles = 0;
    *out_taken = true;
    for (const touch *at = t->touches; at; at = at->next) {
        timing *found = NULL;
        const touch *before = t->touches;
        if (at->of->of->carries != TSR_CARRIES_PRODUCT) continue;
        while (before->of != at->of) before = before->next;
        if (before != at) continue; /* it is counted already */
        TRY(c->ctx, find_timing(c, at->of, &found));
        *out_taken &= found->taken;
        *out_cycles += found->cycles;
    }
    return TSR_SUCCESS;
}

/* The cycles that elementwise kernels lose: in each row a partial vector takes as long as a whole
 * one. */
static double loss_of(const chooser *c, const tensor *t) {
    double more = (double)((t->columns + VECTOR - 1) / VECTOR * VECTOR - t->columns), bytes = 0;
    for (const touch *at = t->touches; at; at = at->next)
        if (at->of->of->carries == TSR_CARRIES_VIEWS)
            bytes += (double)t->rows * more * (double)t->element_bytes;
    return tsr_product_move_time(c->target, bytes);
}

/* Removes the tensor's pitch if it saves no time. */
static TSR_RESULT give_up(const chooser *c, const tensor *t, bool *out_given_up) {
    double with = 0, without = 0;
    bool taken = false, before = false;
    TRY(c->ctx, time_products(c, t, &taken, &with));
    set_pitch(t, false);
    TRY(c->ctx, time_products(c, t, &before, &without));
    *out_given_up = !taken || without - with <= loss_of(c, t);
    if (!*out_given_up) set_pitch(t, true);
    return TSR_SUCCESS;
}

static TSR_RESULT weigh(chooser *c) {
    bool changed = true;
    for (const tensor *t = c->tensors; t; t = t->next) set_pitch(t, true);
    while (changed) {
        changed = false;
        for (tensor **at = &c->tensors; *at;) {
            bool given_up = false;
            TRY(c->ctx, give_up(c, *at, &given_up));
            changed |= given_up;
            if (given_up)
                *at = (*at)->next;
            else
                at = &(*at)->next;
        }
    }
    return TSR_SUCCESS;
}

/* ---- write ----------------------------------------------------------------------------------- */

static bool has_pitches(const call *at) {
    for (size_t i = 0; i < at->of->count; i++)
        if (at->pitches[i]) return true;
    return false;
}

/* True if all calls of the group have these pitches. */
static bool is_common(const chooser *c, const call *of) {
    size_t bytes = of->of->count * sizeof *of->pitches;
    for (const call *at = c->calls; at; at = at->next)
        if (at->of == of->of && memcmp(at->pitches, of->pitches, bytes) != 0) return false;
    return true;
}

static TSR_RESULT find_clone(const chooser *c, const call *of, MlirOperation *out_func) {
    kernel *k = of->of;
    MlirContext context = mlirModuleGetContext(c->module);
    MlirAttribute pitches = tsr_attr_make_i64s(context, k->count, of->pitches);
    *out_func = k->group.op;
    for (clone *t = k->clones; t; t = t->next)
        if (memcmp(t->pitches, of->pitches, k->count * sizeof *of->pitches) == 0) {
            *out_func = t->func;
            return TSR_SUCCESS;
        }
    clone *made = TSR_NEW(c->arena, clone, 1);
    if (!made) return fail_memory(c);
    if (!is_common(c, of)) {
        *out_func = mlirOperationClone(k->group.op);
        tsr_clone_add(c->module, k->group.op, *out_func, TSR_PITCHED_SUFFIX);
    }
    tsr_op_set(*out_func, TSR_PITCHES_NAME, pitches);
    *made = (clone){of->pitches, *out_func, k->clones};
    k->clones = made;
    return TSR_SUCCESS;
}

static TSR_RESULT write_pitches(const chooser *c) {
    tsr_clones_begin(c->module);
    for (call *at = c->calls; at; at = at->next) {
        MlirOperation func = {NULL};
        if (!has_pitches(at)) continue;
        TRY(c->ctx, find_clone(c, at, &func));
        tsr_op_set(at->op, "callee",
                   tsr_attr_make_symbol(mlirModuleGetContext(c->module), tsr_op_symbol(func)));
    }
    tsr_clones_end(c->module);
    return TSR_SUCCESS;
}

tsr_result tsr_gpu_choose_pitches(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                  tsr_arena *arena) {
    chooser c = {.ctx = ctx, .arena = arena, .target = target, .module = module};
    TRY(ctx, read_kernels(&c));
    TSR_FOR_EACH_OP(entry, mlirModuleGetBody(module)) {
        if (!tsr_op_is(entry, TSR_FUNC_FUNC) || !tsr_op_has_body(entry)) continue;
        call *before = c.last_call;
        TRY(ctx, read_calls(&c, entry));
        c.tensors = NULL;
        for (call *at = before ? before->next : c.calls; at; at = at->next)
            for (size_t i = 0; i < at->of->group.output_count; i++) TRY(ctx, consider(&c, at, i));
        TRY(ctx, weigh(&c));
    }
    return write_pitches(&c);
}
