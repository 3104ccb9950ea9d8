/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes of StableHLO's ops, in the generic and in the pretty form.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/frontend/stablehlo/rules/order.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

static const MlirAttribute null_attr = {NULL};

/* A part of the name of an attribute: "a" of "a.b". */
static MlirAttribute member(MlirOperation op, MlirAttribute dictionary, MlirStringRef key) {
    if (!mlirAttributeIsNull(dictionary))
        return mlirAttributeIsADictionary(dictionary)
                   ? mlirDictionaryAttrGetElementByName(dictionary, key)
                   : null_attr;
    /* Properties of ops that are not declared are only found as inherent attributes. */
    MlirAttribute found = mlirOperationGetInherentAttributeByName(op, key);
    return mlirAttributeIsNull(found) ? mlirOperationGetDiscardableAttributeByName(op, key) : found;
}

static MlirAttribute find(MlirOperation op, const char *path) {
    MlirAttribute found = null_attr;
    for (const char *at = path;;) {
        size_t length = strcspn(at, ".");
        found = member(op, found, mlirStringRefCreate(at, length));
        if (mlirAttributeIsNull(found) || !at[length]) return found;
        at += length + 1;
    }
}

MlirAttribute tsr_hlo_attr(const tsr_hlo_call *c, const char *generic, const char *pretty) {
    MlirAttribute found = generic ? find(c->op, generic) : null_attr;
    return mlirAttributeIsNull(found) && pretty ? find(c->op, pretty) : found;
}

/* ---- integers ---- */

typedef struct ints {
    size_t limit, count;
    int64_t *values;
} ints;

static bool add_int(ints *list, int64_t value) {
    if (list->count == list->limit) return false;
    list->values[list->count++] = value;
    return true;
}

static bool add_elements(ints *list, MlirAttribute attr) {
    tsr_arena arena = {0};
    tsr_type type;
    void *data;
    uint64_t count = 0;
    bool done = tsr_attr_elements(attr, &arena, &type, &data) &&
                tsr_shape_count(&type.shape, &count) && !tsr_dtype_is_float(type.dtype);
    for (uint64_t i = 0; i < count && done; i++)
        done = add_int(list, (int64_t)tsr_dtype_read(type.dtype, data, i));
    tsr_arena_finish(&arena);
    return done;
}

/* Lists are nested once. */
static bool add_attr(ints *list, MlirAttribute attr, unsigned depth) {
    int64_t value;
    if (mlirAttributeIsADenseI64Array(attr)) {
        for (intptr_t i = 0; i < mlirDenseArrayGetNumElements(attr); i++)
            if (!add_int(list, mlirDenseI64ArrayGetElement(attr, i))) return false;
        return true;
    }
    if (mlirAttributeIsADenseBoolArray(attr)) {
        for (intptr_t i = 0; i < mlirDenseArrayGetNumElements(attr); i++)
            if (!add_int(list, mlirDenseBoolArrayGetElement(attr, i))) return false;
        return true;
    }
    if (mlirAttributeIsABool(attr)) return add_int(list, mlirBoolAttrGetValue(attr));
    if (tsr_attr_i64(attr, &value)) return add_int(list, value);
    if (!mlirAttributeIsAArray(attr)) return add_elements(list, attr);
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(attr); i++)
        if (!depth || !add_attr(list, mlirArrayAttrGetElement(attr, i), depth - 1)) return false;
    return true;
}

static bool read_ints(tsr_hlo_call *c, const char *name, MlirAttribute attr, size_t limit,
                      int64_t *out_values, size_t *out_count) {
    ints list = {.limit = limit, .values = out_values};
    *out_count = 0;
    if (mlirAttributeIsNull(attr)) return true;
    if (!add_attr(&list, attr, 2))
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                            "attribute '%s' is not a list of at most %zu integers", name, limit);
    *out_count = list.count;
    return true;
}

static const char *shown(const char *generic, const char *pretty) {
    return generic ? generic : pretty;
}

bool tsr_hlo_ints(tsr_hlo_call *c, const char *generic, const char *pretty, size_t limit,
                  int64_t *out_values, size_t *out_count) {
    return read_ints(c, shown(generic, pretty), tsr_hlo_attr(c, generic, pretty), limit, out_values,
                     out_count);
}

bool tsr_hlo_ints_exact(tsr_hlo_call *c, const char *generic, const char *pretty, size_t count,
                        int64_t otherwise, int64_t *out_values) {
    size_t found;
    MlirAttribute attr = tsr_hlo_attr(c, generic, pretty);
    for (size_t i = 0; i < count; i++) out_values[i] = otherwise;
    if (mlirAttributeIsNull(attr)) return true;
    if (!read_ints(c, shown(generic, pretty), attr, count, out_values, &found)) return false;
    return found == count ||
           tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "attribute '%s' has %zu integers; expected %zu",
                        shown(generic, pretty), found, count);
}

bool tsr_hlo_pair(tsr_hlo_call *c, const char *pretty, size_t index, size_t limit,
                  int64_t *out_values, size_t *out_count) {
    MlirAttribute pair = tsr_hlo_attr(c, NULL, pretty);
    *out_count = 0;
    if (mlirAttributeIsNull(pair)) return true;
    if (!mlirAttributeIsAArray(pair) || mlirArrayAttrGetNumElements(pair) != 2)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "attribute '%s' is not a pair of lists", pretty);
    return read_ints(c, pretty, mlirArrayAttrGetElement(pair, (intptr_t)index), limit, out_values,
                     out_count);
}

bool tsr_hlo_int(tsr_hlo_call *c, const char *generic, const char *pretty, int64_t otherwise,
                 int64_t *out_value) {
    return tsr_hlo_ints_exact(c, generic, pretty, 1, otherwise, out_value);
}

/* ---- words ---- */

static const char *text_of(MlirAttribute attr) {
    if (mlirAttributeIsNull(attr)) return NULL;
    if (mlirAttributeIsAFlatSymbolRef(attr)) return mlirFlatSymbolRefAttrGetValue(attr).data;
    return mlirAttributeIsAString(attr) ? mlirStringAttrGetValue(attr).data : NULL;
}

const char *tsr_hlo_text(const tsr_hlo_call *c, const char *generic, const char *pretty) {
    return text_of(tsr_hlo_attr(c, generic, pretty));
}

const char *tsr_hlo_word(const tsr_hlo_call *c, const char *generic, size_t index) {
    MlirAttribute words = find(c->op, "words");
    const char *text = generic ? text_of(find(c->op, generic)) : NULL;
    if (text || mlirAttributeIsNull(words) || !mlirAttributeIsAArray(words) ||
        (intptr_t)index >= mlirArrayAttrGetNumElements(words))
        return text;
    return text_of(mlirArrayAttrGetElement(words, (intptr_t)index));
}

/* ---- checks ---- */

bool tsr_hlo_check_dims(tsr_hlo_call *c, const char *what, uint32_t rank, size_t count,
                        const int64_t *dims) {
    for (size_t i = 0; i < count; i++) {
        if (dims[i] < 0 || dims[i] >= (int64_t)rank)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                "%s has dim %" PRId64 "; expected 0 to %" PRId64, what, dims[i],
                                (int64_t)rank - 1);
        for (size_t k = 0; k < i; k++)
            if (dims[k] == dims[i])
                return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "%s has dim %" PRId64 " twice", what,
                                    dims[i]);
    }
    return true;
}

/* ---- equality ---- */

bool tsr_hlo_same_attrs(MlirOperation a, MlirOperation b) {
    static const char *const names[] = {"value", "comparison_direction", "compare_type", "format"};
    intptr_t count = mlirOperationGetNumDiscardableAttributes(a);
    if (count != mlirOperationGetNumDiscardableAttributes(b)) return false;
    for (intptr_t i = 0; i < count; i++) {
        MlirNamedAttribute one = mlirOperationGetDiscardableAttribute(a, i);
        MlirAttribute other =
            mlirOperationGetDiscardableAttributeByName(b, mlirIdentifierStr(one.name));
        if (!mlirAttributeEqual(one.attribute, other)) return false;
    }
    for (size_t i = 0; i < TSR_COUNT(names); i++)
        if (!mlirAttributeEqual(find(a, names[i]), find(b, names[i]))) return false;
    return true;
}
