/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules for ops in the bodies of kernels: instructions, memory, features of devices.
 */
#include "compiler/ir/targets/features.h"
#include "compiler/target/host/rules.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPERANDS_MAX = 64,
    ALIGN_MAX = 128,
    SPACE_GENERIC = 0,
    SPACE_GLOBAL = 1,
    SPACE_SHARED = 3,
    SPACE_CONSTANT = 4,
    SPACE_PRIVATE = 5,
};

/* ---- features ---- */

bool tsr_target_check_feature(MlirOperation op) {
    if (!tsr_op_has(op, "requires") || tsr_feature_find(tsr_op_string(op, "requires"))) return true;
    return tsr_op_emit_error(op, TSR_DIAG_FEATURE, "there is no feature '%s'",
                             tsr_op_string(op, "requires"));
}

static bool check_requirements(MlirOperation op, const char *text, tsr_vendor vendor) {
    const tsr_feature *has = tsr_feature_find(tsr_op_string(op, "requires"));
    for (const char *at = text; *at; at++) {
        if (at > text && at[-1] != ' ' && at[-1] != ';' && at[-1] != '\n' && at[-1] != '\t')
            continue;
        const tsr_requirement *found = tsr_feature_requirement(at, vendor);
        if (found && !tsr_feature_includes(has, tsr_feature_find(found->feature)))
            return tsr_op_emit_error(op, TSR_DIAG_FEATURE, "%s needs '%s'; required is '%s'",
                                     found->begin, found->feature, has ? has->name : "");
    }
    if (has && has->vendor != vendor)
        return tsr_op_emit_error(op, TSR_DIAG_FEATURE, "'%s' belongs to another manufacturer",
                                 has->name);
    return true;
}

/* ---- instructions ---- */

typedef struct register_class {
    char letter;
    unsigned bits; /* 0: any */
    bool floats;
} register_class;

static const register_class ptx_classes[] = {
    {'h', 16, false}, {'r', 32, false}, {'l', 64, false}, {'f', 32, true}, {'d', 64, true}};
static const register_class hip_classes[] = {{'v', 0, false}, {'a', 0, false}, {'s', 0, false}};

static bool fits(const register_class *c, MlirType type) {
    if (c->bits == 0) return true;
    if (c->floats) return c->bits == 32 ? mlirTypeIsAF32(type) : mlirTypeIsAF64(type);
    if (mlirTypeIsAInteger(type)) return mlirIntegerTypeGetWidth(type) == c->bits;
    return c->bits == 16 && (mlirTypeIsAF16(type) || mlirTypeIsABF16(type));
}

static bool check_constraint(MlirOperation op, const char *word, size_t length, size_t index,
                             const register_class *classes, size_t class_count) {
    size_t results = tsr_op_result_count(op);
    bool is_result = index < results;
    MlirType type = mlirValueGetType(is_result ? tsr_op_result(op, index)
                                               : tsr_op_operand(op, index - results));
    if (is_result != (length > 0 && word[0] == '='))
        return tsr_op_emit_error(op, TSR_DIAG_INSTR, "constraint %zu: results come first, with '='",
                                 index);
    if (is_result) word++, length--;
    if (length == 1 && *word == 'n' && !is_result) return true;
    if (length > 0 && *word >= '0' && *word <= '9' && !is_result) {
        size_t shared = strtoul(word, NULL, 10);
        if (shared < results && mlirTypeEqual(type, mlirValueGetType(tsr_op_result(op, shared))))
            return true;
        return tsr_op_emit_error(op, TSR_DIAG_INSTR,
                                 "constraint %zu shares the register of no result of its type",
                                 index);
    }
    for (size_t i = 0; i < class_count; i++)
        if (length == 1 && *word == classes[i].letter && fits(&classes[i], type)) return true;
    return tsr_op_emit_error(op, TSR_DIAG_INSTR, "constraint %zu, '%.*s', does not fit its type",
                             index, (int)length, word);
}

static bool check_constraints(MlirOperation op, const register_class *classes, size_t class_count) {
    const char *at = tsr_op_string(op, "constraints");
    size_t wanted = tsr_op_result_count(op) + tsr_op_operand_count(op), count = 0;
    for (; *at; count++) {
        size_t length = strcspn(at, ",");
        if (count < wanted && !check_constraint(op, at, length, count, classes, class_count))
            return false;
        at += length;
        if (*at == ',') at++;
    }
    if (count == wanted && count <= OPERANDS_MAX) return true;
    return tsr_op_emit_error(op, TSR_DIAG_INSTR, "%zu constraints for %zu results and inputs",
                             count, wanted);
}

static bool check_locations(MlirOperation op, const char *text) {
    size_t count = tsr_op_result_count(op) + tsr_op_operand_count(op);
    for (const char *at = strchr(text, '$'); at; at = strchr(at + 1, '$')) {
        char *end = NULL;
        unsigned long index = strtoul(at + 1, &end, 10);
        if (end == at + 1 || index >= count)
            return tsr_op_emit_error(op, TSR_DIAG_INSTR,
                                     "'%.6s' refers to none of %zu results and inputs", at, count);
    }
    return true;
}

static bool check_instr(MlirOperation op, tsr_vendor vendor, const register_class *classes,
                        size_t class_count) {
    const char *text = tsr_op_string(op, "text");
    if (!*text) return tsr_op_emit_error(op, TSR_DIAG_INSTR, "holds no instruction");
    return check_constraints(op, classes, class_count) && check_locations(op, text) &&
           tsr_target_check_feature(op) && check_requirements(op, text, vendor);
}

bool tsr_rule_ptx_instr(MlirOperation op) {
    const char *text = tsr_op_string(op, "text");
    if (*text && text[strlen(text) - 1] != ';')
        return tsr_op_emit_error(op, TSR_DIAG_INSTR, "does not end in ';'");
    return check_instr(op, TSR_VENDOR_NVIDIA, ptx_classes, TSR_COUNT(ptx_classes));
}

bool tsr_rule_hip_instr(MlirOperation op) {
    return check_instr(op, TSR_VENDOR_AMD, hip_classes, TSR_COUNT(hip_classes));
}

/* ---- memory ---- */

static int64_t space_of(MlirValue buffer) {
    int64_t space = SPACE_GENERIC;
    tsr_attr_i64(mlirMemRefTypeGetMemorySpace(mlirValueGetType(buffer)), &space);
    return space;
}

static bool check_space(MlirOperation op, MlirValue buffer, bool writes) {
    int64_t space = space_of(buffer);
    if (space != SPACE_GENERIC && space != SPACE_GLOBAL && space != SPACE_SHARED &&
        space != SPACE_CONSTANT && space != SPACE_PRIVATE)
        return tsr_op_emit_error(op, TSR_DIAG_SPACE,
                                 "there is no memory space %" PRId64 "; expected 0, 1, 3, 4 or 5",
                                 space);
    if (writes && space == SPACE_CONSTANT)
        return tsr_op_emit_error(op, TSR_DIAG_SPACE, "constant memory is not written");
    return true;
}

/* Bytes of a scalar, or of an element of a vector; 0 for other types. */
static size_t element_size(MlirType type) {
    MlirType element = mlirTypeIsAShaped(type) ? mlirShapedTypeGetElementType(type) : type;
    if (mlirTypeIsAInteger(element)) return (mlirIntegerTypeGetWidth(element) + 7) / 8;
    return mlirTypeIsAFloat(element) ? mlirFloatTypeGetWidth(element) / 8 : 0;
}

static bool check_access(MlirOperation op, MlirValue buffer, MlirType type, bool writes) {
    int64_t align = 0;
    size_t size = element_size(type);
    tsr_op_i64(op, "align", &align);
    if (!mlirTypeEqual(mlirTypeIsAShaped(type) ? mlirShapedTypeGetElementType(type) : type,
                       mlirShapedTypeGetElementType(mlirValueGetType(buffer))))
        return tsr_op_emit_error(op, TSR_DIAG_SPACE, "the buffer holds elements of another type");
    if (align < (int64_t)size || align > ALIGN_MAX || (align & (align - 1)) != 0)
        return tsr_op_emit_error(op, TSR_DIAG_ALIGN,
                                 "align is %" PRId64 "; expected a power of two from %zu to %d",
                                 align, size, ALIGN_MAX);
    return check_space(op, buffer, writes);
}

bool tsr_rule_load(MlirOperation op) {
    return check_access(op, tsr_op_operand(op, 0), mlirValueGetType(tsr_op_result(op, 0)), false);
}

bool tsr_rule_store(MlirOperation op) {
    return check_access(op, tsr_op_operand(op, 1), mlirValueGetType(tsr_op_operand(op, 0)), true);
}

bool tsr_rule_async_copy(MlirOperation op) {
    int64_t bytes = 0;
    MlirValue to = tsr_op_operand(op, 0), from = tsr_op_operand(op, 2);
    const tsr_feature *has = tsr_feature_find(tsr_op_string(op, "requires"));
    tsr_op_i64(op, "bytes", &bytes);
    if (bytes != 4 && bytes != 8 && bytes != 16)
        return tsr_op_emit_error(op, TSR_DIAG_ALIGN,
                                 "copies %" PRId64 " bytes; expected 4, 8 or 16", bytes);
    if (space_of(to) != SPACE_SHARED || space_of(from) != SPACE_GLOBAL)
        return tsr_op_emit_error(op, TSR_DIAG_SPACE,
                                 "copies from space %" PRId64 " to %" PRId64
                                 "; expected from 1 (global) to 3 (shared)",
                                 space_of(from), space_of(to));
    if (!tsr_target_check_feature(op) || !tsr_target_check_token(op)) return false;
    if (!has || has->vendor != TSR_VENDOR_NVIDIA)
        return tsr_op_emit_error(op, TSR_DIAG_FEATURE, "'%s' has no asynchronous copies",
                                 tsr_op_string(op, "requires"));
    return true;
}
