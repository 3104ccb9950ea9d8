/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-optimizer-shard, on straight-line programs that autodiff has run on. Every optimizer
 * step of a parameter that is declared sharded becomes one step for each position along the axis,
 * on that position's range of elements of parameter, gradient and state (Rajbhandari et al.,
 * "ZeRO", 2020, section 5):
 *
 *   zero1  gradient summed whole (all_reduce), state sliced, new parameter gathered
 *   zero2  gradient summed and sliced (reduce_scatter), the rest as zero1
 *   zero3  the parameter is sliced, too: gathered before its first use, not after the step
 *
 * Ranges are those of the state store: position i of V holds elements [i c, (i + 1) c) of the
 * row-major tensor, c = ceil(n / V), cut at n; a position after the end has no elements and takes
 * no step.
 *
 * Afterwards an attribute of the function has the bytes of the fullest position and the bytes that
 * all positions together send by ring algorithms (all_reduce 2 (V - 1) n, the others (V - 1) n):
 *   tessera_sr.sharded = [positions, parameter bytes, gradient bytes, state bytes, bytes sent]
 */
#include "compiler/graph/emit.h"
#include "compiler/resilience/passes.h"
#include "compiler/resilience/resilience.h"

#include <string.h>

enum { STATES_MAX = 2, AXES_MAX = 64 };

typedef struct sharder {
    MlirModule module;
    MlirOperation func;
    MlirContext context;
    tsr_arena arena;
    uint64_t positions; /* largest number of positions of an axis */
    uint64_t param_bytes, gradient_bytes, state_bytes, sent_bytes;
    size_t steps;  /* steps that were sharded */
    bool backward; /* new ops belong to a step that autodiff marked */
} sharder;

typedef struct declared {
    const char *axis;
    int stage; /* 1, 2 or 3 */
    uint64_t positions;
} declared;

/* ---- declarations ---------------------------------------------------------------------------- */

static MlirAttribute mesh_of(MlirOperation module) {
    MlirAttribute mesh = tsr_op_attr(module, "tessera.mesh");
    bool is_mesh = !mlirAttributeIsNull(mesh) && mlirAttributeIsADictionary(mesh);
    return is_mesh ? mesh : mlirAttributeGetNull();
}

/* If `text` begins with the axis's name, *out_rest is the rest, after an 'x'. */
static bool take_axis(const char *text, MlirStringRef axis, const char **out_rest) {
    if (strncmp(text, axis.data, axis.length) != 0) return false;
    *out_rest = text + axis.length;
    if (**out_rest == 'x' && (*out_rest)[1]) (*out_rest)++;
    return *out_rest != text + axis.length || !**out_rest;
}

/* True if `text` consists of names of axes separated by 'x', with `axis` among them. Names may
 * contain an 'x' themselves, so every matching name is tried; no name occurs twice, which bounds
 * the depth. */
static bool spells_axes(MlirAttribute mesh, const char *text, const char *axis, uint64_t taken,
                        bool has_axis) {
    if (!*text) return has_axis;
    for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(mesh) && i < AXES_MAX; i++) {
        MlirStringRef name = mlirIdentifierStr(mlirDictionaryAttrGetElement(mesh, i).name);
        const char *rest = NULL;
        bool is_axis = strlen(axis) == name.length && memcmp(axis, name.data, name.length) == 0;
        if (taken >> i & 1 || !take_axis(text, name, &rest)) continue;
        if (spells_axes(mesh, rest, axis, taken | UINT64_C(1) << i, has_axis || is_axis))
            return true;
    }
    return false;
}

bool tsr_sr_check_mesh(MlirOperation module, MlirOperation op, MlirAttribute names,
                       const char *axis) {
    tsr_buffer text = {0};
    MlirAttribute mesh = mesh_of(module);
    intptr_t count = mlirAttributeIsAArray(names) ? mlirArrayAttrGetNumElements(names) : 1;
    for (intptr_t i = 0; i < count; i++) {
        MlirAttribute name =
            mlirAttributeIsAArray(names) ? mlirArrayAttrGetElement(names, i) : names;
        const char *part = tsr_attr_string(name);
        tsr_buffer_printf(&text, "%s%s", i ? "x" : "", part ? part : "?");
    }
    bool done =
        !text.failed && !mlirAttributeIsNull(mesh) && spells_axes(mesh, text.bytes, axis, 0, false);
    if (!done)
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_MESH,
                       "%s: mesh is '%s'; expected axes of the module's tessera.mesh, each once, "
                       "'%s' among them",
                       tsr_op_name(op), text.failed ? "" : text.bytes, axis);
    tsr_buffer_finish(&text);
    return done;
}

static bool axis_size(sharder *s, MlirOperation op, const char *axis, uint64_t *out_size) {
    MlirAttribute mesh = mesh_of(mlirModuleGetOperation(s->module));
    int64_t size = 0;
    MlirAttribute one = {NULL};
    if (!mlirAttributeIsNull(mesh)) one = mlirDictionaryAttrGetElementByName(mesh, tsr_ref(axis));
    if (!mlirAttributeIsNull(one) && tsr_attr_i64(one, &size) && size >= 1 &&
        size <= TSR_SR_POSITIONS_MAX) {
        *out_size = (uint64_t)size;
        return true;
    }
    tsr_diag_error(
        mlirOperationGetLocation(op), TSR_DIAG_SR_MESH,
        "optimizer state is sharded over axis '%s', but the module's tessera.mesh gives it "
        "no size from 1 to %d",
        axis, TSR_SR_POSITIONS_MAX);
    return false;
}

/* Finds the declaration of a parameter, or of all ("*"); out_declared->axis is NULL if there is
 * none. */
static bool find_declared(sharder *s, MlirOperation op, const char *name, declared *out_declared) {
    MlirAttribute list = tsr_op_attr(s->func, TSR_SR_SHARDS);
    *out_declared = (declared){0};
    for (intptr_t i = 0; !mlirAttributeIsNull(list) && i + 2 < mlirArrayAttrGetNumElements(list);
         i += 3) {
        const char *of = tsr_attr_string(mlirArrayAttrGetElement(list, i));
        const char *policy = tsr_attr_string(mlirArrayAttrGetElement(list, i + 2));
        if (!of || !policy || (strcmp(of, "*") != 0 && strcmp(of, name) != 0)) continue;
        out_declared->axis = tsr_attr_string(mlirArrayAttrGetElement(list, i + 1));
        out_declared->stage = policy[4] - '0';
    }
    return !out_declared->axis || axis_size(s, op, out_declared->axis, &out_declared->positions);
}

/* ---- ops ------------------------------------------------------------------------------------- */

typedef struct range {
    uint64_t begin, end;
} range;

static range range_of(uint64_t count, uint64_t positions, uint64_t position) {
    uint64_t each = (count + positions - 1) / positions;
    range r = {position * each, (position + 1) * each};
    if (r.begin > count) r.begin = count;
    if (r.end > count) r.end = count;
    return r;
}

static MlirType slice_type(sharder *s, MlirValue of, range r) {
    tsr_type type = {.dtype = tsr_type_of(of).dtype,
                     .shape = {.rank = 1, .dims = {r.end - r.begin}}};
    return tsr_type_make(s->context, &type);
}

/* Marks the op, so that recomputation does not mistake ops of the optimizer for forward ops. */
static MlirValue mark(const sharder *s, MlirValue value) {
    if (s->backward)
        tsr_op_set(tsr_value_owner(value), TSR_SR_BACKWARD, tsr_attr_make_unit(s->context));
    return value;
}

/* reduce_scatter or shard_slice: elements [begin, end). */
static MlirValue build_slice(sharder *s, tsr_builder *b, const char *name, MlirValue of,
                             const declared *d, uint64_t position, range r) {
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_string(s->context, d->axis)},
                              {"position", tsr_attr_make_i64(s->context, (int64_t)position)},
                              {"begin", tsr_attr_make_i64(s->context, (int64_t)r.begin)},
                              {"end", tsr_attr_make_i64(s->context, (int64_t)r.end)},
                              {0}};
    return mark(s, tsr_build_value(b, name, &of, 1, slice_type(s, of, r), attrs));
}

/* all_reduce, all_gather or assemble: from the slices of all positions, a tensor of type `type`. */
static MlirValue build_collective(sharder *s, tsr_builder *b, const char *name, MlirValue *slices,
                                  size_t count, MlirType type, const declared *d) {
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_string(s->context, d->axis)}, {0}};
    return mark(s, tsr_build_value(b, name, slices, count, type, attrs));
}

/* ---- one step -------------------------------------------------------------------------------- */

static uint64_t bytes_of(MlirValue value) {
    tsr_type type = tsr_type_of(value);
    uint64_t size = 0;
    bool fits = tsr_shape_size(&type.shape, type.dtype, &size);
    TSR_ASSERT(fits);
    return size;
}

static void count_bytes(sharder *s, const declared *d, uint64_t bytes, uint64_t count,
                        size_t states) {
    uint64_t each = bytes / count * ((count + d->positions - 1) / d->positions);
    uint64_t others = d->positions - 1;
    if (d->positions > s->positions) s->positions = d->positions;
    s->param_bytes += d->stage == 3 ? each : bytes;
    s->gradient_bytes += d->stage >= 2 ? each : bytes;
    s->state_bytes += states * each;
    s->sent_bytes += others * bytes * (d->stage == 1 ? 2 : 1); /* bytes of the gradient */
    s->sent_bytes += others * bytes;                           /* bytes of the parameter */
    s->steps++;
}

/* Replaces all reads of the parameter by the tensor that is gathered from its slices. */
static void gather_before_use(sharder *s, MlirOperation param, const declared *d) {
    MlirValue slices[TSR_SR_POSITIONS_MAX], whole = tsr_op_result(param, 0);
    tsr_builder b = tsr_builder_before(mlirOperationGetNextInBlock(param));
    tsr_type type = tsr_type_of(whole);
    uint64_t count = 0;
    size_t made = 0;
    MlirOperation except[TSR_SR_POSITIONS_MAX];
    tsr_shape_count(&type.shape, &count);
    for (uint64_t i = 0; i < d->positions; i++) {
        range r = range_of(count, d->positions, i);
        if (r.begin == r.end) continue;
        slices[made] = build_slice(s, &b, "tessera_sr.shard_slice", whole, d, i, r);
        except[made] = tsr_value_owner(slices[made]);
        made++;
    }
    MlirValue gathered =
        build_collective(s, &b, "tessera_sr.all_gather", slices, made, mlirValueGetType(whole), d);
    mlirValueReplaceAllUsesExcept(whole, gathered, (intptr_t)made, except);
}

/* The step at one position: its operands are slices of parameter, gradient and states. */
static MlirOperation step_at(tsr_builder *b, MlirOperation step, const MlirValue *slices,
                             size_t states) {
    MlirOperation copy = mlirOperationClone(step);
    mlirBlockInsertOwnedOperationBefore(b->block, b->before, copy);
    for (size_t k = 0; k < 2 + states; k++) mlirOperationSetOperand(copy, (intptr_t)k, slices[k]);
    for (size_t k = 0; k < tsr_op_result_count(copy); k++)
        mlirValueSetType(tsr_op_result(copy, k), mlirValueGetType(slices[0]));
    return copy;
}

static bool shard_step(sharder *s, MlirOperation step, MlirOperation param, const declared *d) {
    tsr_builder b = tsr_builder_before(step);
    size_t states = tsr_op_result_count(step) - 1, made = 0;
    MlirValue whole = tsr_op_result(param, 0), gradient = tsr_op_operand(step, 1);
    tsr_type type = tsr_type_of(whole);
    uint64_t count = 0;
    MlirValue *news[1 + STATES_MAX];
    bool fits = tsr_shape_count(&type.shape, &count);
    TSR_ASSERT(states <= STATES_MAX && fits);
    for (size_t k = 0; k < 1 + states; k++) {
        news[k] = TSR_NEW(&s->arena, MlirValue, d->positions + 1);
        if (!news[k]) return false;
    }
    if (d->stage == 1)
        gradient = build_collective(s, &b, "tessera_sr.all_reduce", &gradient, 1,
                                    mlirValueGetType(gradient), d);
    for (uint64_t i = 0; i < d->positions; i++) {
        range r = range_of(count, d->positions, i);
        MlirValue slices[2 + STATES_MAX];
        if (r.begin == r.end) continue;
        slices[0] = build_slice(s, &b, "tessera_sr.shard_slice", whole, d, i, r);
        slices[1] = build_slice(
            s, &b, d->stage == 1 ? "tessera_sr.shard_slice" : "tessera_sr.reduce_scatter", gradient,
            d, i, r);
        for (size_t k = 0; k < states; k++)
            slices[2 + k] =
                build_slice(s, &b, "tessera_sr.shard_slice", tsr_op_operand(step, 2 + k), d, i, r);
        MlirOperation copy = step_at(&b, step, slices, states);
        for (size_t k = 0; k < 1 + states; k++) news[k][made] = tsr_op_result(copy, k);
        made++;
    }
    for (size_t k = 0; k < 1 + states; k++) {
        bool wired = k == 0 && d->stage < 3;
        MlirValue next =
            build_collective(s, &b, wired ? "tessera_sr.all_gather" : "tessera_sr.assemble",
                             news[k], made, mlirValueGetType(tsr_op_result(step, k)), d);
        mlirValueReplaceAllUsesOfWith(tsr_op_result(step, k), next);
    }
    count_bytes(s, d, bytes_of(whole), count, states);
    mlirOperationDestroy(step);
    return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* The read of the whole parameter, also through a gather that an earlier step inserted. */
static MlirOperation param_of(MlirOperation step) {
    MlirOperation owner = tsr_value_owner(tsr_op_operand(step, 0));
    if (tsr_op_is(owner, TSR_SR_ALL_GATHER))
        owner = tsr_value_owner(tsr_op_operand(tsr_value_owner(tsr_op_operand(owner, 0)), 0));
    return owner;
}

static bool shard_func(sharder *s) {
    TSR_FOR_EACH_OP(op, tsr_op_body(s->func)) {
        tsr_op id = tsr_op_of(op);
        declared d;
        if (id != TSR_GRAPH_ADAMW && id != TSR_GRAPH_SGD) continue;
        MlirOperation param = param_of(op);
        const char *name = mlirOperationIsNull(param) ? NULL : tsr_op_string(param, "name");
        if (!tsr_op_is(param, TSR_GRAPH_PARAM) || !name) continue;
        if (!find_declared(s, op, name, &d)) return false;
        if (!d.axis) continue;
        s->backward = false;
        if (d.stage == 3) gather_before_use(s, param, &d);
        s->backward = tsr_op_has(op, TSR_SR_BACKWARD);
        if (!shard_step(s, op, param, &d)) return false;
    }
    return true;
}

static bool has_step(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        tsr_op id = tsr_op_of(op);
        if (id == TSR_GRAPH_ADAMW || id == TSR_GRAPH_SGD) return true;
    }
    return false;
}

bool tsr_pass_optimizer_shard(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        if (!tsr_op_has(func, TSR_SR_SHARDS) || !has_step(func)) continue;
        sharder s = {.module = module, .func = func, .context = mlirOperationGetContext(func)};
        bool sharded = shard_func(&s);
        if (sharded) {
            const int64_t plan[] = {(int64_t)s.positions, (int64_t)s.param_bytes,
                                    (int64_t)s.gradient_bytes, (int64_t)s.state_bytes,
                                    (int64_t)s.sent_bytes};
            mlirOperationRemoveDiscardableAttributeByName(func, tsr_ref(TSR_SR_SHARDS));
            tsr_op_set(func, TSR_SR_SHARDED, tsr_attr_make_i64s(s.context, 5, plan));
        }
        tsr_arena_finish(&s.arena);
        done = sharded && done;
    }
    return done;
}
