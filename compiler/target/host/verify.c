/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of dialect tessera_target: one function per rule of ops.def.
 */
#include "compiler/ir/attributes.h"
#include "compiler/ir/targets/features.h"
#include "compiler/resilience/resilience.h"
#include "compiler/schedule/schedule.h"
#include "compiler/shim/shim.h"
#include "compiler/target/host/host.h"
#include "compiler/target/host/rules.h"
#include "compiler/target/target.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A buffer of an element type that tensors have, dense or with a pitch. */
static bool pitched_type(MlirType type, tsr_type *out_type, int64_t *out_pitch) {
    return mlirTypeIsAMemRef(type) && tsr_type_read(type, out_type) &&
           tsr_type_is_static(out_type) && tsr_buffer_pitch(type, out_pitch);
}

/* A dense buffer. */
static bool buffer_type(MlirType type, tsr_type *out_type) {
    int64_t pitch = 0;
    return pitched_type(type, out_type, &pitch) && !pitch;
}

static bool check_range(MlirOperation op, const char *name, int64_t min, int64_t max) {
    int64_t value = 0;
    if (!tsr_op_has(op, name)) return true;
    if (tsr_op_i64(op, name, &value) && value >= min && value <= max) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                             "%s is %" PRId64 "; expected %" PRId64 " to %" PRId64, name, value,
                             min, max);
}

static bool check_multiple(MlirOperation op, const char *name) {
    int64_t value = 0;
    tsr_op_i64(op, name, &value);
    if (value >= 0 && value % TSR_PROGRAM_ALIGN_BYTES == 0) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET, "%s is %" PRId64 "; expected a multiple of %d",
                             name, value, TSR_PROGRAM_ALIGN_BYTES);
}

/* ---- symbols of a module ---- */

static bool check_in_place(MlirOperation op, intptr_t inputs) {
    int64_t indices[TSR_PROGRAM_ARGUMENTS_MAX];
    size_t count = 0;
    if (!tsr_op_has(op, "in_place")) return true;
    if (!tsr_op_i64s(op, "in_place", TSR_PROGRAM_ARGUMENTS_MAX, indices, &count))
        return tsr_op_emit_error(op, TSR_DIAG_TARGET, "in_place has more than %d inputs",
                                 TSR_PROGRAM_ARGUMENTS_MAX);
    for (size_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= inputs)
            return tsr_op_emit_error(op, TSR_DIAG_TARGET, "in_place names input %" PRId64 " of %zd",
                                     indices[i], inputs);
    return true;
}

static bool check_segments(MlirOperation op, intptr_t inputs, intptr_t outputs) {
    tsr_segments segments;
    if (!tsr_op_has(op, TSR_SEGMENTS_NAME) ||
        tsr_segments_read(op, (size_t)inputs, (size_t)outputs, &segments))
        return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                             TSR_SEGMENTS_NAME
                             " is not [segments, inputs of one] for %zd inputs and "
                             "%zd outputs",
                             inputs, outputs);
}

/* The widest ranges apply if the kernel requires no feature. */
static bool check_config(MlirOperation op) {
    static const tsr_feature widest = {
        .threads = 1024, .registers = 512, .shared_bytes = 232448, .cluster = 8};
    const tsr_feature *has = tsr_feature_find(tsr_op_string(op, "requires"));
    int64_t threads = 0, registers = 0;
    if (!tsr_target_check_feature(op)) return false;
    if (!has) has = &widest;
    if (!check_range(op, "threads", 1, has->threads) ||
        !check_range(op, "registers", 16, has->registers) ||
        !check_range(op, "shared_bytes", 0, has->shared_bytes) ||
        !check_range(op, "cluster", 1, has->cluster))
        return false;
    tsr_op_i64(op, "threads", &threads);
    tsr_op_i64(op, "registers", &registers);
    if (threads % 32 != 0)
        return tsr_op_emit_error(op, TSR_DIAG_CONFIG,
                                 "threads is %" PRId64 "; expected a multiple of 32", threads);
    if (has->vendor == TSR_VENDOR_NVIDIA && threads * registers > 65536)
        return tsr_op_emit_error(op, TSR_DIAG_CONFIG,
                                 "%" PRId64 " threads of %" PRId64
                                 " registers; a processor has 65536",
                                 threads, registers);
    return true;
}

bool tsr_rule_kernel(MlirOperation op) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(op, "function_type"));
    if (!mlirTypeIsAFunction(type))
        return tsr_op_emit_error(op, TSR_DIAG_TARGET, "its type is not a function type");
    intptr_t inputs = mlirFunctionTypeGetNumInputs(type);
    intptr_t outputs = mlirFunctionTypeGetNumResults(type);
    for (intptr_t i = 0; i < inputs + outputs; i++) {
        tsr_type buffer;
        int64_t pitch = 0;
        if (!pitched_type(i < inputs ? mlirFunctionTypeGetInput(type, i)
                                     : mlirFunctionTypeGetResult(type, i - inputs),
                          &buffer, &pitch))
            return tsr_op_emit_error(
                op, TSR_DIAG_TARGET,
                "argument %zd is neither a static, dense buffer nor a buffer with a pitch", i);
    }
    if (outputs == 0) return tsr_op_emit_error(op, TSR_DIAG_TARGET, "it writes nothing");
    if (inputs + outputs > TSR_PROGRAM_ARGUMENTS_MAX)
        return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                                 "it has %zd arguments; at most %d are possible", inputs + outputs,
                                 TSR_PROGRAM_ARGUMENTS_MAX);
    return check_in_place(op, inputs) && check_segments(op, inputs, outputs) &&
           check_range(op, "grid", 1, INT64_MAX) && check_range(op, "flops", 0, INT64_MAX) &&
           check_range(op, "bytes", 0, INT64_MAX) && check_config(op);
}

bool tsr_rule_data(MlirOperation op) {
    tsr_type type;
    const char *name = tsr_op_string(op, "name");
    if (!name || !tsr_name_valid(name))
        return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                                 "the tensor's name is empty, too long or not text");
    if (!tsr_type_read(mlirAttributeGetType(tsr_op_attr(op, "value")), &type))
        return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                                 "tensor '%s' has an element type no tensor has", name);
    return true;
}

bool tsr_rule_document(MlirOperation op) {
    const char *kind = tsr_op_string(op, "kind");
    for (size_t i = 0; i < TSR_DOCUMENT_COUNT; i++)
        if (kind && strcmp(kind, tsr_document_name((tsr_document)i)) == 0) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET, "there is no document '%s'", kind ? kind : "");
}

bool tsr_rule_func(MlirOperation op) { return check_multiple(op, "workspace"); }

/* ---- buffers ---- */

static bool check_buffer(MlirOperation op) {
    tsr_type type;
    if (buffer_type(mlirValueGetType(tsr_op_result(op, 0)), &type)) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                             "its type is not a static, dense buffer of a tensor");
}

bool tsr_rule_tensor(MlirOperation op) {
    const char *name = tsr_op_string(op, "name");
    if (!name || !tsr_name_valid(name))
        return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                                 "the tensor's name is empty, too long or not text");
    return check_buffer(op);
}

/* A buffer that may have a pitch, which only kernels support. */
static bool check_rows(MlirOperation op, int64_t *out_pitch) {
    tsr_type type;
    MlirValue buffer = tsr_op_result(op, 0);
    if (!pitched_type(mlirValueGetType(buffer), &type, out_pitch))
        return tsr_op_emit_error(
            op, TSR_DIAG_TARGET,
            "its type is neither a static, dense buffer of a tensor nor a buffer with a pitch");
    for (MlirOpOperand use = mlirValueGetFirstUse(buffer); *out_pitch && !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        if (!tsr_op_is(mlirOpOperandGetOwner(use), TSR_TARGET_LAUNCH))
            return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                                     "%s reads or writes it, with pitch %" PRId64
                                     "; expected a dense buffer",
                                     tsr_op_name(mlirOpOperandGetOwner(use)), *out_pitch);
    return true;
}

bool tsr_rule_prepacked(MlirOperation op) {
    int64_t pitch = 0;
    return check_range(op, "index", 0, TSR_PROGRAM_BUFFERS_MAX - 1) && check_rows(op, &pitch);
}

bool tsr_rule_port(MlirOperation op) {
    return check_range(op, "index", 0, TSR_CONFIG_PORTS_MAX - 1) && check_buffer(op);
}

bool tsr_rule_size(MlirOperation op) {
    tsr_type type = {0};
    if (!check_range(op, "index", 0, TSR_PROGRAM_SIZES_MAX - 1) || !check_buffer(op)) return false;
    tsr_value_type(tsr_op_result(op, 0), &type);
    if (type.dtype == TSR_DTYPE_I64 && type.shape.rank == 0) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET, "a size is a memref<i64>");
}

bool tsr_rule_alloc(MlirOperation op) {
    int64_t offset = 0, workspace = 0, pitch = 0;
    uint64_t size = 0;
    tsr_type type = {0};
    if (!check_rows(op, &pitch) || !check_multiple(op, "offset")) return false;
    tsr_value_type(tsr_op_result(op, 0), &type);
    tsr_op_i64(op, "offset", &offset);
    tsr_op_i64(mlirOperationGetParentOperation(op), "workspace", &workspace);
    const tsr_shape stored = tsr_shape_with_pitch(&type.shape, pitch);
    if (tsr_shape_size(&stored, type.dtype, &size) && offset <= workspace &&
        size <= (uint64_t)(workspace - offset))
        return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                             "%" PRIu64 " bytes at offset %" PRId64
                             " end after the workspace of %" PRId64,
                             size, offset, workspace);
}

bool tsr_rule_host_alloc(MlirOperation op) {
    if (!check_buffer(op) || !check_multiple(op, "offset")) return false;
    for (MlirOpOperand use = mlirValueGetFirstUse(tsr_op_result(op, 0)); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation user = mlirOpOperandGetOwner(use);
        bool prefetch = tsr_op_is(user, TSR_TARGET_PREFETCH);
        if ((!prefetch && !tsr_op_is(user, TSR_TARGET_OFFLOAD)) ||
            mlirOpOperandGetOperandNumber(use) != prefetch)
            return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                                     "%s reads or writes it; expected offloads that write it, "
                                     "prefetches that read it",
                                     tsr_op_name(user));
    }
    return true;
}

/* ---- commands ---- */

/* Inputs belong to the caller; the loop owns the number of a virtual rank. */
static bool check_written(MlirOperation op, MlirValue value, tsr_diag_number number) {
    MlirOperation owner = tsr_value_owner(value);
    if (!tsr_op_is(owner, TSR_TARGET_INPUT) && !tsr_op_is(owner, TSR_TARGET_VRANK_NUMBER) &&
        !tsr_op_is(owner, TSR_TARGET_SIZE))
        return true;
    return tsr_op_emit_error(op, number, "writes a %s, which is read-only", tsr_op_name(owner));
}

bool tsr_rule_copy(MlirOperation op) {
    if (!check_written(op, tsr_op_operand(op, 0), TSR_DIAG_TARGET)) return false;
    if (!mlirValueEqual(tsr_op_operand(op, 0), tsr_op_operand(op, 1))) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET, "copies a buffer to itself");
}

bool tsr_rule_verify(MlirOperation op) {
    double low = 0, high = 0;
    tsr_op_f64(op, "low", &low);
    tsr_op_f64(op, "high", &high);
    if (low <= high) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET, "low is %g, high is %g; expected them in order",
                             low, high);
}

bool tsr_rule_launch(MlirOperation op) {
    int64_t segments[2] = {0};
    MlirAttribute attr = tsr_op_attr(op, "operandSegmentSizes");
    for (intptr_t i = 0; i < 2 && !mlirAttributeIsNull(attr); i++)
        segments[i] = mlirDenseI32ArrayGetElement(attr, i);
    if (segments[1] == 0) return tsr_op_emit_error(op, TSR_DIAG_LAUNCH, "it writes nothing");
    for (int64_t i = 0; i < segments[1]; i++) {
        MlirValue written = tsr_op_operand(op, (size_t)(segments[0] + i));
        if (!check_written(op, written, TSR_DIAG_LAUNCH)) return false;
        for (int64_t k = 0; k < i; k++)
            if (mlirValueEqual(written, tsr_op_operand(op, (size_t)(segments[0] + k))))
                return tsr_op_emit_error(op, TSR_DIAG_LAUNCH, "writes one buffer twice");
    }
    return true;
}

/* Is the buffer in this location: a sum over virtual ranks, each virtual rank's own, or any other?
 */
static bool is_at(MlirValue value, tsr_collective_location where) {
    MlirOperation owner = tsr_value_owner(value);
    bool sum = tsr_op_is(owner, TSR_TARGET_SUM_ALLOC);
    bool own = tsr_op_is(owner, TSR_TARGET_VRANK_ALLOC);
    bool part = tsr_op_is(owner, TSR_TARGET_TENSOR_PART);
    if (where == TSR_COLLECTIVE_LOCATION_ALL) return !sum && !own && !part;
    return where == TSR_COLLECTIVE_LOCATION_SUM ? sum : own;
}

static bool check_locations(MlirOperation op, const tsr_collective_row *row) {
    static const char *const names[] = {
        [TSR_COLLECTIVE_LOCATION_SUM] = "a tessera_target.sum_alloc",
        [TSR_COLLECTIVE_LOCATION_OWN] = "a tessera_target.vrank_alloc",
        [TSR_COLLECTIVE_LOCATION_ALL] = "a buffer that is one for all virtual ranks"};
    MlirValue from = tsr_op_operand(op, 1);
    bool gathers = row->kind == TSR_COLLECTIVE_ALL_GATHER,
         slices = row->kind == TSR_COLLECTIVE_SLICE;
    bool fits = is_at(from, row->from) || (slices && is_at(from, TSR_COLLECTIVE_LOCATION_SUM)) ||
                (gathers && tsr_op_is(tsr_value_owner(from), TSR_TARGET_TENSOR_PART));
    if (is_at(tsr_op_operand(op, 0), row->to) && fits) return true;
    return tsr_op_emit_error(op, TSR_DIAG_COLLECTIVE, "\"%s\" takes %s and makes %s", row->name,
                             names[row->from], names[row->to]);
}

/* The number of ranks must match the module's number of virtual ranks if it has one. */
static bool check_positions(MlirOperation op, int64_t ranks) {
    MlirOperation func = mlirOperationGetParentOperation(op);
    MlirOperation module = mlirOperationGetParentOperation(func);
    int64_t vranks = 0;
    if (mlirOperationIsNull(module) || !tsr_op_i64(module, TSR_SR_VIRTUAL_RANKS, &vranks) ||
        vranks == ranks)
        return true;
    return tsr_op_emit_error(op, TSR_DIAG_COLLECTIVE,
                             "ranks is %" PRId64 "; the module has %" PRId64 " virtual ranks",
                             ranks, vranks);
}

bool tsr_rule_collective(MlirOperation op) {
    const char *kind = tsr_op_string(op, "kind"), *algo = tsr_op_string(op, "algo");
    const tsr_collective_row *row = kind ? tsr_collective_find(kind) : NULL;
    int64_t ranks = 0;
    tsr_type to, from;
    if (!row)
        return tsr_op_emit_error(op, TSR_DIAG_COLLECTIVE, "there is no collective \"%s\"",
                                 kind ? kind : "");
    if (algo && strcmp(algo, "ring") != 0 && strcmp(algo, "tree") != 0)
        return tsr_op_emit_error(op, TSR_DIAG_COLLECTIVE, "algo is \"%s\"; known are ring, tree",
                                 algo);
    tsr_op_i64(op, "ranks", &ranks);
    if (ranks < 1 || ranks > UINT16_MAX)
        return tsr_op_emit_error(op, TSR_DIAG_COLLECTIVE, "ranks is %" PRId64 "; expected 1 to %d",
                                 ranks, UINT16_MAX);
    if (!buffer_type(mlirValueGetType(tsr_op_operand(op, 0)), &to) ||
        !buffer_type(mlirValueGetType(tsr_op_operand(op, 1)), &from))
        return tsr_op_emit_error(op, TSR_DIAG_COLLECTIVE, "a type is not a static, dense buffer");
    if (to.dtype != from.dtype ||
        !tsr_collective_fits(row, &to.shape, &from.shape, (uint64_t)ranks))
        return tsr_op_emit_error(op, TSR_DIAG_COLLECTIVE,
                                 "the types do not fit \"%s\" of %" PRId64 " ranks", kind, ranks);
    return ranks == 1 || (check_positions(op, ranks) && check_locations(op, row));
}

/* ---- virtual ranks ---- */

bool tsr_rule_vrank_buffer(MlirOperation op) {
    tsr_type type = {0};
    if (!check_buffer(op)) return false;
    tsr_value_type(tsr_op_result(op, 0), &type);
    if (tsr_op_is(op, TSR_TARGET_VRANK_NUMBER) &&
        (type.dtype != TSR_DTYPE_I64 || type.shape.rank != 0))
        return tsr_op_emit_error(op, TSR_DIAG_TARGET, "a virtual rank's number is a memref<i64>");
    return !tsr_op_has(op, "offset") || check_multiple(op, "offset");
}

const tsr_target_control *tsr_target_control_find(const char *kind) {
    static const tsr_target_control rows[] = {
        {"repeat", TSR_OP_REPEAT, 0, false}, {"stop", TSR_OP_STOP, 1, false},
        {"when", TSR_OP_WHEN, 1, false},     {"unless", TSR_OP_UNLESS, 1, false},
        {"take", TSR_OP_TAKE, 2, true},      {"put", TSR_OP_PUT, 2, true}};
    for (size_t i = 0; kind && i < TSR_COUNT(rows); i++)
        if (strcmp(rows[i].kind, kind) == 0) return &rows[i];
    return NULL;
}

/* The rules of the program (manifests) check ranges further. */
bool tsr_rule_control(MlirOperation op) {
    const char *kind = tsr_op_string(op, "kind");
    const tsr_target_control *row = tsr_target_control_find(kind);
    int64_t commands = 0, times = 0;
    tsr_op_i64(op, "commands", &commands);
    tsr_op_i64(op, "times", &times);
    if (!row)
        return tsr_op_emit_error(op, TSR_DIAG_TARGET, "there is no kind \"%s\" of this op",
                                 kind ? kind : "");
    if (tsr_op_operand_count(op) != row->operands)
        return tsr_op_emit_error(op, TSR_DIAG_TARGET, "\"%s\" takes %zu buffers; it has %zu", kind,
                                 row->operands, tsr_op_operand_count(op));
    if (commands >= 0 && commands <= TSR_PROGRAM_COMMANDS_MAX && times >= 0) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                             "%" PRId64 " commands %" PRId64 " times; expected at most %d, and no "
                             "number below 0",
                             commands, times, TSR_PROGRAM_COMMANDS_MAX);
}

/* Joins parts of a tensor; a loop may do this for each virtual rank. */
static bool gathers_tensor(MlirOperation op) {
    const char *kind = tsr_op_is(op, TSR_TARGET_COLLECTIVE) ? tsr_op_string(op, "kind") : NULL;
    return kind && strcmp(kind, "all_gather") == 0 &&
           tsr_op_is(tsr_value_owner(tsr_op_operand(op, 1)), TSR_TARGET_TENSOR_PART);
}

bool tsr_rule_each_vrank(MlirOperation op) {
    int64_t commands = 0, follow = 0;
    tsr_op_i64(op, "commands", &commands);
    for (MlirOperation next = mlirOperationGetNextInBlock(op); !mlirOperationIsNull(next);
         next = mlirOperationGetNextInBlock(next)) {
        bool gathers = gathers_tensor(next);
        if (tsr_op_is(next, TSR_TARGET_EACH_VRANK) ||
            (tsr_op_is(next, TSR_TARGET_COLLECTIVE) && !gathers))
            break;
        follow += gathers || tsr_op_is(next, TSR_TARGET_LAUNCH) ||
                  tsr_op_is(next, TSR_TARGET_VRANK_SUM) || tsr_op_is(next, TSR_TARGET_VRANK_GATHER);
    }
    if (commands >= 1 && commands <= follow) return true;
    return tsr_op_emit_error(
        op, TSR_DIAG_TARGET,
        "repeats %" PRId64 " commands; %" PRId64 " that can be repeated follow", commands, follow);
}

static bool is_sum_location(MlirValue value) {
    return tsr_op_is(tsr_value_owner(value), TSR_TARGET_SUM_ALLOC);
}

bool tsr_rule_vrank_sum(MlirOperation op) {
    if (is_sum_location(tsr_op_operand(op, 0)) && !is_sum_location(tsr_op_operand(op, 1)))
        return true;
    return tsr_op_emit_error(op, TSR_DIAG_COLLECTIVE,
                             "its first operand, and only that, is a tessera_target.sum_alloc");
}

bool tsr_rule_vrank_gather(MlirOperation op) {
    tsr_type all, part;
    bool fits = buffer_type(mlirValueGetType(tsr_op_operand(op, 0)), &all) &&
                buffer_type(mlirValueGetType(tsr_op_operand(op, 1)), &part) &&
                all.dtype == part.dtype && all.shape.rank == part.shape.rank &&
                part.shape.rank > 0 && part.shape.dims[0] > 0 &&
                all.shape.dims[0] % part.shape.dims[0] == 0;
    for (uint32_t i = 1; fits && i < all.shape.rank; i++)
        fits = all.shape.dims[i] == part.shape.dims[i];
    if (fits) return true;
    return tsr_op_emit_error(op, TSR_DIAG_COLLECTIVE,
                             "dim 0 of the first operand is not a multiple of the second "
                             "operand's, or another dim differs");
}

/* ---- tokens ---- */

bool tsr_target_check_token(MlirOperation op) {
    size_t uses = 0;
    for (MlirOpOperand use = mlirValueGetFirstUse(tsr_op_result(op, 0)); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        uses += tsr_op_is(mlirOpOperandGetOwner(use), TSR_TARGET_AWAIT);
    if (uses == 1) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TOKEN, "its token is awaited %zu times; expected once",
                             uses);
}

static bool check_name(MlirOperation op) {
    const char *name = tsr_op_string(op, "name");
    if (name && tsr_name_valid(name)) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TOKEN, "the token's name is empty, too long or not text");
}

bool tsr_rule_transfer(MlirOperation op) {
    int64_t to = mlirDenseI32ArrayGetElement(tsr_op_attr(op, "operandSegmentSizes"), 0);
    int64_t from = mlirDenseI32ArrayGetElement(tsr_op_attr(op, "operandSegmentSizes"), 1);
    bool export = tsr_op_is(op, TSR_TARGET_EXPORT);
    if (!check_name(op)) return false;
    if (to != from)
        return tsr_op_emit_error(op, TSR_DIAG_TOKEN,
                                 "takes %" PRId64 " buffers to %" PRId64 " slots", from, to);
    for (int64_t i = 0; i < to; i++) {
        MlirValue a = tsr_op_operand(op, (size_t)i), b = tsr_op_operand(op, (size_t)(to + i));
        if (!mlirTypeEqual(mlirValueGetType(a), mlirValueGetType(b)))
            return tsr_op_emit_error(op, TSR_DIAG_TOKEN,
                                     "buffer %" PRId64 " and its slot differ in type", i);
        if (!tsr_op_is(tsr_value_owner(export ? a : b), TSR_TARGET_TENSOR))
            return tsr_op_emit_error(op, TSR_DIAG_TOKEN,
                                     "slot %" PRId64 " is not a tensor; only tensors can be kept",
                                     i);
    }
    /* A region may also wait for an import. */
    if (!export && tsr_value_is_used(tsr_op_result(op, 0))) return true;
    return tsr_target_check_token(op);
}

bool tsr_rule_offload(MlirOperation op) {
    bool offload = tsr_op_is(op, TSR_TARGET_OFFLOAD);
    MlirOperation host = tsr_value_owner(tsr_op_operand(op, !offload));
    MlirOperation device = tsr_value_owner(tsr_op_operand(op, offload));
    if (!tsr_op_is(host, TSR_TARGET_HOST_ALLOC))
        return tsr_op_emit_error(op, TSR_DIAG_TARGET,
                                 "%s is %s; expected a "
                                 "tessera_target.host_alloc",
                                 offload ? "what it writes" : "what it reads", tsr_op_name(host));
    if (!tsr_op_is(device, TSR_TARGET_ALLOC))
        return tsr_op_emit_error(op, TSR_DIAG_TARGET, "%s is %s; expected a tessera_target.alloc",
                                 offload ? "what it reads" : "what it writes", tsr_op_name(device));
    return tsr_target_check_token(op);
}

bool tsr_rule_enter(MlirOperation op) {
    const char *mode = tsr_op_string(op, "mode");
    size_t vranks = 0;
    if (!check_name(op)) return false;
    if (strcmp(mode, "replay") != 0 && strcmp(mode, "restart") != 0)
        return tsr_op_emit_error(op, TSR_DIAG_TOKEN, "mode is \"%s\"; known are replay, restart",
                                 mode);
    for (MlirOpOperand use = mlirValueGetFirstUse(tsr_op_result(op, 0)); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        vranks += tsr_op_is(mlirOpOperandGetOwner(use), TSR_TARGET_LEAVE);
    if (vranks == 1) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TOKEN, "its region ends %zu times; expected once",
                             vranks);
}

bool tsr_rule_leave(MlirOperation op) {
    MlirOperation enter = tsr_value_owner(tsr_op_operand(op, 0));
    if (!check_name(op)) return false;
    const char *name = tsr_op_is(enter, TSR_TARGET_ENTER) ? tsr_op_string(enter, "name") : "";
    /* The op may come after this one; then it has not been checked yet. */
    if (!name || strcmp(name, tsr_op_string(op, "name")) != 0)
        return tsr_op_emit_error(op, TSR_DIAG_TOKEN,
                                 "does not take the token with which its region began");
    return true;
}

bool tsr_rule_await(MlirOperation op) {
    if (tsr_op_operand_count(op) > 0) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TOKEN, "awaits nothing");
}

/* Are the types equal except for the signs of integers, and i1 stored as i8? */
static bool stored_alike(MlirType host, MlirType device) {
    tsr_type a, b;
    int64_t own = 0, wanted = 0;
    if (!pitched_type(host, &a, &own) || !pitched_type(device, &b, &wanted)) return false;
    if (own != wanted) return false;
    return tsr_dtype_stored(a.dtype) == b.dtype && tsr_shape_equal(&a.shape, &b.shape);
}

static bool check_launch(MlirOperation op, MlirOperation kernel) {
    const char *name = tsr_op_string(op, "kernel");
    if (!tsr_op_is(kernel, TSR_TARGET_KERNEL))
        return tsr_op_emit_error(op, TSR_DIAG_LAUNCH, "there is no tessera_target.kernel @%s",
                                 name);
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(kernel, "function_type"));
    MlirAttribute segments = tsr_op_attr(op, "operandSegmentSizes");
    int64_t inputs = mlirDenseI32ArrayGetElement(segments, 0);
    int64_t outputs = mlirDenseI32ArrayGetElement(segments, 1);
    if (inputs != mlirFunctionTypeGetNumInputs(type) ||
        outputs != mlirFunctionTypeGetNumResults(type))
        return tsr_op_emit_error(
            op, TSR_DIAG_LAUNCH,
            "%" PRId64 " inputs and %" PRId64 " outputs; kernel @%s has %zd and %zd", inputs,
            outputs, name, mlirFunctionTypeGetNumInputs(type), mlirFunctionTypeGetNumResults(type));
    for (int64_t i = 0; i < inputs + outputs; i++) {
        MlirType device = i < inputs ? mlirFunctionTypeGetInput(type, i)
                                     : mlirFunctionTypeGetResult(type, i - inputs);
        if (!stored_alike(mlirValueGetType(tsr_op_operand(op, (size_t)i)), device))
            return tsr_op_emit_error(
                op, TSR_DIAG_LAUNCH,
                "argument %" PRId64 " does not match the parameter of kernel @%s", i, name);
    }
    return true;
}

static bool check_sum(MlirOperation op, MlirOperation kernel) {
    const char *name = tsr_op_string(op, "kernel");
    MlirType type = {NULL};
    if (tsr_op_is(kernel, TSR_TARGET_KERNEL))
        type = mlirTypeAttrGetValue(tsr_op_attr(kernel, "function_type"));
    bool fits = !mlirTypeIsNull(type) && mlirFunctionTypeGetNumInputs(type) == 2 &&
                mlirFunctionTypeGetNumResults(type) == 1;
    for (int i = 0; fits && i < 3; i++)
        fits = stored_alike(mlirValueGetType(tsr_op_operand(op, 0)),
                            i < 2 ? mlirFunctionTypeGetInput(type, i)
                                  : mlirFunctionTypeGetResult(type, 0));
    if (fits) return true;
    return tsr_op_emit_error(
        op, TSR_DIAG_LAUNCH,
        "@%s is not a tessera_target.kernel that combines two buffers of this type into one", name);
}

static bool check_body(MlirOperation op, MlirOperation body) {
    int64_t grid = 0, body_grid = 0;
    const char *name = tsr_op_symbol(op);
    if (!tsr_op_is(body, TSR_TILE_FUNC))
        return tsr_op_emit_error(op, TSR_DIAG_LAUNCH,
                                 "@" TSR_TARGET_DEVICE " holds no tile.func @%s", name);
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(op, "function_type"));
    intptr_t inputs = mlirFunctionTypeGetNumInputs(type);
    intptr_t count = inputs + mlirFunctionTypeGetNumResults(type);
    MlirBlock block = tsr_op_body(body);
    if (mlirBlockGetNumArguments(block) != count)
        return tsr_op_emit_error(op, TSR_DIAG_LAUNCH, "@%s has %zd arguments; its body %zd", name,
                                 count, mlirBlockGetNumArguments(block));
    for (intptr_t i = 0; i < count; i++)
        if (!mlirTypeEqual(mlirValueGetType(mlirBlockGetArgument(block, i)),
                           i < inputs ? mlirFunctionTypeGetInput(type, i)
                                      : mlirFunctionTypeGetResult(type, i - inputs)))
            return tsr_op_emit_error(op, TSR_DIAG_LAUNCH,
                                     "argument %zd of @%s differs from its body's", i, name);
    tsr_op_i64(op, "grid", &grid);
    tsr_op_i64(body, "grid", &body_grid);
    if (grid != body_grid)
        return tsr_op_emit_error(op, TSR_DIAG_LAUNCH,
                                 "@%s has %" PRId64 " programs; its body %" PRId64, name, grid,
                                 body_grid);
    return true;
}

bool tsr_target_verify_use(MlirOperation op, MlirOperation symbol) {
    if (tsr_op_is(op, TSR_TARGET_KERNEL)) return check_body(op, symbol);
    if (tsr_op_is(op, TSR_TARGET_VRANK_SUM)) return check_sum(op, symbol);
    return check_launch(op, symbol);
}

bool tsr_target_verify_op(MlirOperation op) {
    static bool (*const rules[TSR_OP_COUNT])(MlirOperation op) = {
#define X(ID, mnemonic, Class, rule, ...) [TSR_TARGET_##ID] = tsr_rule_##rule,
#include "compiler/target/host/ops.def"
#undef X
    };
    tsr_op id = tsr_op_of(op);
    TSR_ASSERT(rules[id]);
    return rules[id](op);
}
