/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/ir/mlir.h"

#include "compiler/ir/text/bytecode.h"
#include "compiler/ir/text/recover.h"
#include "compiler/ir/text/source_limits.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <mlir-c/Dialect/Arith.h>
#include <mlir-c/Dialect/Async.h>
#include <mlir-c/Dialect/Func.h>
#include <mlir-c/Dialect/Math.h>
#include <mlir-c/Dialect/MemRef.h>
#include <mlir-c/Dialect/SCF.h>
#include <mlir-c/Dialect/Vector.h>

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- contexts, modules ----------------------------------------------------------------------- */

tsr_result tsr_mlir_context_create(tsr_ctx *ctx, tsr_diag_list *list, MlirContext *out_context) {
    MlirDialectHandle handles[] = {
        mlirGetDialectHandle__func__(),           mlirGetDialectHandle__arith__(),
        mlirGetDialectHandle__math__(),           mlirGetDialectHandle__scf__(),
        mlirGetDialectHandle__memref__(),         mlirGetDialectHandle__vector__(),
        mlirGetDialectHandle__tessera__(),        mlirGetDialectHandle__tsched__(),
        mlirGetDialectHandle__tile__(),           mlirGetDialectHandle__tessera_sr__(),
        mlirGetDialectHandle__tessera_target__(), mlirGetDialectHandle__async__(),
    };
    MlirDialectRegistry registry = mlirDialectRegistryCreate();
    for (size_t i = 0; i < TSR_COUNT(handles); i++)
        mlirDialectHandleInsertDialect(handles[i], registry);
    tsr_shim_allow_inlining(registry);
    MlirContext context = mlirContextCreateWithRegistry(registry, false);
    mlirDialectRegistryDestroy(registry);
    if (mlirContextIsNull(context)) FAIL(ctx, TSR_MEMORY, "no memory for an MLIR context");
    mlirContextLoadAllAvailableDialects(context);
    tsr_ops_learn(context);
    tsr_diag_attach(list, context);
    *out_context = context;
    return TSR_SUCCESS;
}

void tsr_mlir_context_destroy(MlirContext context) {
    if (!mlirContextIsNull(context)) mlirContextDestroy(context);
}

typedef struct text_position {
    uint32_t line, column; /* 1-based */
} text_position;

/* The end of the string or comment that begins at `at`, or `at`. */
static size_t skip_quoted(const char *source, size_t size_bytes, size_t at) {
    size_t end = at;
    if (source[at] == '"') {
        for (end++; end < size_bytes && source[end] != '"' && source[end] != '\n'; end++)
            if (source[end] == '\\') end++;
    } else if (source[at] == '/' && at + 1 < size_bytes && source[at + 1] == '/') {
        while (end < size_bytes && source[end] != '\n') end++;
    }
    return end < size_bytes ? end : size_bytes - 1;
}

/* The limit of source_limits.h that a text exceeds, and the position. */
typedef struct excess {
    tsr_diag_number number;
    text_position at;
    const char *text;
} excess;

typedef struct scan {
    const char *source;
    size_t size_bytes, at, line_start, depth;
    uint32_t line;
    char open[TSR_MLIR_NESTING_MAX];       /* the brackets that will close the open ones */
    uint32_t commas[TSR_MLIR_NESTING_MAX]; /* in each open bracket */
} scan;

static bool exceeds(const scan *s, size_t at, tsr_diag_number number, const char *text,
                    excess *out_excess) {
    *out_excess = (excess){number, {s->line, (uint32_t)(at - s->line_start + 1)}, text};
    return true;
}

/* Data is hexadecimal: "0x…". */
static bool check_string(scan *s, size_t begin, excess *out_excess) {
    const char *text = s->source + begin;
    size_t length = s->at - begin;
    if (*text != '"' || length <= TSR_MLIR_STRING_MAX + 1 || strncmp(text + 1, "0x", 2) == 0)
        return false;
    return exceeds(s, begin, TSR_DIAG_ATTRIBUTE, "a string is longer than 16777216 bytes",
                   out_excess);
}

static bool check_mark(scan *s, char mark, excess *out_excess) {
    static const char open[] = "([{<", close[] = ")]}>";
    const char *kind = strchr(open, mark);
    if (kind && s->depth == TSR_MLIR_NESTING_MAX)
        return exceeds(s, s->at, TSR_DIAG_NESTING,
                       "brackets are nested 257 deep; at most 256 are accepted", out_excess);
    if (kind) {
        s->commas[s->depth] = 0;
        s->open[s->depth++] = close[kind - open];
    } else if (mark == ',') {
        if (s->depth && ++s->commas[s->depth - 1] >= TSR_MLIR_ELEMENTS_MAX)
            return exceeds(s, s->at, TSR_DIAG_ATTRIBUTE,
                           "a list has more than 16777216 elements; write dense<\"0x…\">",
                           out_excess);
    } else if (mark == '>') { /* also the end of an arrow */
        if (s->depth && s->open[s->depth - 1] == '>') s->depth--;
    } else if (strchr(close, mark)) {
        size_t match = s->depth;
        while (match && s->open[match - 1] != mark) match--;
        if (match) s->depth = match - 1;
    }
    return false;
}

/* MLIR's parser recurses for each bracket and ends the process when the stack overflows, so the
 * text is scanned first. */
static bool find_excess(const char *source, size_t size_bytes, excess *out_excess) {
    static_assert(TSR_MLIR_NESTING_MAX == 256 && TSR_MLIR_STRING_MAX == 16777216 &&
                      TSR_MLIR_ELEMENTS_MAX == 16777216,
                  "error messages contain these limits");
    /* Characters that may begin a string or a comment, end a line, open, close or separate. */
    static const bool matters[UCHAR_MAX + 1] = {
        ['"'] = true, ['/'] = true, ['\n'] = true, ['('] = true, ['['] = true, ['{'] = true,
        ['<'] = true, ['>'] = true, ['}'] = true,  [']'] = true, [')'] = true, [','] = true};
    scan s = {.source = source, .size_bytes = size_bytes, .line = 1};
    for (; s.at < size_bytes; s.at++) {
        size_t begin = s.at;
        if (!matters[(unsigned char)source[begin]]) continue;
        s.at = skip_quoted(source, size_bytes, begin);
        if (s.at > begin && check_string(&s, begin, out_excess)) return true;
        if (source[s.at] == '\n') {
            s.line++;
            s.line_start = s.at + 1;
        } else if (source[s.at] && strchr("([{<>}]),", source[s.at]) &&
                   check_mark(&s, source[s.at], out_excess)) {
            return true;
        }
    }
    return false;
}

/* ---- symbols ---- */

static MlirWalkResult count_symbol(MlirOperation op, void *user) {
    size_t *count = user;
    if (!tsr_op_has(op, "sym_name")) return MlirWalkResultAdvance;
    if (++*count <= TSR_MLIR_SYMBOLS_MAX) return MlirWalkResultAdvance;
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SYMBOLS,
                   "the module has more than %d functions and other symbols", TSR_MLIR_SYMBOLS_MAX);
    return MlirWalkResultInterrupt;
}

/* `is_source`: its locations are positions in a file. */
static TSR_RESULT parse_text(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                             MlirStringRef text, const char *name, bool is_source,
                             MlirModule *out_module) {
    excess found;
    size_t symbols = 0;
    if (find_excess(text.data, text.length, &found)) {
        if (!is_source) found.at = (text_position){0, 0};
        tsr_diag_error(
            mlirLocationFileLineColGet(context, tsr_ref(name), found.at.line, found.at.column),
            found.number, "%s", found.text);
        return tsr_diag_fail(ctx, list, "parsing");
    }
    MlirModule module = tsr_shim_parse(context, text, tsr_ref(name));
    if (mlirModuleIsNull(module)) {
        if (is_source) tsr_recover_errors(list, context, text, name);
        return tsr_diag_fail(ctx, list, "parsing");
    }
    bool valid = tsr_verify_all(list, module);
    if (valid)
        mlirOperationWalk(mlirModuleGetOperation(module), count_symbol, &symbols, MlirWalkPreOrder);
    if (!valid || symbols > TSR_MLIR_SYMBOLS_MAX) {
        mlirModuleDestroy(module);
        return tsr_diag_fail(ctx, list, "parsing");
    }
    list->verified = tsr_shim_fingerprint(mlirModuleGetOperation(module));
    *out_module = module;
    return TSR_SUCCESS;
}

tsr_result tsr_mlir_parse(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                          const char *source, size_t size_bytes, const char *name,
                          MlirModule *out_module) {
    tsr_arena arena = {0};
    const char *text = source;
    size_t text_size = size_bytes;
    bool is_source = !tsr_is_bytecode(source, size_bytes);
    tsr_result result = TSR_SUCCESS;
    tsr_guard_note("parsing");
    if (!is_source)
        TRY_GOTO(ctx, result,
                 tsr_bytecode_text(ctx, context, list, source, size_bytes, name, &arena, &text,
                                   &text_size));
    else if (!tsr_diag_add_source(list, name, source, size_bytes))
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the name '%s'", name);
    result = parse_text(ctx, context, list, mlirStringRefCreate(text, text_size), name, is_source,
                        out_module);
done:
    tsr_arena_finish(&arena);
    return result;
}

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

void tsr_mlir_write_bytecode(MlirModule module, tsr_buffer *out) {
    mlirOperationWriteBytecode(mlirModuleGetOperation(module), append, out);
}

void tsr_mlir_print(MlirOperation op, tsr_print_form form, tsr_buffer *out) {
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    if (form & TSR_PRINT_LOCATIONS) mlirOpPrintingFlagsEnableDebugInfo(flags, true, false);
    if (form & TSR_PRINT_GENERIC) mlirOpPrintingFlagsPrintGenericOpForm(flags);
    mlirOperationPrintWithFlags(op, flags, append, out);
    mlirOpPrintingFlagsDestroy(flags);
    /* A module ends its last line itself. */
    if (out->size_bytes == 0 || out->bytes[out->size_bytes - 1] != '\n') tsr_buffer_text(out, "\n");
}

/* ---- names ----------------------------------------------------------------------------------- */

MlirStringRef tsr_ref(const char *text) { return mlirStringRefCreateFromCString(text); }

bool tsr_ref_is(MlirStringRef ref, const char *text) {
    return ref.length == strlen(text) && memcmp(ref.data, text, ref.length) == 0;
}

const char *tsr_op_name(MlirOperation op) {
    return mlirIdentifierStr(mlirOperationGetName(op)).data;
}

bool tsr_op_is_named(MlirOperation op, const char *name) {
    return tsr_ref_is(mlirIdentifierStr(mlirOperationGetName(op)), name);
}

const char *tsr_op_symbol(MlirOperation op) {
    const char *name = tsr_op_string(op, "sym_name");
    return name ? name : "";
}

/* ---- types ----------------------------------------------------------------------------------- */

static tsr_dtype read_element(MlirType type) {
    if (mlirTypeIsAF64(type)) return TSR_DTYPE_F64;
    if (mlirTypeIsAF32(type)) return TSR_DTYPE_F32;
    if (mlirTypeIsABF16(type)) return TSR_DTYPE_BF16;
    if (mlirTypeIsAF16(type)) return TSR_DTYPE_F16;
    if (mlirTypeIsAFloat8E4M3FN(type)) return TSR_DTYPE_F8E4M3FN;
    if (mlirTypeIsAFloat8E5M2(type)) return TSR_DTYPE_F8E5M2;
    if (mlirTypeIsAFloat8E8M0FNU(type)) return TSR_DTYPE_F8E8M0FNU;
    if (!mlirTypeIsAInteger(type) || mlirIntegerTypeIsSigned(type)) return TSR_DTYPE_NONE;
    return tsr_dtype_of_integer(mlirIntegerTypeGetWidth(type), mlirIntegerTypeIsUnsigned(type));
}

/* Gives the dynamic dims their expressions. */
static void read_open_dims(MlirAttribute encoding, tsr_shape *shape) {
    size_t at = 0, count = tsr_shim_dims_count(encoding);
    for (uint32_t i = 0; i < shape->rank && at < count; i++)
        if (shape->dims[i] == TSR_DIM_DYNAMIC) {
            uint64_t dim;
            if (tsr_dim_read(tsr_shim_dims_get(encoding, at++), &dim)) shape->dims[i] = dim;
        }
}

bool tsr_type_read(MlirType type, tsr_type *out_type) {
    int64_t dims[TSR_RANK_MAX];
    size_t rank;
    MlirType element;
    MlirAttribute encoding;
    if (!tsr_shim_shape(type, TSR_RANK_MAX, &element, dims, &rank, &encoding)) return false;
    tsr_type read = {.dtype = read_element(element), .shape.rank = (uint32_t)rank};
    if (read.dtype == TSR_DTYPE_NONE) return false;
    for (size_t i = 0; i < rank; i++)
        read.shape.dims[i] =
            dims[i] == mlirShapedTypeGetDynamicSize() ? TSR_DIM_DYNAMIC : (uint64_t)dims[i];
    if (!mlirAttributeIsNull(encoding)) read_open_dims(encoding, &read.shape);
    *out_type = read;
    return true;
}

bool tsr_value_type(MlirValue value, tsr_type *out_type) {
    return tsr_type_read(mlirValueGetType(value), out_type);
}

bool tsr_type_is_static(const tsr_type *type) {
    for (uint32_t i = 0; i < type->shape.rank; i++)
        if (!tsr_dim_is_known(type->shape.dims[i])) return false;
    return true;
}

bool tsr_type_is_inferred(const tsr_type *type) {
    for (uint32_t i = 0; i < type->shape.rank; i++)
        if (type->shape.dims[i] == TSR_DIM_DYNAMIC) return false;
    return true;
}

MlirType tsr_dtype_make(MlirContext context, tsr_dtype dtype) {
    unsigned bits = tsr_dtype_bits(dtype);
    TSR_ASSERT(bits);
    switch (dtype) {
    case TSR_DTYPE_F64:
        return mlirF64TypeGet(context);
    case TSR_DTYPE_F32:
        return mlirF32TypeGet(context);
    case TSR_DTYPE_BF16:
        return mlirBF16TypeGet(context);
    case TSR_DTYPE_F16:
        return mlirF16TypeGet(context);
    case TSR_DTYPE_F8E4M3FN:
        return mlirFloat8E4M3FNTypeGet(context);
    case TSR_DTYPE_F8E5M2:
        return mlirFloat8E5M2TypeGet(context);
    case TSR_DTYPE_F8E8M0FNU:
        return mlirFloat8E8M0FNUTypeGet(context);
    default:
        return tsr_dtype_is_unsigned(dtype) ? mlirIntegerTypeUnsignedGet(context, bits)
                                            : mlirIntegerTypeGet(context, bits);
    }
}

MlirType tsr_type_make(MlirContext context, const tsr_type *type) {
    int64_t dims[TSR_RANK_MAX];
    MlirAttribute open[TSR_RANK_MAX], encoding = mlirAttributeGetNull();
    size_t count = 0;
    bool any = false;
    TSR_ASSERT(type->shape.rank <= TSR_RANK_MAX);
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        uint64_t dim = type->shape.dims[i];
        bool is_known = tsr_dim_is_known(dim), is_open = tsr_dim_is_open(dim);
        dims[i] = is_known ? (int64_t)dim : mlirShapedTypeGetDynamicSize();
        any = any || is_open;
        if (!is_known)
            open[count++] =
                is_open ? tsr_dim_attr(context, dim) : tsr_attr_make_string(context, "?");
    }
    if (any) encoding = tsr_shim_dims_make(context, count, open);
    return mlirRankedTensorTypeGet(type->shape.rank, dims, tsr_dtype_make(context, type->dtype),
                                   encoding);
}

MlirType tsr_buffer_make(MlirType element, uint32_t rank, const int64_t *dims, int64_t pitch) {
    MlirAttribute none = mlirAttributeGetNull(), layout = none;
    int64_t strides[TSR_RANK_MAX];
    TSR_ASSERT(rank <= TSR_RANK_MAX);
    if (pitch && pitch != dims[rank - 1]) {
        strides[rank - 1] = 1;
        for (uint32_t d = rank - 1; d-- > 0;)
            strides[d] = d + 2 == rank ? pitch : strides[d + 1] * dims[d + 1];
        layout = mlirStridedLayoutAttrGet(mlirTypeGetContext(element), 0, rank, strides);
    }
    return mlirMemRefTypeGet(element, rank, dims, layout, none);
}

bool tsr_buffer_pitch(MlirType buffer, int64_t *out_pitch) {
    int64_t strides[TSR_RANK_MAX], offset = 0, rank = mlirShapedTypeGetRank(buffer), follows = 0;
    *out_pitch = 0;
    if (mlirAffineMapIsIdentity(mlirMemRefTypeGetAffineMap(buffer))) return true;
    if (rank < 2 || rank > TSR_RANK_MAX ||
        mlirLogicalResultIsFailure(mlirMemRefTypeGetStridesAndOffset(buffer, strides, &offset)) ||
        offset || strides[rank - 1] != 1 ||
        strides[rank - 2] < mlirShapedTypeGetDimSize(buffer, rank - 1))
        return false;
    for (int64_t d = rank - 2; d-- > 0;)
        if (__builtin_mul_overflow(strides[d + 1], mlirShapedTypeGetDimSize(buffer, d + 1),
                                   &follows) ||
            strides[d] != follows)
            return false;
    *out_pitch = strides[rank - 2];
    return true;
}

int64_t tsr_buffer_row(MlirType buffer) {
    int64_t pitch = 0;
    tsr_buffer_pitch(buffer, &pitch);
    return pitch ? pitch : mlirShapedTypeGetDimSize(buffer, mlirShapedTypeGetRank(buffer) - 1);
}

tsr_shape tsr_shape_with_pitch(const tsr_shape *shape, int64_t pitch) {
    tsr_shape stored = *shape;
    if (pitch) stored.dims[stored.rank - 1] = (uint64_t)pitch;
    return stored;
}

tsr_shape tsr_shape_remove(const tsr_shape *shape, size_t count, const int64_t *axes) {
    tsr_shape left = {0};
    size_t next = 0;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (next < count && axes[next] == (int64_t)i)
            next++;
        else
            left.dims[left.rank++] = shape->dims[i];
    return left;
}

tsr_type tsr_type_scalar(tsr_dtype dtype) { return (tsr_type){.dtype = dtype}; }

const char *tsr_type_text(const tsr_type *type, char out_text[static TSR_TYPE_TEXT_MAX]) {
    enum { KNOWN_MAX = 20 }; /* characters of a known dim and its "x" */
    size_t used = 0;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        char dim[TSR_DIM_TEXT_MAX];
        uint64_t size = type->shape.dims[i];
        size_t left = TSR_TYPE_TEXT_MAX - used;
        tsr_dim_text(size, dim);
        bool fits = strlen(dim) + 3 + (type->shape.rank - i) * KNOWN_MAX < left;
        bool is_sum = tsr_dim_is_open(size) && strchr(dim, ' ');
        used += (size_t)snprintf(out_text + used, left, is_sum && fits ? "(%s)x" : "%sx",
                                 fits || !tsr_dim_is_open(size) ? dim : "…");
    }
    snprintf(out_text + used, TSR_TYPE_TEXT_MAX - used, "%s", tsr_dtype_name(type->dtype));
    return out_text;
}

/* ---- attributes of ops ----------------------------------------------------------------------- */

MlirAttribute tsr_op_attr(MlirOperation op, const char *name) {
    return mlirOperationGetAttributeByName(op, tsr_ref(name));
}

bool tsr_op_has(MlirOperation op, const char *name) {
    return !mlirAttributeIsNull(tsr_op_attr(op, name));
}

/* MLIR ends the strings it stores with a NUL, but the empty one may be NULL. A string with a NUL
 * inside is rejected: the part before the NUL would be a different name. */
static const char *text_of(MlirStringRef ref) {
    return ref.length && !memchr(ref.data, '\0', ref.length) ? ref.data : "";
}

const char *tsr_attr_string(MlirAttribute attr) {
    if (mlirAttributeIsNull(attr)) return NULL;
    if (mlirAttributeIsAString(attr)) return text_of(mlirStringAttrGetValue(attr));
    if (mlirAttributeIsAFlatSymbolRef(attr)) return text_of(mlirFlatSymbolRefAttrGetValue(attr));
    return NULL;
}

const char *tsr_op_string(MlirOperation op, const char *name) {
    return tsr_attr_string(tsr_op_attr(op, name));
}

bool tsr_op_flag(MlirOperation op, const char *name) {
    MlirAttribute attr = tsr_op_attr(op, name);
    if (mlirAttributeIsNull(attr)) return false;
    if (mlirAttributeIsAUnit(attr)) return true;
    return mlirAttributeIsABool(attr) && mlirBoolAttrGetValue(attr);
}

bool tsr_attr_i64(MlirAttribute attr, int64_t *out_value) {
    if (mlirAttributeIsNull(attr) || !mlirAttributeIsAInteger(attr)) return false;
    MlirType type = mlirAttributeGetType(attr);
    if (mlirTypeIsAInteger(type) && !mlirIntegerTypeIsSignless(type)) {
        if (mlirIntegerTypeIsSigned(type))
            *out_value = mlirIntegerAttrGetValueSInt(attr);
        else
            *out_value = (int64_t)mlirIntegerAttrGetValueUInt(attr);
        return true;
    }
    *out_value = mlirIntegerAttrGetValueInt(attr);
    return true;
}

bool tsr_op_i64(MlirOperation op, const char *name, int64_t *out_value) {
    return tsr_attr_i64(tsr_op_attr(op, name), out_value);
}

bool tsr_op_f64(MlirOperation op, const char *name, double *out_value) {
    MlirAttribute attr = tsr_op_attr(op, name);
    if (mlirAttributeIsNull(attr) || !mlirAttributeIsAFloat(attr)) return false;
    *out_value = mlirFloatAttrGetValueDouble(attr);
    return true;
}

bool tsr_op_i64s(MlirOperation op, const char *name, size_t limit, int64_t *out_values,
                 size_t *out_count) {
    MlirAttribute attr = tsr_op_attr(op, name);
    if (mlirAttributeIsNull(attr)) return false;
    bool dense = mlirAttributeIsADenseI64Array(attr);
    if (!dense && !mlirAttributeIsAArray(attr)) return false;
    size_t count =
        (size_t)(dense ? mlirDenseArrayGetNumElements(attr) : mlirArrayAttrGetNumElements(attr));
    if (count > limit) return false;
    for (size_t i = 0; i < count; i++) {
        if (dense)
            out_values[i] = mlirDenseI64ArrayGetElement(attr, (intptr_t)i);
        else if (!tsr_attr_i64(mlirArrayAttrGetElement(attr, (intptr_t)i), &out_values[i]))
            return false;
    }
    *out_count = count;
    return true;
}

void tsr_op_set(MlirOperation op, const char *name, MlirAttribute value) {
    mlirOperationSetAttributeByName(op, tsr_ref(name), value);
    TSR_ASSERT(mlirAttributeEqual(tsr_op_attr(op, name), value));
}

MlirAttribute tsr_attr_make_string(MlirContext context, const char *text) {
    return mlirStringAttrGet(context, tsr_ref(text));
}

MlirAttribute tsr_attr_make_i64(MlirContext context, int64_t value) {
    return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), value);
}

MlirAttribute tsr_attr_make_i32(MlirContext context, int32_t value) {
    return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 32), value);
}

MlirAttribute tsr_attr_make_bool(MlirContext context, bool value) {
    return mlirBoolAttrGet(context, value);
}

MlirAttribute tsr_attr_make_unit(MlirContext context) { return mlirUnitAttrGet(context); }

MlirAttribute tsr_attr_make_i64s(MlirContext context, size_t count, const int64_t *values) {
    MlirAttribute *elements = calloc(count + 1, sizeof *elements);
    TSR_NEED(elements);
    for (size_t i = 0; i < count; i++) elements[i] = tsr_attr_make_i64(context, values[i]);
    MlirAttribute made = mlirArrayAttrGet(context, (intptr_t)count, elements);
    free(elements);
    return made;
}

MlirAttribute tsr_attr_make_type(MlirType type) { return mlirTypeAttrGet(type); }

MlirAttribute tsr_attr_make_symbol(MlirContext context, const char *name) {
    return mlirFlatSymbolRefAttrGet(context, tsr_ref(name));
}

/* The bits of a whole number as an integer of 64 bits. */
static int64_t whole_bits(double value) {
    return value < 0 ? (int64_t)value : (int64_t)(uint64_t)value;
}

MlirAttribute tsr_attr_make_splat(MlirContext context, const tsr_type *type, double value) {
    MlirType shaped = tsr_type_make(context, type);
    MlirType element = tsr_dtype_make(context, type->dtype);
    bool is_float = tsr_dtype_is_float(type->dtype) || tsr_dtype_is_small(type->dtype);
    MlirAttribute scalar = is_float ? mlirFloatAttrDoubleGet(context, element, value)
                                    : mlirIntegerAttrGet(element, whole_bits(value));
    TSR_ASSERT(tsr_type_is_static(type));
    return mlirDenseElementsAttrSplatGet(shaped, scalar);
}

static bool is_dense(MlirAttribute attr) {
    return !mlirAttributeIsNull(attr) &&
           (mlirAttributeIsADenseIntElements(attr) || mlirAttributeIsADenseFPElements(attr));
}

/* MLIR packs i1 elements into bits and stores one element of a splat. */
static void read_scalar(MlirAttribute attr, tsr_dtype dtype, intptr_t i, void *out) {
    size_t width = tsr_dtype_size(dtype);
    if (dtype == TSR_DTYPE_I1)
        *(uint8_t *)out = mlirDenseElementsAttrGetBoolValue(attr, i);
    else
        memcpy(out, (const char *)mlirDenseElementsAttrGetRawData(attr) + (size_t)i * width, width);
}

/* Copies in doubling blocks, or everything at once: copying element by element takes minutes for a
 * large constant. */
static void read_elements(MlirAttribute attr, tsr_dtype dtype, uint64_t count, char *out) {
    size_t width = tsr_dtype_size(dtype);
    bool packed = dtype == TSR_DTYPE_I1, splat = mlirDenseElementsAttrIsSplat(attr);
    if (count == 0) return;
    if (!splat && !packed) memcpy(out, mlirDenseElementsAttrGetRawData(attr), count * width);
    for (uint64_t i = 0; i < count && packed && !splat; i++)
        read_scalar(attr, dtype, (intptr_t)i, out + i * width);
    if (splat) read_scalar(attr, dtype, 0, out);
    for (uint64_t done = 1, more; done < count && splat; done += more) {
        more = done < count - done ? done : count - done;
        memcpy(out + done * width, out, more * width);
    }
}

bool tsr_attr_elements(MlirAttribute attr, tsr_arena *arena, tsr_type *out_type, void **out_data) {
    tsr_type type;
    uint64_t count, size_bytes;
    if (!is_dense(attr) || !tsr_type_read(mlirAttributeGetType(attr), &type) ||
        !tsr_shape_count(&type.shape, &count) ||
        !tsr_shape_size(&type.shape, type.dtype, &size_bytes))
        return false;
    char *data = tsr_arena_alloc(arena, size_bytes ? size_bytes : 1, 1, 16);
    if (!data) return false;
    read_elements(attr, type.dtype, count, data);
    *out_type = type;
    *out_data = data;
    return true;
}

MlirAttribute tsr_attr_splat_element(MlirAttribute attr) {
    bool splat = is_dense(attr) && mlirDenseElementsAttrIsSplat(attr);
    return splat ? mlirDenseElementsAttrGetSplatValue(attr) : (MlirAttribute){NULL};
}

/* True if a double represents the integer, an i64 or a ui64. The largest ones are rounded to 2^63
 * or 2^64, which these types do not have. */
static bool is_exact(tsr_dtype dtype, const void *integer) {
    double value = tsr_dtype_read(dtype, integer, 0);
    int64_t bits;
    memcpy(&bits, integer, sizeof bits);
    return tsr_dtype_holds(dtype, value) && whole_bits(value) == bits;
}

bool tsr_attr_splat(MlirAttribute attr, double *out_value) {
    tsr_type type;
    if (!is_dense(attr) || !mlirDenseElementsAttrIsSplat(attr) ||
        !tsr_type_read(mlirAttributeGetType(attr), &type))
        return false;
    _Alignas(double) unsigned char value[sizeof(double)] = {0};
    if (type.dtype == TSR_DTYPE_NONE) return false;
    read_scalar(attr, type.dtype, 0, value);
    bool is_wide = !tsr_dtype_is_float(type.dtype) && tsr_dtype_bits(type.dtype) == 64;
    if (is_wide && !is_exact(type.dtype, value)) return false;
    *out_value = tsr_dtype_read(type.dtype, value, 0);
    return true;
}

static MlirAttribute make_bools(MlirType shaped, uint64_t count, const uint8_t *data) {
    int *bools = calloc(count + 1, sizeof *bools);
    TSR_NEED(bools);
    for (uint64_t i = 0; i < count; i++) bools[i] = data[i] != 0;
    MlirAttribute made = mlirDenseElementsAttrBoolGet(shaped, (intptr_t)count, bools);
    free(bools);
    return made;
}

MlirAttribute tsr_attr_make_elements(MlirContext context, const tsr_type *type, const void *data) {
    MlirType shaped = tsr_type_make(context, type);
    uint64_t count = 0;
    bool fits = tsr_shape_count(&type->shape, &count);
    TSR_ASSERT(tsr_type_is_static(type) && fits);
    if (type->dtype == TSR_DTYPE_I1) return make_bools(shaped, count, data);
    return mlirDenseElementsAttrRawBufferGet(shaped, (size_t)count * tsr_dtype_size(type->dtype),
                                             data);
}

/* ---- walking --------------------------------------------------------------------------------- */

MlirOperation tsr_op_next_(MlirOperation op) {
    return mlirOperationIsNull(op) ? op : mlirOperationGetNextInBlock(op);
}

bool tsr_op_has_body(MlirOperation op) {
    return mlirOperationGetNumRegions(op) > 0 &&
           !mlirBlockIsNull(mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)));
}

MlirBlock tsr_op_body(MlirOperation op) {
    TSR_ASSERT(tsr_op_has_body(op));
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0));
}

MlirOperation tsr_value_owner(MlirValue value) {
    return mlirValueIsAOpResult(value) ? mlirOpResultGetOwner(value) : (MlirOperation){NULL};
}

bool tsr_value_is_used(MlirValue value) {
    return !mlirOpOperandIsNull(mlirValueGetFirstUse(value));
}

size_t tsr_op_operand_count(MlirOperation op) { return (size_t)mlirOperationGetNumOperands(op); }
size_t tsr_op_result_count(MlirOperation op) { return (size_t)mlirOperationGetNumResults(op); }

MlirValue tsr_op_operand(MlirOperation op, size_t index) {
    TSR_ASSERT(index < tsr_op_operand_count(op));
    return mlirOperationGetOperand(op, (intptr_t)index);
}

MlirValue tsr_op_result(MlirOperation op, size_t index) {
    TSR_ASSERT(index < tsr_op_result_count(op));
    return mlirOperationGetResult(op, (intptr_t)index);
}

MlirOperation tsr_module_find(MlirModule module, const char *symbol) {
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (strcmp(tsr_op_symbol(op), symbol) == 0) return op;
    }
    return (MlirOperation){NULL};
}

/* ---- building -------------------------------------------------------------------------------- */

tsr_builder tsr_builder_before(MlirOperation op) {
    return (tsr_builder){.context = mlirOperationGetContext(op),
                         .block = mlirOperationGetBlock(op),
                         .before = op,
                         .location = mlirOperationGetLocation(op)};
}

tsr_builder tsr_builder_at_end(MlirBlock block, MlirLocation location) {
    return (tsr_builder){
        .context = mlirLocationGetContext(location), .block = block, .location = location};
}

MlirOperation tsr_build(tsr_builder *builder, const tsr_op_desc *desc) {
    enum { ATTRS_MAX = 32 };
    MlirNamedAttribute attrs[ATTRS_MAX];
    MlirOperationState state = mlirOperationStateGet(tsr_ref(desc->name), builder->location);
    TSR_ASSERT(mlirContextIsRegisteredOperation(builder->context, tsr_ref(desc->name)));
    TSR_ASSERT(desc->attr_count <= ATTRS_MAX);
    for (size_t i = 0; i < desc->attr_count; i++)
        attrs[i] =
            mlirNamedAttributeGet(mlirIdentifierGet(builder->context, tsr_ref(desc->attrs[i].name)),
                                  desc->attrs[i].value);
    mlirOperationStateAddOperands(&state, (intptr_t)desc->operand_count, desc->operands);
    mlirOperationStateAddResults(&state, (intptr_t)desc->result_count, desc->results);
    mlirOperationStateAddAttributes(&state, (intptr_t)desc->attr_count, attrs);
    mlirOperationStateAddOwnedRegions(&state, (intptr_t)desc->region_count, desc->regions);
    MlirOperation op = mlirOperationCreate(&state);
    TSR_ASSERT(!mlirOperationIsNull(op));
    for (size_t i = 0; i < desc->attr_count; i++)
        TSR_ASSERT(mlirAttributeEqual(tsr_op_attr(op, desc->attrs[i].name), desc->attrs[i].value));
    if (mlirOperationIsNull(builder->before))
        mlirBlockAppendOwnedOperation(builder->block, op);
    else
        mlirBlockInsertOwnedOperationBefore(builder->block, builder->before, op);
    return op;
}

MlirValue tsr_build_value(tsr_builder *builder, const char *name, const MlirValue *operands,
                          size_t operand_count, MlirType result, const tsr_attr *attrs) {
    size_t attr_count = 0;
    while (attrs && attrs[attr_count].name) attr_count++;
    MlirOperation op = tsr_build(builder, &(tsr_op_desc){.name = name,
                                                         .operands = operands,
                                                         .operand_count = operand_count,
                                                         .results = &result,
                                                         .result_count = 1,
                                                         .attrs = attrs,
                                                         .attr_count = attr_count});
    return tsr_op_result(op, 0);
}

/* ---- errors ---- */

bool tsr_op_emit_error(MlirOperation op, tsr_diag_number number, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tsr_diag_error(mlirOperationGetLocation(op), number, "%s: %s", tsr_op_name(op), text);
    return false;
}

bool tsr_op_check_word(MlirOperation op, const char *name, const char *const *words) {
    const char *word = tsr_op_string(op, name);
    tsr_buffer known = {0};
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = word ? word : ""};
    if (!tsr_op_has(op, name)) return true;
    for (size_t i = 0; words[i]; i++) {
        if (word && strcmp(word, words[i]) == 0) {
            tsr_buffer_finish(&known);
            return true;
        }
        tsr_buffer_printf(&known, " \"%s\"", words[i]);
        tsr_suggest(&likely, words[i]);
    }
    tsr_op_emit_error(op, TSR_DIAG_PLAN_WORD, "%s is \"%s\"; known are%s%s", name, word ? word : "",
                      known.bytes ? known.bytes : "", tsr_suggestion_text(&likely, meant));
    tsr_buffer_finish(&known);
    return false;
}
