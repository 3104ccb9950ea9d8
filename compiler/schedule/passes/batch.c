/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tsched-batch. Calls of groups that compute one elementwise expression on buffers of
 * different sizes become one call of a group of kind "batch", which computes them all, segment by
 * segment. Examples are an optimizer's steps of all parameters, or the casts of all weights.
 *
 * All calls of a batch are moved to one position. If their results only leave the entry, that is
 * the last call; if all their inputs are available from the beginning and all results are still
 * alive at the last call, it is the first call. Other calls stay. Scalars that all segments share
 * are inputs of all.
 *
 * Moving steps to the last call keeps alive gradients that the original order would have freed: in
 * the worst case all gradients.
 */
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/schedule/schedule.h"
#include "runtime/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_END = UINT32_MAX - 1, EVEN_BYTES = 16 };

typedef struct member {
    MlirOperation call, func;
    const char *key;                      /* members with equal keys may be segments of one batch */
    uint32_t position, last_use, defined; /* defined: position of the last operand's definition */
    uint64_t count;                       /* elements */
    bool is_late, taken;
} member;

typedef struct batcher {
    tsr_arena arena;
    MlirModule module;
    MlirContext mlir;
    uint32_t arguments_max, era; /* era: calls of different eras are never batched together */
    tsr_value_map positions, vranks;
    member *members; /* the candidate calls of an entry */
    uint32_t member_count, made;
    bool failed; /* out of memory */
} batcher;

bool tsr_segments_read(MlirOperation op, size_t inputs, size_t outputs,
                       tsr_segments *out_segments) {
    int64_t values[2];
    size_t count = 0;
    if (!tsr_op_i64s(op, TSR_SEGMENTS_NAME, 2, values, &count) || count != 2) return false;
    if (values[0] < 1 || values[1] < 0 || (uint64_t)values[0] > outputs ||
        (values[1] && (uint64_t)values[1] > inputs / (uint64_t)values[0]) ||
        outputs % (uint64_t)values[0])
        return false;
    *out_segments = (tsr_segments){.count = (uint32_t)values[0],
                                   .inputs = (uint32_t)values[1],
                                   .outputs = (uint32_t)(outputs / (size_t)values[0])};
    return true;
}

/* ---- candidates ---- */

static bool is_full(MlirValue value, uint64_t count) {
    tsr_type type;
    uint64_t own = 0;
    return tsr_value_type(value, &type) && tsr_shape_count(&type.shape, &own) && own == count;
}

/* The number of a value of the group: arguments come first, then results of ops. */
static uint32_t number_of(const tsr_value_map *numbers, MlirValue value) {
    return tsr_value_map_get(numbers, value);
}

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

/* Appends the op's part of the key, without its shape; false if the op's result depends on its
 * shape. */
static bool append_op(MlirOperation op, const tsr_value_map *numbers, uint64_t count,
                      tsr_buffer *text) {
    const tsr_op_row *row = tsr_op_row_find(op);
    tsr_type type;
    if (tsr_op_result_count(op) != 1 || !tsr_value_type(tsr_op_result(op, 0), &type)) return false;
    bool is_constant = row && row->op_class == TSR_CLASS_CONSTANT;
    if (!row || (row->op_class != TSR_CLASS_MAP && !is_constant) || tsr_op_is(op, TSR_GRAPH_IOTA) ||
        tsr_op_is(op, TSR_GRAPH_PHILOX))
        return false;
    tsr_buffer_printf(text, "%s:%d%c", tsr_op_name(op), (int)type.dtype,
                      is_full(tsr_op_result(op, 0), count) ? 'f' : 's');
    if (!is_full(tsr_op_result(op, 0), count) && !is_full(tsr_op_result(op, 0), 1)) return false;
    if (is_constant) {
        MlirAttribute element = tsr_attr_splat_element(tsr_op_attr(op, "value"));
        tsr_buffer_printf(text, "=%p;", element.ptr);
        return !mlirAttributeIsNull(element);
    }
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        tsr_buffer_printf(text, ",%u", number_of(numbers, tsr_op_operand(op, i)));
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
        MlirNamedAttribute named = mlirOperationGetAttribute(op, i);
        tsr_buffer_printf(text, " %s=", mlirIdentifierStr(named.name).data);
        mlirAttributePrint(named.attribute, append, text);
    }
    tsr_buffer_text(text, ";");
    return true;
}

/* An input belongs to one segment if it has as many elements as the results. */
static bool append_group(batcher *t, const member *m, tsr_buffer *text) {
    MlirBlock block = tsr_op_body(m->func);
    tsr_value_map numbers = {0};
    uint32_t next = 0;
    uint64_t smallest = EVEN_BYTES;
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
        MlirValue argument = mlirBlockGetArgument(block, i);
        tsr_type type;
        bool full = is_full(argument, m->count);
        if (!tsr_value_type(argument, &type) || (!full && !is_full(argument, 1))) return false;
        if (full && tsr_dtype_size(type.dtype) < smallest) smallest = tsr_dtype_size(type.dtype);
        tsr_buffer_printf(text, "%d", (int)type.dtype);
        if (full)
            tsr_buffer_text(text, "f;");
        else
            tsr_buffer_printf(text, "%p;", tsr_op_operand(m->call, (size_t)i).ptr);
        t->failed |= !tsr_value_map_set(&numbers, &t->arena, argument, next++);
    }
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_SCHED_RETURN)) {
            for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
                tsr_type type;
                tsr_value_type(tsr_op_operand(op, i), &type);
                if (tsr_dtype_size(type.dtype) < smallest) smallest = tsr_dtype_size(type.dtype);
                tsr_buffer_printf(text, ">%u", number_of(&numbers, tsr_op_operand(op, i)));
            }
            break;
        }
        if (!append_op(op, &numbers, m->count, text)) return false;
        t->failed |= !tsr_value_map_set(&numbers, &t->arena, tsr_op_result(op, 0), next++);
    }
    tsr_buffer_printf(text, "|%d%u|%d", m->is_late, t->era, m->count * smallest % EVEN_BYTES == 0);
    return true;
}

static void find_uses(batcher *t, member *m, bool *out_vranks) {
    *out_vranks = true;
    m->last_use = 0;
    for (size_t i = 0; i < tsr_op_result_count(m->call); i++)
        for (MlirOpOperand use = mlirValueGetFirstUse(tsr_op_result(m->call, i));
             !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
            MlirOperation owner = mlirOpOperandGetOwner(use);
            bool sinks = tsr_op_is(owner, TSR_GRAPH_ASSIGN) || tsr_op_is(owner, TSR_FUNC_RETURN);
            uint32_t at = sinks || !tsr_op_result_count(owner)
                              ? AT_END
                              : tsr_value_map_get(&t->positions, tsr_op_result(owner, 0));
            *out_vranks = *out_vranks && sinks;
            if (at > m->last_use) m->last_use = at;
        }
}

/* True if all operands are available before any kernel runs. */
static bool reads_sources(batcher *t, member *m) {
    bool sources = true;
    m->defined = 0;
    for (size_t i = 0; i < tsr_op_operand_count(m->call); i++) {
        MlirOperation owner = tsr_value_owner(tsr_op_operand(m->call, i));
        if (mlirOperationIsNull(owner)) continue;
        const tsr_op_row *row = tsr_op_row_find(owner);
        sources = sources && row &&
                  (row->op_class == TSR_CLASS_SOURCE || row->op_class == TSR_CLASS_CONSTANT);
        uint32_t at = tsr_value_map_get(&t->positions, tsr_op_operand(m->call, i));
        if (at > m->defined) m->defined = at;
    }
    return sources;
}

/* Adds the call if it may become a segment. */
static void consider(batcher *t, MlirOperation call, uint32_t position) {
    const char *callee = tsr_op_string(call, "callee");
    member m = {.call = call, .func = tsr_module_find(t->module, callee), .position = position};
    const char *kind = tsr_op_string(m.func, "kind"), *source = tsr_op_string(m.func, "source");
    tsr_type type;
    tsr_buffer text = {0};
    if (!kind || strcmp(kind, "map") != 0 || (source && strcmp(source, "user") == 0) ||
        tsr_op_has(m.func, TSR_HOISTED_NAME) || tsr_op_has(m.func, TSR_PITCHES_NAME))
        return;
    if (!tsr_value_type(tsr_op_result(call, 0), &type) || !tsr_shape_count(&type.shape, &m.count) ||
        m.count < 2)
        return;
    find_uses(t, &m, &m.is_late);
    if (!reads_sources(t, &m) && !m.is_late) return;
    bool fits = append_group(t, &m, &text);
    if (fits) m.key = text.failed ? NULL : tsr_arena_strdup(&t->arena, text.bytes);
    t->failed |= fits && !m.key;
    tsr_buffer_finish(&text);
    if (m.key) t->members[t->member_count++] = m;
}

/* Values that exist once for each virtual rank. */
static bool is_vrank(const batcher *t, MlirOperation op, const tsr_op_row *row) {
    if (row && (row->op_class == TSR_CLASS_COLLECTIVE || row->op_class == TSR_CLASS_JOIN))
        return false;
    bool vrank = row && (row->op_class == TSR_CLASS_VRANK || row->op_class == TSR_CLASS_TAKE);
    for (size_t i = 0; i < tsr_op_operand_count(op) && !vrank; i++)
        vrank = tsr_value_map_get(&t->vranks, tsr_op_operand(op, i)) == 1;
    return vrank;
}

static bool read_entry(batcher *t, MlirOperation entry) {
    uint32_t count = 0, position = 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(entry)) count++;
    t->members = TSR_NEW(&t->arena, member, (size_t)count + 1);
    t->member_count = 0;
    t->positions = t->vranks = (tsr_value_map){0};
    if (!t->members) return false;
    TSR_FOR_EACH_OP(op, tsr_op_body(entry)) {
        const tsr_op_row *row = tsr_op_row_find(op);
        bool vrank = is_vrank(t, op, row);
        position++;
        for (size_t i = 0; i < tsr_op_result_count(op); i++) {
            t->failed |=
                !tsr_value_map_set(&t->positions, &t->arena, tsr_op_result(op, i), position) ||
                !tsr_value_map_set(&t->vranks, &t->arena, tsr_op_result(op, i), vrank);
        }
    }
    position = 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(entry)) {
        const tsr_op_row *row = tsr_op_row_find(op);
        position++;
        t->era += row && (row->op_class == TSR_CLASS_BARRIER || row->op_class == TSR_CLASS_LOOP ||
                          row->op_class == TSR_CLASS_COLLECTIVE);
        if (tsr_op_is(op, TSR_SCHED_CALL) &&
            tsr_value_map_get(&t->vranks, tsr_op_result(op, 0)) != 1)
            consider(t, op, position);
    }
    return !t->failed;
}

/* ---- the batch ---- */

/* An input that each segment has for itself. */
static bool is_own(const member *m, size_t input) {
    return is_full(tsr_op_operand(m->call, input), m->count);
}

static size_t count_own(const member *m) {
    size_t count = 0;
    for (size_t i = 0; i < tsr_op_operand_count(m->call); i++) count += is_own(m, i);
    return count;
}

typedef struct arguments {
    size_t own, shared, outputs; /* own: inputs of a segment; outputs the same */
    size_t input_count, output_count;
    MlirValue *inputs, *made, *returned; /* made: arguments of the block */
    MlirType *types, *results;
    MlirLocation *locations;
} arguments;

static bool collect(batcher *t, member *const *members, uint32_t count, arguments *a) {
    const member *first = members[0];
    size_t operands = tsr_op_operand_count(first->call);
    a->own = count_own(first);
    a->shared = operands - a->own;
    a->outputs = tsr_op_result_count(first->call);
    a->input_count = count * a->own + a->shared;
    a->output_count = count * a->outputs;
    a->inputs = TSR_NEW(&t->arena, MlirValue, a->input_count + 1);
    a->returned = TSR_NEW(&t->arena, MlirValue, a->output_count);
    a->types = TSR_NEW(&t->arena, MlirType, a->input_count + 1);
    a->results = TSR_NEW(&t->arena, MlirType, a->output_count);
    a->locations = TSR_NEW(&t->arena, MlirLocation, a->input_count + 1);
    if (!a->inputs || !a->returned || !a->types || !a->results || !a->locations) return false;
    size_t in = 0, out = 0;
    for (uint32_t p = 0; p < count; p++)
        for (size_t i = 0; i < operands; i++)
            if (is_own(members[p], i)) a->inputs[in++] = tsr_op_operand(members[p]->call, i);
    for (size_t i = 0; i < operands; i++)
        if (!is_own(first, i)) a->inputs[in++] = tsr_op_operand(first->call, i);
    TSR_ASSERT(in == a->input_count);
    for (size_t i = 0; i < in; i++) {
        a->types[i] = mlirValueGetType(a->inputs[i]);
        a->locations[i] = mlirOperationGetLocation(first->call);
    }
    for (uint32_t p = 0; p < count; p++)
        for (size_t i = 0; i < a->outputs; i++)
            a->results[out++] = mlirValueGetType(tsr_op_result(members[p]->call, i));
    return true;
}

/* Clones the computation of segment `segment` to the end of the block. */
static bool clone_segment(batcher *t, const member *m, uint32_t segment, MlirBlock block,
                          arguments *a) {
    MlirBlock from = tsr_op_body(m->func);
    tsr_value_map numbers = {0};
    size_t own = segment * a->own, shared = a->input_count - a->shared, count = 0;
    TSR_FOR_EACH_OP(op, from) count += 1 + tsr_op_operand_count(op);
    count += (size_t)mlirBlockGetNumArguments(from);
    MlirValue *values = TSR_NEW(&t->arena, MlirValue, count);
    uint32_t next = 0;
    if (!values) return false;
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(from); i++) {
        values[next] =
            mlirBlockGetArgument(block, (intptr_t)(is_own(m, (size_t)i) ? own++ : shared++));
        if (!tsr_value_map_set(&numbers, &t->arena, mlirBlockGetArgument(from, i), next++))
            return false;
    }
    TSR_FOR_EACH_OP(op, from) {
        bool ends = tsr_op_is(op, TSR_SCHED_RETURN);
        for (size_t i = 0; ends && i < a->outputs; i++)
            a->returned[segment * a->outputs + i] =
                values[tsr_value_map_get(&numbers, tsr_op_operand(op, i))];
        if (ends) break;
        MlirOperation copy = mlirOperationClone(op);
        mlirBlockAppendOwnedOperation(block, copy);
        for (size_t i = 0; i < tsr_op_operand_count(op); i++)
            mlirOperationSetOperand(copy, (intptr_t)i,
                                    values[tsr_value_map_get(&numbers, tsr_op_operand(op, i))]);
        values[next] = tsr_op_result(copy, 0);
        if (!tsr_value_map_set(&numbers, &t->arena, tsr_op_result(op, 0), next++)) return false;
    }
    return true;
}

static int64_t sum_of(member *const *members, uint32_t count, const char *name) {
    int64_t sum = 0, value = 0;
    for (uint32_t i = 0; i < count; i++)
        if (tsr_op_i64(members[i]->func, name, &value) && __builtin_add_overflow(sum, value, &sum))
            sum = INT64_MAX;
    return sum;
}

/* "k7_mul_sub_x50": the first member's name, and the number of members. */
static const char *free_name(batcher *t, const char *first, uint32_t count) {
    const char *name = tsr_arena_printf(&t->arena, "%s_x%u", first, count);
    while (name && !mlirOperationIsNull(tsr_module_find(t->module, name)))
        name = tsr_arena_printf(&t->arena, "%s_", name);
    return name;
}

static bool write_group(batcher *t, member *const *members, uint32_t count, arguments *a,
                        const char *name) {
    MlirLocation location = mlirOperationGetLocation(members[0]->call);
    MlirBlock block = mlirBlockCreate((intptr_t)a->input_count, a->types, a->locations);
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    for (uint32_t p = 0; p < count; p++)
        if (!clone_segment(t, members[p], p, block, a)) {
            mlirRegionDestroy(region);
            return false;
        }
    tsr_builder inside = tsr_builder_at_end(block, location);
    tsr_build(&inside, &(tsr_op_desc){.name = "tsched.return",
                                      .operand_count = a->output_count,
                                      .operands = a->returned});
    const int64_t segments[] = {count, (int64_t)a->own};
    MlirType type = mlirFunctionTypeGet(t->mlir, (intptr_t)a->input_count, a->types,
                                        (intptr_t)a->output_count, a->results);
    const tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(t->mlir, name)},
        {"function_type", tsr_attr_make_type(type)},
        {"kind", tsr_attr_make_string(t->mlir, "batch")},
        {"source", tsr_attr_make_string(t->mlir, "default")},
        {"flops", tsr_attr_make_i64(t->mlir, sum_of(members, count, "flops"))},
        {"bytes", tsr_attr_make_i64(t->mlir, sum_of(members, count, "bytes"))},
        {TSR_SEGMENTS_NAME, tsr_attr_make_i64s(t->mlir, 2, segments)}};
    tsr_builder outside = tsr_builder_at_end(mlirModuleGetBody(t->module), location);
    tsr_build(&outside, &(tsr_op_desc){.name = "tsched.func",
                                       .attr_count = TSR_COUNT(attrs),
                                       .attrs = attrs,
                                       .region_count = 1,
                                       .regions = &region});
    return true;
}

/* Larger segments first. */
static int by_size(const void *x, const void *y) {
    const member *a = *(member *const *)x, *b = *(member *const *)y;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

/* `members` in the order of their calls. */
static bool write_batch(batcher *t, member **members, uint32_t count) {
    MlirOperation target = members[members[0]->is_late ? count - 1 : 0]->call;
    const char *name = free_name(t, tsr_op_symbol(members[0]->func), count);
    arguments a = {0};
    tsr_builder at = tsr_builder_before(target);
    at.location = mlirOperationGetLocation(members[0]->call);
    qsort(members, count, sizeof *members, by_size);
    if (!name || !collect(t, members, count, &a) || !write_group(t, members, count, &a, name))
        return false;
    const tsr_attr callee = {"callee", tsr_attr_make_symbol(t->mlir, name)};
    MlirOperation call = tsr_build(&at, &(tsr_op_desc){.name = "tsched.call",
                                                       .operand_count = a.input_count,
                                                       .operands = a.inputs,
                                                       .result_count = a.output_count,
                                                       .results = a.results,
                                                       .attr_count = 1,
                                                       .attrs = &callee});
    for (uint32_t p = 0; p < count; p++) {
        for (size_t i = 0; i < a.outputs; i++)
            mlirValueReplaceAllUsesOfWith(tsr_op_result(members[p]->call, i),
                                          tsr_op_result(call, p * a.outputs + i));
        mlirOperationDestroy(members[p]->call);
    }
    return true;
}

/* Drops early calls whose results do not live beyond the last call, or that read later values. */
static uint32_t select_early(member **members, uint32_t count) {
    uint32_t selected = 0;
    for (bool changed = true; changed && count; count = selected) {
        uint32_t first = members[0]->position, last = members[count - 1]->position;
        selected = 0;
        for (uint32_t i = 0; i < count; i++)
            if (members[i]->last_use > last && members[i]->defined < first)
                members[selected++] = members[i];
        changed = selected != count;
    }
    return count;
}

/* Writes all members of one key, in batches that are not too large. */
static bool write_batches(batcher *t, member **members, uint32_t count) {
    if (!members[0]->is_late) count = select_early(members, count);
    if (count < 2) return true;
    size_t own = count_own(members[0]), outputs = tsr_op_result_count(members[0]->call);
    size_t shared = tsr_op_operand_count(members[0]->call) - own;
    if (shared >= t->arguments_max) return true;
    uint32_t most = (uint32_t)((t->arguments_max - shared) / (own + outputs));
    for (uint32_t begin = 0; begin + 1 < count && most > 1; begin += most) {
        uint32_t part = count - begin < most ? count - begin : most;
        if (part > 1 && !write_batch(t, members + begin, part)) return false;
    }
    return true;
}

static bool batch_entry(batcher *t, MlirOperation entry) {
    if (!read_entry(t, entry)) return false;
    member **alike = TSR_NEW(&t->arena, member *, (size_t)t->member_count + 1);
    if (!alike) return false;
    for (uint32_t i = 0; i < t->member_count; i++) {
        uint32_t count = 0;
        if (t->members[i].taken) continue;
        for (uint32_t k = i; k < t->member_count; k++) {
            if (t->members[k].taken || strcmp(t->members[k].key, t->members[i].key) != 0) continue;
            t->members[k].taken = true;
            alike[count++] = &t->members[k];
        }
        if (!write_batches(t, alike, count)) return false;
    }
    return true;
}

/* ---- cleanup ---- */

static bool note_used(batcher *t, tsr_value_map *used, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        const char *names[] = {tsr_op_string(op, "callee"), tsr_op_string(op, "combine")};
        for (size_t i = 0; i < 2; i++) {
            MlirOperation func =
                names[i] ? tsr_module_find(t->module, names[i]) : (MlirOperation){NULL};
            if (!tsr_op_is(func, TSR_SCHED_FUNC)) continue;
            MlirValue key = {.ptr = func.ptr};
            if (!tsr_value_map_set(used, &t->arena, key, 1)) return false;
        }
    }
    return true;
}

/* Erases groups that only the batched calls used. */
static bool drop_unused(batcher *t) {
    tsr_value_map used = {0};
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(t->module)) {
        if (tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has_body(op) &&
            !note_used(t, &used, tsr_op_body(op)))
            return false;
    }
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(t->module)) {
        MlirValue key = {.ptr = op.ptr};
        if (tsr_op_is(op, TSR_SCHED_FUNC) && tsr_value_map_get(&used, key) != 1)
            mlirOperationDestroy(op);
    }
    return true;
}

bool tsr_schedule_batch(MlirModule module, uint32_t arguments_max) {
    batcher t = {
        .module = module, .mlir = mlirModuleGetContext(module), .arguments_max = arguments_max};
    bool done = true;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (done && tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has_body(op)) done = batch_entry(&t, op);
    }
    done = done && drop_unused(&t);
    tsr_arena_finish(&t.arena);
    return done;
}

bool tsr_pass_batch(MlirModule module) {
    enum { ARGUMENTS_MAX = 512 };
    if (tsr_schedule_batch(module, ARGUMENTS_MAX)) return true;
    tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(module)), TSR_DIAG_MEMORY,
                   "no memory to batch calls");
    return false;
}
